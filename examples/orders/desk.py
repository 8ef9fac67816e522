"""The desk: takes orders that the shop signed, whoever brings them, and is the only one that can read them.

    python -m examples.orders.desk KEYS --write orders.json

``KEYS`` has ``desk.json`` (secret) and ``shop.public.json``.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from typing import Any

import speed
from examples.orders.orders import DESK, GATEWAY, SCHEMAS
from speed import KeyStore, MessageSecurity, SchemaRegistry


class Orders:
    """What came, by message id: a message that comes again counts once."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self.proofs: set[tuple[str | None, str | None, str | None]] = set()

    def take(self, message: speed.Message) -> None:
        """One order. What is not signed by the shop, for the desk and as the schema says, does not get here."""
        view: Any = message.metadata
        self.by_id[message.message_id] = message.payload
        self.proofs.add((view.publisher_id, view.signed_by, view.opened_by))


def main() -> None:
    """Until it is told to stop."""
    parser = argparse.ArgumentParser(description="Takes orders.")
    parser.add_argument("keys", help="directory of key files")
    parser.add_argument("--write", metavar="FILE", help="write what came, as JSON")
    chosen = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    keys = {"mine": f"file://{chosen.keys}/desk.json", "shop": f"file://{chosen.keys}/shop.public.json"}
    security = MessageSecurity(
        keys=KeyStore(keys),
        policy="require",
        trusted=("shop",),
        clearance="confidential",
        schemas=SchemaRegistry(SCHEMAS),
    )
    orders = Orders()
    with speed.Node(DESK, workers=1, security=security) as node:
        node.on_message(orders.take)
        node.allow(GATEWAY)  # last: whoever waits for this node finds it ready
        stop.wait()
    found = list(orders.by_id.values())
    if chosen.write:
        with open(chosen.write, "w", encoding="utf-8") as file:
            json.dump(found, file)
    cents = sum(order["cents"] for order in found)
    print(f"desk      | {len(found)} orders, {cents / 100:,.2f} euros", flush=True)
    for publisher, signed_by, opened_by in sorted(orders.proofs, key=str):
        print(f"desk      | of {publisher}, signed by {signed_by}, opened by {opened_by}", flush=True)


if __name__ == "__main__":
    main()
