"""Many nodes of three languages in one root, mixed traffic (R-8, R-16, L-19): nothing lost, nobody evicted, no growth.

A round: each node sends to another one, calls and pings it; each time another. Once all have met, descriptors and
memory may not grow any more.
"""

from __future__ import annotations

from tests.torture.fleet import Fleet
from tests.torture.scenario import Report, Scenario

FEW, MANY = 6, 200
MANY_FROM = 100


def run(seed: int, count: int, report: Report) -> None:
    size = MANY if count >= MANY_FROM else FEW
    with Fleet(size, report) as fleet:
        before = None
        for done, round_seed in enumerate(report.rounds(seed, count)):
            if done == size:
                before = fleet.footprint()
            fleet.exchange(1 + round_seed % (size - 1))
        fleet.check_all_present()
        if before is not None:
            fleet.check_growth(before)


SCENARIO = Scenario(
    name="many",
    promise=f"{MANY} nodes of three languages: nothing is lost, nobody evicted, nothing grows",
    unit="exchanges",
    tiny=1,
    quick=20,
    full=300,
    mutation="a node sends one message less than was agreed",
    run=run,
)
