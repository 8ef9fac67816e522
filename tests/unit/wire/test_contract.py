"""The contract's own files agree with the code: codes, vectors, rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts.vectors.__main__ import FILES, PAGE, text_of
from scripts.vectors.transcript import page
from speed import errors
from tests.vectors import DIRECTORY

ROOT = Path(__file__).resolve().parents[3]
SPEC = ROOT / "registry_spec"
KINDS = ("spc", "local", "journal", "message", "backend")


def test_every_code_an_exception_carries_is_published() -> None:
    """S-8: codes are stable and listed once."""
    codes = json.loads((SPEC / "codes.json").read_text())
    listed: list[str] = [*codes["spc"], *codes["local"], *codes["journal"], *codes["wire"]]
    assert len(listed) == len(set(listed))
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, errors.SpeedError)]
    assert {item.code for item in classes} <= set(listed)
    assert set(errors.CALL_ERRORS) == set(codes["spc"])


def test_every_code_has_a_cause_and_a_cure() -> None:
    """The page of errors is made of them."""
    codes = json.loads((SPEC / "codes.json").read_text())
    told = [*codes["errors"], *codes["refusals"].values()]
    assert {one["code"] for one in codes["errors"]} >= {code for kind in KINDS for code in codes[kind]}
    assert sorted(codes["refusals"]) == sorted(codes["wire"])
    assert [one for one in told if not (one["cause"].endswith(".") and one["cure"].endswith("."))] == []


@pytest.mark.parametrize("stem", FILES)
def test_the_vectors_are_what_the_code_writes(stem: str) -> None:
    """A change of bytes shows here first: run scripts.vectors only if the contract changes."""
    assert (DIRECTORY / f"{stem}.json").read_text() == text_of(stem)


def test_the_transcript_for_people_is_what_the_code_writes() -> None:
    assert PAGE.read_text() == page()


def test_every_vector_names_the_bug_it_catches() -> None:
    """A vector without a reason cannot be judged later."""
    lists = ("valid", "invalid", "matching", "derived", "invalid_names", "cursors_valid", "cursors_invalid")
    for path in DIRECTORY.glob("*.json"):
        vectors: dict[str, Any] = json.loads(path.read_text())
        for name in lists:
            assert all(case["bug"] for case in vectors.get(name, ())), path.name


def test_every_rule_that_the_code_cites_is_written() -> None:
    """Rule ids are links: a dangling one misleads."""
    written = set(
        re.findall(r"^\*\*([WLRASMCJGTV]-\d+)", "\n".join(p.read_text() for p in SPEC.glob("*.md")), re.MULTILINE)
    )
    cited = {
        (rule, str(path.relative_to(ROOT)))
        for folder in ("speed", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for rule in re.findall(r"\b([WLRASMCJGTV]-\d+)\b", path.read_text())
    }
    assert sorted(item for item in cited if item[0] not in written) == []
