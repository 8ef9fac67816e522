"""Cleans a root until its input ends: ``python -m tests.torture.cleaner ROOT [careless]``. Prints how often it did.

``careless``: it takes every node without an entry for a dead one.
"""

from __future__ import annotations

import os
import select
import shutil
import sys

from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from speed.observe.leftovers import find_leftovers, remove_leftover
from speed.wire import names


def clean(registry: Registry) -> None:
    """What ``speed root gc`` does."""
    for leftover in find_leftovers(registry):
        if leftover.removable:
            remove_leftover(registry, leftover)


def clean_carelessly(registry: Registry) -> None:
    for name in os.listdir(registry.root):
        if names.is_node_name(name) and not os.path.exists(names.entry_path(registry.root, name)):
            shutil.rmtree(names.node_dir(registry.root, name), ignore_errors=True)


def main(root: str, *how: str) -> None:
    registry = Registry(root, load_key_file(f"{root}/speed.key"))
    rounds = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        clean_carelessly(registry) if how else clean(registry)
        rounds += 1
    print(rounds)


if __name__ == "__main__":
    main(*sys.argv[1:])
