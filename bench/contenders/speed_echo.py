"""SPEED's blocking call and its futures and its messages: encrypted, authorised, through files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import speed
from contenders.root import make_root
from speed.column_services import by_row

WAIT_SECONDS = 10.0
SEND_SECONDS = 60.0
WORKERS = 4
LEASE_SECONDS = 300.0
"""Longer than any case keeps a server stopped, and than a shared machine stands still; else defaults."""
BATCH = 64
ENGINE = "python"
SPIN_SECONDS: float | None = None
"""How long to poll; None: the default."""


def open_node(work: Path, name: str, kind: str = "", **options: Any) -> speed.Node:
    """`kind` has "blocking" in it: does not poll."""
    root, key = make_root(work)
    spin_seconds = 0.0 if "blocking" in kind else SPIN_SECONDS
    fixed: dict[str, Any] = {"engine": ENGINE, "spin_seconds": spin_seconds, "lease_seconds": LEASE_SECONDS}
    return speed.Node(name, root=str(root), key=str(key), **fixed, **options)


def echo(data: bytes) -> bytes:
    return data


def tax(amount: float) -> float:
    return amount * 0.18


def serve(work: Path, ready: Callable[[], None], stop: Event, kind: str = "") -> None:
    """`kind` has "unread" in it: messages stay where they are."""
    with open_node(work, "server", kind, workers=WORKERS) as node:
        node.allow("client", "crowd.*")
        node.register("echo", echo)
        node.register("tax", by_row(tax))
        if "unread" not in kind:
            node.on_message(lambda _: None)
        ready()
        stop.wait()


class Client:
    def __init__(self, work: Path, kind: str = "") -> None:
        durability = "disk" if "disk" in kind else "process"
        self._node = open_node(work, "client", kind, durability=durability, allow=["crowd.*"])
        self._node.wait_for("server", timeout=WAIT_SECONDS)

    def echo(self, data: bytes) -> bytes:
        return bytes(self._node.call("server", "echo", {"data": data}))

    def pipeline(self, data: bytes, count: int) -> None:
        for future in [self._node.submit("server", "echo", {"data": data}) for _ in range(count)]:
            future.result()

    def send(self, data: bytes, count: int) -> None:
        """Messages of one sender are handled in order: when the last one is, all are."""
        for _ in range(count - 1):
            self._node.send("server", data, timeout=SEND_SECONDS)
        self._node.send("server", data, ack=True, timeout=SEND_SECONDS)

    def send_all(self, data: bytes, count: int) -> None:
        for begin in range(0, count - 1, BATCH):
            self._node.send_all("server", [data] * min(BATCH, count - 1 - begin), timeout=SEND_SECONDS)
        self._node.send("server", data, ack=True, timeout=SEND_SECONDS)

    def close(self) -> None:
        self._node.close()
