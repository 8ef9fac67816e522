"""Record what Pulsar's Java client publishes: ``python -m tests.pulsar.record_java`` writes ``java.json`` anew.

``tests/unit/pulsar/java.json`` has private keys, and the frames in which a real Pulsar delivers what its Java client
(``server/Peer.java``) encrypted for them. Which keys, compressions and batches there are is ``PUBLISHED``; keys and
payloads are others each time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from scripts.servers.server import ROOT
from tests.pulsar.standalone import Server

FILE = ROOT / "tests/unit/pulsar/java.json"
MESSAGES = 3
PUBLISHED = (
    ("rsa", "NONE", False),
    ("rsa", "LZ4", True),
    ("rsa", "ZSTD", True),
    ("ec", "LZ4", False),
    ("ec", "ZLIB", True),
    ("ec", "SNAPPY", True),
    ("rsa,ec", "LZ4", True),
)
"""Names of keys, compression, and whether the messages are one batch."""
ANSWER_SECONDS = 30.0


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            deliveries = [delivered(server, *one) for one in PUBLISHED]
        finally:
            server.stop()
        keys = {name: pem.decode() for name, pem in server.private("rsa", "ec", "other").items()}
    FILE.write_text(json.dumps({"keys": keys, "deliveries": deliveries}, indent=1) + "\n")
    return 0


def delivered(server: Server, names: str, compression: str, batched: bool) -> dict[str, Any]:
    """The frames of what the Java client published."""
    topic = f"public/default/java-{time.time_ns()}"
    path = f"/ws/v2/consumer/persistent/{topic}/recorder?cryptoFailureAction=CONSUME"
    with connect(server.addresses["websocket"] + path, proxy=None) as consumer:
        server.java("publish", topic, names, compression, str(batched).lower(), str(MESSAGES))
        frames = [json.loads(consumer.recv(ANSWER_SECONDS)) for _ in range(1 if batched else MESSAGES)]
    return {"about": f"Java client, keys {names}, {compression}, batched: {str(batched).lower()}", "frames": frames}


if __name__ == "__main__":
    sys.exit(main())
