"""Differential fuzzing: the same altered bytes go to the decoders of all languages, and all must say the same.

``scripts/fuzz differential SECONDS [--seed N]`` compares all languages; ``scripts/fuzz python SECONDS`` (or java)
looks at one: whatever comes, it answers ``OK`` or a wire code of ``codes.json``, and goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.interop.harness import Agent, AgentError
from tests.interop.languages import LANGUAGES, ROOT
from tests.interop.mutations import Mutations
from tests.interop.pool import Agents

BATCH = 200
SHOWN = 10
VERDICTS = frozenset(["OK", *json.loads((ROOT / "registry_spec" / "codes.json").read_text())["wire"]])


@dataclass
class Findings:
    """What a run saw; ``problems`` are cases with another verdict somewhere, or with none of the contract."""

    cases: int = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note(self, kind: str, data: bytes, said: dict[str, str]) -> None:
        self.cases += 1
        self.verdicts.update((kind, verdict) for verdict in set(said.values()))
        if len(set(said.values())) > 1 or not VERDICTS.issuperset(said.values()):
            self.problems.append(f"{kind} {said} {data.hex()}")


def run(agents: Sequence[Agent], seconds: float, seed: int) -> Findings:
    """Ask all agents about the same cases until the time is over; ends early once much is wrong."""
    mutations, findings = Mutations(seed), Findings()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(findings.problems) < SHOWN:
        cases = [mutations.case() for _ in range(BATCH)]
        told = {agent: [agent.tell("decode", kind=kind, bytes=data) for kind, data in cases] for agent in agents}
        for position, (kind, data) in enumerate(cases):
            said = {agent.language: _verdict(agent, told[agent][position]) for agent in agents}
            findings.note(kind, data, said)
    return findings


def _verdict(agent: Agent, number: int) -> str:
    try:
        return str(agent.answer(number))
    except AgentError as error:
        return f"failed with {error}"  # an exception that is no refusal: a defect


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("mode", choices=("differential", *LANGUAGES))
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    languages = LANGUAGES if options.mode == "differential" else (options.mode,)
    pool = Agents()
    try:
        started = [pool.start(language, f"fuzz.{language}") for language in languages]
        print(f"fuzz: {', '.join(languages)}; seed {options.seed}", flush=True)
        findings = run([agent.ready() for agent in started], options.seconds, options.seed)
        print(pool.stderr(), file=sys.stderr)
    finally:
        pool.close()
    for (kind, verdict), count in sorted(findings.verdicts.items()):
        print(f"{kind:10} {verdict:20} {count:8}")
    print(f"fuzz: {findings.cases} cases, {len(findings.problems)} problems, seed {options.seed}")
    for problem in findings.problems[:SHOWN]:
        print("PROBLEM", problem)
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
