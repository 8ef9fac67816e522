"""Nodes of two hosts call and write to each other over a real NATS server; both sides judge, and hosts come back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import speed
from scripts.servers.nats import Nats
from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    ExecutionFailedError,
    HostAwayError,
    InvalidArgumentsError,
    InvalidNameError,
    NodeLeftError,
    PayloadTooLargeError,
    ServiceNotFoundError,
    SpeedError,
    UnknownNodeError,
)
from speed.message.errors import NotAvailableError
from tests.bridges.joined import GRANT, WAIT_SECONDS, Broker, Host, Pair, eventually, lines_of

pytestmark = [pytest.mark.system, pytest.mark.slow]


class Refusal(Exception):
    """Of the shop itself."""


def billing_of(host: Host, **how: Any) -> speed.Node:
    """A node of another host's choice, with services that tell how they were called."""
    node = host.node("billing", **how)

    @node.service("charge")
    def charge(amount: float) -> dict[str, float]:
        return {"tax": amount * 0.18}

    @node.service("caller")
    def caller(request: speed.Request) -> str:
        return request.caller

    @node.service("echo")
    def echo(data: bytes) -> bytes:
        return data

    @node.service("make")
    def make(size: int) -> bytes:
        return bytes(size)

    @node.service("sold_out")
    def sold_out() -> None:
        raise ApplicationError("SOLD_OUT", "no more of these", {"left": 0})

    @node.service("broken")
    def broken() -> None:
        raise Refusal("it broke")

    node.allow("analytics@hosta", "cli.*@hosta")
    return node


# --- calls ---


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_call_of_a_node_of_another_host_is_like_one_of_the_own_root(pair: Pair, engine: str) -> None:
    billing_of(pair.b, engine=engine)
    analytics = pair.a.node("analytics", engine=engine)
    assert analytics.call("billing@hostb", "charge", {"amount": 100.0}, timeout=WAIT_SECONDS) == {"tax": 18.0}
    futures = [analytics.submit("billing@hostb", "charge", {"amount": float(n)}) for n in range(20)]
    assert [one.result(WAIT_SECONDS)["tax"] for one in futures] == [n * 0.18 for n in range(20)]
    assert bytes(analytics.call("billing@hostb", "echo", {"data": b"abc"}, views=True)) == b"abc"
    assert analytics.ping("billing@hostb") > 0
    assert "charge" in analytics.services("billing@hostb")
    assert analytics.info("billing@hostb")["name"] == "billing"
    assert analytics.stats("billing@hostb")["name"] == "billing"


@pytest.mark.parametrize("engine", ["native", "python"])
def test_errors_of_the_other_host_are_those_of_the_own_root(pair: Pair, engine: str) -> None:
    billing_of(pair.b)
    analytics = pair.a.node("analytics", engine=engine)

    def error_of(kind: type[speed.SpeedError], node: str, service: str, **arguments: Any) -> Any:
        with pytest.raises(kind) as caught:
            analytics.call(node, service, arguments, timeout=WAIT_SECONDS)
        with pytest.raises(kind) as later:
            analytics.submit(node, service, arguments, timeout=WAIT_SECONDS).result(WAIT_SECONDS)
        assert type(caught.value) is type(later.value) is kind
        for one in (caught.value, later.value):
            assert (one.node, one.service) == (node, service)
        assert caught.value.execution == later.value.execution
        return caught.value

    assert error_of(InvalidArgumentsError, "billing@hostb", "charge", amount="x").details["argument"] == "amount"
    assert error_of(ServiceNotFoundError, "billing@hostb", "nothing").execution is Execution.NOT_BEGUN
    own = error_of(ApplicationError, "billing@hostb", "sold_out")
    assert (own.code, own.details, own.execution) == ("SOLD_OUT", {"left": 0}, Execution.RAN)
    assert error_of(ExecutionFailedError, "billing@hostb", "broken").execution is Execution.RAN
    assert error_of(UnknownNodeError, "slow@hostb", "any").execution is Execution.NOT_BEGUN
    assert error_of(UnknownNodeError, "billing@elsewhere", "charge").execution is Execution.NOT_BEGUN
    for name in ("billing@", "@hostb", "a@b@c", "billing@host b"):
        with pytest.raises(InvalidNameError):
            analytics.call(name, "charge")


