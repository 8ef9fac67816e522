"""Families of nodes: a caller of each language calls nodes of each other as one (S-40)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import speed
from tests.interop.harness import Agent, until
from tests.interop.languages import CHOSEN, pairs
from tests.interop.pool import Agents

Between = Callable[..., tuple[Agent, Agent]]


@pairs("calls")
def test_a_family_shares_calls_and_loses_none_when_a_node_is_killed(
    between: Between, agents: Agents, source: str, target: str
) -> None:
    caller, _ = between(source, target)
    family = f"family.{source}.{target}"
    members = [agents.start(target, f"{family}.{number}", allow=["caller.*"]) for number in range(2)]
    for member in members:
        member.ready()
        caller.ask("wait_for", target=member.name, timeout=20)
    for number in range(6):
        caller.ask("call", target=f"{family}.*", service="sequence", arguments={"n": number})
    seen = [caller.call(member, "sequence_seen", {}) for member in members]
    assert sorted(map(len, seen)) == [3, 3]
    assert sorted(seen[0] + seen[1]) == list(range(6))
    members[0].kill()
    for number in range(6):
        caller.ask("call", target=f"{family}.*", service="sequence", arguments={"n": number})
    assert caller.call(members[1], "sequence_seen", {}) == list(range(6))
    caller.ask("send", target=f"{family}.*", payload="hello")
    assert members[1].ask("receive", timeout=20)["payload"] == "hello"
    members[1].ask("close")


@pairs("calls")
def test_a_family_that_is_not_there_or_allows_nobody(
    between: Between, agents: Agents, source: str, target: str
) -> None:
    caller, _ = between(source, target)
    family = f"nobody.{source}.{target}"
    assert caller.refusal("call", target=f"{family}.*", service="add", arguments={}).code == "UNKNOWN_NODE"
    closed = agents.start(target, f"{family}.1").ready()

    def is_denied() -> bool:
        return caller.refusal("call", target=f"{family}.*", service="add", arguments={}).code == "ACCESS_DENIED"

    assert until(is_denied)  # a node that joins is seen after a moment
    closed.ask("close")


@pytest.mark.parametrize("source", CHOSEN)
def test_a_family_that_is_only_starting_is_waited_for(agents: Agents, source: str) -> None:
    caller = agents.shared("caller", source)
    family = f"starting.{source}"
    with speed.Node(f"{family}.1", root=agents.root, engine="python", allow=["caller.*"], starting=True) as member:
        member.register("add", lambda a, b: a + b)
        brief = caller.refusal("call", target=f"{family}.*", service="add", arguments={"a": 1, "b": 2}, timeout=0.5)
        assert (brief.code, brief.execution) in (("NODE_STARTING", "not begun"), ("TIMEOUT", "not begun"))
        call = caller.tell("call", target=f"{family}.*", service="add", arguments={"a": 1, "b": 2}, timeout=60)
        member.ready()
        assert caller.answer(call) == 3
