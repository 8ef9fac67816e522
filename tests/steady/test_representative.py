"""What stands for all: each promise, each language on either side, each value in some test of a file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import representative

LANGUAGES = ("python", "cpp", "java")
PAIRS = tuple(itertools.product(LANGUAGES, LANGUAGES))


class Item:
    """As much of a test as the choice looks at."""

    def __init__(self, test: str, line: int, values: dict[str, Any], marks: Sequence[pytest.Mark]) -> None:
        self.path, self.nodeid = Path("test_it.py"), f"test_it.py::{test}[{'-'.join(map(str, values.values()))}]"
        self.callspec, self._line, self._marks = SimpleNamespace(params=values), line, {one.name: one for one in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._marks.get(name)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._line, self.nodeid


def functions(number: int, values: Sequence[dict[str, Any]], *marks: Any) -> list[Item]:
    """As many functions with these parameters."""
    return [
        Item(f"test_{test}", test, one, [mark.mark for mark in marks])
        for one in values
        for test in range(1, number + 1)
    ]


def kept(items: Sequence[Any]) -> list[Any]:
    return representative.chosen(items)[0]


def pairs_of(test: str, items: Sequence[Any]) -> set[tuple[str, str]]:
    return {
        (one.callspec.params["source"], one.callspec.params["target"])
        for one in kept(items)
        if one.nodeid.startswith(f"test_it.py::{test}[")
    }


def test_each_language_is_on_either_side_of_each_test_and_the_tests_of_a_file_try_all_pairs() -> None:
    items = functions(2, [{"source": source, "target": target} for source, target in PAIRS])
    one, other = pairs_of("test_1", items), pairs_of("test_2", items)
    for pairs in (one, other):
        assert {source for source, _ in pairs} == {target for _, target in pairs} == set(LANGUAGES)
        assert len(pairs) == 3
    assert one | other == {(source, target) for source, target in PAIRS if source != target}


def test_each_value_of_another_parameter_is_tried_on_either_side() -> None:
    items = functions(1, [{"source": s, "target": t, "value": value} for value in range(4) for s, t in PAIRS])
    found = [one.callspec.params for one in kept(items)]
    for end in ("source", "target"):
        assert sorted((one["value"], one[end]) for one in found) == sorted(itertools.product(range(4), LANGUAGES))


def test_a_language_alone_is_no_pair() -> None:
    items = functions(1, [{"source": language} for language in LANGUAGES])
    assert kept(items) == items


def test_where_there_is_one_language_it_speaks_to_itself() -> None:
    items = functions(1, [{"source": "cpp", "target": "cpp"}])
    assert kept(items) == items


def test_a_source_and_a_target_that_are_no_languages_are_left_alone() -> None:
    items = functions(1, [{"source": "topics", "target": target} for target in ("redis", "python")])
    assert kept(items) == items


def test_values_that_take_turns_are_all_tried_by_the_tests_of_a_file() -> None:
    items = functions(3, [{"backend": name} for name in "abcdef"], pytest.mark.rotate("backend", 2))
    assert [
        (one.nodeid[12:18], one.callspec.params["backend"]) for one in sorted(kept(items), key=Item.reportinfo)
    ] == [
        ("test_1", "a"),
        ("test_1", "b"),
        ("test_2", "c"),
        ("test_2", "d"),
        ("test_3", "e"),
        ("test_3", "f"),
    ]


def test_what_is_more_of_the_same_is_for_a_whole_run() -> None:
    items = functions(1, [{}], pytest.mark.thorough)
    assert representative.chosen(items) == ([], items)  # type: ignore[arg-type, comparison-overlap]


def test_a_directory_that_a_change_touches_runs_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    items = functions(1, [{}], pytest.mark.thorough)
    monkeypatch.setenv(representative.WHOLE, "test_it")
    assert kept(items) == items
