"""The programs that are measured side by side; ``table.py`` lists them.

A Python module has ``LIBRARY`` (distribution name, None: standard library), ``serve(work, ready, stop)`` and a class
``Client`` with ``echo(data)``, ``close()`` and, where the library has it, ``pipeline(data, count)`` and ``send(data,
count)`` and ``send_all(data, count)``. Server and client each run in a process of their own (``process.py``), so that
no library's threads disturb another's client. ``cpp/`` and ``java/`` hold programs that speak the same lines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Protocol


class EchoClient(Protocol):
    """One connected client."""

    def echo(self, data: bytes) -> bytes:
        """Send `data`, wait for the answer, return it."""

    def close(self) -> None:
        """Release the connection."""


Serve = Callable[[Path, Callable[[], None], Event], None]
