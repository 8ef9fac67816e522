"""What waits for a node is shown to whoever operates its root, whatever language hangs (L-32)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import speed
from speed.fs.keyfile import load_key_file
from speed.observe.backlogs import LaneBacklog, LaneWatch
from tests.interop.harness import Agent, pause, until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

MESSAGES = 5000
OLD = 1.0


@pytest.fixture
def shop(private: Agents) -> Iterator[speed.Node]:
    with speed.Node("shop", root=private.root) as node:
        yield node


@pytest.fixture(params=CHOSEN)
def billing(request: pytest.FixtureRequest, private: Agents, shop: speed.Node) -> Agent:
    agent = private.start(request.param, "billing", allow=["shop"], lease=90, heartbeat=20).ready()
    shop.wait_for("billing")
    return agent


def waits(agents: Agents) -> LaneBacklog | None:
    watch = LaneWatch(agents.root, load_key_file(f"{agents.root}/speed.key"))
    return watch.look().get("billing", {}).get("shop")


def waiting_troubles(agents: Agents) -> list[str]:
    command = [sys.executable, "-m", "speed.cli", "--root", agents.root, "status", "--json", "--behind", str(OLD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [one["found"] for one in json.loads(done.stdout)["troubles"] if one["check"] == "lanes"]


def until_old(agents: Agents) -> LaneBacklog:
    """What waits, once the oldest is as old as `speed status` has patience."""
    assert until(lambda: (found := waits(agents)) is not None and found.oldest_seconds > OLD)
    found = waits(agents)
    assert found is not None
    return found


def test_what_waits_for_a_stopped_node_is_counted_and_its_age_is_told(
    private: Agents, shop: speed.Node, billing: Agent
) -> None:
    """L-32: until it goes on, and has handled it."""
    pause(billing.pid)
    try:
        shop.send_all("billing", [{"n": number} for number in range(MESSAGES)])
        found = until_old(private)
        assert found.messages == MESSAGES
        assert found.size > MESSAGES * 104
        told = waiting_troubles(private)
        assert len(told) == 1
        assert told[0].startswith(f"{MESSAGES} messages wait in the lanes of billing, the oldest for ")
        assert told[0].endswith("; from shop")
    finally:
        os.kill(billing.pid, signal.SIGCONT)
    assert billing.ask("drain", count=MESSAGES, timeout=60)["received"] == MESSAGES
    assert until(lambda: waits(private) is None)


def test_what_waits_behind_a_slow_handler_is_counted(private: Agents, shop: speed.Node, billing: Agent) -> None:
    """L-32: the node answers, and has read much of it already."""
    shop.send_all("billing", [{"n": number} for number in range(MESSAGES)])
    assert billing.ask("drain", count=1000, timeout=60)["received"] == 1000
    assert until(lambda: (found := waits(private)) is not None and found.messages == MESSAGES - 1000)
    until_old(private)
    assert any(
        one.startswith(f"{MESSAGES - 1000} messages wait in the lanes of billing") for one in waiting_troubles(private)
    )


def test_answers_and_acknowledgements_do_not_wait(private: Agents, shop: speed.Node, billing: Agent) -> None:
    """L-32: they were read, though that is committed later; a call that has run waits no more."""
    shop.allow("billing")
    for _ in range(20):
        assert shop.call("billing", "echo", {"data": b"x"}, timeout=20) == b"x"
        shop.ping("billing")
    found = LaneWatch(private.root, load_key_file(f"{private.root}/speed.key")).look()
    assert found == {}
