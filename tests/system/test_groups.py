"""Several nodes of one family offer one service: ``node.call("pricing.*", …)`` has one of them do the work (S-40)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from queue import Queue
from typing import Any, Protocol

import pytest

import speed
from tests.representative import fewer
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
Start = Callable[..., Any]
pytestmark = pytest.mark.system
HEDGING = speed.Retry(idempotent=True, hedge_seconds=0.05)


class Pricing(Protocol):
    def quote(self, amount: int) -> str: ...


def member(node: Make, number: int, **options: Any) -> speed.Node:
    """A node of the family, whose service tells who answered."""
    made = node(f"pricing.{number}", allow=["shop"], **options)
    made.register("quote", lambda amount=0: made.name, idempotent=True)
    return made


def gated(node: Make, number: int, gate: threading.Event) -> speed.Node:
    """One whose service waits until the gate opens."""
    made = node(f"pricing.{number}", allow=["shop"])

    def quote() -> str:
        gate.wait(30)
        return made.name

    made.register("quote", quote, idempotent=True)
    return made


@pytest.fixture(params=ENGINES)
def shop(node: Make, request: pytest.FixtureRequest) -> speed.Node:
    return node("shop", engine=request.param)


def test_calls_of_a_family_go_to_its_nodes_one_after_the_other(node: Make, shop: speed.Node) -> None:
    for number in range(3):
        member(node, number)
    answers = [shop.call("pricing.*", "quote") for _ in range(9)]
    assert Counter(answers) == {f"pricing.{number}": 3 for number in range(3)}
    assert answers[:3] == answers[3:6]


def test_who_has_fewest_calls_under_way_is_called(node: Make, shop: speed.Node) -> None:
    gate = threading.Event()
    gated(node, 0, gate)
    member(node, 1)
    waiting = [shop.submit("pricing.*", "quote") for _ in range(2)]  # one of them waits at the gate
    wait(waiting, 30, FIRST_COMPLETED)
    assert {shop.call("pricing.*", "quote") for _ in range(6)} == {"pricing.1"}
    gate.set()
    assert {future.result(30) for future in waiting} == {"pricing.0", "pricing.1"}


def test_what_has_one_key_goes_to_one_node_while_it_is_there(node: Make, shop: speed.Node) -> None:
    members = {one.name: one for one in (member(node, number) for number in range(3))}
    keys = [f"customer {number}" for number in range(20)]
    before = {key: shop.call("pricing.*", "quote", key=key) for key in keys}
    assert before == {key: shop.submit("pricing.*", "quote", key=key).result(30) for key in keys}
    assert len(set(before.values())) == 3
    members["pricing.1"].close()
    after = {key: shop.call("pricing.*", "quote", key=key) for key in keys}
    assert {before[key] for key in keys if before[key] != after[key]} == {"pricing.1"}


def test_a_node_that_lacks_the_service_or_the_grant_is_passed_by(node: Make, shop: speed.Node) -> None:
    node("pricing.0", allow=["shop"])
    node("pricing.1").register("quote", lambda: "never")
    member(node, 2)
    assert {shop.call("pricing.*", "quote") for _ in range(6)} == {"pricing.2"}
    assert {shop.submit("pricing.*", "quote").result(30) for _ in range(6)} == {"pricing.2"}


def test_what_a_service_answers_is_final(node: Make, shop: speed.Node) -> None:
    calls: list[str] = []
    for number in range(2):
        made = node(f"pricing.{number}", allow=["shop"])

        def fail(made: speed.Node = made) -> None:
            calls.append(made.name)
            raise speed.ApplicationError("SOLD_OUT", "none left")

        made.register("fail", lambda fail=fail: fail())
    with pytest.raises(speed.ApplicationError) as failed:
        shop.call("pricing.*", "fail")
    assert calls == [failed.value.node]
    with pytest.raises(speed.ApplicationError) as failed:
        shop.submit("pricing.*", "fail").result(30)
    assert calls[1:] == [failed.value.node]


def test_a_family_that_is_not_there_or_allows_nobody_says_so(node: Make, shop: speed.Node) -> None:
    with pytest.raises(speed.UnknownNodeError, match=r"no node of 'pricing\.\*' is there") as unknown:
        shop.call("pricing.*", "quote")
    assert (unknown.value.node, unknown.value.execution) == ("pricing.*", speed.Execution.NOT_BEGUN)
    node("pricing.0")
    with pytest.raises(speed.AccessDeniedError, match=r"'pricing\.0' does not allow 'shop'"):
        shop.submit("pricing.*", "quote")
    member(node, 1)
    assert shop.call("pricing.*", "quote") == "pricing.1"
    for wrong in ("pri cing.*", ".*", "a..*"):
        with pytest.raises(speed.InvalidNameError):
            shop.call(wrong, "quote")
    with pytest.raises(speed.ConfigurationError, match="key chooses among the nodes of a family"):
        shop.call("pricing.0", "quote", key="a")
    with pytest.raises(speed.ConfigurationError, match="key must be text"):
        shop.call("pricing.*", "quote", key=7)  # type: ignore[arg-type]


def test_a_family_whose_nodes_are_only_starting_is_waited_for(node: Make, shop: speed.Node) -> None:
    """S-40."""
    starting = node("pricing.0", allow=["shop"], starting=True)
    starting.register("quote", lambda: "at last")
    answers = [shop.submit("pricing.*", "quote", timeout=30) for _ in range(2)]
    done: Queue[Any] = Queue()
    caller = threading.Thread(target=lambda: done.put(shop.call("pricing.*", "quote", timeout=30)))
    caller.start()
    assert [answer.done() for answer in answers] == [False, False]
    starting.ready()
    assert [answer.result(30) for answer in answers] == ["at last"] * 2
    assert done.get(timeout=30) == "at last"
    caller.join(30)


def test_a_family_whose_nodes_start_for_too_long_says_so(node: Make, shop: speed.Node) -> None:
    node("pricing.0", allow=["shop"], starting=True).register("quote", lambda: "never")
    with pytest.raises((speed.NodeStartingError, speed.CallTimeoutError)) as late:
        shop.call("pricing.*", "quote", timeout=0.5)
    assert late.value.execution == speed.Execution.NOT_BEGUN


def test_who_waits_for_a_family_goes_on_when_one_of_it_is_there(node: Make, shop: speed.Node) -> None:
    with pytest.raises(speed.UnknownNodeError):
        shop.wait_for("pricing.*", timeout=0.01)
    found: Queue[speed.Entry] = Queue()
    waiting = threading.Thread(target=lambda: found.put(shop.wait_for("pricing.*", timeout=30)))
    waiting.start()
    member(node, 0)
    assert found.get(timeout=30).name == "pricing.0"
    waiting.join(30)


def test_messages_to_a_family_go_to_its_nodes_one_after_the_other(node: Make, shop: speed.Node) -> None:
    seen: Queue[tuple[str, Any]] = Queue()
    for number in range(2):
        made = node(f"pricing.{number}", allow=["shop"])
        made.on_message(lambda message, made=made: seen.put((made.name, message.payload)))
    for number in range(4):
        shop.send("pricing.*", number, ack=True, timeout=30)
    shop.send_all("pricing.*", [4, 5], timeout=30)
    shop.send("pricing.*", 6, key="a", timeout=30)
    arrived = [seen.get(timeout=30) for _ in range(7)]
    assert {payload for _, payload in arrived} == set(range(7))
    assert Counter(name for name, payload in arrived if payload < 4) == {"pricing.0": 2, "pricing.1": 2}
    assert len({name for name, payload in arrived if payload in (4, 5)}) == 1


def test_asyncio_calls_families_too(node: Make, shop: speed.Node) -> None:
    for number in range(2):
        member(node, number)

    async def calls() -> list[str]:
        aio = shop.aio
        await aio.send("pricing.*", 1, key="a")
        kept = {await aio.call("pricing.*", "quote", key="a") for _ in range(4)}
        assert len(kept) == 1
        return await asyncio.gather(*(aio.call("pricing.*", "quote", timeout=30) for _ in range(10)))

    assert set(asyncio.run(calls())) == {"pricing.0", "pricing.1"}


def test_a_slow_node_is_overtaken_by_a_second_one_where_the_service_may_run_twice(node: Make, shop: speed.Node) -> None:
    gate = threading.Event()
    gated(node, 0, gate)
    member(node, 1)
    assert {shop.call("pricing.*", "quote", timeout=30, retry=HEDGING) for _ in range(4)} == {"pricing.1"}

    async def awaited() -> Any:
        return await shop.aio.call("pricing.*", "quote", timeout=30, retry=HEDGING)

    assert {asyncio.run(awaited()) for _ in range(2)} == {"pricing.1"}
    gate.set()
    with pytest.raises(speed.ConfigurationError, match="hedge_seconds needs idempotent=True"):
        speed.Retry(hedge_seconds=1.0)
    with pytest.raises(speed.ConfigurationError, match="hedge_seconds asks another node of a family"):
        shop.call("pricing.1", "quote", retry=HEDGING)


def test_a_hedged_call_of_a_family_of_one_waits_for_it(node: Make, shop: speed.Node) -> None:
    gate = threading.Event()
    gated(node, 0, gate)
    threading.Timer(0.2, gate.set).start()
    assert shop.call("pricing.*", "quote", timeout=30, retry=HEDGING) == "pricing.0"


def test_a_service_that_calls_a_family_gives_its_place_to_others(node: Make) -> None:
    """One worker: the family's answers need none, nor do calls of the node meanwhile."""
    for number in range(2):
        node(f"pricing.{number}", allow=["middle"]).register("quote", lambda: 1, idempotent=True)
    middle = node("middle", allow=["shop"], workers=1)
    middle.register("both", lambda: middle.call("pricing.*", "quote") + middle.submit("pricing.*", "quote").result(30))
    middle.register("hedged", lambda: middle.call("pricing.*", "quote", retry=HEDGING))
    shop = node("shop")
    assert [future.result(30) for future in [shop.submit("middle", "both") for _ in range(5)]] == [2] * 5
    assert shop.call("middle", "hedged") == 1


