"""``bench/profile``: what one round trip costs on each side, and in which stage."""

from __future__ import annotations

import argparse
import collections
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import perf  # noqa: E402
import stages_java  # noqa: E402
import stages_python  # noqa: E402
from contender import Contender  # noqa: E402
from contenders.processes import files_directory  # noqa: E402

NAMES = {"python": "speed", "native": "speed.native", "cpp": "speed.cpp", "java": "speed.java"}
WHAT = {
    "call": ("echo", {}),
    "pipeline": ("pipeline", {}),
    "send": ("send", {"batch": False}),
    "batch": ("send", {"batch": True}),
}
WARM_CALLS = {"speed.java": 20_000}


def asking(pair: Contender, what: str, size: int) -> perf.Act:
    """Has the client make that many calls, or send that many messages."""
    do, members = WHAT[what]
    return lambda count: pair.ask(do, size, count, 0, **members)


def shares(pair: Contender, act: perf.Act, count: int) -> collections.Counter[str]:
    """Samples by stage where the C++ core works, else by library."""
    take = perf.stages if pair.name.startswith(("speed.native", "speed.cpp")) else perf.libraries
    return take(pair, act, count)


def print_counters(pair: Contender, act: perf.Act, count: int) -> float:
    """Returns the processor time of both sides, in microseconds each."""
    sides, answer = perf.counted(pair, act, count)
    took = (
        f"median {statistics.median(answer['ns']) / 1e3:.1f} µs" if "ns" in answer else f"{answer['per_second']:,.0f}/s"
    )
    print(f"{count:,} at {took}; each costs:\n")
    print(f"{'':34} {'client':>12} {'server':>12}")
    for event, (what, _) in perf.COUNTERS.items():
        cells = [f"{side[event]:12,.1f}" if event in side else f"{'?':>12}" for side in sides]
        print(f"{what:34} {cells[0]} {cells[1]}")
    return sum(side.get("task-clock", 0.0) for side in sides)


def print_shares(title: str, found: collections.Counter[str], cpu_us: float) -> None:
    """Each stage as its share of the samples, and of the processor time `cpu_us` that they are of."""
    total = sum(found.values())
    print(f"\n{title:44} {'share':>8} {'CPU, µs':>9}   ({total} samples of both sides)")
    for stage, samples in found.most_common(24):
        print(f"{stage:44} {100 * samples / total:6.1f} % {cpu_us * samples / total:9.2f}")


def profile(pair: Contender, options: argparse.Namespace) -> None:
    act = asking(pair, options.what, options.bytes)
    act(WARM_CALLS.get(pair.name, 500))
    if not perf.is_there():
        print("perf is not installed (Debian: apt install linux-perf): no instructions, no system calls, no samples")
        return
    cpu_us = print_counters(pair, act, options.count)
    where = perf.libraries(pair, act, options.count)
    print_shares("where the processor was", where, cpu_us)
    if options.language in {"cpp", "native"}:
        print_shares("stage", perf.stages(pair, act, options.count), cpu_us)
    if options.language == "java":
        own_us = cpu_us * where[perf.JAVA] / sum(where.values())
        print_shares("class, of what Java itself takes", stages_java.shares(pair, act, options.count), own_us)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/profile", description=__doc__)
    parser.add_argument("language", nargs="?", choices=NAMES, default="python")
    parser.add_argument("--what", choices=WHAT, default="call", help="one after the other, pipelined, or one way")
    parser.add_argument("--count", type=int, default=20_000, help="calls or messages (default: 20000)")
    parser.add_argument("--bytes", type=int, default=200, help="payload (default: 200)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=files_directory(), ignore_cleanup_errors=True) as work:
        pair = Contender(NAMES[options.language], Path(work))
        try:
            profile(pair, options)
        finally:
            pair.close()
    if options.language == "python" and options.what == "call":
        stages_python.print_stages(options.bytes, max(20, options.count // 200))
    return 0


if __name__ == "__main__":
    sys.exit(main())
