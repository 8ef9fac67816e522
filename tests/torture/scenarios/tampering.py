"""Every bit of everything that is authenticated, changed one at a time, in three languages (W-5, W-7, W-12, R-3, L-14).

A round makes one thing from its seed: an envelope of one of the eight types, an entry, a cursor or a fence. Each of its
bits is flipped, and it is cut at each byte: every decoder must refuse each of them. If it is an envelope, its like with
64 neighbouring bits flipped, one each, are put into as many living lanes with sound envelopes behind them: the program
gets the sound ones only, each within the time that a scan may take (L-16). So are payloads in slots, small ones and
some of up to 2 MB, with one bit of the slot flipped (L-30). Following rounds take the following bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random

from speed.wire.cursor import Cursor, Fence, Unfinished, encode_cursor, encode_fence
from speed.wire.entry import Entry, encode_entry
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_REPLY, EnvelopeType, make_sequence
from speed.wire.seal import LinkSealer
from tests.interop.decoding import LANE_KEYS, RING, SOURCE, TARGET
from tests.interop.harness import Agent
from tests.torture.ghost import Ghost, message
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

BATCH = 200
LANES = 64
"""In which flipped envelopes are written side by side."""
LARGE_EVERY = 16
"""How many payloads in slots there are for each that is large."""
ARRIVAL_SECONDS = 1.0
SCAN_SLACK_SECONDS = 4.0
"""A busy machine is no broken promise; the figure says how many were later than ARRIVAL_SECONDS."""


def _envelope(type_: int, flags: int) -> Callable[[Random], bytes]:
    def make(random: Random) -> bytes:
        sealer = LinkSealer(RING, SOURCE, TARGET, random.randrange(1, 1 << 24))
        payload, nonce = random.randbytes(random.randrange(48)), random.randbytes(12)
        return sealer.seal(type_, flags, random.randrange(1, 1 << 40), random.randrange(1 << 45), payload, nonce)

    return make


def _entry(random: Random) -> bytes:
    numbers = [random.randrange(1, 1 << 24) for _ in range(8)]
    entry = Entry(
        "analytics", numbers[0], numbers[1], numbers[2], "pid:[1]", "host", "boot", *numbers[3:], allow=("etl.*",)
    )
    data = encode_entry(entry, RING.registry_key)
    return data[: data.rindex(b"\n") + 1]  # padding means nothing


def _cursor(random: Random) -> bytes:
    pending = sorted(random.sample(range(1, 1000), random.randrange(5)))
    unfinished = tuple(Unfinished(make_sequence(1, counter), 1, 1, counter * 100) for counter in pending)
    return encode_cursor(Cursor(3, 1, 2, 4096, make_sequence(1, 1000), unfinished, clean=False), LANE_KEYS[0])


def _fence(random: Random) -> bytes:
    return encode_fence(Fence(2, 1, random.randrange(1, 9), random.randrange(1 << 20)), LANE_KEYS[0])


ENVELOPES = [
    *((type_, 0) for type_ in EnvelopeType),
    (EnvelopeType.MESSAGE, FLAG_ACK_REQUESTED),
    (EnvelopeType.SPC_RESPONSE, FLAG_REPLY),
]
MAKERS: list[tuple[str, Callable[[Random], bytes]]] = [
    *(("envelope", _envelope(type_, flags)) for type_, flags in ENVELOPES),
    ("entry", _entry),
    ("cursor", _cursor),
    ("fence", _fence),
]


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def alterations(data: bytes) -> Iterator[bytes]:
    """Each bit flipped; cut at each byte."""
    yield from (flipped(data, bit) for bit in range(8 * len(data)))
    yield from (data[:size] for size in range(len(data)))


class Round:
    """One thing, altered in every way."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.seed, self.report = world, seed, report
        self.kind, make = MAKERS[seed % len(MAKERS)]
        self.sound = make(Random(seed))

    def run(self) -> None:
        altered = list(alterations(self.sound))
        if self.report.mutated:
            altered[len(altered) // 2] = self.sound
        self.check_verdicts([self.sound], sound=True)
        for first in range(0, len(altered), BATCH):
            self.check_verdicts(altered[first : first + BATCH], sound=False)
        if self.kind == "envelope":
            self.tamper_with_living_lanes()

    def check_verdicts(self, cases: list[bytes], *, sound: bool) -> None:
        for agent in self.world.agents.values():
            told = [agent.tell("decode", kind=self.kind, bytes=data) for data in cases]
            for number, data in zip(told, cases, strict=True):
                verdict = agent.answer(number)
                self.report.check((verdict == "OK") is sound, f"{agent.language} says {verdict} to {data.hex()}")
            self.report.add("altered copies refused", 0 if sound else len(cases))

    # --- living lanes ---

    def tamper_with_living_lanes(self) -> None:
        """Neighbouring bits in different lanes, since some must wait for a scan."""
        ring = self.world.keyring
        for agent in self.world.agents.values():
            ghosts = [Ghost(self.world.root, f"t.{self.seed}.{n}", agent.name, ring) for n in range(LANES)]
            self.send_good(agent, ghosts)
            first = self.seed // len(MAKERS) * LANES
            self.write_flipped(agent, ghosts, first)
            self.write_flipped_slots(agent, ghosts, first)

    def write_flipped(self, agent: Agent, ghosts: list[Ghost], first: int) -> None:
        """An altered envelope and a sound one in each lane; only the sound ones arrive."""
        type_, flags = ENVELOPES[self.seed % len(MAKERS)]
        for bit, ghost in enumerate(ghosts, first):
            spoilt = ghost.seal(type_, message(-1 - bit), flags)
            keep = self.report.mutated and bit == first
            ghost.files.append(spoilt if keep else flipped(spoilt, bit % (8 * len(spoilt))))
        self.report.add("altered in a living lane", len(ghosts))
        self.send_good(agent, ghosts)

    def write_flipped_slots(self, agent: Agent, ghosts: list[Ghost], first: int) -> None:
        """A payload in an altered slot and a sound envelope in each lane; only those arrive."""
        random = Random(self.seed)
        for bit, ghost in enumerate(ghosts, first):
            filler = "x" * (random.randrange(1 << 21) if bit % LARGE_EVERY == 0 else 0)
            envelope, slot = ghost.in_slot(message([-1 - bit, filler]))
            place = random.randrange(8 * len(slot)) if filler else bit % (8 * len(slot))
            keep = self.report.mutated and bit == first
            ghost.files.put_slot(slot if keep else flipped(slot, place))
            ghost.files.append(envelope)
        self.report.add("altered in a slot", len(ghosts))
        self.send_good(agent, ghosts)

    def send_good(self, agent: Agent, ghosts: list[Ghost]) -> None:
        expected = set()
        for ghost in ghosts:
            ghost.write(ghost.message(ghost.counter + 1))
            expected.add((ghost.files.source, ghost.counter))
        began = time.monotonic()
        while expected:
            got = agent.ask("receive", timeout=ARRIVAL_SECONDS + SCAN_SLACK_SECONDS)
            took = time.monotonic() - began
            if not self.report.check(got is not None, f"{agent!r}: {len(expected)} sound envelopes did not arrive"):
                return
            self.report.note_worst("slowest arrival behind it, s", took)
            self.report.add("arrivals later than 1 s", took > ARRIVAL_SECONDS)
            known = (got["source"], got["payload"]) in expected
            self.report.check(known, f"{agent!r} dispatched an altered envelope: {got['payload']}")
            expected.discard((got["source"], got["payload"]))


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), report):
        Round(world, round_seed, report).run()


SCENARIO = Scenario(
    name="tampering",
    promise="whatever bit is changed, it is refused, and the envelope behind it arrives",
    unit="things, each altered in every bit",
    tiny=1,
    quick=13,
    full=1300,
    mutation="one copy is left as it was",
    run=run,
)
