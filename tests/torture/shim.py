"""``shim_c``: builds it, starts agents on it, and says which of their calls go wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.harness import Agent
from tests.interop.languages import ROOT
from tests.interop.pool import make_root

SHIM = ROOT / "tests" / "torture" / "shim_c"
SOURCES = sorted(SHIM.glob("*.c"))
LIBRARY = ROOT / "build" / "torture" / "shim.so"


class Shimmed:
    """A root and agents whose calls on it can go wrong; use it as a context, which ends them.

    ``variables``: those that ``shim_c`` names, without their ``SHIM_``.
    """

    def __init__(self, **variables: object) -> None:
        build()
        self.root = os.path.realpath(make_root())
        self.steering = Path(tempfile.mkdtemp(prefix="speed-shim."))
        self._variables = {f"SHIM_{name.upper()}": str(value) for name, value in variables.items()}
        self.agents: list[Agent] = []

    def start(self, language: str, name: str, *, plan: str | None = None, **options: Any) -> Agent:
        """An agent on the shim, in a host directory of its own; ``plan`` is what goes wrong from its start on."""
        host = self.host_of(len(self.agents))
        host.mkdir()
        self.prepare(host)
        steer(host, plan)
        variables = {**self._variables, "LD_PRELOAD": LIBRARY, "SHIM_ROOT": self.root, "SHIM_HOST": host}
        under = ["env", *(f"{key}={value}" for key, value in variables.items())]
        self.agents.append(Agent(language, name, self.root, under=under, **options))
        return self.agents[-1]

    def host_of(self, number: int) -> Path:
        return self.steering / str(number)

    def prepare(self, host: Path) -> None:
        """Put there what the agent is to find."""

    def plan(self, agent: Agent, plan: str | None) -> None:
        """What is to go wrong in this agent from now on, as ``shim_c`` says; None: nothing."""
        steer(self.host_of(self.agents.index(agent)), plan)

    def calls(self, agent: Agent) -> list[tuple[str, str, str]]:
        """(call, kind of file, ``failed`` or ``passed``) since the last time."""
        return taken(self.host_of(self.agents.index(agent)))

    def __enter__(self) -> Shimmed:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.agents:
            agent.end()
        for directory in (self.root, self.steering):
            shutil.rmtree(directory, ignore_errors=True)


def steer(host: Path, plan: str | None) -> None:
    if plan is None:
        (host / "faults").unlink(missing_ok=True)
    else:
        (host / ".faults").write_text(plan)
        (host / ".faults").rename(host / "faults")


def taken(host: Path) -> list[tuple[str, str, str]]:
    try:
        (host / "calls").rename(host / "taken")
    except FileNotFoundError:
        return []
    rows = (line.split() for line in (host / "taken").read_text().splitlines())
    return [(call, kind, how) for call, kind, how in rows]


def build() -> None:
    """With the compiler that the C++ node is built with."""
    parts = [*SOURCES, *SHIM.glob("*.h")]
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= max(part.stat().st_mtime for part in parts):
        return
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    fresh = LIBRARY.with_suffix(f".{os.getpid()}")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", fresh, *SOURCES, "-ldl", "-lpthread"], check=True)
    fresh.replace(LIBRARY)
