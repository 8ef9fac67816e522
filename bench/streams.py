#!/usr/bin/env python
"""A stream of many small items between two processes, beside gRPC's server streaming and one call an item.

bench/streams.py                    1,000,000 items of 200 bytes, 3 rounds
bench/streams.py --items N --rounds N --engine python

A reader stands still for five seconds, and the memory that both processes take more meanwhile is told. Then each round
takes SPEED, gRPC and single calls in another order; figures are medians. Exit status: 0 all targets reached, 1 not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = Path(os.environ.get("VENV", ROOT / ".venv")) / "bin" / "python"
if not Path(sys.prefix).samefile(PYTHON.parents[1]):  # called as it stands: the project's environment has what it needs
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
sys.path[:0] = [str(ROOT)]

import speed  # noqa: E402
from speed.fs.keyfile import write_key_file  # noqa: E402

ITEM_BYTES = 200
TIMES = 5.0
"""How many times as quick a stream is to be as each of the others."""
STANDING_SECONDS = 5.0
MOST_MORE_BYTES = 8 << 20
_SINGLE_CALLS = 20_000
SERVER = """
import sys, speed
item = bytes(int(sys.argv[3]))
with speed.Node("server", root=sys.argv[1], allow=["client"], engine=sys.argv[2]) as node:
    @node.service("items")
    def items(count: int):
        for _ in range(count):
            yield item
    @node.service("one")
    def one():
        return item
    print("ready", flush=True)
    sys.stdin.read()
"""
GRPC_SERVER = """
import sys, grpc
from concurrent.futures import ThreadPoolExecutor
item = bytes(int(sys.argv[2]))
def items(request, context):
    for _ in range(int(request)):
        yield item
server = grpc.server(ThreadPoolExecutor(max_workers=4))
handler = grpc.unary_stream_rpc_method_handler(items)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Items", {"Items": handler}),))
server.add_insecure_port(f"unix:{sys.argv[1]}/grpc")
server.start()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def server(program: str, *arguments: str) -> Iterator[int]:
    """A process that says when it is ready; its id."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


def per_second(count: int, take: Callable[[int], None]) -> float:
    began = time.perf_counter()
    take(count)
    return count / (time.perf_counter() - began)


def resident(pid: int) -> int:
    """Bytes of a process that lie in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(node: speed.Node, items: int, rounds: int, work: str) -> dict[str, float]:
    """Items a second, by way."""
    import grpc

    with grpc.insecure_channel(f"unix:{work}/grpc") as channel:
        streaming = channel.unary_stream("/bench.Items/Items")

        def by_stream(count: int) -> None:
            assert sum(1 for _ in node.stream("server", "items", {"count": count})) == count

        def by_grpc(count: int) -> None:
            assert sum(1 for _ in streaming(str(count).encode())) == count

        def by_calls(count: int) -> None:
            for _ in range(count):
                node.call("server", "one")

        ways = {"stream": (by_stream, items), "grpc": (by_grpc, items), "calls": (by_calls, min(items, _SINGLE_CALLS))}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for take, count in ways.values():
            take(count // 100)
        for _ in range(rounds):
            for name in random.sample(list(ways), len(ways)):
                take, count = ways[name]
                taken[name].append(per_second(count, take))
    return {name: statistics.median(rates) for name, rates in taken.items()}


def memory_while_standing(node: speed.Node, server_pid: int) -> dict[str, int]:
    """Bytes that reader and server take more while the reader stands still."""
    pids = {"reader": os.getpid(), "server": server_pid}
    before = {name: resident(pid) for name, pid in pids.items()}
    with node.stream("server", "items", {"count": 10_000_000}) as stream:
        next(stream)
        time.sleep(STANDING_SECONDS)
        return {name: resident(pid) - before[name] for name, pid in pids.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="auto")
    chosen = parser.parse_args()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with contextlib.ExitStack() as opened:
        work = opened.enter_context(tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base))
        write_key_file(f"{work}/speed.key", (os.urandom(32),))
        pid = opened.enter_context(server(SERVER, work, chosen.engine, str(ITEM_BYTES)))
        opened.enter_context(server(GRPC_SERVER, work, str(ITEM_BYTES)))
        node = opened.enter_context(speed.Node("client", root=work, engine=chosen.engine))
        node.wait_for("server")
        more = memory_while_standing(node, pid)  # first: what is measured later has had its memory
        rates = measure(node, chosen.items, chosen.rounds, work)
    is_reached = True
    for name, rate in rates.items():
        factor = rates["stream"] / rate
        is_reached &= name == "stream" or factor >= TIMES
        print(
            f"{name:8} {rate:12,.0f} items/s" + ("" if name == "stream" else f"   the stream is {factor:.1f} x as fast")
        )
    for name, size in more.items():
        is_reached &= size <= MOST_MORE_BYTES
        print(f"{name:8} {size / (1 << 20):12.1f} MiB more while its reader stands still for {STANDING_SECONDS:.0f} s")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
