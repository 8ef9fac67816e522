"""A call across two hosts beside a request of nats-py of the same size, in turns, through one server.

    .venv/bin/python -m bench.hosts [--rounds N] [--json]

Five processes take part in a call (caller, gateway, server, gateway, service), three in a request. What is judged is
the median of the ratios of all rounds; the target is 2. Exit status: 0 all targets met, 1 not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median, quantiles

import nats

import speed
from scripts.servers.nats import Nats
from speed.errors import SpeedError
from speed.fs.keyfile import write_key_file

SIZES = {200: 300, 10_000: 300, 200_000: 40}
"""Bytes there and back, and how often in a round."""
TARGET = 2.0
READY_SECONDS = 60.0
CONFIG = """
[node]
root = "root"
key = "speed.key"
[hosts]
name = "{name}"
address = "{address}"
[[host]]
name = "{other}"
key = "pair.key"
[[host_grant]]
callers = ["caller@hosta"]
nodes = ["echo@hostb"]
"""
SERVICE = """
import sys, speed
with speed.Node("echo", root="{root}", key="{key}") as node:
    node.register("echo", lambda data: data)
    node.allow("*@hosta")
    print("up", flush=True)
    sys.stdin.read()
"""
RESPONDER = """
import asyncio, sys, nats
async def main():
    client = await nats.connect("{address}")
    async def echo(message):
        await message.respond(message.data)
    await client.subscribe("bench.echo", cb=echo)
    await client.flush()
    print("up", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""


@contextmanager
def program(text: str) -> Iterator[None]:
    """A Python program, from the moment that it says `up` until its input ends."""
    words = [sys.executable, "-c", text]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != b"up\n":
            raise SystemExit("hosts: a part of the bench did not start")
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(READY_SECONDS)


@contextmanager
def speedd(directory: Path, name: str, other: str, address: str, pair: bytes) -> Iterator[None]:
    """One host."""
    directory.mkdir()
    write_key_file(str(directory / "speed.key"), (secrets.token_bytes(32),))
    write_key_file(str(directory / "pair.key"), (pair,))
    (directory / "speedd.toml").write_text(CONFIG.format(name=name, other=other, address=address))
    reading, writing = os.pipe()
    words = [sys.executable, "-m", "speed.daemon", "run", "-c", str(directory / "speedd.toml")]
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen([*words, "--ready-fd", str(writing)], stderr=log, pass_fds=(writing,))
    os.close(writing)
    try:
        with open(reading, "rb") as ready:
            if ready.readline() != b"READY\n":
                raise SystemExit((directory / "log").read_text())
        yield
    finally:
        process.terminate()
        process.wait(READY_SECONDS)


def timed(times: int, once: Callable[[], object]) -> list[float]:
    """Seconds of each."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        once()
        taken.append(time.perf_counter() - began)
    return taken


class Requests:
    """A client of nats-py on a loop of its own; only the requests are timed, not the way into the loop."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(nats.connect(address))

    def take(self, times: int, data: bytes) -> list[float]:
        async def all_of_them() -> list[float]:
            taken = []
            for _ in range(times):
                began = time.perf_counter()
                answer = await self._client.request("bench.echo", data, timeout=30)
                taken.append(time.perf_counter() - began)
                assert len(answer.data) == len(data)
            return taken

        return self._loop.run_until_complete(all_of_them())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


def measured(node: speed.Node, requests: Requests, rounds: int) -> Iterator[dict[str, float]]:
    """One row for each size."""
    for size, times in SIZES.items():
        data = secrets.token_bytes(size)
        ratios: list[float] = []
        calls: list[float] = []
        asked: list[float] = []
        for _ in range(rounds):
            plain = requests.take(times, data)
            ours = timed(times, lambda data=data: node.call("echo@hostb", "echo", {"data": data}))  # type: ignore[misc]
            ratios.append(median(ours) / median(plain))
            calls += ours
            asked += plain
        yield {
            "bytes": size,
            "request_us": median(asked) * 1e6,
            "request_p99_us": quantiles(asked, n=100)[98] * 1e6,
            "call_us": median(calls) * 1e6,
            "call_p99_us": quantiles(calls, n=100)[98] * 1e6,
            "ratio": median(ratios),
        }


def wait_until_up(node: speed.Node) -> None:
    """Both hosts have met."""
    ends = time.monotonic() + READY_SECONDS
    while True:
        try:
            node.call("echo@hostb", "echo", {"data": b""}, timeout=5)
            return
        except SpeedError:
            if time.monotonic() > ends:
                raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.hosts", description="Calls across two hosts.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object a size")
    chosen = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with ExitStack() as ends:
        work = Path(ends.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        server = Nats(work / "nats")
        server.start()
        ends.callback(server.kill)
        pair = secrets.token_bytes(32)
        for name, other in (("hosta", "hostb"), ("hostb", "hosta")):
            ends.enter_context(speedd(work / name, name, other, server.address, pair))
        b = work / "hostb"
        ends.enter_context(program(SERVICE.format(root=b / "root", key=b / "speed.key")))
        ends.enter_context(program(RESPONDER.format(address=server.address)))
        a = work / "hosta"
        node = ends.enter_context(speed.Node("caller", root=a / "root", key=a / "speed.key"))
        wait_until_up(node)
        requests = ends.enter_context(closing(Requests(server.address)))
        rows = list(measured(node, requests, chosen.rounds))
    for row in rows:
        if chosen.json:
            print(json.dumps(row))
        else:
            print(
                f"{row['bytes']:>8.0f} B   request {row['request_us']:7.0f} µs (p99 {row['request_p99_us']:7.0f})"
                f"   call {row['call_us']:7.0f} µs (p99 {row['call_p99_us']:7.0f})   ratio {row['ratio']:.2f}"
                f"   {'met' if row['ratio'] <= TARGET else f'missed (target {TARGET:g})'}"
            )
    return 0 if all(row["ratio"] <= TARGET for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
