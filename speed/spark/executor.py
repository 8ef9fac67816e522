"""The node of a Python worker: made when first needed, after the fork, and kept for the worker's life."""

from __future__ import annotations

import atexit
import functools
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator

import speed
from speed.errors import ConfigurationError, RegistrationError
from speed.spark.driver import MAX_NAME_BYTES
from speed.spark.settings import NodeSettings
from speed.spark.targets import LiveNodes

_DRIVER = "driver"
_EXECUTOR_OPTION = "--executor-id"
_APPLICATION_OPTION = "--app-id"
_EXECUTOR_CHARACTERS = 20
_END_BYTES = 40
"""Room in a node's name for an executor's id and a pid."""
_HEARTBEAT_SECONDS = 1.0
"""How soon a worker notices that the node that owes it an answer died."""

_lock = threading.Lock()
_nodes: dict[tuple[int, str | None, str], LiveNodes] = {}
"""By process, since a Python worker is a fork of its daemon, root and name."""


def worker_node(settings: NodeSettings) -> speed.Node:
    """This process's node. Raises what ``speed.Node`` raises, saying which executor it was."""
    return live_nodes(settings).node


def live_nodes(settings: NodeSettings) -> LiveNodes:
    """This process's node with what it sees of others; made when it is first asked for. Raises as ``worker_node``."""
    place = (os.getpid(), settings.root, worker_name(settings))
    with _lock:
        live = _nodes.get(place)
        if live is None or live.node.closed:
            live = _nodes[place] = LiveNodes(_start(settings))
        return live


def family(settings: NodeSettings) -> str:
    """``<prefix>.<application>``: a long application id loses its beginning, which says least."""
    room = MAX_NAME_BYTES - len(settings.prefix) - 1 - _END_BYTES
    application = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9_.-]", "-", settings.application))[-room:].strip(".-")
    if not application:
        raise ConfigurationError(f"the application id {settings.application!r} gives no node name")
    return f"{settings.prefix}.{application}"


def worker_name(settings: NodeSettings) -> str:
    """``<prefix>.<application>.<executor>.<pid>``."""
    return f"{family(settings)}.{executor_id()}.{os.getpid()}"


@functools.cache
def executor_id() -> str:
    """The id of the executor that this worker belongs to; ``driver`` in local mode. Spark does not tell its workers."""
    return (_given_to_executor(_EXECUTOR_OPTION) or _DRIVER)[:_EXECUTOR_CHARACTERS]


def application_id() -> str:
    """The id of the application that this worker belongs to; in local mode one made of host and driver process."""
    return _given_to_executor(_APPLICATION_OPTION) or f"local-{_plain(socket.gethostname())}-{os.getppid()}"


def _given_to_executor(option: str) -> str | None:
    """What stands behind ``option`` in the command line of the executor, which is a parent of this process."""
    for command in _commands_of_parents():
        if option in command[:-1]:
            return _plain(command[command.index(option) + 1])
    return None


def _commands_of_parents() -> Iterator[list[str]]:
    """The command line of each parent, the nearest first; not of those that are another user's, or gone."""
    if sys.platform == "linux":  # psutil would be half of what a worker imports before its first call
        return _commands_in_proc()
    import psutil

    parents = psutil.Process().parents()
    return (parent.cmdline() for parent in parents if parent.username() == psutil.Process().username())


def _commands_in_proc() -> Iterator[list[str]]:
    pid = os.getppid()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield os.fsdecode(file.read()).rstrip("\0").split("\0")
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _start(settings: NodeSettings) -> speed.Node:
    try:
        node = speed.Node(
            worker_name(settings),
            root=settings.root,
            key=settings.key,
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=min(_HEARTBEAT_SECONDS, settings.lease_seconds / 4),
            workers=1,
            durability=settings.durability,
            engine=settings.engine,
            ephemeral=True,
        )
    except (ConfigurationError, RegistrationError) as error:
        error.args = (f"executor {executor_id()} on {socket.gethostname()}: {error}",)
        raise error from None
    atexit.register(node.close, drain_seconds=0)
    return node


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _nodes.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
