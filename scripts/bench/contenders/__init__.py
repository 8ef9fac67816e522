"""The libraries that are measured side by side, one module each.

A module has ``LIBRARY`` (distribution name, None: standard library), ``PROTECTION`` (what guards the bytes),
``serve(work, ready, stop)`` and a class ``Client`` with ``echo(data)``, ``close()`` and, where the library
has an asynchronous call, ``pipeline(data, count)``. Server and client each run in a process of their own
(``process.py``), so that no library's threads disturb another's client.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Protocol

NAMES = {
    "connection": "multiprocessing.connection",
    "zeromq": "pyzmq REQ/REP ipc, CURVE",
    "grpc": "grpcio unary, unix socket",
    "pyro": "Pyro5, unix socket",
    "rpyc": "RPyC, unix socket",
    "speed": "SPEED node.call",
    "speed_native": "SPEED, native engine",
}
"""Name on the command line -> what is printed; the module is ``<name>_echo``."""


class EchoClient(Protocol):
    """One connected client."""

    def echo(self, data: bytes) -> bytes:
        """Send `data`, wait for the answer, return it."""

    def close(self) -> None:
        """Release the connection."""


Serve = Callable[[Path, Callable[[], None], Event], None]
