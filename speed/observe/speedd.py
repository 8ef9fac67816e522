"""The speedd of a root, as others see it: the client of its socket, and what it finds wrong."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from speed.errors import RootError
from speed.observe import Finding
from speed.wire import names

MAX_LINE_BYTES = 1 << 20
ASK_SECONDS = 10.0
TROUBLES_SECONDS = 3.0
"""A speedd that is well answers within milliseconds."""
MAX_TROUBLES = 256
MAX_SHOWN_CHARACTERS = 1000


class NoDaemonError(RootError):
    """No speedd serves the root."""


class ForeignDaemonError(RootError):
    """The speedd of the root is another user's."""


def ask(root: str, request: dict[str, Any], timeout_seconds: float = ASK_SECONDS) -> dict[str, Any]:
    """What the speedd of a root answers; {} where it ended instead.

    Raises:
        NoDaemonError: no speedd serves the root.
        ForeignDaemonError: it is another user's.
        RootError: it does not answer in time.
    """
    path = names.daemon_socket(root)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(timeout_seconds)
        try:
            with short_path(path) as address:
                connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            return read_line(connection, timeout_seconds)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NoDaemonError(f"no speedd serves the root {root}: start one, or name another root") from None
        except PermissionError:
            raise ForeignDaemonError(f"the speedd of {root} is another user's: ask as that user, or as root") from None
        except (TimeoutError, BlockingIOError, ValueError):
            raise RootError(
                f"the speedd of {root} did not answer in {timeout_seconds:g} s: it is frozen, or starting or ending"
            ) from None
        except ConnectionError:
            return {}


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """The same file by a path that an address has room for, however long the root's is."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


def read_line(connection: socket.socket, timeout_seconds: float) -> dict[str, Any]:
    """One object; {} where the other side ended. Raises ValueError, OSError and TimeoutError."""
    ends = time.monotonic() + timeout_seconds
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, ends - time.monotonic()))
        data = connection.recv(65536)
        if not data and not line:
            return {}
        line += data
        if not data or len(line) > MAX_LINE_BYTES:
            raise ValueError("no line of an object")
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def daemon_troubles(root: str) -> Iterator[Finding]:
    """What the speedd of a root finds wrong; nothing where there is none, or it may not be asked."""
    try:
        found = ask(root, {"do": "status"}, TROUBLES_SECONDS)
    except (NoDaemonError, ForeignDaemonError):
        return
    except (RootError, OSError) as error:
        todo = "see its log; if it does not come back, kill it: its processes end with it, and start it again"
        yield Finding("speedd", "broken", str(error), todo)
        return
    for kind in ("troubles", "notices"):
        listed = found.get(kind)
        for one in listed[:MAX_TROUBLES] if isinstance(listed, list) else ():
            if isinstance(one, dict):
                is_ours = kind == "troubles" and one.get("elsewhere") is not True
                what, cure = (str(one.get(key, ""))[:MAX_SHOWN_CHARACTERS] for key in ("what", "cure"))
                yield Finding("speedd", "broken" if is_ours else "warning", what, cure)
