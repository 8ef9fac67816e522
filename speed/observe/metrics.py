"""The same for Prometheus: OpenMetrics, as text and in a file."""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from speed.core.scheduler import TIME_BOUNDS_SECONDS
from speed.errors import ConfigurationError, StorageError
from speed.fs.open import unlink_quietly
from speed.observe.backlogs import LaneBacklogs
from speed.observe.figures import Answers
from speed.wire.text import harmless

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class MetricSource(Protocol):
    """Has metrics of its own, as ``prometheus_client`` collects them."""

    def collect(self) -> Iterator[Metric]:
        """Families of metrics, each with its samples."""


UNIX = "unix:"
_END = "# EOF\n"
MAX_NAMES = 500
"""Of one kind from one node: who answers chooses them, and how many there are."""
_GAUGES = {
    "pendingCalls": ("speed_pending_calls", "Calls of this node that wait for an answer."),
    "queuedRequests": ("speed_queued_requests", "Calls of other nodes that wait for a worker."),
    "runningRequests": ("speed_running_requests", "Calls of other nodes that run."),
    "queuedMessages": ("speed_queued_messages", "Messages that nobody handles yet."),
    "workers": ("speed_workers", "How many services run at once."),
    "lanes": ("speed_lanes", "Senders whose files are open."),
    "openFiles": ("speed_open_files", "Descriptors of the process."),
    "maxOpenFiles": ("speed_max_open_files", "How many it may have."),
    "uptimeSeconds": ("speed_uptime_seconds", "Seconds since the node started."),
}
_ROWS: tuple[tuple[str, str, dict[str, tuple[str, str]], dict[str, tuple[str, str]]], ...] = (
    (
        "services",
        "service",
        {
            "numRequests": ("speed_service_requests", "Calls of a service that began."),
            "numErrors": ("speed_service_errors", "Calls of a service that were answered with an error."),
            "numTimedOut": ("speed_service_timed_out", "Calls of a service whose deadline passed."),
            "numTimedOutQueued": ("speed_service_timed_out_queued", "Those of them that never began."),
            "numWithdrawn": ("speed_service_withdrawn", "Calls of a service that their callers withdrew."),
            "numRefused": ("speed_service_refused", "Calls of nodes that a service does not allow."),
        },
        {
            "runTimes": ("speed_service_run_seconds", "How long calls of a service ran."),
            "queueTimes": ("speed_service_queue_seconds", "How long calls of a service waited for a worker."),
        },
    ),
    (
        "handlers",
        "handler",
        {
            "numHandled": ("speed_handler_attempts", "Messages, or batches, that a handler began, each attempt."),
            "numErrors": ("speed_handler_errors", "Those attempts that failed."),
        },
        {
            "runTimes": ("speed_handler_run_seconds", "How long attempts of a handler ran."),
            "queueTimes": ("speed_handler_queue_seconds", "How long messages waited for the first attempt."),
        },
    ),
    (
        "peers",
        "peer",
        {
            "received": ("speed_peer_received", "Envelopes that came from a peer."),
            "receivedBytes": ("speed_peer_received_bytes", "Bytes of their payloads."),
            "sent": ("speed_peer_sent", "Envelopes that went to a peer."),
            "sentBytes": ("speed_peer_sent_bytes", "Bytes of their payloads."),
        },
        {},
    ),
)
"""What a node tells of many: where in its answer, the label of each, its counters, and its histograms."""
_REFUSALS = (
    ("refusedSenders", "speed_refused_senders", "What a node refused for lack of a grant, by who sent it."),
    ("refusedBy", "speed_refused_by", "What a node did not write since a peer does not allow it."),
)


_LANES = {
    "messages": ("speed_lane_messages", "Messages, events and calls of a peer that a node has not handled."),
    "size": ("speed_lane_bytes", "Their bytes, without payloads in slots."),
    "oldest_seconds": ("speed_lane_oldest_seconds", "Age of the oldest of them."),
}


class LaneMetrics:
    """What waits in lanes as metrics, by node and peer; a collector of ``prometheus_client``."""

    def __init__(self, found: LaneBacklogs) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """Families of metrics, with samples where something waits."""
        from prometheus_client.core import GaugeMetricFamily

        for key, (name, text) in _LANES.items():
            gauge = GaugeMetricFamily(name, text, labels=["node", "peer"])
            for node, rows in self._found.items():
                for peer, row in rows.items():
                    gauge.add_metric([node, peer], getattr(row, key))
            yield gauge


