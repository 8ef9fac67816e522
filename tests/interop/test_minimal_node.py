"""A small node that was written from the contract alone, among the nodes of all languages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.cli.node_checks import examine_node
from speed.cli.options import Settings
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

PROGRAM = Path(__file__).with_name("minimal_node.py")
each_language = pytest.mark.parametrize("language", CHOSEN)


class Minimal:
    """The node as a process, which is told what to do and says what came of it."""

    def __init__(self, root: str, name: str, *allow: str) -> None:
        command = [sys.executable, "-I", str(PROGRAM), root, name, *allow]
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.said()[0] == "ready"

    def said(self) -> list[Any]:
        assert self.process.stdout is not None
        said: list[Any] = json.loads(self.process.stdout.readline() or '["ended"]')
        return said

    def do(self, verb: str, *words: Any) -> list[Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, *words]) + "\n")
        self.process.stdin.flush()
        return self.said()

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def minimal(agents: Agents) -> Iterator[Callable[..., Minimal]]:
    started: list[Minimal] = []

    def start(*allow: str, name: str = "minimal") -> Minimal:
        started.append(Minimal(agents.root, name, *allow))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_it_takes_nothing_from_this_project() -> None:
    assert not [line for line in PROGRAM.read_text().splitlines() if line.startswith(("import speed", "from speed"))]


@each_language
def test_it_pings_and_calls(agents: Agents, minimal: Callable[..., Minimal], language: str) -> None:
    server = agents.shared("server", language)
    server.ask("allow", patterns=["minimal"])
    node = minimal()
    assert node.do("ping", server.name) == ["ok", None]
    assert node.do("call", server.name, "add", {"a": 40, "b": 2}) == ["ok", 42]
    assert node.do("call", server.name, "none", {})[:2] == ["error", "SERVICE_NOT_FOUND"]
    assert node.do("close") == ["ok", None]


@each_language
def test_it_answers_pings_and_calls(agents: Agents, minimal: Callable[..., Minimal], language: str) -> None:
    caller: Agent = agents.shared("caller", language)
    node = minimal(caller.name)
    caller.ask("ping", target=node.name)
    assert caller.ask("call", target=node.name, service="add", arguments={"a": 40, "b": 2}) == 42
    refusal = caller.refusal("call", target=node.name, service="add", arguments={"a": 1})
    assert refusal.code == "INVALID_ARGUMENTS"
    assert node.do("close") == ["ok", None]


@each_language
def test_it_answers_a_node_whose_name_does_not_come_back(
    private: Agents, language: str, request: pytest.FixtureRequest
) -> None:
    """W-10: also in a later life of that name."""
    node = Minimal(private.root, "minimal", "worker")
    request.addfinalizer(node.end)
    for _ in range(2):
        worker = private.start(language, "worker", ephemeral="true").ready()
        assert worker.ask("call", target=node.name, service="add", arguments={"a": 40, "b": 2}) == 42
        assert worker.close() == 0


def test_a_second_life_answers_what_the_first_left(agents: Agents, minimal: Callable[..., Minimal]) -> None:
    caller = agents.shared("caller", CHOSEN[0])
    first = minimal(caller.name)
    caller.ask("ping", target=first.name)
    first.end()
    second = minimal(caller.name)
    assert caller.ask("call", target=second.name, service="add", arguments={"a": 1, "b": 1}) == 2
    assert second.do("close") == ["ok", None]


def test_the_doctor_finds_it_sound(agents: Agents, minimal: Callable[..., Minimal]) -> None:
    node = minimal("cli.*")
    found = examine_node(Settings(agents.root, None, False), node.name)
    assert not [one for one in found if one.state == "broken"]
    said = {one.check: one.found for one in found if one.state == "ok"}
    assert {"ping", "call"} <= said.keys()
    assert "takes no messages" in said["send"]
