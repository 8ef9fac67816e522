"""Differential fuzzing: the same altered bytes go to the decoders of all languages, and all must say the same.

``scripts/fuzz differential SECONDS [--seed N]`` compares all languages; the mode ``python`` looks at one, in its own
process, where it can hold each case to its bounds (``bounds.py``). ``guided.py`` and the programs in C++ and Java are
guided by coverage; what these find is compared as well (``replay.py``).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from tests.interop import bounds
from tests.interop.findings import SHOWN, Findings
from tests.interop.harness import Agent, AgentError
from tests.interop.languages import LANGUAGES
from tests.interop.mutations import Mutations
from tests.interop.pool import Agents

BATCH = 200


def run(agents: Sequence[Agent], seconds: float, seed: int) -> Findings:
    """Ask all agents about the same cases until the time is over; ends early once much is wrong."""
    mutations, findings = Mutations(seed), Findings()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(findings.problems) < SHOWN:
        ask(agents, [mutations.case() for _ in range(BATCH)], findings)
    return findings


def ask(agents: Sequence[Agent], cases: Sequence[tuple[str, bytes]], findings: Findings) -> None:
    """What all agents say of some cases, each a kind and bytes."""
    told = {agent: [agent.tell("decode", kind=kind, bytes=data) for kind, data in cases] for agent in agents}
    for position, (kind, data) in enumerate(cases):
        said = {agent.language: _verdict(agent, told[agent][position]) for agent in agents}
        findings.note(kind, data, said)


def _verdict(agent: Agent, number: int) -> str:
    try:
        return str(agent.answer(number))
    except AgentError as error:
        return f"failed with {error}"  # an exception that is no refusal: a defect


def _ask_agents(options: argparse.Namespace) -> Findings:
    pool = Agents()
    try:
        started = [pool.start(language, f"fuzz.{language}") for language in LANGUAGES]
        print(f"fuzz: {', '.join(LANGUAGES)}; seed {options.seed}", flush=True)
        findings = run([agent.ready() for agent in started], options.seconds, options.seed)
        print(pool.stderr(), file=sys.stderr)
    finally:
        pool.close()
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("mode", choices=("differential", "python"))
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    alone = options.mode == "python"
    findings = bounds.run(options.seconds, options.seed) if alone else _ask_agents(options)
    for (kind, verdict), count in sorted(findings.verdicts.items()):
        print(f"{kind:10} {verdict:20} {count:8}")
    print(f"fuzz: {findings.cases} cases, {len(findings.problems)} problems, seed {options.seed}")
    for problem in findings.problems[:SHOWN]:
        print("PROBLEM", problem)
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
