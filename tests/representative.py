"""Which tests of a whole run stand for all of them: what proves one thing twice is tried once (``SPEED_TESTS=some``).

``scripts/test`` without arguments, and so ``.ci/run``, set that; ``--all`` of either, chosen tests and plain pytest run
all. Three things are left out, and each promise keeps a test:

- a test for every pair of languages runs for a circle of them, each once on either side: one
  test goes around one way, and the next the other. What a language says to itself is in its own tests;
- ``pytest.mark.rotate("backend", 2)``: two of the values of a parameter, for the next test of the file the next two, so
  that a file tries each value;
- ``pytest.mark.thorough``: more cases, or more of the same, than another test has.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

from tests.interop.languages import LANGUAGES

VARIABLE = "SPEED_TESTS"
WHOLE = "SPEED_WHOLE"
"""Names a directory of tests of which all run nevertheless, because a change touches what they test."""
PAIR = ("source", "target")
Case = TypeVar("Case")


def is_asked() -> bool:
    """Whether a part is to stand for all."""
    return os.environ.get(VARIABLE) == "some"


def some(cases: Sequence[Case], step: int = 7) -> Sequence[Case]:
    """All cases, or each so many: with 7, of the bits of some bytes every place in a byte and nearly every byte."""
    return cases[::step] if is_asked() else cases


def fewer(whole: int, part: int) -> int:
    """How many of a thing that is tried many times, such as kills."""
    return part if is_asked() else whole


def chosen(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that stand for all, and those they stand for, in the order that they had."""
    thinned = [item for item in items if not _is_whole(item)]
    left_out = {item for item in thinned if item.get_closest_marker("thorough")}
    files: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in thinned:
        files[str(item.path)][_test(item)].append(item)
    for tests in files.values():
        for choose in (_pairs, _rotated):
            concerned = [same for _, same in sorted(tests.items(), key=_line) if choose(same[0])]
            for number, same in enumerate(concerned):
                left_out |= _left_out(same, number, choose(same[0]))
    return [one for one in items if one not in left_out], [one for one in items if one in left_out]


def _is_whole(item: pytest.Item) -> bool:
    return item.nodeid.startswith(os.environ.get(WHOLE) or "no directory")


Key = Callable[[pytest.Item], Any]
Choice = Callable[[list[Any], int], Iterable[Any]]


class _Way:
    """How the tests of one function are told apart, and which of them are taken."""

    def __init__(self, names: Sequence[str], key: Callable[[Sequence[pytest.Item]], Key], choice: Choice) -> None:
        self.names, self.key, self.choice = frozenset(names), key, choice


def _left_out(same: list[pytest.Item], number: int, way: Any) -> set[pytest.Item]:
    """Of the tests of one function, for each of their other parameters."""
    others: dict[Any, list[pytest.Item]] = defaultdict(list)
    for item in same:
        others[tuple(sorted((k, repr(v)) for k, v in _values(item).items() if k not in way.names))].append(item)
    found: set[pytest.Item] = set()
    key = way.key(same)
    for more, group in enumerate(others.values()):
        keys = list(dict.fromkeys(key(item) for item in group))
        taken = set(way.choice(keys, number + more))
        found |= {item for item in group if key(item) not in taken}
    return found


def _pairs(item: pytest.Item) -> _Way | None:
    """Around the circle of languages one way or the other; each with itself only where there is nothing else."""
    if not all(_values(item).get(end) in LANGUAGES for end in PAIR):
        return None  # tests of routes have a source and a target, too

    def key(same: Sequence[pytest.Item]) -> Key:
        order = {name: place for place, name in enumerate(dict.fromkeys(_values(one)["source"] for one in same))}

        def steps(one: pytest.Item) -> int:
            source, target = (order.get(_values(one)[end], 0) for end in PAIR)
            return (target - source) % len(order)

        return steps

    def choice(keys: list[Any], number: int) -> list[Any]:
        others = sorted(step for step in keys if step) or keys
        return [others[number % len(others)]]

    return _Way(PAIR, key, choice)


def _rotated(item: pytest.Item) -> _Way | None:
    mark = item.get_closest_marker("rotate")
    if mark is None or mark.args[0] not in _values(item):
        return None
    name, number_of_values = mark.args

    def choice(keys: list[Any], number: int) -> list[Any]:
        return [keys[(number * number_of_values + one) % len(keys)] for one in range(number_of_values)]

    return _Way([name], lambda _: lambda one: repr(_values(one)[name]), choice)


def _values(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _line(test: tuple[str, list[pytest.Item]]) -> int:
    """Where a test stands in its file; pytest sorts by parameters."""
    return test[1][0].reportinfo()[1] or 0
