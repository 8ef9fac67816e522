"""The cases of ``--cases``: crowds, growth, disks; one row for each figure.

Every case starts processes of its own in a directory of its own; one that fails is told of, the others go on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import crowds
import growth
from case import Place, Scale
from contender import Contender
from contenders.table import BUILD, BUILT, MANY, PEERS, is_speed
from kinds import SMALL

STEADY = ("blocking",)
"""Growth is measured without polling (Java has no switch for it): whether that pays just now doubles a round trip."""
CASES: dict[str, tuple[Place, ...]] = {
    "fan-in": (Place(crowds.fan_in),),
    "backlog": (Place(crowds.backlog),),
    "nodes": (Place(growth.nodes, client=STEADY, server=STEADY, twin=True),),
    "waiting": (
        Place(growth.waiting_at_receiver, client=STEADY, server=("unread,blocking",), twin=True),
        Place(growth.waiting_at_caller, client=STEADY, server=STEADY, twin=True),
    ),
    "uptime": (Place(growth.uptime, client=STEADY, server=STEADY, twin=True),),
    "filesystems": (Place(growth.filesystems, on_disk=True, twin=True),),
    "durability": (Place(crowds.to_disk, on_disk=True, client=("disk",), slow_flush=True),),
}
PYTHON_CASES: dict[str, tuple[Place, ...]] = {
    "fairness": (Place(crowds.fairness),),
    "fan-out": (Place(crowds.fan_out),),
    "registry": (Place(crowds.large_registry),),
}
"""The crowd is all there is of them, and it is Python's."""
NAMES = (*CASES, *PYTHON_CASES)
SLOW_FLUSH = BUILT / "slow_flush.so"


def disk_directory() -> str | None:
    """A directory that survives a power cut; None where the checkout itself is in memory."""
    path = BUILT.parent
    path.mkdir(parents=True, exist_ok=True)
    return None if filesystem_of(path) in {"tmpfs", "ramfs"} else str(path)


def filesystem_of(path: Path) -> str:
    """The type of the mount that holds `path`; empty where /proc does not tell."""
    mounts = Path("/proc/self/mounts")
    longest, found = "", ""
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, place, kind, *_ = line.split()
        if path.is_relative_to(place) and len(place) >= len(longest):
            longest, found = place, kind
    return found


def run_one(name: str, place: Place, scale: Scale, memory: str | None) -> Iterator[dict[str, Any]]:
    """The rows of one case; none where it needs a disk and there is none."""
    disk = disk_directory()
    if place.on_disk and disk is None:
        return
    if place.slow_flush and not SLOW_FLUSH.exists():
        raise RuntimeError(f"not built: run {BUILD}")
    with ExitStack() as opened:

        def start(base: str | None) -> Contender:
            work = tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base, ignore_cleanup_errors=True)
            variables = {"LD_PRELOAD": str(SLOW_FLUSH)} if place.slow_flush else {}
            pair = Contender(name, Path(opened.enter_context(work)), place.client, place.server, variables)
            opened.callback(pair.close)
            if "java" in pair.peer.languages:
                pair.ask("echo", SMALL, scale.java_warm, 0)
            return pair

        pairs = [start(disk if place.on_disk else memory), *([start(memory)] if place.twin else [])]
        for row in place.case(*pairs, scale):
            yield {"contender": name, **vars(row)}


def places_of(name: str, chosen: frozenset[str]) -> list[Place]:
    """What of the chosen cases a contender takes part in; none but SPEED's, each language with itself."""
    if not is_speed(name) or not PEERS[name].does >= MANY:  # pairs of languages, and those that do not poll
        return []
    cases = {**CASES, **(PYTHON_CASES if PEERS[name].languages == {"python"} else {})}
    return [place for case, places in cases.items() if case in chosen for place in places]


def run(names: list[str], chosen: frozenset[str], scale: Scale, memory: str | None) -> Iterator[dict[str, Any]]:
    """The chosen cases of those SPEED contenders: rows, and for a case that failed one with ``failed``."""
    for name in names:
        for place in places_of(name, chosen):
            try:
                yield from run_one(name, place, scale, memory)
            except Exception as error:  # whatever it was: the other cases count
                yield {"contender": name, "case": place.case.__name__, "failed": f"{type(error).__name__}: {error}"}
