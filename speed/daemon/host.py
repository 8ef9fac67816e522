"""``python -m speed.daemon.host``: a process that is one node with services from a Python entry point.

It reads JSON lines from its standard input: first its settings, later changed grants. The end of that input
means that speedd is gone, so the process drains and ends, however speedd died.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import IO, Any

from speed.daemon.entry_point import load_setup
from speed.daemon.grants import change_grants
from speed.errors import SpeedError, exit_status


class _StopRequestedError(BaseException):
    """SIGTERM came; a BaseException, because service code may catch Exception."""


def _stop(_signal: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopRequestedError


def main() -> int:
    """Run until told to stop. Returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is speedd's to handle
    orders = sys.stdin
    try:
        _serve(json.loads(orders.readline()), orders)
    except _StopRequestedError:
        pass
    except SpeedError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


def _serve(settings: dict[str, Any], orders: IO[str]) -> None:
    """Be the node until the input ends."""
    sys.path[:0] = settings["python_path"]
    setup = load_setup(settings["entry"])
    from speed import Node

    with Node(settings["name"], **settings["node"]) as node:
        setup(node)
        # Grants come after the services, so that whoever may call also finds them.
        node.allow(*settings["allow"])
        allow = settings["allow"]
        _say_ready(settings["ready_fd"])
        for line in orders:
            wanted = json.loads(line)["allow"]
            change_grants(node, allow, wanted)
            allow = wanted


def _say_ready(fd: int) -> None:
    try:
        os.write(fd, b"READY\n")
    except OSError:
        pass  # speedd is gone; the end of the input says so too
    finally:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
