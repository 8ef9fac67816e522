"""Billing: writes each order down once. A message may come twice, when a host was killed before it answered."""

from __future__ import annotations

import json
from pathlib import Path

import speed

FILE = Path("billed.jsonl")


def register(node: speed.Node) -> None:
    """Called by speedd, which starts this in the directory of its configuration."""
    billed = {json.loads(line)["order"] for line in FILE.read_text().splitlines()} if FILE.exists() else set()

    @node.on_message
    def bill(message: speed.Message) -> None:
        order = message.payload
        if order["order"] not in billed:
            with FILE.open("a") as file:
                file.write(json.dumps({**order, "from": message.source}) + "\n")
            billed.add(order["order"])
