"""Agents that share a root as hosts share a network filesystem: ``shim_c`` in each of them plays the client."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.torture.shim import Shimmed, steer


class Share(Shimmed):
    """A root whose changes another host may see ``late`` seconds later, as its mount options say.

    ``permille`` of the calls go wrong while ``fail`` says so.
    """

    def __init__(self, late: int, permille: int, seed: int, *, lies: bool = False) -> None:
        super().__init__(stale_ms=1000 * late, permille=permille, seed=seed, **({"lies": 1} if lies else {}))
        self.late = late

    def prepare(self, host: Path) -> None:
        """What tells a host of its mount and of itself."""
        mounted = f"server:/export {self.root} nfs4 rw,acregmax={self.late},acdirmax={self.late} 0 0\n"
        (host / "mounts").write_text(Path("/proc/self/mounts").read_text() + mounted)
        (host / "boot_id").write_text(f"{uuid.uuid4()}\n")

    def fail(self, begin: bool) -> None:
        """Let calls on all hosts go wrong from now on, or no more."""
        for host in self.steering.iterdir():
            steer(host, "" if begin else None)
