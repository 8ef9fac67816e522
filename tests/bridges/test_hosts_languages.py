"""Nodes in three languages call and write to nodes of another host, with the same results and errors (H-2, H-3)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import speed
from speed.wire.names import GATEWAY
from tests.bridges.joined import WAIT_SECONDS, Host, Pair
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN

pytestmark = [pytest.mark.system, pytest.mark.slow]
CALLED = {"timeout": WAIT_SECONDS}


def agent_at(host: Host, language: str, name: str, *allow: str) -> Agent:
    key = host.root / "speed.key"
    if not key.exists():
        shutil.copy2(host.key, key)
    return Agent(language, name, str(host.root), allow=list(allow)).ready()


@pytest.fixture(params=CHOSEN)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def analytics(pair: Pair, language: str) -> Iterator[Agent]:
    """A node of the first host."""
    agent = agent_at(pair.a, language, "analytics", "speedd")
    yield agent
    agent.end()


def charge(amount: float) -> dict[str, float]:
    return {"tax": amount * 2}


def sold_out() -> None:
    raise speed.ApplicationError("SOLD_OUT", "no more of these", {"left": 0})


@pytest.fixture
def billing(pair: Pair) -> speed.Node:
    """A node of the second host."""
    node = pair.b.node("billing", allow=["analytics@hosta"])
    node.register("charge", charge)
    node.register("sold_out", sold_out)
    return node


def asked(service: str, target: str = "billing@hostb", **arguments: Any) -> dict[str, Any]:
    return {"target": target, "service": service, "arguments": arguments, **CALLED}


def test_a_call_gives_what_the_node_of_the_other_host_answers(analytics: Agent, billing: speed.Node) -> None:
    assert analytics.ask("call", **asked("charge", amount=2)) == {"tax": 4}
    analytics.ask("start", call=1, **asked("charge", amount=3))
    assert analytics.ask("outcome", call=1) == {"tax": 6}


def test_a_node_is_asked_about_itself(analytics: Agent, billing: speed.Node) -> None:
    assert analytics.ask("ping", target="billing@hostb") > 0
    assert {"charge", "sold_out"} <= set(analytics.ask("services", target="billing@hostb"))
    assert analytics.ask("info", target="billing@hostb")["name"] == "billing"
    assert analytics.ask("stats", target="billing@hostb")["name"] == "billing"


def test_messages_arrive_and_are_acknowledged(analytics: Agent, billing: speed.Node) -> None:
    analytics.ask("send", target="billing@hostb", payload={"order": 1})
    analytics.ask("send", target="billing@hostb", payload={"order": 2}, ack=True, timeout=WAIT_SECONDS)
    got = [billing.receive(WAIT_SECONDS) for _ in range(2)]
    assert [one.payload for one in got if one] == [{"order": 1}, {"order": 2}]
    assert {one.source for one in got if one} == {"at.hosta.analytics"}


@pytest.mark.parametrize(
    ("service", "arguments", "code", "execution"),
    [
        ("nothing", {}, "SERVICE_NOT_FOUND", "not begun"),
        ("charge", {"price": 1}, "INVALID_ARGUMENTS", "not begun"),
        ("sold_out", {}, "SOLD_OUT", "ran"),
    ],
)
def test_errors_of_a_service_are_those_of_the_own_root(
    analytics: Agent, billing: speed.Node, service: str, arguments: dict[str, Any], code: str, execution: str
) -> None:
    error = analytics.refusal("call", **asked(service, **arguments))
    assert (error.code, error.execution) == (code, execution)
    assert "billing@hostb: " in str(error)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("slow@hostb", "UNKNOWN_NODE"),
        ("billing@elsewhere", "UNKNOWN_NODE"),
        ("other@hostb", "ACCESS_DENIED"),
        ("billing@", "INVALID_NAME"),
        ("@hostb", "INVALID_NAME"),
        ("a@b@c", "INVALID_NAME"),
    ],
)
def test_errors_of_the_way_say_what_is_wrong(analytics: Agent, billing: speed.Node, target: str, code: str) -> None:
    assert analytics.refusal("call", **asked("charge", target, amount=1)).code == code
    if code != "INVALID_NAME":
        assert analytics.refusal("send", target=target, payload=1, timeout=WAIT_SECONDS).code == code


@pytest.mark.parametrize(
    ("target", "service", "code", "execution"),
    [
        ("billing@hostb", "sold_out", "SOLD_OUT", "ran"),
        ("billing@hostb", "nothing", "SERVICE_NOT_FOUND", "not begun"),
        ("slow@hostb", "charge", "UNKNOWN_NODE", "not begun"),
    ],
)
def test_a_call_that_is_waited_for_later_ends_with_the_same_error(
    analytics: Agent, billing: speed.Node, target: str, service: str, code: str, execution: str
) -> None:
    analytics.ask("start", call=1, **asked(service, target))
    error = analytics.refusal("outcome", call=1)
    assert (error.code, error.execution) == (code, execution)


def test_a_call_is_withdrawn_on_the_other_host(pair: Pair, analytics: Agent) -> None:
    slow = pair.b.node("slow", allow=["analytics@hosta"])
    began, ended = threading.Event(), threading.Event()

    @slow.service("wait")
    def wait(request: speed.Request) -> None:
        began.set()
        if request.cancellation.wait(WAIT_SECONDS):
            ended.set()

    analytics.ask("start", call=1, **asked("wait", "slow@hostb"))
    assert began.wait(WAIT_SECONDS)
    analytics.ask("withdraw", call=1)
    assert analytics.refusal("outcome", call=1).code == "WITHDRAWN"
    assert ended.wait(WAIT_SECONDS)


def test_a_host_that_goes_away_ends_what_waits_for_it(pair: Pair, analytics: Agent) -> None:
    slow = pair.b.node("slow", allow=["analytics@hosta"])
    began = threading.Event()

    @slow.service("wait")
    def wait(request: speed.Request) -> None:
        began.set()
        request.cancellation.wait(WAIT_SECONDS)

    analytics.ask("start", call=1, **asked("wait", "slow@hostb"))
    assert began.wait(WAIT_SECONDS)
    pair.b.end()
    try:
        error = analytics.refusal("outcome", call=1)
        assert (error.code, error.execution) == ("HOST_AWAY", "may have run")
    finally:
        pair.b.start()
        pair.meet()


def test_payloads_in_segments_do_not_cross(analytics: Agent) -> None:
    error = analytics.refusal("segment", target="billing@hostb", size=65536, parity=0)
    assert error.code == "NOT_AVAILABLE"


@pytest.mark.parametrize("pattern", ["analytics@hosta", "*@hosta"])
def test_nodes_of_another_host_are_granted_and_denied(pair: Pair, language: str, pattern: str) -> None:
    agent = agent_at(pair.b, language, "billing", pattern)
    try:
        node = pair.a.node("analytics")
        assert "echo" in node.services("billing@hostb")
        agent.ask("deny", patterns=[pattern])
        with pytest.raises(speed.AccessDeniedError):
            node.call("billing@hostb", "echo", {}, timeout=WAIT_SECONDS)
        agent.ask("allow", patterns=[pattern])
        assert "echo" in node.services("billing@hostb")
    finally:
        agent.end()


def test_without_a_gateway_the_error_says_what_to_configure(tmp_path: Any, language: str) -> None:
    root = speed.init_root(str(tmp_path / "root"))
    agent = Agent(language, "analytics", str(root)).ready()
    try:
        error = agent.refusal("call", **asked("charge", amount=1))
        assert (error.code, error.execution) == ("UNKNOWN_NODE", "not begun")
        assert "add [hosts] to its configuration" in str(error)
        assert GATEWAY in str(error)
    finally:
        agent.end()


@pytest.mark.parametrize(
    ("code", "details", "execution"),
    [
        ("LEAVING", {}, "not begun"),
        ("HOST_AWAY", {"execution": "may have run"}, "may have run"),
        ("NODE_LEFT", {"execution": "not begun"}, "not begun"),
        ("TIMEOUT", {"phase": "queued"}, "not begun"),
    ],
)
def test_what_ends_a_call_there_says_whether_it_began(
    tmp_path: Any, language: str, code: str, details: dict[str, Any], execution: str
) -> None:
    root = speed.init_root(str(tmp_path / "root"))
    agent = Agent(language, "analytics", str(root)).ready()
    try:
        with speed.Node(GATEWAY, root=root, key=f"{root}/speed.key", allow=["analytics"]) as gateway:
            said = {"status": "ERROR", "errorCode": code, "errorMessage": "billing: why", "details": details}
            gateway.register("call", lambda **_: said)
            error = agent.refusal("call", **asked("charge", amount=1))
            assert (error.code, error.execution) == (code, execution)
            assert "billing@hostb: why" in str(error)
    finally:
        agent.end()
