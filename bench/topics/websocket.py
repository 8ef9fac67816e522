"""Publishing through WebSocket by a client that costs little: it writes ready frames, and counts replies.

The same client talks to every contender, so that what is measured is the service.
"""

from __future__ import annotations

import json
import os
import socket
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.topics.rates import PAYLOAD_BYTES, rate

UNDER_WAY = 500
"""Messages that wait for their reply; Pulsar takes 1,000."""
TEXT = 0x81
MASKED, LENGTH_16, LENGTH_64 = 0x80, 126, 127
PATIENCE_SECONDS = 60
TOPIC = "/producer/persistent/public/default/bench"


def measure(base: str, waiting: int, pipelined: int) -> dict[str, float]:
    """Messages a second: each after the reply of the one before, and many under way."""
    found = {}
    for name, count, at_once in (("waiting for each", waiting, 1), ("pipelined", pipelined, UNDER_WAY)):
        publisher = Publisher(base + TOPIC)
        publisher.publish(min(count, 200), at_once)  # the service has made its producer
        found[f"WebSocket publish, {name} /s"] = rate(count, _publishing(publisher, count, at_once))
        publisher.close()
    return found


def _publishing(publisher: Publisher, count: int, at_once: int) -> Callable[[], None]:
    return lambda: publisher.publish(count, at_once)


class Publisher:
    """One connection."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()
        key = b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._data:
            self._read()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        assert b" 101 " in head.split(b"\r\n")[0], head
        message = {"payload": b64encode(bytes(PAYLOAD_BYTES)).decode(), "context": "1"}
        self._frame = _frame(json.dumps(message).encode())

    def publish(self, count: int, at_once: int) -> None:
        """Publish so many, ``at_once`` under way; each must be kept."""
        sent = replied = 0
        while replied < count:
            more = min(count - sent, at_once - (sent - replied))
            if more:
                self._socket.sendall(self._frame * more)
                sent += more
            replied += self._replies()

    def _replies(self) -> int:
        """Waits for one at least; all must say that the message was kept."""
        count = 0
        while not count:
            self._read()
            while (end := _end_of_frame(self._data)) <= len(self._data):
                assert b'"result":"ok"' in self._data[:end].replace(b" ", b""), bytes(self._data[:end])
                del self._data[:end]
                count += 1
        return count

    def _read(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the service closed the connection")
        self._data += data

    def close(self) -> None:
        self._socket.close()


def _frame(text: bytes) -> bytes:
    """Masked with zeros: as valid as any mask, and free."""
    assert LENGTH_16 <= len(text) < 1 << 16
    return bytes((TEXT, MASKED | LENGTH_16)) + len(text).to_bytes(2, "big") + bytes(4) + text


def _end_of_frame(data: bytearray) -> int:
    """Where the first frame of a service ends; beyond the data if it is not whole."""
    if len(data) < 2:
        return 2
    length = data[1]
    if length < LENGTH_16:
        return 2 + length
    if length == LENGTH_16:
        return 4 + int.from_bytes(data[2:4], "big") if len(data) >= 4 else 4
    return 10 + int.from_bytes(data[2:10], "big") if len(data) >= 10 else 10
