"""The shop: sends signed orders through the gateway, encrypted for the desk. In Java: ``speed.examples.Shop``.

    python -m examples.orders.shop KEYS --count 20
    python -m examples.orders.shop KEYS --stranger

``KEYS`` has ``shop.json`` (secret) and ``desk.public.json``; root and key are those of the environment.
With ``--stranger`` it is another node, which signs with a key that it made itself under the shop's key id.
"""

from __future__ import annotations

import argparse
import sys

import speed
from examples.orders.orders import GATEWAY, SCHEMA, SCHEMAS, SHOP, STRANGER, TOPIC, WAIT_SECONDS, code_of, order
from speed import KeyStore, MessageSecurity, PublishOptions, SchemaRegistry


def sell(node: speed.Node, count: int) -> None:
    """Send so many orders; each is acknowledged when the desk has it."""
    asked = PublishOptions(topic=TOPIC, schema=SCHEMA, classification="confidential")
    for number in range(1, count + 1):
        node.send(GATEWAY, order(number), options=asked, ack=True, timeout=WAIT_SECONDS)
    print(f"shop      | {count} orders sent, the desk has acknowledged each", flush=True)


def send_refused(node: speed.Node, what: str, options: PublishOptions, wrong: dict[str, int]) -> int:
    """Send what must be refused, and tell by which code; exit status 1 if it is not."""
    try:
        node.send(GATEWAY, wrong, options=options, ack=True, timeout=WAIT_SECONDS)
    except (speed.InvalidArgumentsError, speed.MessageError) as error:
        code = error.code if isinstance(error, speed.MessageError) else code_of(error)
        print(f"refused   | {what}: {code}", flush=True)
        return 0
    print(f"shop: {what} was accepted", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Sends orders.")
    parser.add_argument("keys", help="directory of key files")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--schemas", default=SCHEMAS, help="directory of schemas (default: the example's)")
    parser.add_argument("--stranger", action="store_true", help="one forged order instead")
    chosen = parser.parse_args()
    keys = KeyStore({"shop": f"file://{chosen.keys}/shop.json", "desk": f"file://{chosen.keys}/desk.public.json"})
    forged = speed.generate_key("shop.1", "ed25519", publishers=(SHOP,))
    security = MessageSecurity(
        keys=keys,
        sign_with=forged if chosen.stranger else "shop",
        encrypt_to=("desk",),
        compression="gzip",
        schemas=SchemaRegistry(chosen.schemas),
    )
    with speed.Node(STRANGER if chosen.stranger else SHOP, security=security) as node:
        node.wait_for(GATEWAY, timeout=WAIT_SECONDS)
        plain = PublishOptions(topic=TOPIC, classification="confidential")
        if chosen.stranger:
            return send_refused(node, "an order of a stranger, under the shop's key id", plain, order(1))
        sell(node, chosen.count)
        described = PublishOptions(topic=TOPIC, schema=SCHEMA, classification="confidential")
        return send_refused(node, "an order without a price", described, {"order": 1})


if __name__ == "__main__":
    sys.exit(main())
