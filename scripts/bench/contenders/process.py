"""The program of the measured processes: ``python -m contenders.process (server|client) NAME WORK``.

A server prints ``ready`` and lives until its standard input ends. A client reads one JSON command a line,
``{"do": "echo", "bytes": 200, "count": 300, "warm": 20}`` or ``{"do": "pipeline", ...}``, and answers with
one line. Standard input ends with the parent, so nothing outlives a measurement.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

GRACE_SECONDS = 5.0
"""Time a server has to leave in order once its input ended."""


def serve(module: ModuleType, work: Path) -> None:
    stop = threading.Event()

    def end_with_input() -> None:
        sys.stdin.buffer.read()
        stop.set()
        time.sleep(GRACE_SECONDS)
        os._exit(0)

    threading.Thread(target=end_with_input, daemon=True).start()
    module.serve(work, lambda: print("ready", flush=True), stop)


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


def measure_pipeline(client: Any, size: int, count: int, warm: int) -> dict[str, float]:
    """Calls a second with all `count` calls under way at once."""
    data = os.urandom(size)
    client.pipeline(data, warm)
    begin = time.perf_counter()
    client.pipeline(data, count)
    return {"calls_per_second": count / (time.perf_counter() - begin)}


def obey(module: ModuleType, work: Path) -> None:
    client = module.Client(work)
    print("ready", flush=True)
    actions = {"echo": measure_echo, "pipeline": measure_pipeline}
    for line in sys.stdin:
        command = json.loads(line)
        action = actions[command["do"]]
        answer = action(client, command["bytes"], command["count"], command["warm"])
        print(json.dumps(answer), flush=True)
    client.close()


def main() -> None:
    role, name, work = sys.argv[1:]
    module = importlib.import_module(f"contenders.{name}_echo")
    (serve if role == "server" else obey)(module, Path(work))


if __name__ == "__main__":
    main()
