"""The program of the measured processes: ``python -m contenders.process (server|client) NAME WORK [KIND]``.

A server prints ``ready`` and lives until its standard input ends. A client reads one JSON command a line and answers
with one: ``{"do": "echo", "bytes": 200, "count": 300, "warm": 20}``, ``{"do": "pipeline", ...}`` (all calls under way
at once) or ``{"do": "send", ...}`` (one way, until the last is handled). Standard input ends with the parent, so
nothing outlives a measurement.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

GRACE_SECONDS = 5.0
"""Time a server has to leave in order once its input ended."""


def serve(module: ModuleType, work: Path, *kind: str) -> None:
    stop = threading.Event()

    def end_with_input() -> None:
        sys.stdin.buffer.read()
        stop.set()
        time.sleep(GRACE_SECONDS)
        os._exit(0)

    threading.Thread(target=end_with_input, daemon=True).start()
    module.serve(work, lambda: print("ready", flush=True), stop, *kind)


def measure_echo(client: Any, size: int, count: int, warm: int) -> dict[str, list[int]]:
    """Time `count` echoes of `size` bytes after `warm` unmeasured ones; nanoseconds each."""
    data = os.urandom(size)
    for _ in range(warm):
        client.echo(data)
    clock = time.perf_counter_ns
    samples = []
    for _ in range(count):
        begin = clock()
        answer = client.echo(data)
        samples.append(clock() - begin)
        if len(answer) != size:
            raise RuntimeError(f"echo of {size} bytes returned {len(answer)}")
    return {"ns": samples}


def measure_rate(act: Callable[[int], None], count: int, warm: int, threads: int) -> dict[str, float]:
    """How many a second when `threads` threads each do their share of `count`."""
    act(warm)
    share = count // threads
    others = [threading.Thread(target=act, args=(share,)) for _ in range(threads - 1)]
    begin = time.perf_counter()
    for other in others:
        other.start()
    act(share)
    for other in others:
        other.join()
    return {"per_second": share * threads / (time.perf_counter() - begin)}


def measure(
    client: Any, do: str, size: int, count: int, warm: int, threads: int = 1, batch: bool = False
) -> dict[str, Any]:
    if do == "echo":
        return measure_echo(client, size, count, warm)
    data = os.urandom(size)
    act = getattr(client, "send_all" if batch else do)
    return measure_rate(lambda share: act(data, share), count, warm, threads)


def obey(module: ModuleType, work: Path, *kind: str) -> None:
    client = module.Client(work, *kind)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(measure(client, size=command.pop("bytes"), **command)), flush=True)
    client.close()


def main() -> None:
    role, name, work, *kind = sys.argv[1:]
    module = importlib.import_module(f"contenders.{name}_echo")
    (serve if role == "server" else obey)(module, Path(work), *kind)


if __name__ == "__main__":
    main()
