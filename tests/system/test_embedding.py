"""A node inside another program: asyncio, names for many processes, traces on threads, fixtures for tests."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed.aio import AsyncNode
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOURCES = Path(__file__).resolve().parents[2]


def verbs(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


# --- asyncio ---


def test_the_asyncio_face_has_every_verb_of_a_node(node: Make) -> None:
    assert verbs(speed.Node) - {"aio", "instance", "client"} <= verbs(node("billing").aio)


def test_each_awaited_verb_takes_what_the_verb_of_the_node_takes() -> None:
    for name in verbs(AsyncNode) & verbs(speed.Node):
        awaited = getattr(AsyncNode, name)
        if not inspect.iscoroutinefunction(awaited):
            continue
        taken = inspect.signature(awaited).parameters
        if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            continue
        assert list(taken) == list(inspect.signature(getattr(speed.Node, name)).parameters), name


def test_every_awaited_verb_does_what_the_verb_of_the_node_does(node: Make) -> None:
    billing = node("billing")
    seen: list[Any] = []

    async def use(aio: AsyncNode) -> None:
        await billing.aio.allow("shop", "other")
        await billing.aio.deny("other")
        billing.aio.register("double", lambda x: 2 * x)
        billing.aio.on_message(lambda message: seen.extend(message.payloads))
        billing.aio.subscribe("orders.*", lambda message: seen.extend(message.payloads))
        assert (await aio.wait_for("billing")).name == "billing"
        assert [entry.name for entry in await aio.nodes()] == ["billing", "shop"]
        assert await aio.services("billing") == ["double"]
        assert (await aio.info("billing"))["pid"] == os.getpid()
        assert await aio.stats("billing")
        assert await aio.ping("billing") > 0
        assert await aio.submit("billing", "double", {"x": 1}) == 2
        await aio.send_all("billing", [1, 2])
        await aio.send_batch("billing", [3, 4])
        assert await aio.publish_batch("orders.made", [5, 6]) == 1
        await aio.send("billing", 7, ack=True)
        assert await aio.remove_stale() == []
        assert (aio.name, aio.closed, aio.allowed()) == ("shop", False, ())
        await aio.close()
        await aio.close()
        assert aio.closed

    asyncio.run(use(node("shop").aio))
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_async_with_closes_the_node_without_blocking_the_loop(root: str) -> None:
    async def use() -> list[bool]:
        async with speed.Node("billing", root=root) as billing:
            billing.allow("billing")
            billing.register("double", lambda x: 2 * x)
            assert await billing.aio.call("billing", "double", {"x": 21}) == 42
        async with speed.Node("shop", root=root).aio as shop:
            assert shop.name == "shop"
        return [billing.closed, shop.closed]

    assert asyncio.run(use()) == [True, True]


def test_a_service_may_end_while_the_loop_waits_for_the_node_to_close(root: str) -> None:
    began, over = threading.Event(), asyncio.Event()

    async def use() -> str:
        loop = asyncio.get_running_loop()

        def slow() -> str:
            began.set()
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(20)
            return "done"

        with speed.Node("shop", root=root) as shop:
            async with speed.Node("billing", root=root, allow=["shop"]) as billing:
                billing.register("slow", slow)
                asked = shop.aio.submit("billing", "slow")
                await asyncio.to_thread(began.wait, 20)
                loop.call_later(0.05, over.set)
            return str(await asked)

    assert asyncio.run(use()) == "done"


# --- names for many processes ---


def test_instances_of_one_family_have_names_of_their_own_that_do_not_stay(root: str) -> None:
    with speed.Node("billing", root=root, allow=["web.*"]) as billing:
        billing.register("caller", caller)
        with speed.Node.instance("web", root=root) as one, speed.Node.instance("web", root=root) as other:
            names = {one.name, other.name}
            assert len(names) == 2
            assert all(name.startswith("web.") for name in names)
            assert one.call("billing", "caller") == one.name
        assert [entry.name for entry in billing.nodes()] == ["billing"]
        assert not any((Path(root) / name).exists() for name in names)


def caller(request: speed.Request) -> str:
    return request.caller


# --- traces ---


def test_the_trace_of_a_call_is_public_and_follows_threads_that_a_service_starts(make: Make) -> None:
    billing, audit = make("billing", allow=["shop"]), make("audit", allow=["billing"])
    audit.register("trace", speed.current_trace)

    def ask() -> Any:
        return billing.call("audit", "trace")

    def everywhere() -> list[Any]:
        answers: list[Any] = [speed.current_trace(), ask()]
        thread = threading.Thread(target=speed.traced(lambda: answers.append(ask())))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(2) as pool:
            answers += pool.map(speed.traced(lambda _: ask()), range(2))
        answers += asyncio.run(asyncio.wait_for(asyncio.to_thread(lambda: [ask()]), 20))
        return answers

    async def awaited() -> list[Any]:
        return [speed.current_trace(), await asyncio.to_thread(ask)]

    billing.register("everywhere", everywhere)
    billing.register("awaited", awaited)
    with make("shop") as shop:
        with speed.trace(TRACE):
            assert shop.call("billing", "everywhere") == [TRACE] * 6
            assert shop.call("billing", "awaited") == [TRACE] * 2
        assert shop.call("billing", "awaited") == [None] * 2
    assert speed.current_trace() is None


@pytest.mark.parametrize("header", [None, "00-abc", TRACE.upper()])
def test_what_is_no_traceparent_counts_as_none(header: str | None) -> None:
    with speed.trace(TRACE):
        with speed.trace(header):
            assert speed.current_trace() is None
        assert speed.current_trace() == TRACE


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instance_that_is_dropped_at_a_prompt_closes_by_itself(
    root: str, engine: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    gone: Queue[str] = Queue()
    with speed.Node("observer", root=root) as observer:
        observer.on_leave(lambda entry: gone.put(entry.name))
        made = []
        for _ in range(3):
            node = speed.Node.instance("notebook", root=root, engine=engine)  # a cell that is run again
            node.register("double", lambda x: 2 * x)
            made.append(node.name)
            node.allow("observer")
            observer.wait_for(node.name, timeout=30)
        assert {gone.get(timeout=30) for _ in range(2)} == set(made[:2])
        assert not node.closed
        node.close()
    assert [str(one.message) for one in recwarn if one.category is ResourceWarning] == []


# --- tests of programs ---


def run_tests(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """pytest on these tests, with the fixtures of ``speed.testing``."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["speed.testing"]\n')
    (tmp_path / "test_program.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
    )


