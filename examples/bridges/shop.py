"""The shop: reserves at another host, and has it billed there.

python -m examples.bridges.shop --count 20
"""

from __future__ import annotations

import argparse
import time

import speed

AGAIN_SECONDS, PATIENCE_SECONDS = 0.5, 90.0
ITEMS = ("tea", "cake", "coffee")


def sell(node: speed.Node, order: int) -> None:
    """Both hosts may be killed anywhere in here: what is done twice counts once."""
    item = ITEMS[order % len(ITEMS)]
    node.call("stock@back", "reserve", {"order": order, "item": item}, timeout=5)
    node.send("billing@back", {"order": order, "item": item}, ack=True, timeout=5)


def sell_surely(node: speed.Node, order: int) -> None:
    """Until it is done; other errors than those of a host that is away end the shop."""
    ends, is_told = time.monotonic() + PATIENCE_SECONDS, False
    while True:
        try:
            return sell(node, order)
        except (speed.NodeLeftError, speed.UnknownNodeError, TimeoutError, speed.AccessDeniedError):
            # Away, or started a moment ago: its nodes are not there yet, or not granted.
            if time.monotonic() > ends:
                raise
            if not is_told:
                print(f"shop      | back is away after order {order - 1}, which is tried again", flush=True)
            is_told = True
            time.sleep(AGAIN_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sells orders.")
    parser.add_argument("--count", type=int, default=20)
    chosen = parser.parse_args()
    with speed.Node("shop") as node:
        for order in range(1, chosen.count + 1):
            sell_surely(node, order)
            print(f"sold {order}", flush=True)


if __name__ == "__main__":
    main()
