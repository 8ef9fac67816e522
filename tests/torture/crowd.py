"""A wave of short-lived senders: ``python -m tests.torture.crowd ROOT FAMILY COUNT ephemeral|ordinary SERVICE …``.

Each is a process of its own with a name of its own. It calls every service once; half of them then kill themselves.
Prints one line for each: ``ok <seconds of its start>``, or what went wrong.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

import speed

TIMEOUT = 60.0


def live(root: str, name: str, services: Sequence[str], *, ephemeral: bool, dies: bool) -> str:
    """One sender, from its start to its end."""
    began = time.monotonic()
    node = speed.Node(name, root=root, ephemeral=ephemeral, workers=1, engine="python")
    started = time.monotonic() - began
    for number, service in enumerate(services):
        result = node.call(service, "add", {"a": number, "b": 1}, timeout=TIMEOUT)
        if result != number + 1:
            return f"{name}: {service} says {result!r}"
    if not dies:
        node.close(drain_seconds=0)
    return f"ok {started:.6f}"


def main(root: str, family: str, count: str, kind: str, *services: str) -> None:
    reading, writing = os.pipe()
    children = [_fork(reading, writing, root, f"{family}.{n}", services, kind, n) for n in range(int(count))]
    os.close(writing)
    with os.fdopen(reading) as told:
        sys.stdout.write(told.read())
    for child in children:
        os.waitpid(child, 0)


def _fork(reading: int, writing: int, root: str, name: str, services: Sequence[str], kind: str, number: int) -> int:
    child = os.fork()
    if child:
        return child
    os.close(reading)
    dies = number % 2 == 0
    try:
        said = live(root, name, services, ephemeral=kind == "ephemeral", dies=dies)
    except BaseException as error:
        said = f"{name}: {type(error).__name__}: {error}".replace("\n", " ")
    os.write(writing, f"{said}\n".encode())
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
