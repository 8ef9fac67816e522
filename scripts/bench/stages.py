"""``scripts/bench/profile``: what one round trip costs on each side, and in which stage."""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import stages_java  # noqa: E402
import stages_python  # noqa: E402
from contender import Contender  # noqa: E402

NAMES = {"python": "speed", "cpp": "speed.cpp", "java": "speed.java"}
COUNTERS = {
    "instructions:u": ("instructions in the program", 1),
    "instructions:k": ("instructions in the kernel", 1),
    "raw_syscalls:sys_enter": ("system calls", 1),
    "context-switches": ("switches", 1),
    "task-clock": ("CPU, µs", 1e3),
}
"""perf's event -> (what it is, factor from perf's unit)."""

CPP_STAGES = (
    ("wire: seal, open", r"Aead|ChaCha|chacha|poly1305|Sealer|Opener|EVP_|libcrypto"),
    ("wire: pack, unpack", r"speed::wire::|msgpack|speed::Value|speed::Map"),
    ("fs: lane written", r"LaneWriter|lane_writer"),
    ("fs: bell", r"[Bb]ell"),
    ("fs: lane read", r"LaneReader|LaneFiles|Inbox|Committed|ReadBuffer|lane_"),
    ("fs: other", r"speed::fs::"),
    ("core", r"speed::core::"),
    ("runtime: workers, services", r"Workers|Serving|Answers|ServiceTable|workers"),
    ("runtime: protocol thread", r"Protocol|Dispatch|InboundLane|ReaderRole"),
    ("runtime: caller", r"Calls|Outgoing|Links|PendingCalls|speed::Node::"),
    ("runtime: other", r"speed::runtime::"),
    ("waiting, waking", r"futex|poll|schedule|pthread_cond"),
)
"""The innermost frame that matches decides a sample's stage."""


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

WHAT = {
    "call": ("echo", {}),
    "pipeline": ("pipeline", {}),
    "send": ("send", {"batch": False}),
    "batch": ("send", {"batch": True}),
}


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


def print_counters(pair: Contender, act: Act, count: int) -> float:
    """Returns the processor time of both sides, in microseconds each; 0 where nobody counts."""
    if not shutil.which("perf"):
        print("perf is not installed (Debian: apt install linux-perf): no instructions, no system calls")
        return 0.0
    sides, answer = counted(pair, act, count)
    took = (
        f"median {statistics.median(answer['ns']) / 1e3:.1f} µs" if "ns" in answer else f"{answer['per_second']:,.0f}/s"
    )
    print(f"{count:,} at {took}; each costs:\n")
    print(f"{'':34} {'client':>12} {'server':>12}")
    for event, (what, _) in COUNTERS.items():
        cells = [f"{side[event]:12,.1f}" if event in side else f"{'?':>12}" for side in sides]
        print(f"{what:34} {cells[0]} {cells[1]}")
    return sum(side.get("task-clock", 0.0) for side in sides)


def cpp_shares(pair: Contender, act: Act, count: int) -> collections.Counter[str]:
    """Samples of both processes by stage."""
    data = pair.work / "samples.perf"
    pids = f"{pair.client.process.pid},{pair.server.process.pid}"
    record = ["perf", "record", "-q", "-F", "1999", "--call-graph", "dwarf,4096", "-p", pids, "-o", str(data)]
    with attached(record):
        act(count)
    script = subprocess.run(
        ["perf", "script", "-i", str(data), "-F", "comm,sym,dso,ip"], capture_output=True, text=True, check=False
    )
    return collections.Counter(stage_of(sample) for sample in script.stdout.split("\n\n") if sample.strip())


def stage_of(sample: str) -> str:
    for frame in sample.splitlines()[1:]:
        for stage, pattern in CPP_STAGES:
            if re.search(pattern, frame):
                return stage
    return "other"


def print_shares(shares: collections.Counter[str], cpu_us: float) -> None:
    """Each stage as its share of the samples, and of the processor time of both sides."""
    total = sum(shares.values())
    print(f"\n{'stage':44} {'share':>8} {'CPU, µs':>9}   ({total} samples of both sides)")
    for stage, samples in shares.most_common(24):
        print(f"{stage:44} {100 * samples / total:6.1f} % {cpu_us * samples / total:9.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/profile", description=__doc__)
    parser.add_argument("language", nargs="?", choices=NAMES, default="python")
    parser.add_argument("--what", choices=WHAT, default="call", help="one after the other, pipelined, or one way")
    parser.add_argument("--count", type=int, default=20_000, help="calls or messages (default: 20000)")
    parser.add_argument("--bytes", type=int, default=200, help="payload (default: 200)")
    options = parser.parse_args()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base, ignore_cleanup_errors=True) as work:
        pair = Contender(NAMES[options.language], Path(work))
        try:
            do, members = WHAT[options.what]

            def act(count: int) -> Any:
                return pair.ask(do, options.bytes, count, 0, **members)

            act(20_000 if options.language == "java" else 500)
            cpu_us = print_counters(pair, act, options.count)
            if options.language == "cpp" and shutil.which("perf"):
                print_shares(cpp_shares(pair, act, options.count), cpu_us)
            if options.language == "java":
                print_shares(stages_java.shares(pair, act, options.count), cpu_us)
        finally:
            pair.close()
    if options.language == "python" and options.what == "call":
        stages_python.print_stages(options.bytes, max(20, options.count // 200))
    return 0


if __name__ == "__main__":
    sys.exit(main())
