"""One node that is killed again and again, and peers of all languages that live on; lives change their language."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.interop.harness import Agent, AgentError
from tests.interop.languages import LANGUAGES
from tests.interop.pool import Agents

VICTIM = "victim"
FAST: dict[str, Any] = {"lease": 30, "heartbeat": 0.5}
"""Peers see a death within a heartbeat."""
SYSCALLS = ("write", "pwrite64", "pread64", "read", "openat", "newfstatat", "close", "getdents64", "getrandom")
"""Those of the send and receive paths, in all languages; rarer ones: mkdir, rename, unlink, below."""
RARE_SYSCALLS = ("/mkdir(at)?", "/rename(at2?)?", "/unlink(at)?", "fcntl", "lseek", "futex", "epoll_wait")
ATTACH_SECONDS, END_SECONDS = 30.0, 5.0


class Strace:
    """strace, attached to an agent and its threads: it meddles with chosen system calls, all or those on ``path``."""

    def __init__(self, agent: Agent, syscalls: str, meddling: str, path: str = "") -> None:
        if shutil.which("strace") is None:
            raise AssertionError("strace is not installed; on Debian: apt-get install strace")
        chosen = ["-e", f"trace={syscalls}", "-e", f"inject={syscalls}:{meddling}", *(["-P", path] if path else [])]
        self.process = subprocess.Popen(
            ["strace", "-f", "-o", "/dev/null", *chosen, "-p", str(agent.process.pid)], stderr=subprocess.PIPE
        )
        assert self.process.stderr is not None
        assert b"attached" in self.process.stderr.readline(), "strace may not attach: is ptrace forbidden here?"

    def end(self) -> None:
        """Let the agent go, if it is alive.

        If it dies meanwhile, strace may wait for its first thread, which stays until all others were waited for.
        """
        self.process.terminate()
        try:
            self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate(timeout=ATTACH_SECONDS)


class Sniper(Strace):
    """Kills an agent as one of its threads enters a system call for the ``when``-th time."""

    def __init__(self, agent: Agent, syscalls: str, when: int, path: str = "") -> None:
        super().__init__(agent, syscalls, f"signal=KILL:when={when}", path)


class Delay(Strace):
    """Every eleventh call of a thread takes that much longer."""

    def __init__(self, agent: Agent, syscalls: str, microseconds: int) -> None:
        super().__init__(agent, syscalls, f"delay_exit={microseconds}:when=3+11")


class Duel:
    """Use it as a context, which ends all agents and removes their root."""

    def __init__(self) -> None:
        self.cast = Agents()
        self.root = self.cast.root
        self._peers: dict[str, Agent] = {}
        self.victim: Agent | None = None

    def __enter__(self) -> Duel:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.cast.close()

    def peer(self, language: str) -> Agent:
        """The one of this language."""
        if language not in self._peers:
            self._peers[language] = self.cast.start(language, f"peer.{language}", allow=[VICTIM], **FAST).ready()
        return self._peers[language]

    def live(self, language: str, workers: int = 4) -> Agent:
        """The next life of the victim: its name, in this language."""
        if self.victim is not None:
            self.victim.end()
        self.victim = self.cast.start(language, VICTIM, allow=["peer.*"], workers=workers, **FAST).ready()
        return self.victim


def language_of(number: int) -> str:
    """Turns, so that every pair and role comes up."""
    return list(LANGUAGES)[number % len(LANGUAGES)]


def tell_all(agent: Agent, op: str, commands: Iterable[dict[str, Any]]) -> list[int]:
    """The numbers of those commands that it could be told before it died."""
    numbers: list[int] = []
    with contextlib.suppress(BrokenPipeError):
        for fields in commands:
            numbers.append(agent.tell(op, **fields))  # noqa: PERF401 - those told before it died count
    return numbers


class Outcome:
    """What a series of commands came to: results and errors by their place, codes of all errors."""

    def __init__(self) -> None:
        self.results: dict[int, Any] = {}
        self.errors: dict[int, AgentError] = {}
        self.codes: set[str] = set()

    def take(self, agent: Agent, numbers: list[int], first: int = 0, *, end: int | None = None) -> None:
        """The answers to ``numbers[first:end]``; ends where the agent died."""
        for place, number in list(enumerate(numbers))[first:end]:
            try:
                self.results[place] = agent.answer(number)
            except AgentError as error:
                self.errors[place] = error
                self.codes.add(error.code)
            except AssertionError:
                if agent.process.poll() is None:
                    raise
                return


def aim(agent: Agent, random: Random) -> Sniper:
    """At one of its next system calls."""
    if random.random() < 0.75:
        return Sniper(agent, random.choice(SYSCALLS), random.randrange(1, 30))
    return Sniper(agent, random.choice(RARE_SYSCALLS), random.randrange(1, 4))
