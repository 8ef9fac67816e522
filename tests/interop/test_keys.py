"""A key that changes while nodes of two languages call each other (registry_spec/wire.md, W-20)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from speed.fs.keyfile import read_keys
from speed.wire.seal import key_id_of
from tests.interop.harness import Agent, until
from tests.interop.languages import CHOSEN, ROOT, pairs
from tests.interop.pool import Agents

OFTEN = {"heartbeat": 0.3, "lease": 10}


def speed_key(root: str, *words: str) -> Any:
    """What ``speed key …`` prints; None if it ended with another status than 0."""
    command = [sys.executable, "-m", "speed.cli", "key", *words, "--root", root, "--key", f"{root}/speed.key", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


class Caller:
    """Calls another node again and again, on a thread of its own."""

    def __init__(self, agent: Agent, target: Agent) -> None:
        self.agent, self.target = agent, target
        self.calls, self.failed = 0, ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set() and not self.failed:
            try:
                answer = self.agent.call(self.target, "add", {"a": self.calls, "b": 1}, timeout=20.0)
            except Exception as error:
                self.failed = f"call {self.calls} of {self.agent!r}: {error}"
                return
            if answer != self.calls + 1:
                self.failed = f"call {self.calls} of {self.agent!r} was answered with {answer}"
            self.calls += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def calling(one: Agent, other: Agent) -> Iterator[tuple[Caller, Caller]]:
    """Both call each other until the end of the block."""
    callers = Caller(one, other), Caller(other, one)
    try:
        yield callers
    finally:
        for caller in callers:
            caller.stop()


def dropped(agent: Agent) -> dict[str, int]:
    """What it rejected, damaged or missed."""
    counters = agent.ask("stats")["counters"]
    words = ("rejected", "damage", "gap", "duplicate", "cursors_", "lanes_failed", "key_files")
    return {name: count for name, count in counters.items() if name.startswith(words)}


@pairs("calls")
def test_no_call_is_lost_while_a_key_is_added_promoted_and_retired(private: Agents, source: str, target: str) -> None:
    root = private.root
    one = private.start(source, "one", allow=["two"], **OFTEN)
    two = private.start(target, "two", allow=["one"], **OFTEN)
    for agent in (one, two):
        agent.ready()
    before = read_keys(f"{root}/speed.key")
    with calling(one, two) as callers:
        for step in ("add", "promote", "retire"):
            made = [caller.calls for caller in callers]
            assert until(lambda: speed_key(root, "rotate", "--step", step) is not None), step  # noqa: B023
            assert until(lambda: speed_key(root, "status") is not None), f"not everybody took the file of {step}"
            goal = [count + 20 for count in made]
            assert until(lambda: all(c.failed or c.calls >= n for c, n in zip(callers, goal, strict=True)))  # noqa: B023
            assert not [caller.failed for caller in callers if caller.failed], step
    after = read_keys(f"{root}/speed.key")
    assert len(after) == 1 and after != before
    assert [node["keyIds"] for node in speed_key(root, "status")["nodes"]] == [[key_id_of(after[0]).hex()]] * 2
    assert [dropped(agent) for agent in (one, two)] == [{}, {}]
    print(f"{source}, {target}: {[caller.calls for caller in callers]} calls, 0 lost")


def test_a_successor_finds_nothing_that_only_a_retired_key_opens(private: Agents) -> None:
    """Each node ends after the rotation and starts anew: its cursors tell it where it was."""
    root = private.root
    agents = {language: private.start(language, f"node.{language}", allow=["node.*"], **OFTEN) for language in CHOSEN}
    for agent in agents.values():
        agent.ready()
    exchange(agents)
    for step in ("add", "promote"):
        assert speed_key(root, "rotate", "--step", step) is not None
        assert until(lambda: speed_key(root, "status") is not None)
    exchange(agents)
    assert until(lambda: speed_key(root, "rotate", "--step", "retire") is not None)
    for language, agent in agents.items():
        agent.kill()
        agents[language] = private.start(language, agent.name, allow=["node.*"], **OFTEN).ready()
    exchange(agents)
    assert not {language: lost for language, agent in agents.items() if (lost := dropped(agent))}


def exchange(agents: dict[str, Agent]) -> None:
    """All send to all, and read."""
    for sender in agents.values():
        for receiver in agents.values():
            if receiver is not sender:
                sender.ask("send", target=receiver.name, payload={"n": 1}, timeout=20.0, ack=False)
    for receiver in agents.values():
        assert receiver.ask("drain", count=len(agents) - 1, timeout=20.0)["received"] == len(agents) - 1
