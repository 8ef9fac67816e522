"""The corpus that the fuzzers found, read by the nodes of all languages: each input gets one verdict.

``scripts/fuzz corpus`` compares them; what differs is printed, and ends it with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from tests.interop import corpus
from tests.interop.findings import SHOWN, Findings
from tests.interop.fuzz import BATCH, ask
from tests.interop.harness import Agent
from tests.interop.languages import LANGUAGES
from tests.interop.pool import Agents


def replay(agents: Sequence[Agent], inputs: Iterable[tuple[str, bytes]]) -> Findings:
    """Ask all agents about every input that they read."""
    findings = Findings()
    cases = (corpus.on_the_wire(kind, data) for kind, data in inputs if kind in corpus.AGENTS_READ)
    while batch := list(islice(cases, BATCH)):
        ask(agents, batch, findings)
    return findings


def main() -> int:
    pool = Agents()
    try:
        started = [pool.start(language, f"replay.{language}") for language in LANGUAGES]
        inputs = (case for directory in sys.argv[1:] for case in corpus.read(Path(directory)))
        findings = replay([agent.ready() for agent in started], inputs)
    finally:
        pool.close()
    print(f"fuzz: {findings.cases} inputs of the corpus, {len(findings.problems)} with different verdicts")
    for problem in findings.problems[:SHOWN]:
        print("PROBLEM", problem)
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
