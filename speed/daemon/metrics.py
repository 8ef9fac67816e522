"""``[metrics]``: what speedd knows of itself, as metrics beside those of all nodes, and where they are read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from speed import Node
from speed.bridges.bridge import COUNTERS
from speed.bridges.running import Bridging
from speed.daemon.config import MetricsSettings
from speed.daemon.control import Health
from speed.daemon.hosting import Hosting, Recording
from speed.errors import ConfigurationError, SpeedError
from speed.fs.keyfile import KeySource
from speed.observe.backlogs import LaneWatch
from speed.observe.figures import ask_all
from speed.observe.metrics import LaneMetrics, metrics_text
from speed.wire.text import harmless

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from speed.daemon.reload import Gateways
    from speed.observe.exposition import FreshTextfile, MetricsServer


MAX_SUBSCRIPTIONS = 2000
"""That have metrics; the others are counted."""
MAX_TOPICS = 1000
TROUBLES = ("processes", "root", "journal", "topics", "bridges", "reload", "metrics")
"""What may be wrong: each is told, also where nothing is."""
_OF_SUBSCRIPTIONS = {
    "backlog": ("speed_subscription_backlog", "Messages that a subscription has not acknowledged."),
    "in_flight": ("speed_subscription_in_flight", "Messages that consumers have and did not acknowledge yet."),
    "delayed": ("speed_subscription_delayed", "Messages that wait for their time."),
    "dead": ("speed_subscription_dead", "Messages that were delivered as often as they may be."),
}
Row = tuple[Sequence[str], float]


class DaemonParts(NamedTuple):
    """What runs in a speedd, as far as it is configured."""

    health: Health
    bridging: Bridging
    gateways: Gateways
    hosting: Hosting | None = None
    recording: Recording | None = None


class DaemonMetrics:
    """What one speedd knows of itself; a collector of ``prometheus_client``. Collected on any thread."""

    def __init__(self, root: str, parts: DaemonParts) -> None:
        self._root, self._parts = root, parts
        self.processes: Sequence[Mapping[str, Any]] = ()
        """How each process is: replaced as a whole by speedd's main thread."""

    def collect(self) -> Iterator[Metric]:
        """Families of metrics, each with its samples."""
        yield from self._of_processes()
        yield from self._of_root()
        yield from self._of_topics()
        yield from self._of_bridges()
        yield from self._of_gateway()

    def _of_processes(self) -> Iterator[Metric]:
        rows = self.processes
        yield _gauge(
            "speed_process_up",
            "Whether a process of speedd serves.",
            ["process"],
            (([one["name"]], float(one["state"] == "running")) for one in rows),
        )
        yield _gauge(
            "speed_process_state",
            "How a process is: 1 for its state.",
            ["process", "state"],
            (([one["name"], one["state"]], 1.0) for one in rows),
        )
        starts = (([one["name"]], one["starts"]) for one in rows)
        yield _counter("speed_process_starts", "How often speedd started a process.", ["process"], starts)

    def _of_root(self) -> Iterator[Metric]:
        troubles = (([about], float(len(self._parts.health.troubles(about)))) for about in TROUBLES)
        yield _gauge("speed_troubles", "What is wrong with speedd, as `speedd status` tells.", ["about"], troubles)
        with suppress(OSError):
            room = os.statvfs(self._root)
            block = room.f_frsize
            sizes = {"free": room.f_bavail * block, "total": room.f_blocks * block}
            text = "Bytes of the filesystem of the root: free ones, and all."
            yield _gauge("speed_root_bytes", text, ["kind"], (([kind], size) for kind, size in sizes.items()))
            files = {"free": room.f_favail, "total": room.f_files}
            text = "Files that the filesystem of the root has room for; 0 where it does not count them."
            yield _gauge("speed_root_files", text, ["kind"], (([kind], number) for kind, number in files.items()))
        if (recording := self._parts.recording) is not None:
            yield _gauge(
                "speed_journal_writable", "Whether the last record was written.", [], [([], not recording.trouble)]
            )

    def _of_topics(self) -> Iterator[Metric]:
        if (hosting := self._parts.hosting) is None:
            return
        every = sorted(hosting.described(), key=lambda one: str(one["topic"]))
        broken = [([name], 1.0) for name in sorted(hosting.broken)[:MAX_TOPICS]]
        yield _gauge("speed_topic_broken", "A topic that cannot be used.", ["topic"], broken)
        topics, labels = every[:MAX_TOPICS], ["topic", "dead_letters_of"]
        rows = [([one["topic"], one["parent"]], one) for one in topics]
        yield _counter(
            "speed_topic_messages", "Messages of a topic so far.", labels, ((of, one["end"]) for of, one in rows)
        )
        kept = ((of, one["end"] - one["first"]) for of, one in rows)
        yield _gauge("speed_topic_kept_messages", "Messages that a topic holds.", labels, kept)
        yield _gauge("speed_topic_bytes", "Bytes that a topic holds.", labels, ((of, one["bytes"]) for of, one in rows))
        found = [([one["topic"], group["subscription"]], group) for one in topics for group in one["subscriptions"]]
        left_out = len(every) - len(topics) + max(0, len(found) - MAX_SUBSCRIPTIONS)
        yield _gauge("speed_topics_left_out", "Topics and subscriptions beyond the bound.", [], [([], left_out)])
        yield from _of_subscriptions(found[:MAX_SUBSCRIPTIONS])

    def _of_bridges(self) -> Iterator[Metric]:
        rows = self._parts.bridging.rows()
        for name in COUNTERS:
            counted = (([row["bridge"]], row[name]) for row in rows)
            yield _counter(f"speed_bridge_{name}", f"Of a bridge: {name}.", ["bridge"], counted)
        carrying = (([row["bridge"]], float(row["state"] == "carrying")) for row in rows)
        yield _gauge("speed_bridge_carrying", "Whether a bridge carries.", ["bridge"], carrying)
        lag = (([row["bridge"]], row["lag"]) for row in rows if row["lag"] is not None)
        yield _gauge("speed_bridge_lag", "Messages that a bridge has not carried yet.", ["bridge"], lag)

    def _of_gateway(self) -> Iterator[Metric]:
        gateway = self._parts.gateways.to_clients
        if gateway is None:
            return
        counted, now = gateway.figures()
        for name, number in sorted(counted.items()):
            yield _counter(f"speed_{name}", "Of the gateway.", [], [([], number)])
        for name, number in now.items():
            yield _gauge(f"speed_{name}", "Of the gateway, now.", [], [([], number)])


