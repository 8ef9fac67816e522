"""Which process this is, and whether the process an entry names still runs (rule R-9).

A pid alone identifies nothing: it is reused, and another pid namespace gives it another meaning. The
identity is pid, start time, pid namespace, boot id and host together.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from typing import NamedTuple, Protocol

_START_TOLERANCE_MS = 2000
_LINUX = sys.platform.startswith("linux")


class Identity(NamedTuple):
    """One process. ``pid_start``: clock ticks since boot on Linux (field 22 of stat), else Unix ms."""

    pid: int
    pid_start: int
    pid_namespace: str
    host: str
    boot_id: str


class ProcessFields(Protocol):
    """The part of an entry, or of a claim, that names a process."""

    @property
    def pid(self) -> int: ...
    @property
    def pid_start(self) -> int: ...
    @property
    def pid_namespace(self) -> str: ...
    @property
    def boot_id(self) -> str: ...


def identity() -> Identity:
    """This process, as it is also after a fork."""
    return _identity_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _identity_of(pid: int) -> Identity:
    """Nothing in an identity changes while the pid stays the same."""
    return Identity(pid, _own_start(pid), _pid_namespace(), platform.node(), _boot_id())


def process_alive(fields: ProcessFields, observer: Identity) -> bool | None:
    """True: it runs; False: it is gone (a zombie is gone too); None: it cannot be seen from here."""
    if (
        not fields.boot_id
        or fields.boot_id != observer.boot_id
        or fields.pid_namespace != observer.pid_namespace
    ):
        return None
    if fields.pid <= 0:
        return None
    return (
        _linux_alive(fields.pid, fields.pid_start) if _LINUX else _psutil_alive(fields.pid, fields.pid_start)
    )


def _linux_alive(pid: int, start: int) -> bool | None:
    """Compare state and start time in /proc/<pid>/stat."""
    try:
        state, started = _linux_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return _signal_alive(pid)
    except (OSError, ValueError):
        return None
    return started == start and state not in "ZXx"


def _signal_alive(pid: int) -> bool | None:
    """Without a /proc entry: gone, or hidden from us by hidepid (then undecidable)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return None
    return None


def _linux_stat(pid: int) -> tuple[str, int]:
    """State letter and start time; the command name may contain ") ", so split after the last one."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read(4096).rpartition(b")")[2].split()
    return fields[0].decode("ascii"), int(fields[19])


def _psutil_alive(pid: int, start: int) -> bool | None:
    """The same question where there is no /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        started = int(process.create_time() * 1000)
        return abs(started - start) <= _START_TOLERANCE_MS and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return None


def _own_start(pid: int) -> int:
    """The start time of this process, in the unit of the platform."""
    if _LINUX:
        return _linux_stat(pid)[1]
    import psutil

    return int(psutil.Process(pid).create_time() * 1000)


def _pid_namespace() -> str:
    """Name of the pid namespace, e.g. ``pid:[4026531836]``; empty where there is none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


@functools.cache
def _boot_id() -> str:
    """Identifies this boot of this machine; empty when unknown (then nothing is decided by clock or pid)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        pass
    if _LINUX:
        return ""
    import psutil

    # A start of the machine has no name elsewhere; ten seconds absorb the jitter of its computed time.
    return f"{platform.node()}-{round(psutil.boot_time() / 10)}"