def test_a_client_of_a_family_calls_whoever_is_there(node: Make, shop: speed.Node) -> None:
    for number in range(2):
        member(node, number)
    pricing = shop.client(Pricing, "pricing.*")
    assert {pricing.quote(3), pricing.quote(4)} == {"pricing.0", "pricing.1"}


def test_nodes_of_a_family_that_differ_are_told_once_and_refused_on_demand(
    node: Make, shop: speed.Node, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        node(f"pricing.{number}", allow=["shop"]).register("quote", lambda amount: amount, version=str(number))
    with caplog.at_level(logging.WARNING, logger="speed"):
        for _ in range(3):
            shop.describe("pricing.*")
    says = "'pricing.0' and 'pricing.1' differ: 'quote' has version '0' and '1'"
    assert [one.getMessage() for one in caplog.records if "differ" in one.getMessage()] == [says]
    with pytest.raises(speed.ConfigurationError, match=r"are not alike: 'pricing\.0' and 'pricing\.1' differ"):
        shop.client(Pricing, "pricing.*", alike=True).quote(1)


def test_a_member_that_joins_is_checked_by_a_client_too(node: Make, shop: speed.Node) -> None:
    member(node, 0)
    pricing = shop.client(Pricing, "pricing.*", alike=True)
    pricing.quote(1)
    node("pricing.1", allow=["shop"]).register("quote", lambda other: other)
    with pytest.raises(speed.ConfigurationError, match="are not alike"):
        for _ in range(200):
            pricing.quote(1)
            time.sleep(0.05)


MEMBER = """
import os, sys, speed
root, number = sys.argv[1:]
node = speed.Node(f"pricing.{number}", root=root, allow=["shop"])
node.register("quote", lambda amount: amount)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_call_is_lost_that_was_not_begun_when_nodes_are_killed_under_load(
    node: Make, child: Start, root: str, engine: str
) -> None:
    """Four callers, three nodes, of which one is killed again and again."""
    shop = node("shop", engine=engine)
    stop = threading.Event()
    processes = [child(MEMBER, root, str(number)) for number in range(3)]
    for process in processes:
        process.line()
    for number in range(3):
        shop.wait_for(f"pricing.{number}", timeout=30)
    lost: list[Any] = []

    def calls(submits: bool) -> int:
        made = 0
        while not stop.is_set():
            made += 1
            try:
                future = shop.submit("pricing.*", "quote", {"amount": made}, timeout=30) if submits else None
                answer = future.result(60) if future else shop.call("pricing.*", "quote", {"amount": made}, timeout=30)
                assert answer == made
            except speed.NodeLeftError as error:
                if error.execution is not speed.Execution.MAY_HAVE_RUN:
                    lost.append(error)
            except BaseException as error:
                lost.append(error)
        return made

    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(calls, number % 2 == 1) for number in range(4)]
        try:
            for round_ in range(fewer(12, 4)):
                number = round_ % 3
                processes[number].kill()
                processes[number] = child(MEMBER, root, str(number))
                processes[number].line()
                time.sleep(0.1)
        finally:
            stop.set()
        made = sum(caller.result(90) for caller in callers)
    assert lost == []
    assert made > 100
