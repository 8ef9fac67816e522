"""Pyro5 over a Unix socket, with its msgpack serializer: the default one turns bytes into Base64 text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import Pyro5
import Pyro5.api

Pyro5.config.SERIALIZER = "msgpack"


@Pyro5.api.expose
class Echo:
    def echo(self, data: bytes) -> bytes:
        return data


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    with Pyro5.api.Daemon(unixsocket=str(work / "pyro")) as daemon:
        daemon.register(Echo(), "echo")
        ready()
        daemon.requestLoop(lambda: not stop.is_set())


class Client:
    def __init__(self, work: Path) -> None:
        self._proxy = Pyro5.api.Proxy(f"PYRO:echo@./u:{work}/pyro")

    def echo(self, data: bytes) -> bytes:
        return bytes(self._proxy.echo(data))

    def close(self) -> None:
        self._proxy._pyroRelease()
