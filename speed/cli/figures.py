"""What nodes do, in figures: ``speed stats``, ``top``, ``metrics`` and ``ping``."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from speed import Node
from speed.cli.options import (
    SECONDS,
    Settings,
    answer_of,
    complete_node,
    echo,
    echo_json,
    node_options,
    print_rows,
    print_value,
    seconds_text,
)
from speed.core.access import granted
from speed.core.scheduler import TIME_BOUNDS_SECONDS, TIMES, time_quantile
from speed.errors import ConfigurationError, SpeedError, StorageError
from speed.fs.open import unlink_quietly
from speed.wire.text import harmless

if TYPE_CHECKING:
    from prometheus_client.core import Metric


# ``speed stats`` and ``speed ping``: one node.

SERVICE_COLUMNS = ("service", "requests", "errors", "timed out", "ran p50", "ran p99", "waited p99", "last error")


@click.command("stats")
@click.argument("node", shell_complete=complete_node)
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def stats_command(settings: Settings, node: str, timeout: float) -> None:
    """Show the counters of NODE since it started, by asking it. `speed top` shows the last seconds."""
    with settings.node() as own:
        stats = own.stats(node, timeout=timeout)
    if settings.as_json:
        print_value(stats, True)
        return
    with answer_of(node):
        _print_stats(node, stats)


def _print_stats(node: str, stats: dict[str, Any]) -> None:
    counters = dict(stats.get("counters", {}))
    counters |= {key: value for key, value in stats.items() if isinstance(value, (int, float))}
    print_rows(("counter", "value"), sorted(counters.items()), title=node, empty="Nothing counted yet.")
    rows = [_service_row(name, one) for name, one in stats.get("services", {}).items()]
    if rows:
        print_rows(SERVICE_COLUMNS, rows)
    refused = [(peer, number, "") for peer, number in stats.get("refusedSenders", {}).items()]
    refused += [(peer, "", number) for peer, number in stats.get("refusedBy", {}).items()]
    if refused:
        print_rows(("node", "it is refused here", "it refuses this one"), refused)


def _service_row(name: str, row: dict[str, Any]) -> list[Any]:
    times = _times_texts(row.get("runTimes") or (), row.get("queueTimes") or ())
    return [name, row["numRequests"], row["numErrors"], row.get("numTimedOut", ""), *times, row["lastError"]]


def _times_texts(run_times: Sequence[int], queue_times: Sequence[int]) -> list[str]:
    """Half of all, and nearly all, ran no longer than this; nearly all waited no longer than that."""
    return [_quantile_text(run_times, 0.5), _quantile_text(run_times, 0.99), _quantile_text(queue_times, 0.99)]


def _quantile_text(counts: Sequence[int], share: float) -> str:
    if not any(counts):
        return ""
    seconds = time_quantile(counts, share)
    return f"< {seconds_text(seconds)}" if isfinite(seconds) else f"> {seconds_text(TIME_BOUNDS_SECONDS[-1])}"


@click.command("ping")
@click.argument("node", shell_complete=complete_node)
@click.option("-n", "--count", type=click.IntRange(1), default=4, show_default=True, help="How often.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait for each.")
@node_options
def ping_command(settings: Settings, node: str, count: int, timeout: float) -> None:
    """Measure the round trip to NODE."""
    times: list[float] = []
    with settings.node() as own:
        for number in range(count):
            if number:
                time.sleep(0.2)  # the pace of the measurement, not a wait for anything
            times.append(own.ping(node, timeout=timeout))
            if not settings.as_json:
                echo(f"{node}: {seconds_text(times[-1])}")
    if settings.as_json:
        print_value({"node": node, "seconds": times, "min": min(times), "max": max(times)}, True)


# What all nodes answer that allow this command.

MAX_AT_ONCE = 16
Answers = dict[str, dict[str, Any] | None]
"""What nodes answered, by name; None of one that did not."""


def ask_all(node: Node, timeout: float) -> Answers:
    """The counters of all nodes that allow ``node``; asked side by side, so that one that hangs holds up none."""
    names = sorted(entry.name for entry in node.nodes() if entry.name != node.name and granted(entry, node.name))

    def ask(name: str) -> dict[str, Any] | None:
        try:
            return node.stats(name, timeout=timeout)
        except SpeedError:
            return None

    with ThreadPoolExecutor(MAX_AT_ONCE, "speed-ask") as asking:
        return dict(zip(names, asking.map(ask, names), strict=True))


# ``speed top``: what they did in the last seconds.

TOP_COLUMNS = ("service", "calls/s", "errors", "ran p50", "ran p99", "waited p99", "timed out", "at work", "queued")


class ServiceLoad(NamedTuple):
    """What one service did between two looks, and what its node has at work and in its queue now."""

    node: str
    service: str
    calls_per_second: float
    error_share: float
    timed_out: int
    run_times: Sequence[int]
    queue_times: Sequence[int]
    at_work: int
    queued: int

    def row(self) -> list[str]:
        return [
            f"{self.node} {self.service}",
            f"{self.calls_per_second:,.1f}",
            f"{self.error_share:.0%}" if self.error_share else "",
            *_times_texts(self.run_times, self.queue_times),
            str(self.timed_out or ""),
            str(self.at_work),
            str(self.queued),
        ]

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it; times in seconds, None where nothing was counted."""
        return {
            "node": self.node,
            "service": self.service,
            "callsPerSecond": self.calls_per_second,
            "errorShare": self.error_share,
            "timedOut": self.timed_out,
            "runP50Seconds": _quantile(self.run_times, 0.5),
            "runP99Seconds": _quantile(self.run_times, 0.99),
            "waitedP99Seconds": _quantile(self.queue_times, 0.99),
            "runningRequests": self.at_work,
            "queuedRequests": self.queued,
        }


