"""What the shop sells, and the names that all parts agree on. ``speed.examples.Shop`` is the same in Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHOP, GATEWAY, DESK, STRANGER = "shop", "gateway", "desk", "stranger"
TOPIC = "orders.created"
SCHEMA = ("OrderCreated", "v1")
SCHEMAS = Path(__file__).resolve().parent / "schemas"
WAIT_SECONDS = 60.0


def order(number: int) -> dict[str, Any]:
    """Order ``number``, counted from 1; its price is in cents."""
    return {"order": number, "cents": 1_999 + 37 * number, "card": f"4000-0000-0000-{number:04d}"}


def code_of(refusal: Exception) -> str:
    """The code in the text of a refusal; whoever passed it on wrote its own name before it (M-18)."""
    return [word for word in str(refusal).split(": ") if word.isupper()][-1]
