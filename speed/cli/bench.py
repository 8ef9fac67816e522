"""``speed bench rtt|pipeline|oneway|large|family``: what SPEED does here, between processes that it starts."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import click

from speed import Node
from speed.cli.options import Settings, common_options, print_rows, print_value
from speed.errors import ConfigurationError
from speed.observe import bytes_text, seconds_text

# The other process of ``speed bench``: echoes, counts messages, and ends with its standard input.


def main(name: str, client: str, root: str, key: str) -> None:
    """Serve ``client`` until the input ends."""
    handled = 0
    numbers, at_work = count(1), threading.Lock()

    def take(_message: Any) -> None:
        nonlocal handled
        handled = next(numbers)

    with Node(name, root=root, key=key) as node:

        @node.service("echo")
        def echo(data: bytes) -> bytes:
            return data

        @node.service("work")
        def work() -> None:
            with at_work:  # one at a time, as on a core of its own
                time.sleep(WORK_SECONDS)

        @node.service("handled")
        def handled_messages() -> int:
            return handled

        node.on_message(take)
        node.allow(client)
        print("READY", flush=True)
        sys.stdin.read()


WORK_SECONDS = 0.005
"""How long a call of ``family`` keeps its process."""

if __name__ == "__main__":
    main(*sys.argv[1:])


SERVER = "bench.server"
FAMILY, MEMBERS = "bench.family", 3
CLIENT = "bench.client"
START_SECONDS = 20.0
MEMORY_DIRECTORY = "/dev/shm"


@click.command("bench")
@click.argument("what", type=click.Choice(["rtt", "pipeline", "oneway", "large", "family"]))
@click.option("-n", "--count", type=click.IntRange(10), help="Calls or messages (default: a few seconds' worth).")
@click.option("--size", type=click.IntRange(0), help="Payload bytes (default: 200; large: 1048576).")
@common_options
def bench_command(settings: Settings, what: str, count: int | None, size: int | None) -> None:
    """Measure between two processes, in a root of their own beside the root (or in memory).

    \b
    rtt       echo, one call after the other: time of each
    pipeline  echo, many calls under way: calls per second
    oneway    messages that are only sent, until all are handled
    large     echo of 1 MiB
    family    work that keeps a process for 5 ms: three processes of a family beside one
    """
    default_count, default_size, measure = MEASUREMENTS[what]
    number, payload = count or default_count, os.urandom(default_size if size is None else size)
    with _two_nodes(settings.root_option) as client:
        figures = measure(client, number, payload)
    answer = {"bench": what, "count": number, "payloadBytes": len(payload), **figures}
    if settings.as_json:
        print_value(answer, True)
        return
    print_rows(("figure", "value"), [(name, _shown(name, value)) for name, value in answer.items()])


def _shown(name: str, value: Any) -> str:
    if name.endswith("Seconds"):
        return seconds_text(value)
    if name == "bytesPerSecond":
        return f"{bytes_text(value)}/s"
    if name == "timesAsFast":
        return str(value)
    return f"{value:,.0f}" if isinstance(value, float) else str(value)


@contextmanager
def _two_nodes(directory: str | None) -> Iterator[Node]:
    """A root with a new key, a server process, and the client node in this process; all gone at the end."""
    from speed import Node
    from speed.fs.keyfile import write_key_file
    from speed.wire.limits import KEY_BYTES

    place = directory or next(filter(os.path.isdir, [MEMORY_DIRECTORY]), None)
    with tempfile.TemporaryDirectory(prefix="speed-bench-", dir=place) as root:
        key = os.path.join(root, "speed.key")
        write_key_file(key, (secrets.token_bytes(KEY_BYTES),))
        with _server(SERVER, root, key), Node(CLIENT, root=root, key=key, allow=[SERVER]) as client:
            client.wait_for(SERVER, timeout=START_SECONDS)
            yield client


@contextmanager
def _server(name: str, root: str, key: str) -> Iterator[None]:
    """A process that serves under this name."""
    server = subprocess.Popen(
        [sys.executable, "-m", "speed.cli.bench", name, CLIENT, root, key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        _wait_ready(server)
        yield
    finally:
        _end(server)


def _wait_ready(server: subprocess.Popen[bytes]) -> None:
    line = server.stdout.readline() if server.stdout else b""
    if line.strip() != b"READY":
        raise ConfigurationError("the server of the measurement did not start; its message is above")


def _end(server: subprocess.Popen[bytes]) -> None:
    """The end of its input tells the server to stop; a server that hangs is killed."""
    if server.stdin:
        server.stdin.close()
    try:
        server.wait(timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _round_trips(client: Node, count: int, payload: bytes) -> dict[str, Any]:
    arguments = {"data": payload}
    for _ in range(min(200, count)):
        client.call(SERVER, "echo", arguments)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        client.call(SERVER, "echo", arguments)
        times.append(time.perf_counter() - began)
    return {
        **spread(times),
        "callsPerSecond": count / sum(times),
        "bytesPerSecond": 2 * len(payload) * count / sum(times),
    }


def _pipeline(client: Node, count: int, payload: bytes) -> dict[str, Any]:
    arguments = {"data": payload}
    for future in [client.submit(SERVER, "echo", arguments) for _ in range(min(200, count))]:
        future.result()
    began = time.perf_counter()
    for future in [client.submit(SERVER, "echo", arguments) for _ in range(count)]:
        future.result()
    took = time.perf_counter() - began
    return {"totalSeconds": took, "callsPerSecond": count / took}


def _oneway(client: Node, count: int, payload: bytes) -> dict[str, Any]:
    before = client.call(SERVER, "handled")
    began = time.perf_counter()
    for _ in range(count - 1):
        client.send(SERVER, payload)
    client.send(SERVER, payload, ack=True, timeout=60)  # lanes are FIFO: the last one handled means all were
    took = time.perf_counter() - began
    handled = client.call(SERVER, "handled") - before
    return {
        "totalSeconds": took,
        "messagesPerSecond": count / took,
        "bytesPerSecond": count * len(payload) / took,
        "handled": handled,
    }


def _family(client: Node, count: int, _payload: bytes) -> dict[str, Any]:
    key = os.path.join(client.root, "speed.key")
    rates = []
    with ExitStack() as servers:
        for number in range(1, MEMBERS + 1):
            name = f"{FAMILY}.{number}"
            servers.enter_context(_server(name, client.root, key))
            client.wait_for(name, timeout=START_SECONDS)
            rates.append(_work_rate(client, count))
    return {
        "oneCallsPerSecond": rates[0],
        "threeCallsPerSecond": rates[-1],
        "timesAsFast": round(rates[-1] / rates[0], 2),
    }


def _work_rate(client: Node, count: int) -> float:
    family = f"{FAMILY}.*"
    client.call(family, "work")
    began = time.perf_counter()
    for future in [client.submit(family, "work", timeout=600) for _ in range(count)]:
        future.result()
    return count / (time.perf_counter() - began)


def spread(times: list[float]) -> dict[str, float]:
    """p50, p99, least and largest of times in seconds."""
    ordered = sorted(times)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {
        "p50Seconds": at(0.50),
        "p99Seconds": at(0.99),
        "minSeconds": ordered[0],
        "maxSeconds": ordered[-1],
    }


Measure = Callable[["Node", int, bytes], dict[str, Any]]
MEASUREMENTS: dict[str, tuple[int, int, Measure]] = {
    "rtt": (5_000, 200, _round_trips),
    "pipeline": (20_000, 200, _pipeline),
    "oneway": (20_000, 200, _oneway),
    "large": (200, 1 << 20, _round_trips),
    "family": (600, 0, _family),
}
"""What is measured -> (count, payload bytes, how)."""
