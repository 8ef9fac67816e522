"""SPEED's blocking call and its futures: encrypted, authorised, through files. Defaults throughout."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import speed

LIBRARY = "speed-ipc"
PROTECTION = "ChaCha20-Poly1305, allow list"
WAIT_SECONDS = 10.0
WORKERS = 4
ENGINE = "python"


def make_root(work: Path) -> tuple[Path, Path]:
    """Make a private root and a key file under `work` unless they exist; returns both paths."""
    root, key = work / f"root-{ENGINE}", work / "speed.key"
    root.mkdir(mode=0o700, exist_ok=True)
    if not key.exists():
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"SPEED-KEY-V1\n\n" + base64.b64encode(os.urandom(32)) + b"\n")
    return root, key


def open_node(work: Path, name: str, **options: Any) -> speed.Node:
    root, key = make_root(work)
    return speed.Node(name, root=str(root), key=str(key), engine=ENGINE, **options)


def echo(data: bytes) -> bytes:
    return data


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    with open_node(work, "server", workers=WORKERS) as node:
        node.allow("client")
        node.register("echo", echo)
        ready()
        stop.wait()


class Client:
    def __init__(self, work: Path) -> None:
        self._node = open_node(work, "client")
        self._node.wait_for("server", timeout=WAIT_SECONDS)

    def echo(self, data: bytes) -> bytes:
        return bytes(self._node.call("server", "echo", {"data": data}))

    def pipeline(self, data: bytes, count: int) -> None:
        for future in [self._node.submit("server", "echo", {"data": data}) for _ in range(count)]:
            future.result()

    def close(self) -> None:
        self._node.close()
