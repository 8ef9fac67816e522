"""What looking at many nodes costs: a scrape of ``[metrics]`` of speedd, its console with an open page, ``speed top``.

    .venv/bin/python -m bench.scrape [--nodes 200] [--calls A_SECOND] [--rounds N] [--watch SECONDS] [--json]

The nodes run in four processes; each has two services that were called. A round waits until what was rendered is no
longer good, so that each scrape asks all nodes. What is judged is the median; the target is 300 ms. Then nobody
scrapes for ``--watch`` seconds: one page of the console is open, for which all nodes are asked every two seconds;
afterwards ``speed top`` asks them without it. Meanwhile one node more calls another one as often as ``--calls`` says,
both on the native engine. The processor's share is judged: 5 % of a core for speedd, 2 % for the command. Exit status:
0 all met, 1 not.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import psutil

from speed.fs.keyfile import write_key_file
from speed.observe.exposition import FRESH_SECONDS
from speed.observe.speedd import ask

TARGET_SECONDS = 0.3
CONSOLE_SHARE, TOP_SHARE = 0.05, 0.02
PROCESSES = 4
SERVICES = 2
READY_SECONDS = 60.0
WARM_SECONDS = 5.0
"""Until lanes are open and modules are imported."""
CONFIG = """
[node]
root = "root"
key = "speed.key"
[metrics]
listen = "127.0.0.1:0"
[console]
port = 0
"""
NODES = """
import sys, speed
root, key, first, end, services = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
nodes = []
for number in range(first, end):
    node = speed.Node(f"n{number}", root=root, key=key, workers=1, spin_seconds=0.0, allow=["speedd", f"n{number}"])
    for one in range(services):
        node.register(f"s{one}", lambda: 1)
        node.call(node.name, f"s{one}")
    nodes.append(node)
print("up", flush=True)
sys.stdin.read()
for node in nodes:
    node.close()
"""
LOAD = """
import sys, threading, time, speed
root, key, side, rate = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with speed.Node(f"load.{side}", root=root, key=key, engine="native", allow=["load.caller", "speedd"]) as node:
    if side == "called":
        node.register("echo", lambda number: number)
    else:
        node.wait_for("load.called", timeout=60)
    print("up", flush=True)
    if side == "called":
        sys.stdin.read()
        sys.exit()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    room, done, began, asked = threading.Semaphore(2000), 0, time.monotonic(), 0
    while not over.wait(0.01):
        while asked < (time.monotonic() - began) * rate and not over.is_set():
            room.acquire()
            node.submit("load.called", "echo", {"number": asked}).add_done_callback(lambda _: room.release())
            asked += 1
        if asked < (time.monotonic() - began - 1) * rate:
            began, asked, done = time.monotonic(), 0, done + asked  # it cannot: no more is owed
    print(done + asked, flush=True)