def test_a_call_can_be_awaited_and_withdrawn(pair: Pair) -> None:
    slow = pair.b.node("slow")
    began, ended = threading.Event(), threading.Event()

    @slow.service("wait")
    def wait(request: speed.Request) -> None:
        began.set()
        if request.cancellation.wait(WAIT_SECONDS):
            ended.set()

    slow.allow("analytics@hosta")
    analytics = pair.a.node("analytics")

    async def cancelled() -> None:
        task = asyncio.ensure_future(analytics.aio.call("slow@hostb", "wait", timeout=WAIT_SECONDS))
        await asyncio.to_thread(began.wait, WAIT_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ended.wait(WAIT_SECONDS)
    began.clear()
    future: Future[Any] = analytics.submit("slow@hostb", "wait", timeout=WAIT_SECONDS)
    assert began.wait(WAIT_SECONDS)
    future.cancel()
    with pytest.raises(CallWithdrawnError):
        future.result(WAIT_SECONDS)


def test_the_deadline_holds_on_both_sides(pair: Pair) -> None:
    slow = pair.b.node("slow")
    left: list[float] = []
    gone = threading.Event()

    @slow.service("wait")
    def wait(request: speed.Request) -> None:
        import time

        left.append(request.deadline_ms / 1000 - time.time())
        if request.cancellation.wait(WAIT_SECONDS):
            gone.set()

    slow.allow("analytics@hosta")
    analytics = pair.a.node("analytics")
    with pytest.raises(CallTimeoutError) as caught:
        analytics.call("slow@hostb", "wait", timeout=1.0)
    assert caught.value.execution is Execution.MAY_HAVE_RUN
    assert 0 < left[0] <= 1.0
    assert gone.wait(WAIT_SECONDS)


def test_what_the_server_does_not_take_is_refused_and_its_limit_named(pair: Pair) -> None:
    billing_of(pair.b)
    analytics = pair.a.node("analytics")
    with pytest.raises(PayloadTooLargeError, match="max_payload") as caught:
        analytics.call("billing@hostb", "echo", {"data": bytes(300_000)})
    assert caught.value.execution is Execution.NOT_BEGUN
    with pytest.raises(ExecutionFailedError, match="max_payload"):
        analytics.call("billing@hostb", "make", {"size": 300_000})
    assert len(analytics.call("billing@hostb", "echo", {"data": bytes(200_000)})) == 200_000
    with pytest.raises(PayloadTooLargeError):
        analytics.send("billing@hostb", bytes(300_000))


# --- messages ---


@pytest.mark.parametrize("engine", ["native", "python"])
def test_messages_arrive_in_order_with_the_ids_that_send_returned(pair: Pair, engine: str) -> None:
    billing = pair.b.node("billing", allow=["*@hosta"], engine=engine)
    analytics = pair.a.node("analytics", engine=engine)
    sent = [
        analytics.send("billing@hostb", n, timeout=WAIT_SECONDS, options=speed.PublishOptions(labels={"n": str(n)}))
        for n in range(50)
    ]
    analytics.send_all("billing@hostb", range(50, 150))
    got = []
    for _ in range(150):
        message = billing.receive(WAIT_SECONDS)
        assert message is not None
        assert message.source == "at.hosta.analytics"
        got.append(message)
    assert [message.payload for message in got] == list(range(150))
    assert [message.message_id for message in got[:50]] == sent
    assert got[7].metadata.publisher_id == "analytics"


def test_an_acknowledged_message_was_handled(pair: Pair) -> None:
    billing = pair.b.node("billing", allow=["analytics@hosta"])
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.payload))
    analytics = pair.a.node("analytics")
    analytics.send("billing@hostb", {"order": 1}, ack=True, timeout=WAIT_SECONDS)
    assert handled == [{"order": 1}]
    analytics.send_batch("billing@hostb", [1, 2], ack=True, timeout=WAIT_SECONDS)
    assert len(handled) == 2


def test_events_and_payloads_in_segments_do_not_cross(pair: Pair, tmp_path: Path) -> None:
    analytics = pair.a.node("analytics")
    large = tmp_path / "large"
    large.write_bytes(b"x")
    with open(large, "rb") as file, pytest.raises(NotAvailableError):
        analytics.send("billing@hostb", file)
    with pytest.raises(NotAvailableError):
        analytics.forward("billing@hostb", [], event=True)
    with pytest.raises(NotAvailableError):
        analytics.segment("billing@hostb", 1024)


