"""The gateway: passes orders on from the shop to the desk. It verifies who signed them, and can read none.

    python -m examples.orders.gateway KEYS --alter 3

``KEYS`` has ``shop.public.json``, and no other key. With ``--alter 3`` it passes the third order on with one bit of its
payload turned, tells what became of that, and then passes on the order itself.
"""

from __future__ import annotations

import argparse
import signal
import threading

import speed
from examples.orders.orders import DESK, GATEWAY, SHOP, STRANGER, WAIT_SECONDS, code_of
from speed import KeyStore
from speed.message.protect import TrustedKeys, verify


class Gateway:
    """What the node calls, one message at a time."""

    def __init__(self, node: speed.Node, keys: str, alter: int) -> None:
        self.passed_on = self.read = 0
        self._node, self._alter = node, alter
        shop = KeyStore({"shop": f"file://{keys}/shop.public.json"})
        self._trusted = TrustedKeys({key.id: key for key in shop.all("shop")})

    def take(self, message: speed.Message) -> None:
        """Pass one message on as it is, once its signature holds. Who sent it is told what became of it."""
        view = message.metadata
        try:
            verify(view, self._trusted, "require")
        except speed.MessageError as error:
            raise speed.WireError(error.code, str(error)) from None
        self._try_to_read(message)
        if self.passed_on + 1 == self._alter:
            self._pass_on_altered(view.to_bytes())
        self._pass_on(view.to_bytes())
        self.passed_on += 1

    def _pass_on(self, data: bytes) -> None:
        """Returns when the desk has it. Raises its refusal, for who sent it."""
        try:
            self._node.forward(DESK, [data], ack=True, timeout=WAIT_SECONDS)
        except speed.InvalidArgumentsError as error:
            raise speed.WireError(code_of(error), f"{DESK} refused it") from None

    def _try_to_read(self, message: speed.Message) -> None:
        try:
            _ = message.payload
        except speed.WireError:
            return
        self.read += 1

    def _pass_on_altered(self, data: bytes) -> None:
        try:
            self._pass_on(data[:-1] + bytes([data[-1] ^ 1]))
        except speed.WireError as error:
            print(f"refused   | an order that the gateway altered: {error.reason}", flush=True)


def main() -> None:
    """Until it is told to stop."""
    parser = argparse.ArgumentParser(description="Passes orders on.")
    parser.add_argument("keys", help="directory of key files")
    parser.add_argument("--alter", type=int, default=0, metavar="N", help="the order that it alters")
    chosen = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with speed.Node(GATEWAY, workers=1) as node:
        gateway = Gateway(node, chosen.keys, chosen.alter)
        node.on_message(gateway.take)
        node.wait_for(DESK, timeout=WAIT_SECONDS)
        node.allow(SHOP, STRANGER)  # last: whoever waits for this node finds it ready
        stop.wait()
    print(f"gateway   | {gateway.passed_on} orders verified and passed on, {gateway.read} of them readable", flush=True)


if __name__ == "__main__":
    main()
