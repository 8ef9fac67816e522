"""The service of the README's first session, hosted by speedd as examples/tax/speedd.toml says."""

from __future__ import annotations


def calculate_tax(amount: float, rate: float = 0.18) -> dict[str, float]:
    """What is due on an amount."""
    return {"tax": round(amount * rate, 2)}
