"""A shop that asks whichever process of the price service has least to do.

``python -m examples.pricing.shop`` starts the service in a directory of its own, and prints what it does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import speed
from examples.pricing.prices import UnknownProduct

HERE = Path(__file__).parent
PATIENT = speed.Retry(attempts=5, idempotent=True, hedge_seconds=1.0)


class Pricing(Protocol):
    """What the price service offers; editors and type checkers see it."""

    def quote(self, product: str, pieces: int = 1) -> Decimal: ...
    def process(self) -> int: ...


def shop(node: speed.Node) -> None:
    """Ask for prices, also while a process is killed."""
    for number in (1, 2, 3):
        node.wait_for(f"pricing.{number}", timeout=60)
    pricing = node.client(Pricing, "pricing.*", timeout=30, retry=PATIENT)
    print("three apples cost", pricing.quote("apple", pieces=3))
    try:
        pricing.quote("melon")
    except UnknownProduct as error:
        print("no price of a", error.product)
    processes = {pricing.process() for _ in range(30)}
    print("processes that answered:", len(processes))
    os.kill(min(processes), signal.SIGKILL)
    total = sum((pricing.quote("pear") for _ in range(100)), Decimal(0))
    print("a hundred pears cost", total, "whoever is killed")
    kept = {node.call("pricing.*", "process", key="alice") for _ in range(10)}
    print("processes that one key went to:", len(kept))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name in ("speedd.toml", "prices.py"):
            shutil.copy(HERE / name, place)
        speed.init_root(place / "root", place / "speed.key")
        daemon = subprocess.Popen([sys.executable, "-m", "speed.daemon", "run"], cwd=place, stderr=subprocess.DEVNULL)
        try:
            with speed.Node("shop", root=place / "root", key=place / "speed.key") as node:
                shop(node)
        finally:
            daemon.terminate()
            daemon.wait(60)


if __name__ == "__main__":
    main()
