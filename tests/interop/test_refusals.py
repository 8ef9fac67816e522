"""What a node answers to an envelope that it cannot use: who asked is told, and nobody else (S-11, S-12, M-15).

And who may ask for figures without a grant (A-7).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

import speed
from speed.engine.python.node import PythonEngine
from speed.errors import InvalidArgumentsError
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_REPLY, FLAG_SEGMENT, EnvelopeType
from speed.wire.names import observers_path
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

WAIT = 30.0


class Outsider:
    """A node in this process that writes what no program can ask for."""

    def __init__(self, root: str) -> None:
        self.node = speed.Node("caller.outsider", root=root, engine="python")
        assert isinstance(self.node._engine, PythonEngine)
        self.engine = self.node._engine

    def write(self, target: Agent, type_: EnvelopeType, flags: int) -> None:
        link = self.engine._parts.links.granted(target.name)
        link.send(type_, flags, b"part", monotonic() + WAIT)

    def unexpected(self, target: Agent) -> int:
        """How many answers came that nobody waits for, up to now: lanes keep their order."""
        self.node.ping(target.name, timeout=WAIT)
        return int(self.node.stats()["counters"].get("answers_unexpected", 0))


@pytest.fixture
def outsider(agents: Agents) -> Iterator[Outsider]:
    one = Outsider(agents.root)
    yield one
    one.node.close()


@pytest.mark.parametrize("target", CHOSEN)
def test_an_unknown_question_is_refused_under_its_id(agents: Agents, outsider: Outsider, target: str) -> None:
    """S-12: whoever asked waits under the id, not under the sequence."""
    with pytest.raises(InvalidArgumentsError):
        outsider.engine.discover(agents.shared("server", target).name, "WEATHER", WAIT)


@pytest.mark.parametrize("target", CHOSEN)
def test_only_who_asked_hears_of_a_refused_segment(agents: Agents, outsider: Outsider, target: str) -> None:
    """M-15, G-19: it is counted; an answer is never answered, and what is no segment is not either."""
    server = agents.shared("server", target)
    before = _refused(outsider, server)
    outsider.write(server, EnvelopeType.EVENT, FLAG_SEGMENT)
    outsider.write(server, EnvelopeType.SPC_RESPONSE, FLAG_SEGMENT | FLAG_REPLY)
    assert outsider.unexpected(server) == 0
    outsider.write(server, EnvelopeType.MESSAGE, FLAG_SEGMENT | FLAG_ACK_REQUESTED)
    outsider.write(server, EnvelopeType.SPC_REQUEST, FLAG_SEGMENT)
    assert outsider.unexpected(server) in (0, 2)
    assert _refused(outsider, server) == before + 4


def _refused(outsider: Outsider, server: Agent) -> int:
    """Segments that were no segments, and those that the node has no use for."""
    counters = outsider.node.stats(server.name)["counters"]
    return int(counters.get("segments_refused", 0)) + int(counters.get("rejected_bad_segment", 0))


# --- observers ---


@pytest.fixture
def observed(private: Agents) -> Iterator[speed.Node]:
    """A node in Python that grants nothing, in a root whose owner lets `cli.*` look."""
    path = Path(observers_path(private.root))
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text("cli.*\n")
    path.chmod(0o600)
    with speed.Node("cli.python", root=private.root, engine="python") as node:
        yield node


@pytest.mark.parametrize("language", CHOSEN)
def test_an_observer_of_another_language_looks_and_does_nothing_else(
    private: Agents, observed: speed.Node, language: str
) -> None:
    """A-7: in both directions."""
    agent = private.start(language, "cli.other").ready()
    assert agent.ask("stats", target=observed.name)["name"] == observed.name
    assert agent.ask("ping", target=observed.name) is not None
    assert observed.stats(agent.name)["name"] == agent.name
    assert observed.ping(agent.name, timeout=WAIT) > 0
    assert agent.refusal("services", target=observed.name).code == "ACCESS_DENIED"
    with pytest.raises(speed.AccessDeniedError):
        observed.call(agent.name, "add", {"a": 1, "b": 2}, timeout=WAIT)


@pytest.mark.parametrize("language", CHOSEN)
def test_who_is_no_observer_reads_no_figures_of_another_language(
    private: Agents, observed: speed.Node, language: str
) -> None:
    """A-7."""
    agent = private.start(language, "web").ready()
    assert agent.refusal("stats", target=observed.name).code == "ACCESS_DENIED"
    agent.ask("deny", patterns=["cli.*"])
    with pytest.raises(speed.AccessDeniedError):
        observed.stats(agent.name)
