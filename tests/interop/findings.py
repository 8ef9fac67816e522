"""What a run of the fuzzer saw, and what counts as a problem."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from tests.interop.languages import ROOT

SHOWN = 10
_CODES = json.loads((ROOT / "registry_spec" / "codes.json").read_text())
NOT_COMPARED = "NOT_AVAILABLE"
"""A build may lack an algorithm that another has (M-24)."""
_VERDICTS = frozenset(["OK", *_CODES["wire"]])
_OF_PROTECTED = _VERDICTS | set(_CODES["message"])


def verdicts(kind: str) -> frozenset[str]:
    """What a decoder may say of some bytes of that kind."""
    return _OF_PROTECTED if kind == "protected" else _VERDICTS


@dataclass
class Findings:
    """What a run saw; ``problems`` are cases with another verdict somewhere, or with none of the contract."""

    cases: int = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note(self, kind: str, data: bytes, said: dict[str, str]) -> None:
        self.cases += 1
        self.verdicts.update((kind, verdict) for verdict in set(said.values()))
        if len(set(said.values()) - {NOT_COMPARED}) > 1 or not verdicts(kind).issuperset(said.values()):
            self.problems.append(f"{kind} {said} {data.hex()}")
