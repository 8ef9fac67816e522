"""A speedd with a gateway, for tests, and clients of it: plain WebSocket, and raw bytes."""

from __future__ import annotations

import json
import os
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

import speed
from tests.system.topics import PATIENCE, TopicSite

HEAD = """
[node]
root = "root"
key = "speed.key"
[topics]
publish = ["web", "test", "shop.*"]
consume = ["web", "test"]
manage = ["web", "test"]
[[topic]]
name = "secret"
publish = ["nobody"]
consume = ["nobody"]
manage = ["nobody"]
[[topic]]
name = "inbox"
publish = ["web"]
consume = ["nobody"]
[[topic]]
name = "news.secret"
consume = ["nobody"]
[gateway]
port = 0
"""
NAMED = HEAD + 'name = "web"\n'


class GatewaySite:
    """A directory, a speedd in it, and a node that makes topics."""

    def __init__(self, path: Path, config: str = NAMED) -> None:
        self.topics = TopicSite(path, config)
        self.process = self.topics.start()
        self.port = next(line["port"] for line in self.log() if line["event"] == "gateway")
        self._count = 0
        try:
            self.node = self.topics.node()
        except BaseException:
            self.topics.close()
            raise

    def log(self) -> list[dict[str, Any]]:
        """What speedd had logged when it was ready."""
        return [json.loads(line) for line in self.topics.log if line.startswith("{")]

    def topic(self) -> str:
        """A topic that no other test has."""
        self._count += 1
        name = f"t{self._count}"
        self.node.topic(name).create()
        return name

    def client(self, path: str, **parameters: object) -> Client:
        return Client(f"ws://127.0.0.1:{self.port}{path}", parameters)

    def producer(self, topic: str, **parameters: object) -> Client:
        return self.client(f"/ws/v2/producer/persistent/public/default/{topic}", **parameters)

    def consumer(self, topic: str, subscription: str = "s", **parameters: object) -> Client:
        return self.client(f"/ws/v2/consumer/persistent/public/default/{topic}/{subscription}", **parameters)

    def reader(self, topic: str, **parameters: object) -> Client:
        return self.client(f"/ws/v2/reader/persistent/public/default/{topic}", **parameters)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of a plain request."""
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    def metric(self, name: str) -> int:
        lines = dict(line.split() for line in self.get("/metrics")[1].decode().splitlines())
        return int(lines.get(f"speed_gateway_{name}_total", 0))

    def raw(self) -> socket.socket:
        """A connection on which nothing was said."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def close(self) -> None:
        self.node.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.topics.close()


def started_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A site with a gateway, ended afterwards."""
    site = GatewaySite(tmp_path_factory.mktemp("gateway"))
    yield site
    site.close()


class Client(ExitStack):
    """One WebSocket; JSON in and out."""

    def __init__(self, url: str, parameters: dict[str, object], **options: Any) -> None:
        super().__init__()
        query = urlencode(parameters)
        options.setdefault("compression", None)
        options.setdefault("ping_interval", None)
        opened = connect(f"{url}?{query}" if query else url, open_timeout=PATIENCE, **options)
        self.socket: ClientConnection = self.enter_context(opened)

    def tell(self, **frame: object) -> None:
        self.socket.send(json.dumps(frame))

    def heard(self, timeout: float = PATIENCE) -> Any:
        return json.loads(self.socket.recv(timeout))

    def ask(self, **frame: object) -> Any:
        self.tell(**frame)
        return self.heard()

    def publish(self, payload: bytes, **frame: object) -> Any:
        return self.ask(payload=b64encode(payload).decode(), **frame)

    def message(self) -> Any:
        """The next message, its payload decoded."""
        frame = self.heard()
        return {**frame, "payload": b64decode(frame["payload"])}

    def payloads(self, count: int) -> list[bytes]:
        """Of the next messages, which are acknowledged."""
        found = []
        for _ in range(count):
            message = self.message()
            found.append(message["payload"])
            self.tell(messageId=message["messageId"])
        return found

    def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes for so long."""
        try:
            self.socket.recv(seconds)
        except TimeoutError:
            return True
        return False

    def code(self) -> int:
        """That of the end of the connection, which comes."""
        while True:
            try:
                self.socket.recv(PATIENCE)
            except ConnectionClosed as error:
                return error.rcvd.code if error.rcvd else 1006


def handshaken(port: int, path: str) -> socket.socket:
    """A WebSocket of which nothing is read any more."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    key = b64encode(os.urandom(16)).decode()
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    client.sendall(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(1)
    assert b" 101 " in got
    return client


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def path(role: str, topic: str, rest: str = "") -> str:
    return f"/ws/v2/{role}/persistent/public/default/{topic}{rest}"


def status(connecting: Callable[[], object]) -> tuple[int, str]:
    """Of a handshake that is refused: the status and the text."""
    try:
        connecting()
    except InvalidStatus as error:
        return error.response.status_code, (error.response.body or b"").decode()
    raise AssertionError("it was accepted")


def published(node: speed.Node, topic: str) -> list[Any]:
    """All payloads of a topic."""
    reader = node.topic(topic).reader("earliest")
    found = []
    while (message := reader.receive(timeout=0)) is not None:
        found.append(message.payload)
    return found


def until(condition: Callable[[], bool]) -> None:
    """Wait for what others do."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
