"""A WebSocket server that says to a client what a test says; real sockets."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha1
from http import HTTPStatus
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

PATIENCE = 20.0
Answers = Callable[[Any], list[Any]]
"""From a frame of the client (None when it has connected) to the frames that it is told."""


class Server:
    """Keeps what clients said, and with which parameters they connected."""

    def __init__(self, answers: Answers, status: HTTPStatus | None) -> None:
        self._answers = answers
        self.heard: Queue[Any] = Queue()
        self.parameters: list[dict[str, list[str]]] = []
        self.headers: list[Any] = []
        refuse = (lambda connection, _: connection.respond(status, "no")) if status else None
        self._server = serve(self._converse, "127.0.0.1", 0, process_request=refuse)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.address = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def _converse(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        self.parameters.append(parse_qs(urlsplit(request.path).query))
        self.headers.append(request.headers)
        try:
            self._say(connection, self._answers(None))
            for frame in connection:
                told = json.loads(frame)
                self.heard.put(told)
                self._say(connection, self._answers(told))
        except ConnectionClosed:
            pass

    def _say(self, connection: ServerConnection, frames: list[Any]) -> None:
        """``None`` ends the connection."""
        for frame in frames:
            if frame is None:
                connection.close(1011)
            else:
                connection.send(frame if isinstance(frame, str) else json.dumps(frame))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(PATIENCE)


@contextmanager
def scripted(answers: Answers = lambda _: [], status: HTTPStatus | None = None) -> Iterator[Server]:
    """A server on a free port; with ``status`` it refuses everybody."""
    server = Server(answers, status)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def deaf() -> Iterator[str]:
    """The address of a server that accepts one WebSocket, and reads nothing from it."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ended = threading.Event()
    thread = threading.Thread(target=_accept, args=(listening, ended))
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        thread.join(PATIENCE)
        listening.close()


def _accept(listening: socket.socket, ended: threading.Event) -> None:
    client, _ = listening.accept()
    with client:
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(4096)
        lines = request.decode().splitlines()
        key = next(line.split(": ")[1] for line in lines if line.lower().startswith("sec-websocket-key"))
        accept = b64encode(sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
        head = (
            f"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        client.sendall(head.encode())
        ended.wait(PATIENCE)
