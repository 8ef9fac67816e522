"""A NATS server of a few lines, in this process: what passes can be seen, changed, held back and repeated."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

INFO = {"server_id": "test", "max_payload": 65_536}
Change = Callable[[str, bytes], list[tuple[str, bytes]]]


class _Client:
    """One connection to it."""

    def __init__(self, server: MemoryBroker, raw: socket.socket) -> None:
        self.server, self.raw = server, raw
        self.lock = threading.Lock()
        self.subjects: dict[str, str] = {}
        self.told: dict[str, Any] = {}

    def say(self, data: bytes) -> None:
        with self.lock, suppress(OSError):
            self.raw.sendall(data)

    def run(self) -> None:
        with suppress(OSError, ValueError), self.raw.makefile("rb") as lines:
            while line := lines.readline():
                self.take(line.rstrip(b"\r\n").decode(), lines)

    def take(self, line: str, lines: Any) -> None:
        verb, _, rest = line.partition(" ")
        if verb == "CONNECT":
            self.told = json.loads(rest)
        elif verb == "PING":
            self.say(self.server.pong)
        elif verb == "SUB":
            subject, number = rest.split()
            self.subjects[subject] = number
        elif verb == "PUB":
            subject, size = rest.split()
            data = lines.read(int(size))
            lines.read(2)
            self.server.published(subject, data)


class MemoryBroker:
    """It listens on a free port."""

    def __init__(self, info: dict[str, Any] | None = None, context: ssl.SSLContext | None = None) -> None:
        self.info = f"INFO {json.dumps(INFO if info is None else info)}\r\n".encode()
        self.pong = b"PONG\r\n"
        self.seen: list[tuple[str, bytes]] = []
        self.change: Change = lambda subject, data: [(subject, data)]
        self.clients: list[_Client] = []
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                raw, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with suppress(OSError):
            raw.sendall(self.info)
            if self._context is not None:
                raw = self._context.wrap_socket(raw, server_side=True)
            client = _Client(self, raw)
            self.clients.append(client)
            client.run()

    def published(self, subject: str, data: bytes) -> None:
        """Somebody published this."""
        self.seen.append((subject, data))
        for where, what in self.change(subject, data):
            self.deliver(where, what)

    def deliver(self, subject: str, data: bytes) -> None:
        """Hand it to those who subscribe to the subject."""
        for client in self.clients:
            if subject in client.subjects:
                head = f"MSG {subject} {client.subjects[subject]} {len(data)}\r\n".encode()
                client.say(head + data + b"\r\n")

    def say(self, data: bytes) -> None:
        """To all."""
        for client in self.clients:
            client.say(data)

    def cut(self) -> None:
        """End all connections."""
        clients, self.clients = self.clients, []
        for client in clients:
            with suppress(OSError):
                client.raw.shutdown(socket.SHUT_RDWR)
            client.raw.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
