"""Many idle senders in one process: ``python -m tests.torture.idlers ROOT FAMILY COUNT SERVICE …``.

Says ``up``; then, for each line that it reads, every node calls every service once, and one line says how long each
call took, in seconds. Ends when its input does.
"""

from __future__ import annotations

import sys
import time

import speed


def call(node: speed.Node, service: str) -> float:
    began = time.monotonic()
    assert node.call(service, "add", {"a": 1, "b": 1}, timeout=60) == 2
    return time.monotonic() - began


def main(root: str, family: str, count: str, *services: str) -> None:
    nodes = [speed.Node(f"{family}.{n}", root=root, workers=1, ephemeral=True) for n in range(int(count))]
    print("up", flush=True)
    for _ in sys.stdin:
        print(*(f"{call(node, service):.6f}" for node in nodes for service in services), flush=True)
    for node in nodes:
        node.close(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
