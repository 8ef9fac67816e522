"""The stock: reserves goods for orders, in a file that outlives it."""

from __future__ import annotations

import json
from pathlib import Path

import speed

FILE = Path("reserved.json")


def register(node: speed.Node) -> None:
    """Called by speedd, which starts this in the directory of its configuration."""
    reserved: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}

    @node.service("reserve", idempotent=True)
    def reserve(order: int, item: str) -> int:
        """Reserve once for each order, however often it is asked; returns how much is reserved in all."""
        reserved[str(order)] = item
        new = FILE.with_suffix(".new")
        new.write_text(json.dumps(reserved))
        new.replace(FILE)
        return len(reserved)