def test_a_program_is_tested_on_real_nodes_in_a_root_of_its_own(tmp_path: Path) -> None:
    ended = run_tests(
        tmp_path,
        """
import os, speed
left = []
def test_nodes_call_each_other(speed_node, speed_root):
    billing = speed_node("billing", allow=["shop"])
    billing.register("double", lambda x: 2 * x)
    with speed.Node("shop") as shop:  # as a program makes it: the environment says where
        assert shop.root == speed_root == os.environ["SPEED_ROOT"]
        assert shop.call("billing", "double", {"x": 21}) == 42
    left.extend([billing, speed_root])
def test_nothing_is_left_of_the_test_before(speed_root):
    assert left[0].closed and not os.path.exists(left[1]) and left[1] != speed_root
""",
    )
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_a_program_with_durable_topics_is_tested_on_a_real_speedd_that_ends_with_the_test(tmp_path: Path) -> None:
    ended = run_tests(
        tmp_path,
        """
import pytest, speed
left = []
def test_orders_are_kept_for_billing(speed_topics, speed_node):
    orders, paid = speed_topics("orders", "paid", allow=["shop", "billing.*"])
    speed_node("shop").topic("orders").publish({"id": 7})
    with speed_node("billing.1").topic("orders").consumer("billing", start="earliest") as consumer:
        message = consumer.receive(timeout=30)
        assert message.payload == {"id": 7}
        consumer.acknowledge(message)
    assert orders.describe()["subscriptions"][0]["backlog"] == 0
    assert paid.describe()["end"] == 0
    with pytest.raises(speed.AccessDeniedError):
        speed_node("stranger").topic("orders").publish(1)
def test_any_configuration_runs(speedd):
    running = speedd('[journal]\\ninboxes = ["billing"]\\nallow = ["shop"]\\n')
    left.append(running)
    assert running.process.poll() is None
    assert any('"ready"' in line for line in running.lines)
def test_speedd_ended_with_its_test_and_a_wrong_configuration_says_why(speedd):
    assert left[0].process.returncode is not None
    with pytest.raises(RuntimeError, match="does not know 'colour'"):
        speedd('[topics]\\ncolour = 1\\n')
""",
    )
    assert ended.returncode == 0, ended.stdout
    assert "3 passed" in ended.stdout
