"""A price service, which speedd runs three times side by side as examples/pricing/speedd.toml says."""

from __future__ import annotations

import os
from decimal import Decimal

import speed

PRICES = {"apple": Decimal("0.40"), "pear": Decimal("0.55"), "quince": Decimal("1.20")}


class UnknownProduct(speed.ServiceError):
    """There is no such product."""

    product: str


def register(node: speed.Node) -> None:
    """Offer the services of one process."""

    @node.service("quote", idempotent=True, version="1")
    def quote(product: str, pieces: int = 1) -> Decimal:
        """What so many pieces of a product cost."""
        if product not in PRICES:
            raise UnknownProduct(product=product)
        return PRICES[product] * pieces

    @node.service("process", idempotent=True, version="1")
    def process() -> int:
        """The process that answers."""
        return os.getpid()
