"""The node of a Python worker: made when first needed, after the fork, and kept for the worker's life."""

from __future__ import annotations

import atexit
import os
import re
import socket
import threading

import psutil

import speed
from speed.spark.driver import MAX_NAME_BYTES
from speed.spark.settings import NodeSettings

_DRIVER = "driver"
_EXECUTOR_OPTION = "--executor-id"
_APPLICATION_OPTION = "--app-id"

_lock = threading.Lock()
_nodes: dict[tuple[int, NodeSettings], speed.Node] = {}
"""By process, since a Python worker is a fork of its daemon."""


def worker_node(settings: NodeSettings) -> speed.Node:
    """This worker's node. Raises what ``speed.Node`` raises: KeyFileError where an executor has no key."""
    place = (os.getpid(), settings)
    with _lock:
        node = _nodes.get(place)
        if node is None or node.closed:
            node = speed.Node(
                worker_name(settings),
                root=settings.root,
                key=settings.key,
                lease_seconds=settings.lease_seconds,
                workers=1,
                durability=settings.durability,
            )
            atexit.register(node.close, drain_seconds=0)
            _nodes[place] = node
        return node


def worker_name(settings: NodeSettings) -> str:
    """``<prefix>.<application>.<executor>.<pid>``; a long application id loses its beginning, which says least."""
    end = f".{executor_id()}.{os.getpid()}"
    room = MAX_NAME_BYTES - len(settings.prefix) - 1 - len(end)
    return f"{settings.prefix}.{settings.application[-room:].lstrip('.-')}{end}"


def executor_id() -> str:
    """The id of the executor that this worker belongs to; ``driver`` in local mode. Spark does not tell its workers."""
    return _given_to_executor(_EXECUTOR_OPTION) or _DRIVER


def application_id() -> str:
    """The id of the application that this worker belongs to; in local mode one made of host and driver process."""
    return _given_to_executor(_APPLICATION_OPTION) or f"local-{_plain(socket.gethostname())}-{os.getppid()}"


def _given_to_executor(option: str) -> str | None:
    """What stands behind ``option`` in the command line of the executor, which is a parent of this process."""
    for parent in psutil.Process().parents():
        try:
            command = parent.cmdline()
        except psutil.Error:  # another user's, or gone
            continue
        if option in command[:-1]:
            return _plain(command[command.index(option) + 1])
    return None


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _nodes.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
