"""RPyC over a Unix socket; bytes travel by value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import rpyc
from rpyc.utils.factory import unix_connect
from rpyc.utils.server import ThreadedServer


class EchoService(rpyc.Service):
    def exposed_echo(self, data: bytes) -> bytes:
        return data


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    # Bound by the constructor; the backlog holds a client that connects before `start` accepts.
    server = ThreadedServer(EchoService, socket_path=str(work / "rpyc"))
    Thread(target=server.start, daemon=True).start()
    ready()
    stop.wait()
    server.close()


class Client:
    def __init__(self, work: Path) -> None:
        self._connection = unix_connect(str(work / "rpyc"))
        self._echo = self._connection.root.echo

    def echo(self, data: bytes) -> bytes:
        return bytes(self._echo(data))

    def close(self) -> None:
        self._connection.close()
