"""Which node of a family is asked next, when another one is, and what is tried again (S-40, S-41)."""

from __future__ import annotations

from itertools import product
from typing import Any

from speed.core.calls import choose

THREE = ("pricing.1", "pricing.2", "pricing.3")
NOT_BEGUN, MAY_HAVE_RUN, RAN = "not begun", "may have run", "ran"
PASSED_ON = ("UNKNOWN_NODE", "NODE_LEFT", "LEAVING", "REPLACED", "NODE_STARTING", "SERVICE_NOT_FOUND", "ACCESS_DENIED")
KEPT = ("INVALID_ARGUMENTS", "EXECUTION_FAILED", "TIMEOUT", "WITHDRAWN", "INBOX_FULL", "SEGMENTS_LOST")
TRANSIENT = ("UNKNOWN_NODE", "NODE_LEFT", "LEAVING", "REPLACED", "NODE_STARTING")
PERHAPS_RUN = ("NODE_LEFT", "LEAVING", "REPLACED", "TIMEOUT")


def choice(
    name: str, bug: str, members: tuple[str, ...], gives: str, under_way: dict[str, int] | None = None, last: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "bug": bug,
        "members": list(members),
        "under_way": under_way or {},
        "last": last,
        "key": None,
        "gives": gives,
    }


def by_key(members: tuple[str, ...], key: str) -> dict[str, Any]:
    return {
        "name": f"key {key!r} among {len(members)}",
        "bug": "the order of members, or what is under way, moves keys",
        "members": list(members),
        "under_way": {members[0]: 7},
        "last": members[0],
        "key": key,
        "gives": choose(members, {}, "", key),
    }


def pause(backoff_ms: int, made: int, gives_ms: int) -> dict[str, Any]:
    return {
        "name": f"after {made} of {backoff_ms} ms",
        "bug": "doubles without a bound, or overflows",
        "backoff_ms": backoff_ms,
        "made": made,
        "gives_ms": gives_ms,
    }


def groups() -> dict[str, Any]:
    """All cases."""
    return {
        "about": "S-40, S-41. `choices`: which of `members` is asked, by the calls `under_way` and the one that was "
        "chosen `last`; with a `key`, always the same. `passed_on`: whether another member is asked after an error; "
        "`repeated`: whether another attempt is made. `budgets`: whether there is enough left after each attempt that "
        "`failed`; one that `succeeded` earns `budget`. `pauses`: before they are varied, when so many attempts were "
        "`made`.",
        "choices": [
            choice("none was asked", "begins behind the first", THREE, "pricing.1"),
            choice("turn about", "asks the same one again", THREE, "pricing.2", last="pricing.1"),
            choice("the turn begins anew", "ends behind the last one", THREE, "pricing.1", last="pricing.3"),
            choice(
                "the last one is gone",
                "begins anew with the first",
                ("pricing.1", "pricing.3"),
                "pricing.3",
                last="pricing.2",
            ),
            choice(
                "fewest under way",
                "turn about whatever is under way",
                THREE,
                "pricing.3",
                {"pricing.1": 2, "pricing.2": 3, "pricing.3": 1},
                "pricing.3",
            ),
            choice(
                "of equals the next one",
                "of equals the first",
                THREE,
                "pricing.3",
                {"pricing.1": 1, "pricing.2": 2, "pricing.3": 1},
                "pricing.1",
            ),
            choice(
                "in any order", "takes the order of a list for the turn", THREE[::-1], "pricing.2", last="pricing.1"
            ),
            choice("by bytes", "sorts as people do", ("a.B", "a.a", "a.10", "a.9"), "a.9", last="a.10"),
            *(by_key(THREE, key) for key in ("", "alice", "bob", "carol", "ключ", "😀")),
            *(by_key(THREE[1:], key) for key in ("alice", "bob", "carol")),
            *(by_key(THREE[::-1], key) for key in ("alice", "bob")),
        ],
        "passed_on": [
            {
                "name": f"{code} {execution}",
                "bug": "gives up while others could, or runs it twice",
                "code": code,
                "execution": execution,
                "gives": execution == NOT_BEGUN and code in PASSED_ON,
            }
            for code, execution in product(PASSED_ON + KEPT, (NOT_BEGUN, MAY_HAVE_RUN, RAN))
        ],
        "repeated": [
            {
                "name": f"{code} {execution}{' idempotent' if idempotent else ''}",
                "bug": "runs it twice, or gives up for nothing",
                "code": code,
                "execution": execution,
                "idempotent": idempotent,
                "gives": (execution == NOT_BEGUN and code in TRANSIENT) or (idempotent and code in PERHAPS_RUN),
            }
            for code, execution, idempotent in product(PASSED_ON + KEPT, (NOT_BEGUN, MAY_HAVE_RUN, RAN), (False, True))
        ],
        "budgets": [
            {
                "name": "five attempts are there for a start",
                "bug": "a new budget for each call",
                "budget": 0.5,
                "steps": ["failed"] * 6 + ["succeeded"] * 3 + ["failed"] * 2,
                "gives": [True] * 4 + [False] * 2 + [None] * 3 + [False] * 2,
            },
            {
                "name": "what succeeds earns",
                "bug": "earns beyond what is there for a start",
                "budget": 1.0,
                "steps": ["succeeded"] * 20 + ["failed"] * 5,
                "gives": [None] * 20 + [True] * 4 + [False],
            },
            {
                "name": "never below nothing",
                "bug": "debts that take for ever",
                "budget": 1.0,
                "steps": ["failed"] * 40 + ["succeeded"] * 7 + ["failed"] * 2,
                "gives": [True] * 4 + [False] * 36 + [None] * 7 + [True, False],
            },
        ],
        "pauses": [
            pause(100, 1, 100),
            pause(100, 2, 200),
            pause(100, 6, 3200),
            pause(100, 7, 5000),
            pause(100, 100_000, 5000),
            pause(0, 50, 0),
            pause(9000, 1, 5000),
        ],
    }
