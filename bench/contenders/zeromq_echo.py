"""pyzmq over ipc, REQ/REP and PUSH/PULL; with CURVE it is the nearest in what it gives (encrypted, brokerless)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import zmq

LAST = b"last"
CURVE = True


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    public, secret = zmq.curve_keypair()
    (work / "zeromq.public").write_bytes(public)
    context = zmq.Context()

    def bound(kind: int, name: str) -> zmq.Socket[bytes]:
        socket = context.socket(kind)
        if CURVE:
            socket.curve_server = True
            socket.curve_secretkey = secret
            socket.curve_publickey = public
        socket.rcvhwm = 0
        socket.bind(f"ipc://{work}/{name}")
        return socket

    replies, messages, done = bound(zmq.REP, "replies"), bound(zmq.PULL, "messages"), bound(zmq.PUSH, "done")
    Thread(target=drain, args=(messages, done), daemon=True).start()
    ready()
    while not stop.is_set():
        # copy=False keeps 1 MiB answers from being copied twice in Python.
        replies.send(replies.recv(copy=False), copy=False)


def drain(messages: zmq.Socket[bytes], done: zmq.Socket[bytes]) -> None:
    """Tell the sender once its last message was taken."""
    while True:
        if messages.recv() == LAST:
            done.send(LAST)


class Client:
    def __init__(self, work: Path) -> None:
        self._context = zmq.Context()
        server, keys = (work / "zeromq.public").read_bytes(), zmq.curve_keypair()

        def connected(kind: int, name: str) -> zmq.Socket[bytes]:
            socket = self._context.socket(kind)
            if CURVE:
                socket.curve_serverkey = server
                socket.curve_publickey, socket.curve_secretkey = keys
            socket.sndhwm = 0
            socket.connect(f"ipc://{work}/{name}")
            return socket

        self._requests = connected(zmq.REQ, "replies")
        self._messages, self._done = connected(zmq.PUSH, "messages"), connected(zmq.PULL, "done")

    def echo(self, data: bytes) -> bytes:
        self._requests.send(data)
        return bytes(self._requests.recv())

    def send(self, data: bytes, count: int) -> None:
        for _ in range(count - 1):
            self._messages.send(data)
        self._messages.send(LAST)
        self._done.recv()

    def close(self) -> None:
        self._context.destroy(linger=0)
