"""Two processes: a tax service, and the analyst who calls it. Run: python examples/billing.py"""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.connection import Connection

import speed


def billing(root: str, done: Connection) -> None:
    """The service's process: it lives until the analyst is done."""
    with speed.Node("billing", root=root) as node:

        @node.service("calculateTax")
        def calculate_tax(amount: float, rate: float = 0.18) -> dict[str, float]:
            return {"tax": amount * rate}

        @node.on_message
        def handle(message: speed.Message) -> None:
            print("billing got", message.payload, "from", message.source, flush=True)

        node.allow("analytics")  # last: whoever waits for this node finds all that it offers
        done.recv()


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        speed.init_root(root)
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=billing, args=(root, theirs), daemon=True)
        process.start()
        with speed.Node("analytics", root=root) as analytics:
            analytics.wait_for("billing", timeout=20)
            print("tax", analytics.call("billing", "calculateTax", {"amount": 1000}, timeout=5))
            print("more", analytics.submit("billing", "calculateTax", {"amount": 2000}).result())
            analytics.send("billing", {"hello": 1}, ack=True)
            print("services", analytics.services("billing"))
        ours.send("done")
        process.join(20)


if __name__ == "__main__":
    main()
