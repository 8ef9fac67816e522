"""A day of a speedd without a console, by a clock that is passed in: what it keeps of its root does not grow."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from speed.bridges.running import Bridging
from speed.core.access import Verdict
from speed.core.log import logger
from speed.core.scheduler import TIMES
from speed.daemon.control import Died, Health, Trouble
from speed.daemon.metrics import DaemonMetrics, DaemonParts
from speed.daemon.reload import Gateways
from speed.fs.keyfile import init_root
from speed.observe.exposition import RenderedOnce
from speed.observe.figures import Answers, ask_all, loads
from speed.observe.happenings import Watch
from speed.observe.metrics import metrics_text
from speed.observe.traffic import flows
from speed.observe.troubles import work_troubles
from speed.wire.entry import Entry

MINUTES, STEP = 24 * 60, 10
SETTLED = 6 * 60
"""By then all that is bounded is full."""
MOST_GROWN = 16 << 10
PRICING = Entry("pricing", 1, 7, 7, "ns", "here", "boot", 0, 0, 0, 30_000, 5_000, observers=("speedd",))


class Root:
    """A root that has other nodes, callers and refusals every few minutes; a node and a registry of it."""

    name, keyring = "speedd", None

    def __init__(self, root: str) -> None:
        self.root, self.minute = root, 0

    def nodes(self) -> list[Entry]:
        return [
            PRICING,
            *(replace(PRICING, name=f"job.{one}") for one in range(self.minute % 50, self.minute % 50 + 2)),
        ]

    def entries(self) -> Iterator[tuple[Entry, Verdict]]:
        return ((entry, Verdict.LIVE) for entry in self.nodes())

    def process_gone(self, entry: Entry) -> bool:
        return entry.name == f"job.{self.minute % 50}"

    def _stats_of(self, names: Sequence[str], timeout: float) -> dict[str, Any]:
        return {name: self._stats(name) for name in names}

    def _stats(self, name: str) -> dict[str, Any]:
        """Figures of a node, with other names every time."""
        minute = self.minute
        counts = dict.fromkeys(("numRequests", "numErrors", "numTimedOut", "processingSeconds"), minute)
        row = {**counts, "runTimes": [minute] * TIMES, "queueTimes": [minute] * TIMES}
        exchanged = dict.fromkeys(("received", "receivedBytes", "sent", "sentBytes"), minute)
        peers = [f"caller.{one % 300}" for one in range(minute, minute + 20)]
        return {
            "name": name,
            "workers": 2,
            "runningRequests": 2,
            "queuedRequests": minute % 7,
            "queuedMessages": minute,
            "counters": {"dead_letters": minute},
            "services": {f"service{one % 100}": row for one in range(minute, minute + 3)},
            "refusedSenders": dict.fromkeys(peers, minute),
            "refusedBy": dict.fromkeys(peers, minute),
            "peers": dict.fromkeys(peers, exchanged),
        }


class Day:
    """What speedd and its commands keep between two looks."""

    def __init__(self, root: Any) -> None:
        self.root, self.health, self.died = root, Health(), Died()
        self.watch = Watch(root, root, self.now)
        gateways = Gateways(root, "", None, self.health, logger("speed.test"))
        bridging = Bridging(root, "", lambda _: root, None, None)
        self.own = DaemonMetrics(root.root, DaemonParts(self.health, bridging, gateways))
        self.answers: Answers = {}
        self.page = RenderedOnce(lambda: metrics_text(self.answers, self.own), clock=self.now)

    def now(self) -> float:
        return 60.0 * self.root.minute

    def look(self) -> int:
        """One look at everything; how much was told."""
        before, self.answers = self.answers, ask_all(self.root, 1.0)
        told = [
            *self.watch.news(1.0),
            *flows(before, self.answers, 60.0),
            *loads(before, self.answers, 60.0),
            *work_troubles(self.root, before, self.answers),
        ]
        minute = self.root.minute
        self.died.add(f"victim.{minute}", minute, self.now())
        self.health.set("bridges", [Trouble(f"it waits since {minute}", "")] * (minute % 3))
        self.own.processes = [{"name": "pricing", "state": "running", "starts": minute}]
        return len(told) + len(self.died.notices(self.now())) + len(self.page.get())


def test_what_a_day_brings_is_forgotten(tmp_path: Path) -> None:
    root = Root(init_root(tmp_path / "root"))
    day, kept = Day(root), dict[int, int]()
    tracemalloc.start()
    try:
        for root.minute in range(STEP, MINUTES + 1, STEP):
            assert day.look()
            if root.minute in (SETTLED, MINUTES):
                gc.collect()
                kept[root.minute] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept[MINUTES] - kept[SETTLED] < MOST_GROWN, kept
