"""Calls between nodes (registry_spec/spc.md, access.md)."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import pytest

import speed
from speed.wire import spc
from speed.wire.value import pack, unpack
from tests.interop.harness import until

Make = Callable[..., speed.Node]


@pytest.fixture
def pair(node: Make) -> tuple[speed.Node, speed.Node]:
    """``billing`` serves, ``analytics`` may call it."""
    return node("billing", allow=["analytics"]), node("analytics")


@pytest.fixture
def forging_pair(node: Make) -> tuple[speed.Node, speed.Node]:
    """Likewise; what ``analytics`` encodes can be changed, as only Python's code can."""
    return node("billing", allow=["analytics"]), node("analytics", engine="python")


def test_a_plain_function_is_a_service(pair: tuple[speed.Node, speed.Node]) -> None:
    billing, analytics = pair

    @billing.service("addOne")
    def add_one(x: int) -> int:
        return x + 1

    assert analytics.call("billing", "addOne", {"x": 41}) == 42
    assert add_one(1) == 2


def test_a_service_that_is_taken_back_is_not_found_and_leaves_its_name_free(
    pair: tuple[speed.Node, speed.Node],
) -> None:
    """S-9."""
    billing, analytics = pair
    billing.register("tax", lambda: 1)
    billing.unregister("tax")
    with pytest.raises(speed.ServiceNotFoundError):
        analytics.call("billing", "tax")
    with pytest.raises(speed.ServiceNotFoundError, match="no service 'tax' is registered"):
        billing.unregister("tax")
    assert not analytics.services("billing")
    billing.register("tax", lambda: 2)
    assert analytics.call("billing", "tax") == 2


def test_what_runs_when_its_service_is_taken_back_is_answered(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-9."""
    billing, analytics = pair
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        may_end.wait(30)
        return 1

    billing.register("slow", slow)
    future = analytics.submit("billing", "slow")
    assert begun.wait(30)
    billing.unregister("slow")
    may_end.set()
    assert future.result(30) == 1


def test_a_service_that_is_taken_back_is_given_free(pair: tuple[speed.Node, speed.Node]) -> None:
    """What it refers to lives no longer than that."""
    billing, _ = pair

    class Table:
        def invoke(self, request: speed.Request) -> None: ...

    table = Table()
    billing.register("table", table)
    billing.unregister("table")
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None


def test_an_object_with_invoke_is_a_service(pair: tuple[speed.Node, speed.Node]) -> None:
    """RFC 7.2."""

    class TaxService:
        def invoke(self, request: speed.Request) -> Any:
            assert request.caller == "analytics"
            return speed.Response({"tax": request.get("amount", float) * 0.5})

    billing, analytics = pair
    billing.register("calculateTax", TaxService())
    assert analytics.call("billing", "calculateTax", {"amount": 10}) == {"tax": 5.0}


def test_each_error_code_is_an_exception_of_its_own(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-8."""
    billing, analytics = pair
    billing.register("raises", lambda: 1 / 0)
    billing.register("unserialisable", lambda: object())
    billing.register("narrow", lambda: 1, allow=["somebody"])
    with pytest.raises(speed.ServiceNotFoundError, match="speed services"):
        analytics.call("billing", "missing")
    with pytest.raises(speed.ExecutionFailedError, match="ZeroDivisionError"):
        analytics.call("billing", "raises")
    with pytest.raises(speed.ExecutionFailedError, match="cannot be sent"):
        analytics.call("billing", "unserialisable")
    with pytest.raises(speed.AccessDeniedError):
        analytics.call("billing", "narrow")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing argument 'amount'; expected"),
        ({"amount": 1.0, "rat": 2.0}, "unknown argument 'rat'; expected"),
        ({"amount": "1"}, "argument 'amount' must be float, not str"),
        ({"amount": True}, "argument 'amount' must be float, not bool"),
        ({"amount": 1.0, "tags": "x"}, r"argument 'tags' must be"),
    ],
)
def test_arguments_of_wrong_names_or_types_are_named_with_what_is_expected(
    pair: tuple[speed.Node, speed.Node], arguments: dict[str, Any], says: str
) -> None:
    """S-9."""
    billing, analytics = pair
    ran: list[float] = []

    @billing.service("tax")
    def tax(amount: float, tags: list[str] | None = None) -> None:
        ran.append(amount)

    with pytest.raises(speed.InvalidArgumentsError, match=says):
        analytics.call("billing", "tax", arguments)
    assert ran == []


