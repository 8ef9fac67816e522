"""The rules of ``registry_spec/``: each has one definition, and whatever cites one cites a rule that is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "registry_spec"
READ = frozenset({".md", ".py", ".cpp", ".hpp", ".java", ".proto", ".json", ".sh"})
WHERE = ("README.md", "registry_spec", "speed", "pyspark_speed", "tests", "scripts", "examples", "bindings")
MADE = frozenset({"target", "build", "__pycache__"})
DEFINED = re.compile(r"^\*\*([A-Z]-\d+)\b", re.MULTILINE)
CITED = re.compile(r"(?<![\w.-])[A-Z]-\d+\b")


def definitions() -> Counter[str]:
    return Counter(rule for page in CONTRACT.glob("*.md") for rule in DEFINED.findall(page.read_text("utf-8")))


def sources() -> Iterator[Path]:
    """All text files of the project that people write."""
    for place in WHERE:
        path = ROOT / place
        for each in [path] if path.is_file() else path.rglob("*"):
            if each.suffix in READ and each.is_file() and not MADE & set(each.relative_to(ROOT).parts):
                yield each


def cited(text: str) -> set[str]:
    return set(CITED.findall(text))


def test_each_rule_is_defined_once() -> None:
    assert [rule for rule, times in definitions().items() if times > 1] == []


def test_who_writes_a_node_is_told_of_each_rule_once_whether_it_is_needed() -> None:
    guide = (CONTRACT / "implementers.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.endswith(("| core |", "| full |", "| optional |"))]
    marked = [rule for row in rows for rule in row.split("|")[2].split()]
    assert sorted(marked) == sorted(definitions())


def test_each_rule_that_is_cited_is_defined() -> None:
    known = definitions()
    unknown = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path in sources()
        for rule in cited(path.read_text("utf-8", "replace"))
        if rule not in known
    }
    assert sorted(unknown) == []


def test_what_looks_like_a_rule_is_told_from_other_names() -> None:
    assert cited("as L-15 says (W-3, R-5); UTF-8, ISO-8601, a-1, A-b_c.D-2") == {"L-15", "W-3", "R-5"}