# --- grants ---


def test_the_asking_host_asks_only_for_whom_it_grants(pair: Pair) -> None:
    billing_of(pair.b)
    stranger = pair.a.node("stranger")
    with pytest.raises(AccessDeniedError):
        stranger.call("billing@hostb", "charge", {"amount": 1.0})
    with pytest.raises(AccessDeniedError) as caught:
        pair.a.node("analytics").call("payroll@hostb", "raise")
    assert caught.value.execution is Execution.NOT_BEGUN


def test_the_asked_host_judges_by_its_own_grants(pair: Pair) -> None:
    billing_of(pair.b)
    analytics = pair.a.node("analytics")
    try:
        pair.b.configure(GRANT.replace('"analytics@hosta", ', ""))
        pair.b.reload()
        eventually(lambda: is_denied(analytics, "charge"))
        assert pair.b.counter("hosts_denied") > 0
        pair.b.configure(f'{GRANT}services = ["charge"]\n')
        pair.b.reload()
        eventually(lambda: not is_denied(analytics, "charge"))
        assert is_denied(analytics, "caller")
        with pytest.raises(AccessDeniedError):
            analytics.send("billing@hostb", 1)
    finally:
        pair.b.configure()
        pair.b.reload()
        eventually(lambda: not is_denied(analytics, "caller"))


def test_a_host_is_taken_out_and_taken_in_again_by_a_reload(pair: Pair) -> None:
    billing_of(pair.b)
    analytics = pair.a.node("analytics")
    assert not is_denied(analytics, "caller")
    try:
        pair.a.configure(GRANT.replace("@hostb", "@hostc"), others=("hostc",))
        pair.a.reload()
        eventually(lambda: known_to(pair.a) == ["hostc"])
        with pytest.raises(UnknownNodeError) as caught:
            analytics.call("billing@hostb", "caller", timeout=WAIT_SECONDS)
        assert caught.value.execution is Execution.NOT_BEGUN
        pair.a.configure(others=("hostb", "hostc"))
        pair.a.reload()
        eventually(lambda: known_to(pair.a) == ["hostb", "hostc"])
    finally:
        pair.a.configure()
        pair.a.reload()
        eventually(lambda: known_to(pair.a) == ["hostb"])
        pair.meet()
    assert not is_denied(analytics, "caller")


def known_to(host: Host) -> list[str]:
    """The other hosts that a gateway knows; none while a reload replaces it."""
    try:
        return sorted(one["host"] for one in host.told()["hosts"])
    except SpeedError:
        return []


def is_denied(node: speed.Node, service: str) -> bool:
    try:
        node.call("billing@hostb", service, {"amount": 1.0} if service == "charge" else {}, timeout=WAIT_SECONDS)
    except AccessDeniedError:
        return True
    return False


def test_the_node_that_is_reached_judges_by_names_of_the_other_host(pair: Pair) -> None:
    billing = billing_of(pair.b)
    analytics = pair.a.node("analytics")
    assert analytics.call("billing@hostb", "caller") == "at.hosta.analytics"
    billing.deny("analytics@hosta")
    eventually(lambda: is_denied(analytics, "caller"))
    billing.allow("*@hosta")
    assert "at.hosta.*" in billing.allowed()
    billing.deny("*@hosta")
    eventually(lambda: is_denied(analytics, "caller"))


# --- hosts that die and come back ---


def test_a_killed_speedd_ends_what_waits_for_it_and_is_reached_again_when_it_is_back(pair: Pair) -> None:
    slow = pair.b.node("slow")
    began = threading.Event()

    @slow.service("wait")
    def wait(request: speed.Request) -> None:
        began.set()
        request.cancellation.wait(WAIT_SECONDS)

    @slow.service("now")
    def now() -> int:
        return 1

    slow.allow("analytics@hosta")
    analytics = pair.a.node("analytics")
    future = analytics.submit("slow@hostb", "wait", timeout=WAIT_SECONDS)
    assert began.wait(WAIT_SECONDS)
    pair.b.end()
    with pytest.raises(HostAwayError) as caught:
        future.result(WAIT_SECONDS)
    assert caught.value.execution is Execution.MAY_HAVE_RUN
    with pytest.raises(NodeLeftError) as refused:
        analytics.call("slow@hostb", "now", timeout=WAIT_SECONDS)
    assert refused.value.execution is Execution.NOT_BEGUN
    pair.b.start()
    pair.meet()
    assert analytics.call("slow@hostb", "now", timeout=WAIT_SECONDS) == 1
    assert any("answer any more" in str(line.get("text")) for line in lines_of(pair.a.log))


