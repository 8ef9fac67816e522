"""The clocks that processes of one boot compare, whatever time namespace each is in (R-30)."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

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


def boot_ms() -> int:
    """CLOCK_BOOTTIME of the initial time namespace, which goes on while the machine sleeps."""
    return (time.clock_gettime_ns(_BOOT_CLOCK) - OFFSETS.boottime) // 1_000_000
