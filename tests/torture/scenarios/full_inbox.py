"""A receiver that stops while others go on sending (L-4, L-6): the disk stays bounded, senders are told, nothing lost.

A round: the receiver is stopped; a sender of another language sends until its inbox is full, and a little more. The
lane takes no more bytes than its window; each send that did not fit ended with INBOX_FULL. The receiver goes on:
exactly what was accepted arrives, in order, and there is room again.
"""

from __future__ import annotations

import os
from random import Random

from tests.interop.harness import AgentError
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

WINDOW_BYTES = 256 << 10
LARGEST_BYTES = 4000
REFUSALS = 3


class Round:
    """One pair of languages."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.report = world, report
        self.random = Random(seed)
        pairs = world.pairs()
        self.source, self.target = pairs[seed % len(pairs)]
        self.lane = world.lane(self.source, self.target)
        self.before = self.lane_bytes()
        """What was read lies there until its segment is left."""

    def run(self) -> None:
        self.target.pause()
        try:
            accepted = self.fill()
        finally:
            self.target.resume()
        drained = self.target.ask("drain", count=len(accepted), timeout=10)
        self.report.check(drained["received"] == len(accepted), f"{len(accepted)} accepted, {drained} arrived")
        self.report.check(drained["in_order"], f"{self.target!r} got them in another order")
        self.report.check(drained["redelivered"] == 0, f"{self.target!r} got some again")
        self.source.ask("send", target=self.target.name, payload={"n": 0}, timeout=10)
        one_more = self.target.ask("drain", count=2, timeout=1)["received"]
        self.report.check(one_more == 1, f"{one_more} messages arrived when one was sent")

    def fill(self) -> list[int]:
        """The numbers that were accepted."""
        accepted: list[int] = []
        refused = number = 0
        while refused < REFUSALS:
            filler = self.random.randbytes(self.random.randrange(LARGEST_BYTES))
            number += 1
            self.report.add("sends")
            try:
                self.send(number, filler)
                accepted.append(number)
            except AgentError as error:
                refused += 1
                named = error.code == "INBOX_FULL"
                self.report.check(named, f"{self.source!r} was told {error}, not INBOX_FULL")
            grown = self.lane_bytes() - self.before
            if not self.report.check(grown <= WINDOW_BYTES, f"{grown} bytes wait in a window of {WINDOW_BYTES}"):
                break
        self.report.add("refused", refused)
        self.report.note_worst("most that waited, bytes", grown)
        if self.report.mutated:
            self.lose_one()
        return accepted

    def send(self, number: int, filler: bytes) -> None:
        self.source.ask("send", target=self.target.name, payload={"n": number, "filler": filler}, timeout=0.05)

    def lane_bytes(self) -> int:
        return sum(os.path.getsize(self.lane.segment_path(segment)) for segment in self.lane.segments())

    def lose_one(self) -> None:
        """The mutation: the end of the last accepted message is cut off."""
        path = self.lane.segment_path(self.lane.segments()[-1])
        os.truncate(path, os.path.getsize(path) - 50)


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), report, lane_bytes=WINDOW_BYTES, lease=600):
        Round(world, round_seed, report).run()


SCENARIO = Scenario(
    name="full-inbox",
    promise="a receiver that stops fills no disk, its senders are told, and nothing accepted is lost",
    unit="rounds of about 120 sends",
    tiny=1,
    quick=12,
    full=8400,
    mutation="the last accepted message is cut in its lane",
    run=run,
)
