"""Processes of one machine: what identifies one for ever (R-6), the clocks they share (R-30), and locks."""

from __future__ import annotations

import errno
import os
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from speed.fs.open import PRIVATE_FILE, SHARED_FILE, is_groups
from speed.wire import lazily
from speed.wire.limits import CLOCK_TICK_SECONDS

if TYPE_CHECKING:
    from filelock import BaseFileLock


# The clocks that processes of one boot compare, whatever time namespace each is in.

_INITIAL = "time:[4026531834]"
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NANOSECONDS = 1_000_000_000


class Offsets(NamedTuple):
    """How far the clocks of this process are ahead of those of the initial time namespace, in nanoseconds.

    ``namespace`` is empty unless these are unknown; then nothing can be compared with others.
    """

    monotonic: int = 0
    boottime: int = 0
    namespace: str = ""


def parse_offsets(text: str) -> Offsets:
    """What ``/proc/self/timens_offsets`` says."""
    found = {"monotonic": 0, "boottime": 0}
    for line in text.splitlines():
        clock, seconds, nanoseconds = line.split()
        found[clock] = int(seconds) * _NANOSECONDS + int(nanoseconds)
    return Offsets(found["monotonic"], found["boottime"])


def _own_offsets() -> Offsets:
    try:
        own, of_children = (os.readlink(f"/proc/self/ns/{which}") for which in ("time", "time_for_children"))
        if own == _INITIAL:
            return Offsets()
        if own != of_children:  # the file is about those of the children
            return Offsets(namespace=own)
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            return parse_offsets(file.read())
    except (OSError, ValueError):
        return Offsets()  # this system has no time namespaces


OFFSETS = _own_offsets()


def monotonic_ms() -> int:
    """CLOCK_MONOTONIC of the initial time namespace."""
    return (time.monotonic_ns() - OFFSETS.monotonic) // 1_000_000


def unix_ms() -> int:
    """The wall clock in Unix milliseconds, as envelopes carry it."""
    return int(time.time() * 1000)


def boot_ms() -> int:
    """CLOCK_BOOTTIME of the initial time namespace, which goes on while the machine sleeps."""
    return (time.clock_gettime_ns(_BOOT_CLOCK) - OFFSETS.boottime) // 1_000_000


# Locks between processes: the kernel holds them, so each goes with its process, however that ends.


def try_lock(path: str, seconds: float = 0.0) -> BaseFileLock | None:
    """The lock of the file ``path``, held until ``release()``; None while another has it for ``seconds``.

    Raises OSError. The file stays, and means nothing by itself. A child of this process does not hold the lock: what
    it inherits at a fork is closed there.
    """
    with lazily.guard:
        from filelock import FileLock, Timeout  # takes 30 ms; few processes lock anything

    mode = SHARED_FILE if is_groups(os.path.dirname(path) or ".") else PRIVATE_FILE  # OSError if it is not there
    lock = FileLock(path, mode=mode, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        return None
    return lock


_TICK_NANOSECONDS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_TICKS_AHEAD, _REST = divmod(OFFSETS.boottime, _TICK_NANOSECONDS)
"""The kernel counts starts from the boot of the reader's time namespace. With a rest they are not exactly known."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process on one boot of one host."""

    pid: int
    pid_start: int
    pid_namespace: str
    host: str
    boot_id: str


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def start_of(pid: int) -> int | None:
    """When ``pid`` started (Linux: field 22 of its stat, in ticks since boot, R-30); None if there is none.

    OSError where that cannot be told: too many open files say nothing about a process.
    """
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None  # gone, or hidden from this user: see process_alive
        return None if _has_ended(fields[0], int(fields[17])) else int(fields[19]) - _TICKS_AHEAD
    with lazily.guard:
        import psutil

    try:
        return int(psutil.Process(pid).create_time() * 1000)
    except psutil.NoSuchProcess:
        return None
    except psutil.Error as error:
        raise PermissionError(errno.EPERM, str(error)) from None


@lru_cache(maxsize=1)
def _place() -> tuple[str, str, str]:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    if _REST:  # starts cannot be compared with those that others see
        namespace += " " + os.readlink("/proc/self/ns/time")
    boot = _first_line("/proc/sys/kernel/random/boot_id")
    if OFFSETS.namespace:  # nor clocks
        boot += f" {OFFSETS.namespace}"
    return namespace, os.uname().nodename, boot


def identity() -> Identity:
    """This process. OSError if its start time cannot be read; without that, it would count as gone."""
    pid = os.getpid()
    return Identity(pid, start_of(pid) or 0, *_place())


def boot_id() -> str:
    """The present boot of this host; empty where the system does not tell."""
    return _place()[2]


def process_alive(pid: int, pid_start: int, pid_namespace: str, boot_id: str) -> bool | None:
    """Whether that very process lives; None where it cannot be seen from here."""
    namespace, _, boot = _place()
    if not boot or boot_id != boot or pid_namespace != namespace or pid <= 0:
        return None
    try:
        start = start_of(pid)
    except OSError:
        return None
    if start is None and _is_hidden(pid):
        return None
    return start == pid_start


def _has_ended(state: bytes, threads: int) -> bool:
    """Whether nothing of it runs: a main thread that ended is a zombie while others run, or close their files."""
    return state in (b"Z", b"X") and threads <= 1


def _is_hidden(pid: int) -> bool:
    """Whether ``pid`` exists although its /proc entry cannot be read (mount option hidepid, another user's)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False  # ours, hence visible: a zombie


# When a directory that was looked at cannot change unseen any more.

_CLOCK_REALTIME_COARSE = 5
"""Linux stamps files by this clock, which ticks every few milliseconds."""
_CLOCK_BACK_NANOSECONDS = int(CLOCK_TICK_SECONDS * 1e9)
"""A time so far ahead is no tick that goes on: the clock was set back."""


def is_settled(modified_ns: int) -> bool:
    """Whether every later change must show another time: the clock that stamps files has passed this one."""
    return not 0 <= modified_ns - _file_clock_ns() <= _CLOCK_BACK_NANOSECONDS


def _file_clock_ns() -> int:
    if sys.platform == "linux":
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    return time.time_ns() - _CLOCK_BACK_NANOSECONDS  # a time that new stamps have surely passed
