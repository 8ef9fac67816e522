"""``python -m speed.daemon.host``: a process that is one node with services from a Python entry point.

It reads JSON lines from its standard input: first its settings, later changed grants. The end of that input
means that speedd is gone, so the process drains and ends, however speedd died.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from speed.daemon.entry_point import load_setup
from speed.daemon.grants import change_grants
from speed.daemon.lines import LineSplitter
from speed.errors import LeaseLostError, SpeedError, exit_status

if TYPE_CHECKING:
    from speed import MessageSecurity, Node

LOST_CHECK_SECONDS = 1.0
"""How often a host looks whether its node still has its name."""


class _StopRequestedError(BaseException):
    """SIGTERM came; a BaseException, because service code may catch Exception."""


def _stop(_signal: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopRequestedError


def main() -> int:
    """Run until told to stop. Returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is speedd's to handle
    orders = sys.stdin.fileno()
    try:
        _serve(_first_order(orders), orders)
    except _StopRequestedError:
        pass
    except SpeedError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


def _first_order(orders: int) -> dict[str, Any]:
    """The settings line, read without taking more than the line."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(orders, 1)
        if not data:
            raise _StopRequestedError
        line += data
    settings: dict[str, Any] = json.loads(line)
    return settings


def _serve(settings: dict[str, Any], orders: int) -> None:
    """Be the node until the input ends."""
    sys.path[:0] = settings["python_path"]
    setup = load_setup(settings["entry"])
    from speed import Node

    node = Node(settings["name"], **settings["node"], security=_security(settings["encryption"]), starting=True)
    try:
        setup(node)
        allow = settings["allow"]
        node.allow(*allow)
        node.ready()
        _say_ready(settings["ready_fd"])
        for order in _orders(orders, node):
            change_grants(node, allow, order["allow"])
            allow = order["allow"]
        if node.closed:
            raise LeaseLostError(f"node {node.name!r} is lost: another process has its name, or its lease ran out")
    finally:
        if not node.closed:
            node.close()


def _security(encryption: dict[str, Any] | None) -> MessageSecurity | None:
    """How messages are encrypted, as the configuration declares it."""
    if encryption is None:
        return None
    from speed.message.declared import declared
    from speed.trust.declared import security_of

    return security_of(declared(encryption))


def _orders(orders: int, node: Node) -> Iterator[dict[str, Any]]:
    """Orders until the input ends or the node is lost: a process without its node must not look alive."""
    lines = LineSplitter()
    while not node.closed:
        if select.select([orders], [], [], LOST_CHECK_SECONDS)[0]:
            data = os.read(orders, 65536)
            if not data:
                return
            yield from map(json.loads, lines.feed(data))


def _say_ready(fd: int) -> None:
    try:
        os.write(fd, b"READY\n")
    except OSError:
        pass  # speedd is gone; the end of the input says so too
    finally:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
