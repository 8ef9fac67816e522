"""Nodes whose names do not come back, in every pair of languages (R-25 to R-27, L-27)."""

from __future__ import annotations

import os

from tests.interop.harness import Agent, until
from tests.interop.languages import pairs
from tests.interop.pool import Agents
from tests.torture.lane_files import LaneFiles

SHORT = {"lease": 1.0, "heartbeat": 0.3}


def left_of(root: str, name: str) -> list[str]:
    """What in a root bears a name."""
    found = []
    for directory, folders, files in os.walk(root):
        found += [os.path.join(directory, one) for one in (*folders, *files) if one.startswith(name)]
    return found


def called(private: Agents, source: str, target: str) -> Agent:
    """An ephemeral sender that had its answer; its receiver goes on."""
    server = private.start(target, "server", allow=["worker"], **SHORT)
    worker = private.start(source, "worker", ephemeral="true", **SHORT)
    server.ready()
    assert worker.ready().call(server, "add", {"a": 1, "b": 2}) == 3
    return worker


@pairs("leaves")
def test_of_one_that_leaves_nothing_is_left(private: Agents, source: str, target: str) -> None:
    worker = called(private, source, target)
    assert worker.close() == 0
    assert until(lambda: left_of(private.root, "worker") == [])


@pairs("is killed beside")
def test_of_one_that_is_killed_nothing_is_left(private: Agents, source: str, target: str) -> None:
    called(private, source, target).kill()
    assert until(lambda: left_of(private.root, "worker") == [])


@pairs("comes back to")
def test_one_that_comes_back_all_the_same_is_served_in_a_later_generation(
    private: Agents, source: str, target: str
) -> None:
    worker = called(private, source, target)
    first = worker.generation
    worker.close()
    again = private.start(source, "worker", ephemeral="true", **SHORT).ready()
    assert again.generation > first
    assert again.ask("call", target="server", service="add", arguments={"a": 3, "b": 4}) == 7


@pairs("writes to the next life of")
def test_one_that_was_killed_and_is_back_at_once_takes_what_is_sent_to_it_now(
    private: Agents, source: str, target: str
) -> None:
    """Nobody swept what the first life left: its lane, with a message that nobody took, and its cursor."""
    sender = private.start(source, "sender", **SHORT).ready()
    first = private.start(target, "worker", ephemeral="true", allow=["sender"], **SHORT).ready()
    for number in range(3):
        sender.ask("send", target="worker", payload=number)
    assert first.ask("receive", timeout=5)["payload"] == 0
    first.kill()
    second = private.start(target, "worker", ephemeral="true", allow=["sender"], **SHORT).ready()
    sender.ask("send", target="worker", payload="new", ack=True)
    assert second.ask("receive", timeout=5)["payload"] == "new"
    assert second.ask("receive", timeout=0.2) is None


@pairs("writes again to")
def test_what_one_life_of_a_name_was_sent_is_not_taken_by_the_next(private: Agents, source: str, target: str) -> None:
    """W-10: the sender lives on, so its recorded envelopes are of its present generation."""
    sender = private.start(source, "sender", **SHORT).ready()
    first = private.start(target, "worker", ephemeral="true", allow=["sender"], **SHORT).ready()
    for number in range(3):
        sender.ask("send", target="worker", payload=number, ack=True)
    lane = LaneFiles(private.root, "sender", "worker")
    recorded = lane.data()
    first.close()
    second = private.start(target, "worker", ephemeral="true", allow=["sender"], **SHORT).ready()
    assert second.generation > first.generation
    lane.add_segment((sender.generation, 999), recorded)
    sender.ask("send", target="worker", payload="new", ack=True)
    lane.append(recorded)
    sender.ask("send", target="worker", payload="newer", ack=True)
    assert [second.ask("receive", timeout=5)["payload"] for _ in range(2)] == ["new", "newer"]
    assert second.ask("receive", timeout=0.2) is None
