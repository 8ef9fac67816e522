"""Nodes that answer with what are no figures, or far too many: whoever looks at them goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import speed
from speed.core.scheduler import TIMES
from speed.observe.figures import MAX_NAMES, Answers, ask_all, loads, sound
from speed.observe.metrics import metrics_text
from speed.observe.troubles import troubles
from tests.system.commands import Command

pytestmark = pytest.mark.system

HUGE = (1 << 63) - 1
ROW = {
    "numRequests": 1,
    "numErrors": 0,
    "lastError": "",
    "processingSeconds": 0.5,
    "averageSeconds": 0.5,
    "queueTimes": [0] * TIMES,
    "runTimes": [0] * TIMES,
}
FIGURES = {"name": "liar", "uptimeSeconds": 1.0, "pendingCalls": 0, "lanes": 1, "counters": {}, "services": {}}
ESCAPES = "\x1b[2J\u202eevil\r\n"


@pytest.fixture
def say(root: str) -> Iterator[Callable[[Any], None]]:
    """Has the node ``liar`` answer so when it is asked for its figures."""
    with speed.Node("liar", root=root, allow=["cli.*"], engine="python") as liar:
        engine: Any = liar._engine

        def answer(what: Any) -> None:
            engine._parts.introspection._operations["STATS"] = lambda _: what

        yield answer


@pytest.fixture(params=["python", "native"])
def asker(root: str, request: pytest.FixtureRequest) -> Iterator[speed.Node]:
    with speed.Node("cli.1", root=root, engine=request.param) as node:
        yield node


def looked_at(asker: speed.Node) -> Answers:
    """All that is made of the answers: none of it may raise."""
    answers = ask_all(asker, 10.0)
    metrics_text(answers)
    list(loads(answers, answers, 1.0))
    list(loads({}, answers, 1.0))
    list(troubles(asker, {}, answers))
    return answers


@pytest.mark.parametrize(
    "answer",
    [
        "x",
        {},
        {**FIGURES, "uptimeSeconds": float("nan")},
        {**FIGURES, "uptimeSeconds": float("inf")},
        {**FIGURES, "lanes": -1},
        {**FIGURES, "lanes": "many"},
        {**FIGURES, "lanes": HUGE + 1},
        {**FIGURES, "queuedMessages": 0.5},
        {**FIGURES, "workers": True},
        {**FIGURES, "counters": [1]},
        {**FIGURES, "counters": {"gaps": -1}},
        {**FIGURES, "refusedBy": {"a": None}},
        {**FIGURES, "openFiles": -1},
        {**FIGURES, "peers": {"a": 1}},
        {**FIGURES, "peers": {"a": {"received": 1, "receivedBytes": 1, "sent": 1, "sentBytes": -1}}},
        {**FIGURES, "handlers": {"a": {"numHandled": 1}}},
        {**FIGURES, "services": {"quote": {}}},
        {**FIGURES, "services": {"quote": {**ROW, "numRequests": -1}}},
        {**FIGURES, "services": {"quote": {**ROW, "runTimes": [0] * (TIMES + 1)}}},
        {**FIGURES, "services": {"quote": {**ROW, "runTimes": [-1] * TIMES}}},
        {**FIGURES, "services": {"quote": {**ROW, "processingSeconds": float("nan")}}},
    ],
    ids=str,
)
def test_what_are_no_figures_is_no_answer(say: Callable[[Any], None], asker: speed.Node, answer: Any) -> None:
    say(answer)
    assert looked_at(asker) == {"liar": None}


def test_the_largest_figures_are_shown(say: Callable[[Any], None], asker: speed.Node) -> None:
    row = {**ROW, "numRequests": HUGE, "numErrors": HUGE, "runTimes": [HUGE] * TIMES, "processingSeconds": 1e15}
    say({**FIGURES, "lanes": HUGE, "counters": {"gaps": HUGE}, "services": {"quote": row}})
    answer = looked_at(asker)["liar"]
    assert answer is not None
    assert answer["counters"] == {"gaps": HUGE}


def test_ten_thousand_names_are_cut(say: Callable[[Any], None], asker: speed.Node) -> None:
    many = {f"x{number}": number for number in range(10_000)}
    say({**FIGURES, "counters": many, "refusedSenders": many, "services": dict.fromkeys(list(many)[:600], ROW)})
    answer = looked_at(asker)["liar"]
    assert answer is not None
    assert [len(answer[key]) for key in ("counters", "refusedSenders", "services")] == [MAX_NAMES] * 3


def test_names_and_texts_are_harmless_and_nothing_unknown_is_taken() -> None:
    answer = sound({**FIGURES, "counters": {ESCAPES: 1}, "services": {ESCAPES: {**ROW, "lastError": ESCAPES}}, "x": 1})
    assert "x" not in answer
    assert not any(character in str(answer) for character in ESCAPES[:1] + ESCAPES[4:5] + "\r\n")


def test_commands_go_on(run: Command) -> None:
    with speed.Node("liar", root=run.root, key=run.root / "speed.key", engine="python") as liar:
        engine: Any = liar._engine
        engine._parts.introspection._operations["STATS"] = lambda _: {**FIGURES, "counters": {ESCAPES: -1}}
        for words in (("top", "--once", "--interval", "0.2"), ("status", "--interval", "0.2"), ("metrics",)):
            shown = run(*words)
            assert "Traceback" not in shown.err
            assert "\x1b" not in shown.out