def _quantile(counts: Sequence[int], share: float) -> float | None:
    return min(time_quantile(counts, share), TIME_BOUNDS_SECONDS[-1]) if any(counts) else None


SORTED_BY: dict[str, Callable[[ServiceLoad], float]] = {
    "calls": lambda load: load.calls_per_second,
    "errors": lambda load: load.error_share,
    "p99": lambda load: time_quantile(load.run_times, 0.99),
    "waited": lambda load: time_quantile(load.queue_times, 0.99),
    "queue": lambda load: load.queued,
}


def loads(before: Answers, now: Answers, seconds: float) -> Iterator[ServiceLoad]:
    """What each service did in these seconds. A node that was started anew meanwhile counts from its start."""
    for node, answer in now.items():
        if answer is None:
            continue
        earlier = (before.get(node) or {}).get("services", {})
        for service, row in answer.get("services", {}).items():
            past = earlier.get(service, {})
            if row["numRequests"] < past.get("numRequests", 0):
                past = {}
            calls = row["numRequests"] - past.get("numRequests", 0)
            errors = row["numErrors"] - past.get("numErrors", 0)
            yield ServiceLoad(
                node,
                service,
                calls / seconds,
                max(0, errors) / calls if calls else 0.0,
                max(0, row.get("numTimedOut", 0) - past.get("numTimedOut", 0)),
                _counted_since(past.get("runTimes"), row.get("runTimes")),
                _counted_since(past.get("queueTimes"), row.get("queueTimes")),
                answer.get("runningRequests", 0),
                answer.get("queuedRequests", 0),
            )


def _counted_since(past: Sequence[int] | None, now: Sequence[int] | None) -> Sequence[int]:
    return [max(0, two - one) for one, two in zip(past or [0] * TIMES, now or (), strict=False)]


@click.command("top")
@click.argument("nodes", nargs=-1, shell_complete=complete_node)
@click.option("--interval", type=SECONDS, default=2.0, show_default=True, help="Seconds between two looks.")
@click.option(
    "--sort", "order", type=click.Choice(list(SORTED_BY)), default="calls", show_default=True, help="By what."
)
@click.option("--once", is_flag=True, help="Show one interval, and end.")
@click.option("--all", "idle", is_flag=True, help="Services that did nothing as well.")
@node_options
def top_command(
    settings: Settings, nodes: tuple[str, ...], interval: float, order: str, once: bool, idle: bool
) -> None:
    """Show what services did in the last seconds: of NODES, or of all nodes that allow this command.

    Each says below which time half and 99 % of its calls ran, and 99 % waited for a worker. The last two columns are
    of the whole node: calls that run now, and calls that wait.
    """
    with settings.node() as own:
        for found in _looks(own, interval, nodes):
            shown = [one for one in found if idle or one.calls_per_second or one.timed_out or one.at_work]
            _show(settings, sorted(shown, key=SORTED_BY[order], reverse=True), own, once)
            if once:
                return


def _looks(own: Node, interval: float, nodes: tuple[str, ...]) -> Iterator[list[ServiceLoad]]:
    before, began = ask_all(own, interval), time.monotonic()
    while True:
        time.sleep(interval)
        now, ended = ask_all(own, interval), time.monotonic()
        yield [one for one in loads(before, now, ended - began) if not nodes or one.node in nodes]
        before, began = now, ended


