"""Which agents there are, how each is started, and how it is built when it is missing."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Language:
    """One implementation. ``says``: the language in its entries. ``command`` starts its agent, ``vectors`` its
    producer. ``built`` is there once ``build`` has run.
    """

    name: str
    says: str
    command: tuple[str, ...]
    vectors: tuple[str, ...]
    built: tuple[Path, ...]
    build: str

    def check_built(self) -> None:
        """Fail loudly, and never skip, when the program is not there."""
        missing = [str(path.relative_to(ROOT)) for path in self.built if not path.exists()]
        if missing:
            raise AssertionError(
                f"the {self.name} agent is not built ({', '.join(missing)} missing); build it with: {self.build}"
            )


_JAVA = ROOT / "bindings" / "java"
_CPP = ROOT / "build" / "cpp"

LANGUAGES = {
    one.name: one
    for one in (
        Language(
            name="python",
            says="python",
            command=(sys.executable, "-u", "-m", "tests.interop.agent"),
            vectors=(sys.executable, "-m", "tests.interop.producer"),
            built=(),
            build="scripts/setup",
        ),
        Language(
            name="cpp",
            says="c++",
            command=(str(_CPP / "speed-agent-cpp"),),
            vectors=(str(_CPP / "speed-vectors"),),
            built=(_CPP / "speed-agent-cpp", _CPP / "speed-vectors"),
            build="scripts/cpp",
        ),
        Language(
            name="java",
            says="java",
            command=(str(_JAVA / "bin" / "speed-java"), "speed.tool.Agent"),
            vectors=(str(_JAVA / "bin" / "speed-java"), "speed.tool.Vectors"),
            built=(_JAVA / "bin" / "speed-java", _JAVA / "target" / "lib"),
            build="scripts/java",
        ),
    )
}

_ASKED = [frozenset(pair.split("-")) for pair in os.environ.get("SPEED_PAIRS", "").split(",") if pair]
"""Pairs to look at, such as ``python-cpp,java-java``; all if none are named."""

CHOSEN = tuple(name for name in LANGUAGES if not _ASKED or any(name in pair for pair in _ASKED))
"""The languages under test."""

PAIRS = [(one, other) for one in CHOSEN for other in CHOSEN if not _ASKED or frozenset((one, other)) in _ASKED]
"""All ordered pairs, each language with itself included."""
DIFFERENT = [(one, other) for one, other in PAIRS if one != other]


def pairs(verb: str, *, different: bool = False) -> pytest.MarkDecorator:
    """Run a test with ``source`` and ``target`` for every ordered pair, called ``python calls cpp`` and so on."""
    import pytest  # not for the many short processes that only look up a language

    chosen = DIFFERENT if different else PAIRS
    names = [f"{source} {verb} {target}" for source, target in chosen]
    return pytest.mark.parametrize(("source", "target"), chosen, ids=names)
