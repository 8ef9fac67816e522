"""``speed status``: each fault is named with its cure, and a sound root has none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.topics.catalogue import Catalogue
from speed.topics.host import Access, Grants, Host
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system

OPTIONS: dict[str, Any] = {"allow": ["cli.*", "shop"]}
FROZEN = """
import sys, speed
with speed.Node("frozen", root=sys.argv[1], key=sys.argv[1] + "/speed.key", allow=["cli.*"], lease_seconds=90,
                heartbeat_seconds=20):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def pricing(run: Command) -> Iterator[speed.Node]:
    with speed.Node("pricing", root=run.root, key=run.root / "speed.key", workers=2, **OPTIONS) as node:
        node.register("quote", lambda seconds: time.sleep(seconds))
        yield node


@pytest.fixture
def shop(run: Command, pricing: speed.Node) -> Iterator[speed.Node]:
    with speed.Node("shop", root=run.root, key=run.root / "speed.key", allow=["cli.*", "pricing"]) as node:
        node.wait_for("pricing")
        yield node


def troubles(run: Command, *words: str) -> list[str]:
    found = run("status", "--json", *words).value["troubles"]
    return [f"{one['check']}: {one['found']} | {one['todo']}" for one in found if one["check"] in NAMES]


NAMES = ("pricing", "shop", "frozen", "nodes", "key", "root", "subscription orders billing")


def test_a_sound_root_has_no_trouble(run: Command, shop: speed.Node) -> None:
    assert troubles(run) == []


def test_calls_that_wait_for_busy_workers_are_named(run: Command, pricing: speed.Node, shop: speed.Node) -> None:
    going_on = threading.Event()
    pricing.register("hold", lambda: going_on.wait(PATIENCE))
    calls = [shop.submit("pricing", "hold", timeout=PATIENCE) for _ in range(6)]
    try:
        found = troubles(run)
    finally:
        going_on.set()
    assert len(found) == 1
    assert found[0].startswith("pricing: all 2 workers are at work, and 4 calls wait | see `speed top`")
    assert [call.result() for call in calls] == [True] * 6


def test_calls_that_were_not_done_in_time_are_named(run: Command, shop: speed.Node) -> None:
    stopping = threading.Event()

    def call_on() -> None:
        while not stopping.is_set():
            with suppress(speed.CallTimeoutError):
                shop.call("pricing", "quote", {"seconds": 0.3}, timeout=0.1)

    caller = threading.Thread(target=call_on, name="caller")
    caller.start()
    try:
        assert any("calls of quote were not done in time" in one for one in troubles(run, "--interval", "2"))
    finally:
        stopping.set()
        caller.join()


def test_messages_behind_a_slow_handler_are_named(run: Command, pricing: speed.Node, shop: speed.Node) -> None:
    going_on = threading.Event()
    pricing.on_message(lambda _message: going_on.wait(PATIENCE))
    for number in range(300):
        shop.send("pricing", number)
    try:
        assert any("messages wait for its handler" in one for one in troubles(run))
    finally:
        going_on.set()


def test_a_process_that_is_stopped_is_named_while_its_lease_is_held(run: Command, pricing: speed.Node) -> None:
    frozen = subprocess.Popen(
        [sys.executable, "-c", FROZEN, str(run.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "ready\n"
        os.kill(frozen.pid, signal.SIGSTOP)
        assert any(one.startswith("frozen: it does not answer") for one in troubles(run))
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.communicate(timeout=PATIENCE)


def test_nodes_that_do_not_allow_the_command_are_named(run: Command, pricing: speed.Node) -> None:
    (run.root / "speed_registry" / ".observers").unlink()  # as in a root of before
    with speed.Node("shy", root=run.root, key=run.root / "speed.key"):
        assert any("1 node shows nothing of its work: shy" in one for one in troubles(run))


def test_nodes_that_grant_nothing_are_seen_where_commands_may_look(run: Command, pricing: speed.Node) -> None:
    with speed.Node("shy", root=run.root, key=run.root / "speed.key") as shy:
        assert troubles(run) == []
        shy.deny("cli.*")
        assert troubles(run) == []  # who denies it means it


def test_a_sender_without_a_grant_is_named_at_both_ends(run: Command, pricing: speed.Node) -> None:
    stopping = threading.Event()
    with speed.Node("shop.late", root=run.root, key=run.root / "speed.key", allow=["cli.*"]) as late:

        def call_on() -> None:
            while not stopping.wait(0.05):
                with suppress(speed.SpeedError):
                    late.call("pricing", "quote", {"seconds": 0.0}, timeout=0.2)

        caller = threading.Thread(target=call_on, name="caller")
        caller.start()
        try:
            found = run("status", "--json").value["troubles"]
        finally:
            stopping.set()
            caller.join()
    assert ("shop.late", "pricing does not allow it, and it goes on trying") in [
        (one["check"], one["found"]) for one in found
    ]


def test_a_caller_that_a_service_does_not_allow_is_named(run: Command, pricing: speed.Node, shop: speed.Node) -> None:
    stopping = threading.Event()
    pricing.register("secret", lambda: 1, allow=["nobody"])

    def call_on() -> None:
        while not stopping.wait(0.05):
            with suppress(speed.AccessDeniedError):
                shop.call("pricing", "secret")

    caller = threading.Thread(target=call_on, name="caller")
    caller.start()
    try:
        assert any(one.startswith("pricing: it refuses what shop sends") for one in troubles(run))
    finally:
        stopping.set()
        caller.join()


def test_a_consumer_that_stopped_is_named_with_its_backlog(run: Command, tmp_path: Path) -> None:
    key = str(run.root / "speed.key")
    everyone = Grants(("cli.*", "shop"), ("cli.*", "shop"), ("cli.*", "shop"))
    with (
        speed.Node("speedd.topics", root=run.root, key=key, allow=["cli.*", "shop"]) as node,
        speed.Node("shop", root=run.root, key=key, allow=["cli.*", "speedd.topics"]) as shop,
    ):
        catalogue = Catalogue(str(tmp_path / "topics"), key, node.name)
        host = Host(node, catalogue, Access(everyone, {}))
        try:
            orders = shop.topic("orders")
            orders.create()
            with orders.consumer("billing"):
                pass
            orders.publish({"order": 1})
            assert (
                "subscription orders billing: 1 message waits, and nobody consumes it | "
                "start its consumer, or `speed topic unsubscribe orders billing`"
            ) in troubles(run)
        finally:
            host.close()
            catalogue.close()


def test_a_root_that_is_not_there_and_a_wrong_key_are_named(run: Command, tmp_path: Path) -> None:
    gone = run("status", "--root", str(tmp_path / "gone"))
    assert gone.status == 1
    assert "there is no" in gone.out
    (tmp_path / "other.key").write_text("no key")
    wrong = run("status", "--key", str(tmp_path / "other.key"))
    assert wrong.status == 1
    assert "! key: " in wrong.out
