"""pyzmq REQ/REP over ipc with CURVE: the nearest in what it gives (encrypted, authenticated, brokerless)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import zmq

LIBRARY = "pyzmq"
PROTECTION = "CURVE (encrypted)"


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    public, secret = zmq.curve_keypair()
    (work / "zeromq.public").write_bytes(public)
    socket = zmq.Context().socket(zmq.REP)
    socket.curve_server = True
    socket.curve_secretkey = secret
    socket.curve_publickey = public
    socket.bind(f"ipc://{work}/zeromq")
    ready()
    while not stop.is_set():
        # copy=False keeps 1 MiB answers from being copied twice in Python.
        socket.send(socket.recv(copy=False), copy=False)


class Client:
    def __init__(self, work: Path) -> None:
        public, secret = zmq.curve_keypair()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.curve_serverkey = (work / "zeromq.public").read_bytes()
        self._socket.curve_publickey = public
        self._socket.curve_secretkey = secret
        self._socket.connect(f"ipc://{work}/zeromq")

    def echo(self, data: bytes) -> bytes:
        self._socket.send(data)
        return bytes(self._socket.recv())

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()
