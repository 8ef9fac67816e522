"""Hours of mixed load: nothing lost, the same speed at the end, no growth.

A round is one exchange of six nodes, and a pause. The round trips of the last third are compared with those of the
first where there are enough of them to tell.
"""

from __future__ import annotations

import time

from tests.torture.fleet import Fleet
from tests.torture.scenario import Report, Scenario

SIZE = 6
PAUSE_SECONDS = 0.2
WARM = 2 * SIZE
JUDGED_FROM = 10_000
"""Pings; fewer say nothing about their slowest hundredth."""
MOST_DRIFT = 1.2


class TimedFleet(Fleet):
    """Keeps what its pings took."""

    pings: list[float]

    def note_ping(self, seconds: float) -> None:
        self.pings.append(seconds)

    def drift(self) -> float:
        """Slowest hundredth of the last third through that of the first."""
        third = len(self.pings) // 3
        return p99(self.pings[-third:]) / p99(self.pings[:third])


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def run(seed: int, count: int, report: Report) -> None:
    with TimedFleet(SIZE, report) as fleet:
        fleet.pings = []
        before = None
        for done, round_seed in enumerate(report.rounds(seed, count)):
            if done == WARM:
                before, fleet.pings = fleet.footprint(), []
            fleet.exchange(1 + round_seed % (SIZE - 1))
            time.sleep(PAUSE_SECONDS)
        fleet.check_all_present()
        if before is not None:
            fleet.check_growth(before)
        if len(fleet.pings) >= 3:
            report.note_worst("p99 of pings, µs", round(p99(fleet.pings) * 1e6))
        if len(fleet.pings) >= JUDGED_FROM:
            report.note_worst("p99, last third by first", fleet.drift())
            report.check(fleet.drift() <= MOST_DRIFT, f"round trips became {fleet.drift():.2f} times as slow")


SCENARIO = Scenario(
    name="soak",
    promise="hours of mixed load lose nothing, slow nothing down, grow nothing",
    unit="exchanges",
    tiny=1,
    quick=25,
    full=36_000,
    mutation="a node sends one message less than was agreed",
    run=run,
)