class NodeMetrics:
    """Answers of nodes as metrics; a collector of ``prometheus_client``."""

    def __init__(self, answers: Answers) -> None:
        self._answers = {name: answer for name, answer in answers.items() if answer is not None}
        self._up = {name: answer is not None for name, answer in answers.items()}

    def collect(self) -> Iterator[Metric]:
        """Families of metrics, each with its samples."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        up = GaugeMetricFamily("speed_up", "Whether a node that may be looked at answered.", labels=["node"])
        for node, answered in self._up.items():
            up.add_metric([node], float(answered))
        yield up
        for key, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["node"])
            for node, answer in self._answers.items():
                if key in answer:
                    gauge.add_metric([node], answer[key])
            yield gauge
        for key, name, text in _REFUSALS:
            refusals = CounterMetricFamily(name, text, labels=["node", "peer"])
            for node, answer in self._answers.items():
                for peer, number in _some(answer.get(key, {})):
                    refusals.add_metric([node, harmless(peer)], number)
            yield refusals
        events = CounterMetricFamily("speed_events", "What a node counts, by its name.", labels=["node", "event"])
        for node, answer in self._answers.items():
            for event, number in _some(answer["counters"]):
                events.add_metric([node, harmless(event)], number)
        yield events
        for kind, label, counters, _ in _ROWS:
            yield from self._counters(kind, label, counters)

    def _counters(self, kind: str, label: str, counters: dict[str, tuple[str, str]]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        for key, (name, text) in counters.items():
            counter = CounterMetricFamily(name, text, labels=["node", label])
            for labels, row in self._rows(kind):
                if key in row:
                    counter.add_metric(labels, row[key])
            yield counter

    def histograms(self) -> Iterator[str]:
        """Lines of the histograms: most of all that there are, and the library takes ten times as long for each."""
        for kind, label, _, histograms in _ROWS:
            yield from self._histograms(kind, label, histograms)

    def _histograms(self, kind: str, label: str, histograms: dict[str, tuple[str, str]]) -> Iterator[str]:
        for key, (name, text) in histograms.items():
            yield f"# HELP {name} {text}\n# TYPE {name} histogram\n"
            for (node, one), row in self._rows(kind):
                if row.get(key):
                    labels = f'node="{_escaped(node)}",{label}="{_escaped(one)}"'
                    total = row["processingSeconds"] if key == "runTimes" else None
                    yield _histogram_lines(name, labels, row[key], total)

    def _rows(self, kind: str) -> Iterator[tuple[list[str], dict[str, Any]]]:
        for node, answer in self._answers.items():
            for name, row in _some(answer.get(kind, {})):
                yield [node, harmless(name)], row


def _some(named: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return sorted(named.items())[:MAX_NAMES]


_BOUNDS = [f'le="{bound}"' for bound in (*TIME_BOUNDS_SECONDS, "+Inf")]


def _histogram_lines(name: str, labels: str, counts: Sequence[int], total: float | None) -> str:
    """As Prometheus counts: each bucket with all that are shorter."""
    seen = list(accumulate(counts[: len(_BOUNDS)]))
    lines = [f"{name}_bucket{{{bound},{labels}}} {number}\n" for bound, number in zip(_BOUNDS, seen, strict=False)]
    if total is not None:  # one is not without the other
        lines.append(f"{name}_count{{{labels}}} {seen[-1]}\n")
        lines.append(f"{name}_sum{{{labels}}} {total}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def metrics_text(answers: Answers, *others: MetricSource) -> str:
    """OpenMetrics of what nodes answered, and ``others``. Raises ConfigurationError without ``prometheus-client``."""
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError:
        raise ConfigurationError("metrics need prometheus-client: pip install 'speed-ipc[metrics]'") from None
    registry = CollectorRegistry(auto_describe=False)
    nodes = NodeMetrics(answers)
    for one in (nodes, *others):
        registry.register(one)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return "".join((text.decode().removesuffix(_END), *nodes.histograms(), _END))


# Where they are read.


def split_listen(listen: str) -> tuple[str, int]:
    """Address and port of ``host:port`` or ``[address]:port``; a path and 0 of ``unix:/path``. Raises ValueError."""
    if listen.startswith(UNIX):
        path = listen.removeprefix(UNIX)
        if not os.path.isabs(path):
            raise ValueError("a socket is named by its whole path: unix:/path")
        return path, 0
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError("it is no address with a port")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches a host of that name or address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def listens_here(listen: str) -> bool:
    """Whether only this machine reaches what listens there. Raises ValueError."""
    host, _ = split_listen(listen)
    return listen.startswith(UNIX) or is_loopback(host)


def write_textfile(path: str, text: str) -> None:
    """All of it or nothing, for everybody to read: node_exporter runs as another user."""
    directory, name = os.path.split(os.path.abspath(path))
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=directory, prefix=f".{name}-", encoding="utf-8", delete=False
        ) as file:
            try:
                os.fchmod(file.fileno(), 0o644)
                file.write(text)
                file.flush()
                os.replace(file.name, path)
            except BaseException:
                unlink_quietly(file.name)
                raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
