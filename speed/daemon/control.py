"""How a running speedd is seen and steered: a socket in its root, and what the service manager hears.

A request is one line of JSON, and so is its answer. Only the user of speedd, and root, may connect: the file is the
user's alone, and the kernel names who asks. No port is opened. What is asked is done by speedd's main thread, between
two things that happen.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from speed.daemon.config import MOST_INSTANCES
from speed.errors import ConfigurationError
from speed.observe.speedd import read_line, short_path
from speed.wire import names

_PATIENCE_SECONDS = 0.5
"""speedd has other things to do than to wait for who connects and says nothing."""
_PEER = struct.Struct("3i")


DIED_SECONDS = 300.0
MAX_DIED = 32


@dataclass(frozen=True)
class Trouble:
    """What is wrong, and what to do about it."""

    what: str
    cure: str
    is_elsewhere: bool = False
    """It lies with somebody else, and what speedd serves is served all the same."""

    def described(self) -> dict[str, Any]:
        """As answers have it."""
        return {"what": self.what, "cure": self.cure, "elsewhere": self.is_elsewhere}


def waiting_for_restart(settings: list[str]) -> list[Trouble]:
    """What changed in the file and holds only after a restart."""
    if not settings:
        return []
    return [Trouble(f"changed in the file, and waiting for a restart: {', '.join(settings)}", "restart speedd", True)]


def waiting_bridge(name: str, why: str) -> Trouble:
    """A bridge that cannot carry."""
    cure = "see to the other end: it is tried again with pauses, and nothing is lost meanwhile"
    return Trouble(f"bridge {name} waits: {why}", cure, is_elsewhere=True)


def topicless_bridge(name: str, topic: str) -> Trouble:
    """A bridge that has nothing to carry until somebody makes its topic."""
    return Trouble(f"bridge {name}: there is no topic {topic}", f"`speed topic create {topic}`, or name another", True)


class Health:
    """What is wrong with a speedd now. The main thread writes, any thread reads."""

    def __init__(self) -> None:
        self._troubles: dict[str, list[Trouble]] = {}

    def set(self, about: str, troubles: list[Trouble]) -> bool:
        """All that is wrong with one kind of thing. Whether that is new."""
        if self._troubles.get(about, []) == troubles:
            return False
        self._troubles = {**self._troubles, about: troubles}
        return True

    def troubles(self, about: str | None = None) -> list[Trouble]:
        """What is wrong with one kind of thing, or with all."""
        known = self._troubles
        return [one for kind, troubles in known.items() for one in troubles if about in (None, kind)]

    @property
    def serves(self) -> bool:
        """Whether nothing of its own is wrong."""
        return all(trouble.is_elsewhere for trouble in self.troubles())


class Died:
    """Nodes that ended without a word, and for how long that is news. For one thread."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}

    def add(self, name: str, pid: int, now: float) -> None:
        """``now`` in seconds of the monotonic clock."""
        self._last.pop(name, None)
        self._last[name] = pid, now
        if len(self._last) > MAX_DIED:
            self._last.pop(next(iter(self._last)))

    def notices(self, now: float) -> list[Trouble]:
        """Those of the last minutes."""
        return [
            Trouble(f"node {name} died: its process {pid} is gone", "start it again; its log may say why", True)
            for name, (pid, since) in self._last.items()
            if now - since < DIED_SECONDS
        ]


class ControlSocket:
    """The socket of a running speedd. For its main thread."""

    def __init__(self, root: str, answer: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        """``answer`` does what a request asks; None keeps the connection open until speedd ends. Raises OSError."""
        self._path, self._answer = names.daemon_socket(root), answer
        self._kept: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # an earlier speedd was killed: who starts has the lock of the root
        with short_path(self._path) as path:
            before = os.umask(0o177)
            try:
                self._listening.bind(path)
            finally:
                os.umask(before)
        self._listening.listen(8)
        self._listening.setblocking(False)

    def fileno(self) -> int:
        return self._listening.fileno()

    def readable(self) -> None:
        """Answer the one who has connected; whoever may not, or says nothing, is not answered."""
        with suppress(OSError, ValueError):  # it is gone, too slow, or speaks something else
            connection, _ = self._listening.accept()
            try:
                self._serve(connection)
            except BaseException:
                connection.close()
                raise

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE_SECONDS)
        if _user_of(connection) not in (0, os.getuid()):
            raise PermissionError
        answer = self._answer(read_line(connection, _PATIENCE_SECONDS))
        if answer is None:
            self._kept.append(connection)
            return
        connection.sendall(json.dumps(answer).encode() + b"\n")
        connection.close()

    def close(self) -> None:
        """Who waits for the end of speedd learns of it when the process is gone, if not before."""
        self._listening.close()
        with suppress(OSError):
            os.unlink(self._path)


def opened_control(
    root: str, answer: Callable[[dict[str, Any]], dict[str, Any] | None], log: Any
) -> ControlSocket | None:
    """What cannot be made, as where another member of a group left its own, keeps nobody from serving."""
    try:
        return ControlSocket(root, answer)
    except OSError as error:
        log.warning("control_not_opened", reason=f"{names.daemon_socket(root)}: {error.strerror}")
        return None


def _user_of(connection: socket.socket) -> int:
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)


def checked_name(request: dict[str, Any]) -> str:
    """The process that a request names. Raises ConfigurationError."""
    name = request.get("name")
    if not isinstance(name, str):
        raise ConfigurationError("the request names no process")
    return name


def checked_count(request: dict[str, Any]) -> int:
    """How many a request asks for. Raises ConfigurationError."""
    count = request.get("count")
    if type(count) is not int or not 0 <= count <= MOST_INSTANCES:
        raise ConfigurationError(f"a process runs 0 to {MOST_INSTANCES} times")
    return count


# The systemd notification protocol (sd_notify), without libsystemd.


class ServiceNotifier:
    """Tells the service manager about this process; silent where there is none."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of ``environment`` (default: the process's)."""
        env = os.environ if environment is None else environment
        self._address = env.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = self._watchdog(env)

    @staticmethod
    def _watchdog(env: Mapping[str, str]) -> float | None:
        """Seconds between two signs of life: half of what the manager allows; None when it expects none."""
        usec, pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", "")
        if not usec.isdigit() or not int(usec) or (pid and pid != str(os.getpid())):
            return None
        return int(usec) / 2e6

    def ready(self, status: str) -> None:
        """Start-up is over."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def status(self, status: str) -> None:
        """How it is now, in one line."""
        self._send(f"STATUS={status}")

    def reloading(self) -> None:
        """A reload begins; ``ready`` ends it."""
        self._send("RELOADING=1")

    def stopping(self) -> None:
        """Shutdown begins."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """A sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # A leading @ means the abstract namespace, whose addresses begin with a zero byte.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), address)
        except OSError:
            pass  # a manager that cannot be reached must not stop the service
