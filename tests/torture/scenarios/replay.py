"""Recorded envelopes, written again: to the same inbox, to others, back to their sender, as answers to an open call;
while all run, after a restart of receiver or sender, after the key was rotated (W-5, W-7, L-12, L-13, L-18, S-6).

A round: agents of all languages send messages, some of them in slots, events, requests and questions to each other;
all that lies in their lanes and slots is recorded. Some of them restart, or all get another key. Then recorded
envelopes are written into every lane, and slots get back what they held, followed by new ones of the living sender.
Exactly the new ones may reach the programs.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from speed.wire.envelope import FLAG_SLOTTED, counter_of, generation_of, parse_header
from speed.wire.names import node_id
from speed.wire.seal import LinkOpener, LinkSealer
from tests.interop.harness import Agent, AgentError
from tests.torture.lane_files import LaneFiles, Segment, envelopes_in
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

PER_LANE = 170
"""Of six lanes: about a thousand envelopes a round."""
SLOT_BYTES, MAX_BYTES = 1 << 18, 16 << 20
LIVE, OPEN_CALL = "live", "open call"
RARE = ("receiver killed", "receiver closed", "sender killed", "overlap", "new key")
WAYS = (*[LIVE] * 6, *[OPEN_CALL] * 3, *RARE)


class Round:
    """One round in a world that rounds share; ``marks`` are the numbers that its live traffic carries."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.report = world, report
        self.random = Random(seed)
        self.first = seed % (1 << 31) * 1000
        self.slots: dict[LaneFiles, dict[Path, bytes]] = {}
        self.patience = 2 if report.mutated else 20

    def run(self) -> None:
        self.converse(self.first)
        self.check_arrived(self.first, "before anything was written again")
        recorded = self.record()
        way = LIVE if self.report.mutated else self.random.choice(WAYS)
        self.report.add(f"{way} rounds")
        self.prepare(way, recorded)
        open_calls = self.call_slowly() if way == OPEN_CALL else []
        for lane in recorded:
            self.inject(lane, recorded)
        for agent, number in open_calls:
            self.report.check(agent.answer(number) == 0.05, f"{agent!r}: an open call got another answer ({way})")
        self.converse(self.first + 500)
        self.check_arrived(self.first + 500, way)

    def converse(self, mark: int) -> None:
        """Every pair: two acknowledged messages, a call, a ping and a question; each agent: an event to all."""
        sizes = [self.random.randrange(1 << 20, MAX_BYTES), *[SLOT_BYTES] * len(self.world.pairs())]
        told = [
            (source, source.tell(op, target=target.name, **fields))
            for (source, target), size in zip(self.world.pairs(), sizes, strict=False)
            for op, fields in (
                ("ping", {}),
                ("call", {"service": "sequence", "arguments": {"n": mark}, "timeout": self.patience}),
                ("services", {}),
                ("send", {"payload": mark, "ack": True, "timeout": self.patience}),
                ("send", {"payload": f"{mark}" + " " * size, "ack": True, "timeout": self.patience}),
            )
        ]
        told += [(agent, agent.tell("publish", topic="t.mark", payload=mark)) for agent in self.world.agents.values()]
        for agent, number in told:
            try:
                agent.answer(number)
            except AgentError as error:
                self.report.check(False, f"{agent!r} is hindered: {error}")

    def check_arrived(self, mark: int, when: str) -> None:
        """Each agent got the marks of every other one once, and nothing else."""
        agents = list(self.world.agents.values())
        others = len(agents) - 1
        for agent in agents:
            asker = next(other for other in agents if other is not agent)
            seen = asker.ask("call", target=agent.name, service="sequence_seen", arguments={})
            events = [event["payload"] for event in _all(agent, "event", others)]
            messages = [int(message["payload"]) for message in _all(agent, "receive", 2 * others)]
            for kind, found, each in (("requests", seen, 1), ("messages", messages, 2), ("events", events, 1)):
                holds = found == [mark] * each * others
                self.report.check(holds, f"{agent!r} dispatched the {kind} {found}, not {mark} of each ({when})")

    def record(self) -> dict[LaneFiles, list[bytes]]:
        lanes = [self.world.lane(source, target) for source, target in self.world.pairs()]
        self.slots = {lane: lane.slots() for lane in lanes}
        return {lane: list(envelopes_in(lane.data())) for lane in lanes}

    def prepare(self, way: str, recorded: dict[LaneFiles, list[bytes]]) -> None:
        """Bring about what the round is about; what lies in the lane of who is down waits there."""
        one = self.random.choice(list(self.world.agents))
        if way.startswith("receiver"):
            self.world.agents[one].kill() if way.endswith("killed") else self.world.agents[one].close()
            for lane in recorded:
                if lane.target == f"t.{one}":
                    self.inject(lane, recorded)
            self.world.start(one)
        elif way == "sender killed":
            self.world.restart(one)
            for lane, own in recorded.items():
                if lane.source == f"t.{one}":
                    self.add_old_segment(lane, own)
        elif way in ("overlap", "new key"):
            self.world.rotate(keep_old=way == "overlap")

    def call_slowly(self) -> list[tuple[Agent, int]]:
        return [
            (source, source.tell("call", target=target.name, service="sleep", arguments={"seconds": 0.05}))
            for source, target in self.world.pairs()
        ]

    def inject(self, lane: LaneFiles, recorded: dict[LaneFiles, list[bytes]]) -> None:
        """Envelopes of this lane, of its opposite, and of any other."""
        all_of_them = [envelope for envelopes in recorded.values() for envelope in envelopes]
        own = recorded[lane]
        reflected = next(
            r for other, r in recorded.items() if (other.source, other.target) == (lane.target, lane.source)
        )
        lane.put_back(self.slots[lane])
        self.report.add("slots given back", len(self.slots[lane]))
        chosen = [self.random.choice(self.random.choice((own, own, reflected, all_of_them))) for _ in range(PER_LANE)]
        if self.report.mutated:
            chosen.append(self.sealed_anew(lane, own))
        if lane.segments():
            lane.append(b"".join(chosen))
        else:
            lane.add_segment((generation_of(parse_header(own[-1]).sequence), 99), b"".join(chosen))
        self.report.add("envelopes written again", len(chosen))

    def add_old_segment(self, lane: LaneFiles, own: list[bytes]) -> None:
        """As if the replaced sender had gone on (L-18)."""
        old: Segment = (generation_of(parse_header(own[-1]).sequence), 999)
        lane.add_segment(old, b"".join(own))
        self.report.add("envelopes written again", len(own))

    def sealed_anew(self, lane: LaneFiles, own: list[bytes]) -> bytes:
        """The mutation: a message of this lane, sealed with its key under the next sequence."""
        ring, source, target = self.world.keyring, node_id(lane.source), node_id(lane.target)
        opener = LinkOpener(ring, source, target)
        headers = ((envelope, parse_header(envelope)) for envelope in own)
        message = next(one for one, header in headers if header.type == 1 and not header.flags & FLAG_SLOTTED)
        header, newest = parse_header(message), parse_header(own[-1]).sequence
        payload = bytes(opener.open(header, message))
        sealer = LinkSealer(ring, source, target, generation_of(newest))
        return sealer.seal(
            header.type, 0, counter_of(newest) + 1, header.timestamp_ms, payload, self.random.randbytes(12)
        )


def _all(agent: Agent, op: str, at_least: int) -> list[dict[str, object]]:
    """Everything that is there for the program; ``at_least`` so many are waited for."""
    found: list[dict[str, object]] = []
    while (one := agent.ask(op, timeout=5 if len(found) < at_least else 0)) is not None:
        found.append(one)
    return found


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), report):
        Round(world, round_seed, report).run()
        if report.failures:
            return


SCENARIO = Scenario(
    name="replay",
    promise="an envelope that is written again, anywhere and at any time, is never dispatched again",
    unit="rounds of about 1,000 envelopes",
    tiny=1,
    quick=15,
    full=1000,
    mutation="a recorded message is sealed anew under the next sequence, with the key",
    run=run,
)
