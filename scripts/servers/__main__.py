"""``scripts/backends``."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from scripts.servers import KINDS, Pulsar, Server
from scripts.servers.server import ROOT

PLACE = ROOT / "build" / "backends"
"""Says where the directories of those that are up are."""
EVERY: dict[str, type[Server]] = {**KINDS, Pulsar.name: Pulsar}


def chosen(names: Sequence[str]) -> list[str]:
    """All without names; SystemExit for one that is none."""
    unknown = [name for name in names if name not in EVERY]
    if unknown:
        raise SystemExit(f"backends: {unknown[0]} is none of {', '.join(EVERY)}")
    return list(names) or list(EVERY)


def started(names: Sequence[str]) -> list[Server]:
    """Each in a directory that its user may go through."""
    servers = []
    for name in names:
        directory = Path(tempfile.mkdtemp(prefix=f"speed-{name}-"))
        directory.chmod(0o755)
        server = EVERY[name](directory)
        server.start()
        servers.append(server)
        tell(server)
    return servers


def tell(server: Server) -> None:
    """Print its addresses."""
    every = server.addresses if isinstance(server, Pulsar) else {server.name: server.address}
    for name, address in every.items():
        print(f"{name}={address}", flush=True)


def up(names: Sequence[str]) -> None:
    """Start those that are not up."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (PLACE / name).exists():
            tell(EVERY[name](Path((PLACE / name).read_text())))
        else:
            (server,) = started([name])
            (PLACE / name).write_text(str(server.directory))


def down(names: Sequence[str]) -> None:
    """Stop those that are up."""
    for name in names:
        if (PLACE / name).exists():
            remove(EVERY[name](Path((PLACE / name).read_text())))
            (PLACE / name).unlink()


def remove(server: Server) -> None:
    """Stop it, and remove its directory."""
    server.stop()
    shutil.rmtree(server.directory, ignore_errors=True)


def run(names: Sequence[str]) -> None:
    """Until interrupted."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    servers = started(names)
    try:
        over.wait()
    finally:
        for server in servers:
            remove(server)


def fetch(names: Sequence[str]) -> None:
    """Have all that is needed."""
    for name in names:
        EVERY[name].provide()


if __name__ == "__main__":
    {"up": up, "down": down, "run": run, "fetch": fetch}[sys.argv[1]](chosen(sys.argv[2:]))