@pytest.fixture
def change_request(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    """Have requests leave with other fields than a right caller gives them; None removes one."""

    def change(changes: dict[str, Any]) -> None:
        encode = spc.encode_request

        def changed(*arguments: Any) -> bytes:
            fields = {**unpack(encode(*arguments)), **changes}
            fields["arguments"] = fields.pop("arguments")  # they come last
            return pack({name: value for name, value in fields.items() if value is not None})

        monkeypatch.setattr(spc, "encode_request", changed)

    return change


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"arguments": [1, 2]}, "arguments"),
        ({"deadline": 1.5}, "deadline"),
        ({"generation": None}, "generation"),
        ({"service": "a/b"}, "service"),
        ({"caller": "somebody"}, "caller"),
        ({"traceparent": 1}, "traceparent"),
    ],
)
def test_a_request_that_breaks_the_rule_is_answered_and_harms_no_other(
    forging_pair: tuple[speed.Node, speed.Node],
    change_request: Callable[[dict[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    says: str,
) -> None:
    """S-1, S-2."""
    billing, analytics = forging_pair
    billing.register("echo", lambda x: x)
    change_request(changes)
    with pytest.raises(speed.InvalidArgumentsError, match=says):
        analytics.call("billing", "echo", {"x": 1}, timeout=20)
    monkeypatch.undo()
    assert analytics.call("billing", "echo", {"x": 2}) == 2
    assert billing.stats()["counters"]["rejected_bad_payload"] == 1


def test_a_request_without_a_readable_id_is_counted_and_not_answered(
    forging_pair: tuple[speed.Node, speed.Node],
    change_request: Callable[[dict[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S-2."""
    billing, analytics = forging_pair
    billing.register("echo", lambda x: x)
    change_request({"requestId": None})
    with pytest.raises(speed.CallTimeoutError) as caught:
        analytics.call("billing", "echo", {"x": 1}, timeout=0.2)
    assert caught.value.details["phase"] == "unanswered"
    monkeypatch.undo()
    assert analytics.call("billing", "echo", {"x": 2}) == 2
    assert billing.stats()["counters"]["rejected_bad_payload"] == 1


def test_without_a_grant_nothing_is_written(root: str, node: Make) -> None:
    """A-3."""
    node("billing")
    analytics = node("analytics")
    with pytest.raises(speed.AccessDeniedError, match="allow"):
        analytics.call("billing", "anything")
    with pytest.raises(speed.AccessDeniedError):
        analytics.send("billing", {"hello": 1})
    assert not os.path.exists(f"{root}/billing/inbox/analytics")


def test_a_denial_holds_at_once_and_a_new_grant_works_again(pair: tuple[speed.Node, speed.Node]) -> None:
    """A-4."""
    billing, analytics = pair
    billing.register("echo", lambda x: x)
    assert analytics.call("billing", "echo", {"x": 1}) == 1
    billing.deny("analytics")
    with pytest.raises(speed.AccessDeniedError):
        analytics.call("billing", "echo", {"x": 2})
    billing.allow("analytics")
    assert analytics.call("billing", "echo", {"x": 3}) == 3


def test_a_family_is_granted_by_its_pattern(node: Make) -> None:
    """A-2."""
    node("geo", allow=["etl.*"]).register("one", lambda: 1)
    assert node("etl.app.7").call("geo", "one") == 1
    with pytest.raises(speed.AccessDeniedError):
        node("etlx").call("geo", "one")


def test_a_deadline_that_passes_while_running_says_so(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-4."""
    billing, analytics = pair
    release = threading.Event()
    billing.register("slow", lambda: release.wait(20))
    with pytest.raises(speed.CallTimeoutError) as caught:
        analytics.call("billing", "slow", timeout=0.2)
    release.set()
    assert caught.value.details["phase"] == "running"
    assert "more time" in str(caught.value)


def test_a_slow_call_blocks_nobody(pair: tuple[speed.Node, speed.Node]) -> None:
    """RFC 2.3."""
    billing, analytics = pair
    release = threading.Event()
    billing.register("slow", lambda: release.wait(20))
    billing.register("quick", lambda: "done")
    slow = analytics.submit("billing", "slow")
    for _ in range(50):
        assert analytics.call("billing", "quick", timeout=10) == "done"
    assert not slow.done()
    release.set()
    assert slow.result(10) is True


def test_nested_calls_in_both_directions_work(node: Make) -> None:
    left, right = node("left", allow=["right"]), node("right", allow=["left"])
    left.register("base", lambda: 1)
    right.register("next", lambda: right.call("left", "base", timeout=5) + 1)
    left.register("top", lambda: left.call("right", "next", timeout=5) + 1)
    assert right.call("left", "top", timeout=10) == 3


def test_pipelined_calls_start_in_order(node: Make) -> None:
    """RFC 2.4, S-5."""
    seen: list[int] = []
    server = node("server", allow=["client"], workers=1)
    server.register("note", lambda n: seen.append(n))
    client = node("client")
    futures = [client.submit("server", "note", {"n": number}) for number in range(10_000)]
    wait(futures, 60)
    assert seen == list(range(10_000))


def test_arguments_travel_whatever_their_size(pair: tuple[speed.Node, speed.Node]) -> None:
    """G-18: what no envelope holds goes in segments."""
    billing, analytics = pair
    billing.register("size", lambda data: len(data))
    assert analytics.call("billing", "size", {"data": bytes(20 << 20)}) == 20 << 20
    assert analytics.call("billing", "size", {"data": bytes(65 << 20)}) == 65 << 20
    assert analytics.call("billing", "size", {"data": b"x"}) == 1


def test_arguments_that_cannot_be_serialised_are_named(pair: tuple[speed.Node, speed.Node]) -> None:
    with pytest.raises(speed.UnserialisableError, match=r"arguments\.x\[1\]"):
        pair[1].call("billing", "any", {"x": [1, object()]})


def test_an_unknown_node_is_an_error_of_its_own(node: Make) -> None:
    with pytest.raises(speed.UnknownNodeError, match="start it"):
        node("analytics").call("nobody", "anything")


@pytest.mark.parametrize("target", ["", "../billing", "a/b", "bell", "x" * 129])
def test_a_target_that_is_no_name_is_refused_before_a_path_is_made_of_it(node: Make, target: str) -> None:
    """W-1."""
    analytics = node("analytics")
    for verb in (analytics.call, analytics.submit, analytics.send):
        with pytest.raises(speed.InvalidNameError, match="name"):
            verb(target, "anything")


def test_a_closed_node_says_so(node: Make) -> None:
    one = node("one")
    one.close()
    with pytest.raises(speed.NodeClosedError):
        one.call("two", "x")
    one.close()


def test_the_trace_context_travels_through_nested_calls(node: Make) -> None:
    """S-13."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    last = node("last", allow=["middle"])

    class Tell:
        def invoke(self, request: speed.Request) -> Any:
            return request.traceparent

    last.register("tell", Tell())
    middle = node("middle", allow=["first"])
    middle.register("tell", lambda: middle.call("last", "tell"))
    assert node("first").call("middle", "tell", traceparent=trace) == trace


def test_a_service_that_is_registered_again_with_replace_is_the_new_one(make: Make) -> None:
    """As a cell of a notebook is run again."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    for answer in (1, 2):
        billing.service("tax", replace=True)(lambda answer=answer: answer)
        assert analytics.call("billing", "tax") == answer
    with pytest.raises(speed.ServiceExistsError):
        billing.service("tax")(lambda: 3)


def test_stats_tell_the_code_of_the_last_error_and_not_what_another_caller_sent(make: Make) -> None:
    """S-14: who asks may be another than who caused it."""
    billing, analytics, other = make("billing", allow=["analytics", "other"]), make("analytics"), make("other")
    billing.register("find", _find)
    billing.register("own", lambda: speed.Response.error("NO_ACCOUNT_DE89", "x"))
    with pytest.raises(speed.ExecutionFailedError, match="DE89"):
        analytics.call("billing", "find", {"account": "DE89"})
    with pytest.raises(speed.ApplicationError):
        analytics.call("billing", "own")

    def last_errors() -> dict[str, str]:
        return {name: row["lastError"] for name, row in other.stats("billing")["services"].items()}

    assert until(lambda: last_errors() == {"find": "EXECUTION_FAILED", "own": "APPLICATION"})
    assert "DE89" not in str(other.stats("billing"))


def _find(account: str) -> None:
    raise ValueError(f"no account {account}")


def test_the_message_of_a_failure_acts_on_no_terminal(make: Make) -> None:
    """W-19: it is printed and logged by programs that do not think of it; details are values, and as they were."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    hostile = "no\x1b[31m\nforged\u202e"
    billing.register("hostile", lambda: speed.Response.error("INVALID_ARGUMENTS", hostile, {"text": hostile}))
    with pytest.raises(speed.InvalidArgumentsError) as caught:
        analytics.call("billing", "hostile")
    assert "no\\x1b[31m\\nforged\\u202e" in str(caught.value)
    assert caught.value.details == {"text": hostile}


def test_requests_for_services_that_are_not_there_are_counted_together(make: Make) -> None:
    """S-14: others choose those names, and how many there are."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    for number in range(5):
        with pytest.raises(speed.ServiceNotFoundError):
            analytics.call("billing", f"later{number}")
    billing.register("later0", lambda: 1)
    analytics.call("billing", "later0")
    assert until(lambda: billing.stats()["services"].keys() == {"later0"})
    stats = billing.stats()
    assert stats["services"]["later0"]["numRequests"] == 1
    assert stats["counters"]["requests_for_no_service"] == 5


def test_ping_info_stats_and_services_answer(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-12, A-5."""
    billing, analytics = pair
    billing.register("open", lambda: 1)
    billing.register("hidden", lambda: 2, allow=["somebody"])
    analytics.call("billing", "open")
    assert 0 < analytics.ping("billing") < 5
    assert analytics.services("billing") == ["open"]
    assert analytics.info("billing")["services"] == ["open"]
    stats = analytics.stats("billing")
    assert stats["services"]["open"]["numRequests"] == 1
    assert "hidden" not in stats["services"]


def test_asyncio_calls_run_side_by_side(pair: tuple[speed.Node, speed.Node]) -> None:
    import asyncio

    billing, analytics = pair
    both = threading.Barrier(2, timeout=10)
    billing.register("meet", lambda: both.wait() >= 0)

    async def main() -> list[Any]:
        return await asyncio.gather(*(analytics.aio.call("billing", "meet", timeout=10) for _ in range(2)))

    assert asyncio.run(main()) == [True, True]


def test_an_empty_list_of_callers_lets_nobody_call(node: Make) -> None:
    """A-5."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    billing.register("closed", lambda: 1, allow=[])
    billing.register("open", lambda: 1, allow=None)
    with pytest.raises(speed.AccessDeniedError, match="closed"):
        analytics.call("billing", "closed")
    assert analytics.call("billing", "open") == 1
    assert analytics.services("billing") == ["open"]
