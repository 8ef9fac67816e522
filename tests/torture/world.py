"""One agent of each language in a root of their own; all of them allow each other."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from speed.fs.keyfile import load_key_file, read_keys, write_key_file
from speed.wire.seal import Keyring
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import make_root
from tests.torture.lane_files import LaneFiles
from tests.torture.scenario import Report

ROUNDS_PER_ROOT = 40
OPTIONS: dict[str, Any] = {"allow": ["t.*"], "lease": 30, "heartbeat": 1}


class World:
    """Agents ``t.<language>``; use it as a context, which ends them and removes the root."""

    def __init__(
        self, languages: Iterable[str] = CHOSEN, root: str = "", ephemeral: Collection[str] = (), **options: Any
    ) -> None:
        """``ephemeral``: the languages whose names do not come back, though here they do."""
        self.root = root or make_root()
        self.ephemeral = ephemeral
        self._options = OPTIONS | options
        self.agents: dict[str, Agent] = {}
        self._started: list[Agent] = []
        self.start(*languages)

    def start(self, *languages: str) -> None:
        """Side by side; each listens to the events ``t.*``."""
        for language in languages:
            kind = {"ephemeral": "true"} if language in self.ephemeral else {}
            agent = Agent(language, f"t.{language}", self.root, **self._options, **kind)
            self.agents[language] = agent
            self._started.append(agent)
        for language in languages:
            self.agents[language].ready().ask("subscribe", pattern="t.*")

    def restart(self, *languages: str, kill: bool = True) -> None:
        for language in languages:
            self.agents[language].kill() if kill else self.agents[language].close()
        self.start(*languages)

    def rotate(self, *, keep_old: bool) -> None:
        """Another first key, with or without the former ones behind it; all start anew (W-14)."""
        old = read_keys(self.key_path)[:1] if keep_old else ()
        for agent in self.agents.values():
            agent.kill()
        write_key_file(self.key_path, (os.urandom(32), *old), replace=True)
        self.start(*self.agents)

    @property
    def key_path(self) -> str:
        return f"{self.root}/speed.key"

    @property
    def keyring(self) -> Keyring:
        return load_key_file(self.key_path)

    def pairs(self) -> list[tuple[Agent, Agent]]:
        """All ordered pairs of different agents."""
        return list(itertools.permutations(self.agents.values(), 2))

    def life_of(self, agent: Agent) -> int:
        """The generation of an ephemeral agent, for which alone it can be written to (W-10); else 0."""
        return agent.generation if agent.language in self.ephemeral else 0

    def lane(self, source: Agent, target: Agent) -> LaneFiles:
        return LaneFiles(self.root, source.name, target.name)

    def __enter__(self) -> World:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._started:
            agent.end()
        shutil.rmtree(self.root, ignore_errors=True)


def in_worlds(seeds: Iterator[int], report: Report, **options: Any) -> Iterator[tuple[World, int]]:
    """Each round's seed, with a world that some rounds share; ``options`` are of its agents."""
    for first in seeds:
        ephemeral = [language for place, language in enumerate(CHOSEN) if report.kind(first + place)]
        with World(ephemeral=ephemeral, **options) as world:
            yield world, first
            for seed in itertools.islice(seeds, ROUNDS_PER_ROOT - 1):
                yield world, seed
