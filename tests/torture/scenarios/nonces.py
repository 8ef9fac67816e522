"""No nonce is drawn twice, no link key serves two processes (W-8, W-10, W-13): over threads, forks, restarts.

A round: a process with four threads draws a million nonces and forks a hundred times; its children are refused its
node, make their own and send. Agents of all languages send to each other, and one of them restarts. All envelopes
are read from their lanes; nonces of all rounds are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np

from speed.wire.envelope import Header, generation_of, parse_header
from speed.wire.names import inbox_dir, is_node_name
from tests.interop.languages import ROOT
from tests.torture.lane_files import LaneFiles, envelopes_in
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

DRAWS = 1_000_000
FORKS = 100
BURST = 500
ROUND_SECONDS = 120.0


class Seen:
    """What was drawn and what was sent, in all rounds.

    Of drawn nonces only the first eight bytes: among 10^8 random ones, two of them are alike once in 3,700 runs.
    """

    def __init__(self) -> None:
        self._batches: list[np.ndarray] = []
        self.links: dict[object, object] = {}
        self.sequences: dict[object, object] = {}
        self.nonces: dict[bytes, object] = {}

    def add(self, nonces: bytes) -> None:
        self._batches.append(np.frombuffer(nonces, dtype=np.uint8).reshape(-1, 12)[:, :8].copy().view(np.uint64)[:, 0])

    def repeats(self) -> int:
        """A sixteenth at a time."""
        return sum(self._repeats_in(part) for part in range(16))

    def _repeats_in(self, part: int) -> int:
        chosen = [batch[batch % np.uint64(16) == part] for batch in self._batches]
        ordered = np.sort(np.concatenate(chosen))
        return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


class Round:
    """One family and one exchange between agents; ``seen`` is of all rounds."""

    def __init__(self, world: World, seed: int, report: Report, seen: Seen) -> None:
        self.world, self.seed, self.report, self.seen = world, seed, report, seen
        self.random = Random(seed)

    def run(self) -> None:
        self.run_family()
        told = [
            (source, source.tell("burst", target=target.name, count=BURST, bytes=8))
            for source, target in self.world.pairs()
        ]
        for agent, number in told:
            agent.answer(number)
        self.harvest()
        self.empty_inboxes()
        self.world.restart(self.random.choice(list(self.world.agents)), kill=self.random.random() < 0.5)

    def run_family(self) -> None:
        out = f"{self.world.root}/nonces"
        command = [sys.executable, "-m", "tests.torture.family", self.world.root, out, str(self.seed)]
        command += [str(FORKS), str(DRAWS), *["mutated"] * self.report.mutated]
        environment = {**os.environ, "SPEED_KEY": self.world.key_path}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ROUND_SECONDS, check=True
        )
        self.report.check(done.stdout.strip() == "0", f"{done.stdout.strip()} children could use their parent's node")
        drawn = Path(out).read_bytes()
        os.unlink(out)
        self.seen.add(drawn)
        self.report.add("draws", len(drawn) // 12)
        self.report.add("forks", FORKS)

    def harvest(self) -> None:
        """Every envelope that lies in a lane: its link key is one process's, its sequence and nonce are its own."""
        pids = {agent.name: agent.process.pid for agent in self.world.agents.values()}
        for agent in self.world.agents.values():
            for source in filter(is_node_name, os.listdir(inbox_dir(self.world.root, agent.name))):
                for envelope in envelopes_in(LaneFiles(self.world.root, source, agent.name).data()):
                    self.note(parse_header(envelope), pids.get(source, source))

    def note(self, header: Header, owner: object) -> None:
        link = (header.key_id, header.source, header.target, generation_of(header.sequence))
        known = self.seen.links.setdefault(link, owner)
        self.report.check(known == owner, f"processes {known} and {owner} share a link key")
        known = self.seen.sequences.setdefault((link, header.sequence), header.nonce)
        self.report.check(known == header.nonce, f"sequence {header.sequence:x} stands in two envelopes of a link")
        known = self.seen.nonces.setdefault(header.nonce, (link, header.sequence))
        self.report.check(known == (link, header.sequence), f"nonce {header.nonce.hex()} stands in two envelopes")

    def empty_inboxes(self) -> None:
        """So that no lane fills up."""
        for agent in self.world.agents.values():
            agent.ask("drain", count=1 << 20, timeout=0.5)


def run(seed: int, count: int, report: Report) -> None:
    seen = Seen()
    for world, round_seed in in_worlds(report.rounds(seed, count), report):
        Round(world, round_seed, report, seen).run()
    repeats = seen.repeats()
    report.add("envelopes", len(seen.nonces))
    report.add("link keys", len(seen.links))
    report.check(repeats == 0, f"{repeats} nonces were drawn twice")


SCENARIO = Scenario(
    name="nonces",
    promise="no nonce is used twice and no link key by two processes: over threads, forks, restarts",
    unit="rounds of 1,000,000 draws and 100 forks",
    tiny=1,
    quick=1,
    full=100,
    mutation="forked children go on with copies of their parent's nonce sources",
    run=run,
)
