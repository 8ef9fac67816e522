"""Agents that share a root as hosts share a network filesystem: ``remote.c`` in each of them plays the client."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

from tests.interop.harness import Agent
from tests.interop.languages import ROOT
from tests.interop.pool import make_root

SOURCE = ROOT / "tests" / "torture" / "remote.c"
LIBRARY = ROOT / "build" / "torture" / "remote.so"


class Share:
    """A root whose changes another host may see ``late`` seconds later, as its mount options say.

    Use it as a context, which ends the agents. ``permille`` of the calls go wrong while ``fail`` says so.
    """

    def __init__(self, late: int, permille: int, seed: int, *, lies: bool = False) -> None:
        _build()
        self.root = os.path.realpath(make_root())
        self.late = late
        self._hosts = Path(tempfile.mkdtemp(prefix="speed-hosts."))
        self._variables = {
            "LD_PRELOAD": str(LIBRARY),
            "REMOTE_ROOT": self.root,
            "REMOTE_STALE_MS": str(1000 * late),
            "REMOTE_PERMILLE": str(permille),
            "REMOTE_SEED": str(seed),
            **({"REMOTE_LIES": "1"} if lies else {}),
        }
        self._agents: list[Agent] = []

    def start(self, language: str, name: str, **options: Any) -> Agent:
        """An agent on a host of its own."""
        host = self._hosts / str(len(self._agents))
        host.mkdir()
        mounted = f"server:/export {self.root} nfs4 rw,acregmax={self.late},acdirmax={self.late} 0 0\n"
        (host / "mounts").write_text(Path("/proc/self/mounts").read_text() + mounted)
        (host / "boot_id").write_text(f"{uuid.uuid4()}\n")
        variables = [f"{key}={value}" for key, value in {**self._variables, "REMOTE_HOST": str(host)}.items()]
        self._agents.append(Agent(language, name, self.root, under=["env", *variables], **options))
        return self._agents[-1]

    def fail(self, begin: bool) -> None:
        """Let calls on all hosts go wrong from now on, or no more."""
        for host in self._hosts.iterdir():
            (host / "faults").touch() if begin else (host / "faults").unlink()

    def __enter__(self) -> Share:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._agents:
            agent.end()
        for directory in (self.root, self._hosts):
            shutil.rmtree(directory, ignore_errors=True)


def _build() -> None:
    """With the compiler that the C++ node is built with."""
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    fresh = LIBRARY.with_suffix(f".{os.getpid()}")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", fresh, SOURCE, "-ldl", "-lpthread"], check=True)
    fresh.replace(LIBRARY)
