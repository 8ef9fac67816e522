"""The clocks of this machine, as one value that tests can replace."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    # CLOCK_MONOTONIC on Linux: shared by all processes of a boot.
    return time.monotonic_ns() // 1_000_000


class Clock(NamedTuple):
    """Wall time (Unix ms), monotonic time (ms, comparable on one boot) and a pause (seconds)."""

    wall_ms: Callable[[], int] = _wall_ms
    monotonic_ms: Callable[[], int] = _monotonic_ms
    sleep: Callable[[float], None] = time.sleep


SYSTEM_CLOCK = Clock()