"""


@contextmanager
def load(root: Path, key: Path, rate: int) -> Iterator[dict[str, float]]:
    """Calls between two processes; when it ends, how many a second there were."""
    told: dict[str, float] = {}
    with ExitStack() as ends:
        sides = []
        for side in ("called", "caller"):
            words = [sys.executable, "-c", LOAD, str(root), str(key), side, str(rate)]
            sides.append(ends.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)))
            assert sides[-1].stdout is not None
            if sides[-1].stdout.readline() != b"up\n":
                raise SystemExit("scrape: the load did not start")
        began = time.monotonic()
        try:
            yield told
        finally:
            for one in reversed(sides):
                assert one.stdin is not None
                one.stdin.close()
                one.wait(READY_SECONDS)
            assert sides[1].stdout is not None
            told["calls_per_second"] = int(sides[1].stdout.read() or 0) / (time.monotonic() - began)


@contextmanager
def nodes(root: Path, key: Path, first: int, end: int) -> Iterator[None]:
    """Some of them, in a process of their own."""
    words = [sys.executable, "-c", NODES, str(root), str(key), str(first), str(end), str(SERVICES)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != b"up\n":
            raise SystemExit("scrape: the nodes did not start")
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(READY_SECONDS)


@contextmanager
def speedd(directory: Path) -> Iterator[tuple[str, psutil.Process]]:
    """One that is ready: where its metrics are, and its process."""
    file = directory / "speedd.toml"
    file.write_text(CONFIG)
    words = [sys.executable, "-m", "speed.daemon", "run", "-c", str(file)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            event = json.loads(line)
            address = event.get("listen") or address
            if event["event"] == "ready":
                break
        try:
            reading = threading.Thread(target=process.stderr.read, name="log", daemon=True)
            reading.start()
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(READY_SECONDS)
            reading.join(READY_SECONDS)


def scraped(address: str) -> tuple[float, str]:
    """Seconds, and the text."""
    connection = http.client.HTTPConnection(address, timeout=READY_SECONDS)
    began = time.perf_counter()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    taken = time.perf_counter() - began
    connection.close()
    return taken, text


def measured(address: str, wanted: int, rounds: int) -> dict[str, float]:
    """After two that open the lanes."""
    times: list[float] = []
    for _ in range(rounds + 2):
        time.sleep(FRESH_SECONDS * 1.1)
        taken, text = scraped(address)
        times.append(taken)
    answered = sum(line.startswith("speed_up{") and line.endswith(" 1.0") for line in text.splitlines())
    if answered <= wanted:  # speedd itself is one more
        raise SystemExit(f"scrape: {answered} nodes answered, of {wanted} and speedd")
    return {
        "nodes": wanted,
        "bytes": len(text),
        "first_ms": times[0] * 1e3,
        "scrape_ms": median(times[2:]) * 1e3,
        "longest_ms": max(times[2:]) * 1e3,
    }


@contextmanager
def page(root: Path) -> Iterator[None]:
    """A page of the console that is told of each look, and then asks for the overview."""
    entered = urlsplit(ask(str(root), {"do": "console"})["address"])
    assert entered.hostname is not None
    visit = http.client.HTTPConnection(entered.hostname, entered.port, timeout=READY_SECONDS)
    visit.request("GET", f"{entered.path}?{entered.query}")
    answer = visit.getresponse()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    key = answer.read().decode().partition('data-key="')[2].partition('"')[0]
    secret = {"Cookie": cookie, "X-Speed-Key": key}
    visit.request("GET", "/api/events", headers=secret)
    stream = visit.getresponse()
    if stream.status != 200:
        raise SystemExit(f"scrape: the console answered {stream.status}")
    asking = http.client.HTTPConnection(entered.hostname, entered.port, timeout=READY_SECONDS)

    def ask_overview() -> None:
        asking.request("GET", "/api/overview", headers=secret)
        asking.getresponse().read()

    reading = threading.Thread(target=followed, args=(stream, ask_overview), name="page", daemon=True)
    reading.start()
    try:
        yield
    finally:
        visit.sock.shutdown(socket.SHUT_RDWR)
        reading.join(READY_SECONDS)


def followed(stream: http.client.HTTPResponse, show: Callable[[], None]) -> None:
    """Until its connection ends."""
    with suppress(http.client.HTTPException, OSError):
        while said := stream.read1(1 << 16):
            if b"event: look" in said:
                show()


def used(process: psutil.Process) -> float:
    """Seconds of the processor so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def watched(root: Path, key: Path, daemon: psutil.Process, seconds: float) -> dict[str, float]:
    """Shares of a core, and how much more memory speedd took meanwhile."""
    with page(root):
        time.sleep(WARM_SECONDS)
        before, size = used(daemon), daemon.memory_info().rss
        time.sleep(seconds)
        console, grown = (used(daemon) - before) / seconds, daemon.memory_info().rss - size
    words = [sys.executable, "-m", "speed.cli", "--root", str(root), "--key", str(key), "top", "--json"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        time.sleep(WARM_SECONDS)
        command = psutil.Process(process.pid)
        before = used(command)
        time.sleep(seconds)
        top = (used(command) - before) / seconds
        process.terminate()
    return {"console_share": console, "console_grown_bytes": grown, "top_share": top}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.scrape", description="What looking at many nodes costs.")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--calls", type=int, default=0, help="so many a second beside them (default: none)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--watch", type=float, default=30.0)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    chosen = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with ExitStack() as ends:
        work = Path(ends.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        key = work / "speed.key"
        write_key_file(str(key), (secrets.token_bytes(32),))
        address, daemon = ends.enter_context(speedd(work))
        bounds = [chosen.nodes * place // PROCESSES for place in range(PROCESSES + 1)]
        for first, end in pairwise(bounds):
            ends.enter_context(nodes(work / "root", key, first, end))
        row = measured(address, chosen.nodes, chosen.rounds)
        told = ends.enter_context(load(work / "root", key, chosen.calls)) if chosen.calls else {}
        row |= watched(work / "root", key, daemon, chosen.watch)
    row |= told
    if chosen.json:
        print(json.dumps(row))
    else:
        print(
            f"{row['nodes']} nodes, {row['bytes'] / 1024:.0f} KiB: {row['scrape_ms']:.0f} ms, the longest "
            f"{row['longest_ms']:.0f} ms, the first {row['first_ms']:.0f} ms"
        )
        share, grown = row["console_share"], row["console_grown_bytes"]
        print(f"console: {share:.1%} of a core, {grown:,} bytes more; speed top: {row['top_share']:.1%}")
        if told:
            print(f"beside {told['calls_per_second']:,.0f} calls a second")
    is_met = row["scrape_ms"] <= TARGET_SECONDS * 1e3 and row["console_share"] <= CONSOLE_SHARE
    return int(not is_met or row["top_share"] > TOP_SHARE)


if __name__ == "__main__":
    sys.exit(main())
