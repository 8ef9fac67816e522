"""The other process of ``speed bench``: echoes, counts messages, and ends with its standard input."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

from speed import Node


def main(name: str, client: str, root: str, key: str) -> None:
    """Serve ``client`` until the input ends."""
    handled = 0
    numbers = count(1)

    def take(_message: Any) -> None:
        nonlocal handled
        handled = next(numbers)

    with Node(name, root=root, key=key) as node:

        @node.service("echo")
        def echo(data: bytes) -> bytes:
            return data

        @node.service("handled")
        def handled_messages() -> int:
            return handled

        node.on_message(take)
        node.allow(client)
        print("READY", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
