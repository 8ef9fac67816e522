"""Python's stages: caller and server as two nodes of one process, by module: opcodes, and CPU time of every thread.

Opcodes are counted exactly. CPU time is measured around each function, and what measuring itself costs is taken off;
take it as shares. The nodes do not spin here: what is counted is work, not waiting.
"""

from __future__ import annotations

import collections
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from contenders.root import make_root

import speed

PACKAGE = str(Path(speed.__file__).parent)
WARM_CALLS = 50


class Places:
    """Code objects -> `runtime/protocol`, `wire/seal`, …, or the library they are of."""

    def __init__(self) -> None:
        self._known: dict[CodeType, str] = {}

    def of(self, code: CodeType) -> str:
        place = self._known.get(code)
        if place is None:
            place = self._known[code] = self._place(code.co_filename)
        return place

    @staticmethod
    def _place(file: str) -> str:
        if file.startswith(PACKAGE):
            return file.removeprefix(PACKAGE)[1:].removesuffix(".py")
        return "this script" if Path(file).parent == Path(__file__).parent else f"library: {Path(file).stem}"


class Probe:
    """What is found by place, while it is not stopped."""

    def __init__(self) -> None:
        self.found: collections.Counter[str] = collections.Counter()
        self.events: collections.Counter[str] = collections.Counter()
        self._places = Places()
        self._stopped = False

    def clear(self) -> None:
        self.found.clear()
        self.events.clear()

    def stop(self) -> None:
        """What the nodes do from now on, such as leaving, does not count."""
        self._stopped = True

    def hook(self, frame: FrameType, event: str, argument: Any) -> Any:
        raise NotImplementedError


class Opcodes(Probe):
    """A trace function that counts opcodes, in all threads."""

    def hook(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and not self._stopped:
            self.found[self._places.of(frame.f_code)] += 1
        return self.hook


class Times(Probe):
    """A profile function that gives each place the CPU time spent in it and in the C functions it calls."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = threading.local()

    def hook(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event.startswith("c_") or self._stopped:
            return
        now = time.thread_time_ns()
        here = self._places.of(frame.f_code)
        place, since = getattr(self._threads, "at", (here, now))
        self.found[place] += now - since
        self.events[place] += 1
        # After a return it is the caller that runs.
        after = frame.f_back if event == "return" else frame
        place = self._places.of(after.f_code) if after is not None else here
        self._threads.at = (place, time.thread_time_ns())


def cost_of_one_event() -> float:
    """Nanoseconds of a function's time that are its hook's."""
    times = Times()

    def empty() -> None:
        pass

    sys.setprofile(times.hook)
    for _ in range(20_000):
        empty()
    sys.setprofile(None)
    return sum(times.found.values()) / sum(times.events.values())


@contextmanager
def two_nodes() -> Iterator[speed.Node]:
    """The caller's node; the threads of both are under the hooks set before."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base) as work:
        root, key = make_root(Path(work))
        options: dict[str, Any] = {"root": str(root), "key": str(key), "engine": "python", "spin_seconds": 0.0}
        with speed.Node("server", allow=["client"], **options) as server, speed.Node("client", **options) as client:
            server.register("echo", lambda data: data)
            client.wait_for("server")
            yield client


def counted(probe: Probe, set_hook: str, size: int, count: int) -> None:
    """Make `count` calls under the probe's hook in all threads; the probe then holds what these alone cost."""
    install = getattr(sys, set_hook)
    getattr(threading, set_hook)(probe.hook)
    try:
        with two_nodes() as client:
            install(probe.hook)
            data = os.urandom(size)
            for calls in (WARM_CALLS, count):
                probe.clear()
                for _ in range(calls):
                    client.call("server", "echo", {"data": data})
            install(None)
            probe.stop()
    finally:
        install(None)
        getattr(threading, set_hook)(None)


def print_stages(size: int, count: int) -> None:
    opcodes, times = Opcodes(), Times()
    counted(opcodes, "settrace", size, count)
    counted(times, "setprofile", size, count)
    cost = cost_of_one_event()
    rows = []
    for place in {*opcodes.found, *times.found} - {"this script"}:
        micros = max(0.0, times.found[place] - cost * times.events[place]) / 1e3 / count
        rows.append((micros, opcodes.found[place] / count, place))
    print(f"\n{count} calls of {size} bytes between two nodes of one process, by module:\n")
    print(f"{'':34} {'opcodes':>9} {'CPU, µs':>9}")
    for micros, number, place in sorted(rows, reverse=True):
        if number >= 1 or micros >= 0.1:
            print(f"{place:34} {number:9,.0f} {micros:9.1f}")
    print(f"{'all':34} {sum(row[1] for row in rows):9,.0f} {sum(row[0] for row in rows):9.1f}")
