"""The agents of one root: shared ones by role and language, and those of a single test."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from speed.fs.keyfile import write_key_file
from tests.interop.harness import Agent

ROLES: dict[str, dict[str, Any]] = {
    "caller": {"allow": ["server.*"], "heartbeat": 1},
    "server": {"allow": ["caller.*"]},
    "serial": {"allow": ["caller.*", "server.*"], "workers": 1},
    "closed": {},
}
"""What shared agents are for: ``closed`` allows nobody; ``serial`` runs one service at a time, so that it knows
in which order they started. A short heartbeat lets callers notice the dead sooner."""


def make_root() -> str:
    """An empty communication directory with a key, in memory where that exists."""
    path = tempfile.mkdtemp(prefix="speed-interop.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    write_key_file(f"{path}/speed.key", (os.urandom(32),))
    return path


class Agents:
    """The agents of one root, started when first asked for."""

    def __init__(self) -> None:
        self.root = make_root()
        self._started: list[Agent] = []
        self._shared: dict[str, Agent] = {}

    def start(self, language: str, name: str, **options: Any) -> Agent:
        """A process of the test's own; ``ready()`` is for the caller, so that several start side by side."""
        self._started.append(Agent(language, name, self.root, **options))
        return self._started[-1]

    def shared(self, role: str, language: str) -> Agent:
        """The one agent of this role and language; a new one when the last test left it dead or busy."""
        name = f"{role}.{language}"
        known = self._shared.get(name)
        if known is None or not known.idle:
            if known is not None:
                known.end()
            known = self._shared[name] = self.start(language, name, **ROLES[role]).ready()
        return known

    def forget(self) -> None:
        """After a failure: the next test gets new agents."""
        self._shared.clear()
        self.end_all()

    def drop_dead(self) -> None:
        """Let go of what is left of agents that ended."""
        for agent in [agent for agent in self._started if agent.process.poll() is not None]:
            agent.end()
            self._started.remove(agent)

    def end_all(self) -> None:
        for agent in self._started:
            agent.end()
        self._started.clear()

    def stderr(self) -> str:
        told = [f"--- {agent!r}\n{text}" for agent in self._started if (text := agent.stderr())]
        return "\n".join(told)

    def close(self) -> None:
        self.end_all()
        shutil.rmtree(self.root, ignore_errors=True)