def _of_subscriptions(found: Sequence[tuple[list[str], Mapping[str, Any]]]) -> Iterator[Metric]:
    labels, now_ms = ["topic", "subscription"], time.time() * 1000
    for key, (name, text) in _OF_SUBSCRIPTIONS.items():
        yield _gauge(name, text, labels, ((of, group[key]) for of, group in found))
    consumers = ((of, len(group["consumers"])) for of, group in found)
    yield _gauge("speed_subscription_consumers", "Consumers of a subscription.", labels, consumers)
    ages = ((of, max(0.0, now_ms - oldest) / 1000 if (oldest := group["oldest_ms"]) else 0.0) for of, group in found)
    text = "Age of the oldest message that a subscription has not acknowledged; 0 without one."
    yield _gauge("speed_subscription_oldest_seconds", text, labels, ages)
    last = ((of, group["acknowledged_ms"] / 1000) for of, group in found if group["acknowledged_ms"])
    text = "When something was acknowledged last, since speedd started (Unix seconds)."
    yield _gauge("speed_subscription_acknowledged_timestamp_seconds", text, labels, last)


def _gauge(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric([harmless(value) for value in values], float(number))
    return family


def _counter(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric([harmless(value) for value in values], float(number))
    return family


class Exposing:
    """Everything that ``[metrics]`` asks for; nothing while there is no such table.

    Made by speedd's main thread, which changes and closes it.
    """

    def __init__(self, node: Node, key: str, parts: DaemonParts, log: Any) -> None:
        self._node, self._log = node, log
        self._lanes = LaneWatch(node.root, KeySource(key).keyring, node.name)
        self._own = DaemonMetrics(node.root, parts)
        self._settings: MetricsSettings | None = None
        self._server: MetricsServer | None = None
        self._file: FreshTextfile | None = None
        self._timeout = 0.0

    def change(self, settings: MetricsSettings | None) -> None:
        """Be read as these settings say, and no longer as before.

        Raises ConfigurationError; then it is as before.
        """
        if settings == self._settings:
            return
        old = self._settings
        self.close()
        try:
            self._open(settings)
        except ConfigurationError:
            with suppress(ConfigurationError):  # who took the port in that moment has it
                self._open(old)
            raise

    def _open(self, settings: MetricsSettings | None) -> None:
        self._settings = settings
        if settings is None:
            return
        from speed.observe.exposition import FreshTextfile, MetricsServer, RenderedOnce

        self._timeout = settings.timeout_seconds
        page = RenderedOnce(self._text).get
        if settings.listen is not None:
            self._server = MetricsServer(settings.listen, page, settings.token_file)
        if settings.textfile is not None:
            self._file = FreshTextfile(str(settings.textfile), page, settings.every_seconds)
        where = self._server.address if self._server else None
        self._log.info("metrics", listen=where, textfile=str(settings.textfile) if settings.textfile else None)

    def look(self, processes: Sequence[Mapping[str, Any]]) -> str:
        """Take note of how the processes are. Returns what is wrong with being read, empty if nothing is."""
        self._own.processes = processes
        return next((one.trouble for one in (self._server, self._file) if one is not None and one.trouble), "")

    def _text(self) -> str:
        """All metrics, as they are now."""
        waiting = self._lanes.look()
        answers = ask_all(self._node, self._timeout)
        with suppress(SpeedError):
            answers[self._node.name] = self._node.stats()
        return metrics_text(answers, LaneMetrics(waiting), self._own)

    def close(self) -> None:
        """Be read no more."""
        for one in (self._server, self._file):
            if one is not None:
                one.close()
        self._server = self._file = self._settings = None
