"""Node ``rules``: what a passenger is owed, after the amounts and limits of Regulation (EC) 261/2004.

The rules are a table, read from the top; the first row that fits decides. A cancellation counts as one
without notice. The regulation's exceptions (extraordinary circumstances, re-routing) are not in the data.
"""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import speed

MILES_PER_KM = 0.621371192237334
SHORT_HAUL_MILES = 1500 * MILES_PER_KM
MEDIUM_HAUL_MILES = 3500 * MILES_PER_KM


class Rule(NamedTuple):
    """One row: applies to flights up to ``miles`` (inclusive) that are at least ``minutes`` late."""

    cancelled: bool
    miles: float
    minutes: float
    category: str
    amount: int


RULES = (
    Rule(True, SHORT_HAUL_MILES, -inf, "cancelled, short haul", 250),
    Rule(True, MEDIUM_HAUL_MILES, -inf, "cancelled, medium haul", 400),
    Rule(True, inf, -inf, "cancelled, long haul", 600),
    Rule(False, SHORT_HAUL_MILES, 180, "delayed, short haul", 250),
    Rule(False, MEDIUM_HAUL_MILES, 180, "delayed, medium haul", 400),
    Rule(False, inf, 240, "delayed, long haul", 600),
    Rule(False, inf, 180, "delayed, long haul, halved", 300),
    Rule(False, inf, 15, "late, nothing due", 0),
    Rule(False, inf, -inf, "on time", 0),
)
"""Amounts in euros, delays in minutes at the destination."""


def compensation(delay_minutes: float, distance_miles: float, cancelled: bool) -> dict[str, object]:
    """Category and amount in euros for one flight; the delay of a cancelled flight is ignored.

    Raises ValueError for a distance that is not positive or a delay that is not a number.
    """
    if not distance_miles > 0:
        raise ValueError(f"distance_miles must be positive, not {distance_miles}")
    if isnan(delay_minutes):
        raise ValueError("delay_minutes is not a number; a flight without arrival has no delay")
    for rule in RULES:
        if (
            rule.cancelled == cancelled
            and distance_miles <= rule.miles
            and (cancelled or delay_minutes >= rule.minutes)
        ):
            return {"category": rule.category, "amount": rule.amount}
    raise AssertionError("the last row fits every flight")


def register(node: speed.Node) -> None:
    """Entry point: offer ``compensation`` on this node."""
    node.register("compensation", compensation)