def test_a_started_again_asking_host_is_heard_at_once(pair: Pair) -> None:
    billing_of(pair.b)
    pair.a.end()
    pair.a.start()
    pair.meet()
    analytics = pair.a.node("analytics")
    assert analytics.call("billing@hostb", "charge", {"amount": 1.0}, timeout=WAIT_SECONDS)


def test_a_message_outlives_the_server_between_the_hosts(tmp_path: Path) -> None:
    server = Broker(tmp_path / "nats")
    server.start()
    both = Pair(tmp_path, [server.address, server.address])
    try:
        both.start()
        billing = both.b.node("billing", allow=["*@hosta"])
        analytics = both.a.node("analytics")
        server.kill()
        with pytest.raises(HostAwayError):
            analytics.call("billing@hostb", "any", timeout=WAIT_SECONDS)
        eventually(lambda: both.a.told()["broker"] != "connected")
        assert "away" in both.a.speed("hosts").stdout
        server.start()
        both.meet()
        analytics.send("billing@hostb", "after", timeout=WAIT_SECONDS)
        message = billing.receive(WAIT_SECONDS)
        assert message is not None and message.payload == "after"
        assert billing.receive(0.5) is None
    finally:
        both.close()
        server.kill()


# --- keys ---


def test_hosts_without_a_key_in_common_never_meet(tmp_path: Path, broker: Nats) -> None:
    from speed.fs.keyfile import write_key_file

    both = Pair(tmp_path, [broker.address, broker.address])
    write_key_file(str(both.b.pair), (bytes(range(32)),), replace=True)
    try:
        both.a.start()
        both.b.start()
        analytics = both.a.node("analytics")
        with pytest.raises(HostAwayError):
            analytics.call("billing@hostb", "charge", {"amount": 1.0}, timeout=WAIT_SECONDS)
        eventually(lambda: both.a.counter("hosts_refused") > 0)
    finally:
        both.close()


def test_a_rotated_key_is_followed_without_a_restart(pair: Pair) -> None:
    from speed.fs.keyfile import read_keys, write_key_file
    from speed.wire.seal import key_id_of

    billing_of(pair.b)
    analytics = pair.a.node("analytics")
    old = read_keys(str(pair.a.pair))
    new = (bytes(range(32)), *old)
    for keys in ((*old, new[0]), new, new[:1]):
        for host in (pair.b, pair.a):
            write_key_file(str(host.pair), keys, replace=True)
        for host in (pair.b, pair.a):
            eventually(lambda host=host, keys=keys: seals_with(host) == key_id_of(keys[0]).hex())  # type: ignore[misc]
        assert analytics.call("billing@hostb", "charge", {"amount": 1.0}, timeout=WAIT_SECONDS) is not None


def seals_with(host: Host) -> str:
    return str(host.told()["hosts"][0]["keyId"])


# --- commands ---


def test_commands_reach_nodes_of_other_hosts(pair: Pair) -> None:
    billing = billing_of(pair.b)
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.payload))
    called = pair.a.speed("call", "billing@hostb", "charge", "amount=100")
    assert (called.returncode, called.stdout.split()) == (0, ["{", '"tax":', "18.0", "}"]), called.stderr
    assert pair.a.speed("send", "billing@hostb", "[1]", "--ack").returncode == 0
    assert handled == [[1]]
    assert "charge" in pair.a.speed("services", "billing@hostb").stdout
    listed = pair.a.speed("hosts")
    assert "hostb" in listed.stdout and "up" in listed.stdout
    assert '"up": true' in pair.a.speed("hosts", "--json").stdout
    denied = pair.a.speed("call", "payroll@hostb", "raise")
    assert denied.returncode == 5


def test_a_root_without_a_gateway_says_what_to_do(tmp_path: Path) -> None:
    host = Host(tmp_path / "a", "hosta", "hostb", "nats://127.0.0.1:1")
    node = host.node("analytics")
    try:
        with pytest.raises(UnknownNodeError, match=r"add \[hosts\]") as caught:
            node.call("billing@hostb", "charge")
        assert caught.value.node == "billing@hostb"
    finally:
        host.close()
