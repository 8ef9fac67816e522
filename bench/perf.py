"""Linux perf around two processes: what it counts, and in which part of the program its samples fall."""

from __future__ import annotations

import collections
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contender import Contender

COUNTERS = {
    "instructions:u": ("instructions in the program", 1),
    "instructions:k": ("instructions in the kernel", 1),
    "raw_syscalls:sys_enter": ("system calls", 1),
    "context-switches": ("switches", 1),
    "task-clock": ("CPU, µs", 1e3),
}
"""perf's event -> (what it is, factor from perf's unit)."""

STAGES = (
    ("wire: seal, open", r"Aead|ChaCha|chacha|poly1305|Sealer|Opener|EVP_|libcrypto"),
    ("wire: pack, unpack", r"speed::wire::|msgpack|speed::Value|speed::Map"),
    ("fs: lane written", r"LaneWriter|lane_writer"),
    ("fs: bell", r"[Bb]ell|Ringer|write_without_signal"),
    ("fs: lane polled", r"fs::end_of"),
    ("fs: lane read", r"fs::status_of|LaneReader|LaneFiles|Inbox|Committed|ReadBuffer|lane_"),
    ("fs: other", r"speed::fs::"),
    ("core", r"speed::core::"),
    ("runtime: workers, services", r"Workers|Serving|Answers|ServiceTable|workers"),
    ("runtime: protocol thread", r"Protocol|Dispatch|InboundLane|ReaderRole"),
    ("runtime: caller", r"Calls|Outgoing|Links|PendingCalls|speed::Node::"),
    ("runtime: other", r"speed::runtime::"),
    ("waiting, waking", r"futex|poll|schedule|pthread_cond"),
    ("Python: the calling program, the service", r"libpython|/python3"),
)
"""Of the C++ core; the innermost frame that matches decides a sample's stage."""

JAVA = "Java, compiled or interpreted"
LIBRARIES = (
    ("kernel", r"\[kernel|\[vdso"),
    ("cipher", r"libcrypto|libsodium|_rust\.abi3|_sodium"),
    ("native engine", r"/speed/_native\."),
    ("interpreter", r"libpython|/python3"),
    (JAVA, r"\[JIT\]|/perf-\d+\.map"),
    ("Java machine: compiler, collector", r"libjvm"),
    ("SPEED", r"speed_echo"),
    ("from Java into C", r"/(jna|ffi)\w+"),
    ("system libraries", r"/lib(c|m|stdc\+\+|pthread|gcc_s)\.so|/ld-linux"),
)
"""Where the innermost frame lies; else the name of its file."""


@contextmanager
def attached(command: list[str]) -> Iterator[None]:
    """Run perf around the block: it says when it counts, and ends on SIGINT, after it wrote what it counted."""
    told, tell = os.pipe()
    answers, answer = os.pipe()
    control = ["-D", "-1", f"--control=fd:{told},{answer}"]
    process = subprocess.Popen(
        [*command, *control], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(told, answer)
    )
    try:
        os.close(answer)
        os.write(tell, b"enable\n")
        if not os.read(answers, 16):
            raise RuntimeError(f"{' '.join(command[:2])} ended at once: run it by hand to see why")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        for end in (told, tell, answers):
            os.close(end)


Act = Callable[[int], dict[str, Any]]
"""Asks the client for that many calls or messages."""


def is_there() -> bool:
    return shutil.which("perf") is not None


def counted(pair: Contender, act: Act, count: int) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """What each counter says a call for client and server, and what the client says."""
    outputs = [pair.work / f"{role}.perf" for role in ("client", "server")]
    pids = (pair.client.process.pid, pair.server.process.pid)
    events = ",".join(COUNTERS)
    commands = [
        ["perf", "stat", "-x", ";", "-e", events, "-p", str(pid), "-o", str(output)]
        for pid, output in zip(pids, outputs, strict=True)
    ]
    with attached(commands[0]), attached(commands[1]):
        answer = act(count)
    return [read_counters(output, count) for output in outputs], answer


def read_counters(output: Path, count: int) -> dict[str, float]:
    found = {}
    for line in output.read_text().splitlines():
        value, _, event, *_ = [*line.split(";"), "", "", ""]
        if event in COUNTERS and re.fullmatch(r"[\d.]+", value):
            found[event] = float(value) * COUNTERS[event][1] / count
    return found


def sampled(pair: Contender, act: Act, count: int, *graph: str) -> list[list[str]]:
    """Both processes' samples during `count` calls, each its frames from inside."""
    data = pair.work / "samples.perf"
    pids = f"{pair.client.process.pid},{pair.server.process.pid}"
    record = ["perf", "record", "-q", "-F", "1999", *graph, "-p", pids, "-o", str(data)]
    with attached(record):
        act(count)
    script = subprocess.run(
        ["perf", "script", "-i", str(data), "-F", "comm,ip,sym,dso"], capture_output=True, text=True, check=False
    )
    return [sample.splitlines()[1:] for sample in script.stdout.split("\n\n") if "\n" in sample.strip()]


def stages(pair: Contender, act: Act, count: int) -> collections.Counter[str]:
    """Samples by stage of the C++ core."""
    return collections.Counter(map(_stage_of, sampled(pair, act, count, "--call-graph", "dwarf,4096")))


def _stage_of(frames: list[str]) -> str:
    return next((stage for frame in frames for stage, pattern in STAGES if re.search(pattern, frame)), "other")


def libraries(pair: Contender, act: Act, count: int) -> collections.Counter[str]:
    """Samples by where the processor was: kernel, interpreter, cipher, …"""
    return collections.Counter(_library_of(frames[0]) for frames in sampled(pair, act, count, "-g"))


def _library_of(frame: str) -> str:
    place = frame[frame.index(" (") :] if " (" in frame else frame
    return next((name for name, pattern in LIBRARIES if re.search(pattern, place)), Path(place.strip(" ()")).name)
