"""The whole example: makes keys, starts each part in a process of its own, compares what came with what was sent.

    scripts/orders [--python-only] [--count N]

Exit status: 0 as it should be, 1 not, 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from examples.orders.orders import SCHEMAS, SHOP, order
from speed import MessageKey, generate_key, init_root

SOURCES = Path(__file__).resolve().parents[2]
JAVA = SOURCES / "bindings" / "java" / "bin" / "speed-java"
ALTERED = 3
PART_SECONDS = 180.0
STOP_SECONDS = 20.0


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="scripts/orders", description="Orders through a gateway.")
    parser.add_argument("--python-only", action="store_true", help="the shop in Python, too")
    parser.add_argument("--count", type=int, default=20, help="orders (default: 20)")
    parser.add_argument("--scratch", metavar="DIR", help="where to work (default: in memory)")
    chosen = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with scratch(chosen.scratch) as work:
        make_keys(work)
        statuses = run(work, chosen.count, chosen.python_only)
        found = json.loads((work / "orders.json").read_text()) if (work / "orders.json").exists() else []
    expected = [order(number) for number in range(1, chosen.count + 1)]
    if any(statuses) or sorted(found, key=lambda one: one["order"]) != expected:
        print(f"FAILED    | {len(found)} orders came, the parts ended with {statuses}", file=sys.stderr)
        return 1
    print("ok        | the desk has what the shop sold, each order once")
    return 0


def make_keys(work: Path) -> None:
    """Each part gets a directory with the keys that it needs, and no other; all get the key of the envelopes."""
    init_root(work / "root", work / "speed.key")
    shop, desk = generate_key("shop.1", "ed25519", publishers=(SHOP,)), generate_key("desk.1", "x-wing")
    for part in ("shop", "gateway", "desk"):
        (work / part).mkdir(mode=0o700)
    write_key(work / "shop" / "shop.json", shop)
    write_key(work / "shop" / "desk.public.json", desk.public_part())
    write_key(work / "gateway" / "shop.public.json", shop.public_part())
    write_key(work / "desk" / "shop.public.json", shop.public_part())
    write_key(work / "desk" / "desk.json", desk)


def write_key(path: Path, key: MessageKey) -> None:
    """As ``speed message keys`` does; private to this user."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(key.to_record(), file)


def run(work: Path, count: int, python_only: bool) -> list[int]:
    """Desk and gateway run until the shop has sold and a stranger has tried; returns all exit statuses."""
    sold = [str(work / "shop"), "--count", str(count), "--schemas", str(SCHEMAS)]
    with ExitStack() as stack:
        desk = stack.enter_context(running(work, part("desk", work / "desk", "--write", work / "orders.json")))
        gateway = stack.enter_context(running(work, part("gateway", work / "gateway", "--alter", ALTERED)))
        sells = part("shop", *sold) if python_only else [str(JAVA), "speed.examples.Shop", *sold]
        statuses = [finished(work, command) for command in (sells, part("shop", work / "shop", "--stranger"))]
    return [*statuses, gateway.returncode, desk.returncode]


def part(name: str, *words: object) -> list[str]:
    """The command of one of the example's programs."""
    return [sys.executable, "-m", f"examples.orders.{name}", *map(str, words)]


@contextmanager
def running(work: Path, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A part that is told to stop at the end, and ended if it does not."""
    process = subprocess.Popen(command, env=environment(work), start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finished(work: Path, command: Sequence[str]) -> int:
    """The exit status of a part that ends by itself; it is ended with this program, too."""
    with running(work, command) as process:
        return process.wait(PART_SECONDS)


def environment(work: Path) -> dict[str, str]:
    """Where the nodes meet."""
    places = {"SPEED_ROOT": str(work / "root"), "SPEED_KEY": str(work / "speed.key"), "PYTHONPATH": str(SOURCES)}
    return {**os.environ, **places}


@contextmanager
def scratch(place: str | None) -> Iterator[Path]:
    """A private directory, in memory unless there is a ``place``; it is removed afterwards."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="speed-orders.", dir=place or memory))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
