"""Orders through the gateway, with any library for WebSockets: ``python examples/gateway/order.py tea cake``."""

from __future__ import annotations

import json
import os
import sys
from base64 import b64encode

import websocket

URL = os.environ.get("GATEWAY", "ws://localhost:8080") + "/ws/v2/producer/persistent/public/default/orders"


def main() -> int:
    """Order each word; returns how many were not kept."""
    producer = websocket.create_connection(URL, timeout=30)
    lost = 0
    for number, what in enumerate(sys.argv[1:]):
        frame = {"payload": b64encode(what.encode()).decode(), "properties": {"from": "program"}, "context": number}
        producer.send(json.dumps(frame))
        reply = json.loads(producer.recv())
        print(what, reply["result"], reply.get("errorMsg", ""))
        lost += reply["result"] != "ok"
    producer.close()
    return lost


if __name__ == "__main__":
    sys.exit(main())
