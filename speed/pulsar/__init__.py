"""A client of Apache Pulsar's WebSocket service that encrypts and decrypts by itself (PIP-290).

    with speed.pulsar.connect("ws://127.0.0.1:8080") as pulsar:
        pulsar.producer("public/default/orders", encryption_keys={"app": public_pem}).publish(b"…")

The server sees neither keys nor payloads; Pulsar's own clients read what this publishes, and the other way round.
"""

from __future__ import annotations

from speed.pulsar.client import Consumer, Producer, Pulsar, Reader, connect
from speed.pulsar.frames import (
    PulsarConnectionError,
    PulsarError,
    PulsarRefusedError,
    PulsarTimeoutError,
    UnreadableError,
)
from speed.pulsar.payloads import PulsarMessage

__all__ = [
    "Consumer",
    "Producer",
    "Pulsar",
    "PulsarConnectionError",
    "PulsarError",
    "PulsarMessage",
    "PulsarRefusedError",
    "PulsarTimeoutError",
    "Reader",
    "UnreadableError",
    "connect",
]