def _show(settings: Settings, found: list[ServiceLoad], own: Node, once: bool) -> None:
    if settings.as_json:
        echo_json([one.described() for one in found])
        return
    if sys.stdout.isatty() and not once:
        click.clear()
    print_rows(TOP_COLUMNS, [one.row() for one in found], empty=f"No service that allows {own.name} did anything.")


# ``speed metrics``: the same for Prometheus, as OpenMetrics text.

MAX_NAMES = 500
"""Of one kind from one node: who answers chooses them, and how many there are."""
_GAUGES = {
    "pendingCalls": ("speed_pending_calls", "Calls of this node that wait for an answer."),
    "queuedRequests": ("speed_queued_requests", "Calls of other nodes that wait for a worker."),
    "runningRequests": ("speed_running_requests", "Calls of other nodes that run."),
    "queuedMessages": ("speed_queued_messages", "Messages that nobody handles yet."),
    "workers": ("speed_workers", "How many services run at once."),
    "lanes": ("speed_lanes", "Senders whose files are open."),
    "uptimeSeconds": ("speed_uptime_seconds", "Seconds since the node started."),
}
_COUNTERS = {
    "numRequests": ("speed_service_requests", "Calls of a service that began."),
    "numErrors": ("speed_service_errors", "Calls of a service that were answered with an error."),
    "numTimedOut": ("speed_service_timed_out", "Calls of a service whose deadline passed."),
}
_HISTOGRAMS = {
    "runTimes": ("speed_service_run_seconds", "How long calls of a service ran."),
    "queueTimes": ("speed_service_queue_seconds", "How long calls of a service waited for a worker."),
}


_REFUSALS = (
    ("refusedSenders", "speed_refused_senders", "What a node refused for lack of a grant, by who sent it."),
    ("refusedBy", "speed_refused_by", "What a node did not write since a peer does not allow it."),
)


class NodeMetrics:
    """Answers of nodes as metrics; a collector of ``prometheus_client``."""

    def __init__(self, answers: Answers) -> None:
        self._answers = {name: answer for name, answer in answers.items() if answer is not None}
        self._up = {name: answer is not None for name, answer in answers.items()}

    def collect(self) -> Iterator[Metric]:
        """Families of metrics, each with its samples."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        up = GaugeMetricFamily("speed_up", "Whether a node that allows this command answered.", labels=["node"])
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
        yield from self._of_services()

    def _of_services(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        for key, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=["node", "service"])
            for labels, row in self._rows():
                if key in row:
                    counter.add_metric(labels, row[key])
            yield counter
        for key, (name, text) in _HISTOGRAMS.items():
            histogram = HistogramMetricFamily(name, text, labels=["node", "service"])
            for labels, row in self._rows():
                if row.get(key):
                    total = row["processingSeconds"] if key == "runTimes" else None
                    histogram.add_metric(labels, list(_buckets(row[key])), total)
            yield histogram

    def _rows(self) -> Iterator[tuple[list[str], dict[str, Any]]]:
        for node, answer in self._answers.items():
            for service, row in _some(answer["services"]):
                yield [node, harmless(service)], row


def _some(named: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return sorted(named.items())[:MAX_NAMES]


def _buckets(counts: Sequence[int]) -> Iterator[tuple[str, float]]:
    """As Prometheus counts: each with all that are shorter."""
    seen = 0
    for place, number in enumerate(counts):
        seen += number
        yield (str(TIME_BOUNDS_SECONDS[place]) if place < len(TIME_BOUNDS_SECONDS) else "+Inf"), seen


def metrics_text(answers: Answers) -> str:
    """OpenMetrics of what nodes answered. Raises ConfigurationError without ``prometheus-client``."""
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError:
        raise ConfigurationError("metrics need prometheus-client: pip install 'speed-ipc[metrics]'") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeMetrics(answers))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


@click.command("metrics")
@click.option("--textfile", type=click.Path(dir_okay=False), help="Write them here instead, for node_exporter.")
@click.option("--every", "interval", type=SECONDS, help="Go on: again every so many seconds, until interrupted.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds that a node may take.")
@node_options
def metrics_command(settings: Settings, textfile: str | None, interval: float | None, timeout: float) -> None:
    """Print OpenMetrics of all nodes that allow this command, for Prometheus.

    --textfile writes a file as a whole, and never half of one: no port is needed. `speed metrics --textfile
    /var/lib/node_exporter/speed.prom --every 15` keeps it fresh.
    """
    with settings.node() as own:
        while True:
            text = metrics_text(ask_all(own, timeout))
            if textfile is None:
                sys.stdout.write(text)
                sys.stdout.flush()
            else:
                _write_textfile(textfile, text)
            if interval is None:
                return
            time.sleep(interval)


def _write_textfile(path: str, text: str) -> None:
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
