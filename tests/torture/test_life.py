"""What the scenario *life* makes of facts."""

from __future__ import annotations

import pytest

from tests.torture.life_facts import Facts

SOUND = """
sent a.1 life.b
took a.1 life.b first
took a.1 life.b again
published a.2 life.b life.c
took a.2 life.b first
took a.2 life.c first
sent a.6 life.*
took a.6 life.c first
ran a.3
answered a.3 RELAY maybe
failed a.4 ACCESS_DENIED never
failed a.5 TIMEOUT maybe
ran a.5
refused look NODE_CLOSED
"""


def told(more: str) -> list[str]:
    return list(Facts([*SOUND.split("\n")[1:-1], *filter(None, more.split("\n"))]).broken())


def test_facts_that_break_nothing_are_told_as_nothing() -> None:
    assert told("") == []


def test_what_nodes_threw_away_is_added_up() -> None:
    facts = Facts(["counted a rejected_behind_fence=2 pings=7", "counted b rejected_behind_fence=1 payloads_lost=0"])
    assert facts.discarded() == {"rejected_behind_fence": 3}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("sent x life.b", "1: accepted messages were never handled, such as x"),
        ("sent x life.*", "1: accepted messages were never handled, such as x"),
        ("published x life.b", "1: accepted events were never handled, such as x"),
        ("sent x life.b\ntook x life.c first\ntook x life.b first", "1: handled by whom they were not sent to"),
        ("took a.2 life.c first", "1: handled again without a mark, such as a.2"),
        ("ran a.3", "1: calls ran twice, such as a.3"),
        ("answered x RELAY maybe", "1: answered, and never ran, such as x"),
        ("ran a.4", "1: said to be not begun, and ran, such as a.4"),
        ("foreign send ValueError of something", "1: foreign, such as foreign send ValueError of something"),
        ("late call 9.5", "1: late, such as late call 9.5"),
    ],
)
def test_each_broken_promise_is_told_with_an_example(more: str, says: str) -> None:
    (found,) = told(more)
    assert found.startswith(says)
