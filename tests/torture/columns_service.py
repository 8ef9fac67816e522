"""The service of ``applications``: ``python -m tests.torture.columns_service ROOT``. Ends with its input."""

from __future__ import annotations

import sys
from typing import Any

import speed
from speed.column_services import by_array


@by_array
def plus(a: Any, b: Any) -> Any:
    return a + b


def main(root: str) -> None:
    with speed.Node("columns", root=root, allow=["etl.*"]) as node:
        node.register("plus", plus)
        print("up", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
