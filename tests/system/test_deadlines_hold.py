"""The thread that reads does what it has to, whatever else fails, and decodes nothing that is refused (T-11)."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import msgpack
import pytest

import speed
from speed.core import calls
from speed.engine.python import reader
from speed.engine.python.serving import Accepted
from speed.wire import spc, value
from speed.wire.envelope import FLAG_REPLY, EnvelopeType

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture
def pair(node: Make) -> tuple[speed.Node, speed.Node]:
    return node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")


def parts_of(node: speed.Node) -> Any:
    return node._engine._parts  # type: ignore[attr-defined]


def test_a_call_ends_by_its_deadline_while_the_callers_inbox_cannot_be_read(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-11: such as when the process has too many open files."""
    billing, analytics = pair
    billing.register("echo", lambda x: x)
    assert analytics.call("billing", "echo", {"x": 1}, timeout=PATIENCE) == 1
    protocol = parts_of(analytics).protocol

    def fail(*_: Any) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(protocol._inbox, "scan", fail)
        patch.setattr(protocol, "_drain", fail)
        protocol.look_again()
        with pytest.raises(speed.CallTimeoutError):
            analytics.call("billing", "echo", {"x": 2}, timeout=0.5)
    assert analytics.call("billing", "echo", {"x": 3}, timeout=PATIENCE) == 3


def test_a_call_ends_by_its_deadline_while_the_callers_inbox_is_gone(
    root: str, pair: tuple[speed.Node, speed.Node]
) -> None:
    """T-11: with real files; it works again once the directory is back."""
    billing, analytics = pair
    billing.register("echo", lambda x: x)
    inbox = f"{root}/analytics/inbox"
    os.rename(inbox, f"{inbox}.away")
    analytics.allow("billing")  # so that it looks at its inbox now
    with pytest.raises(speed.CallTimeoutError):
        analytics.call("billing", "echo", {"x": 2}, timeout=0.5)
    os.rename(f"{inbox}.away", inbox)
    assert analytics.call("billing", "echo", {"x": 3}, timeout=PATIENCE) == 3


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all that is decoded."""
    sizes: list[int] = []
    unpack = value._unpack

    def noted(data: bytes, what: str) -> Any:
        sizes.append(len(data))
        return unpack(data, what)

    monkeypatch.setattr(value, "_unpack", noted)
    return sizes


def test_a_request_that_is_refused_is_never_decoded(pair: tuple[speed.Node, speed.Node], unpacked: list[int]) -> None:
    """S-1: of a service that is not there, or not open to the caller."""
    billing, analytics = pair
    billing.register("narrow", lambda data: 1, allow=["somebody"])
    for service, error in (("missing", speed.ServiceNotFoundError), ("narrow", speed.AccessDeniedError)):
        with pytest.raises(error):
            analytics.call("billing", service, {"data": bytes(32 << 20)}, timeout=PATIENCE)
    assert max(unpacked, default=0) < 65_536


def test_a_deadline_is_kept_though_no_scan_is_due(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-4: the thread that reads sleeps no longer than until then."""
    monkeypatch.setattr(reader, "FULL_SCAN_SECONDS", 10 * PATIENCE)
    billing, analytics = pair
    told: Queue[bool] = Queue()

    def wait(request: speed.Request) -> None:
        told.put(request.cancellation.wait(PATIENCE))

    billing.register("wait", wait)
    analytics.ping("billing", timeout=PATIENCE)  # from here on its lane is known: no scan looks for it
    with pytest.raises(speed.CallTimeoutError):
        analytics.call("billing", "wait", timeout=0.2)
    assert told.get(timeout=2 * PATIENCE)


def test_a_refused_request_is_let_go_once_it_is_answered(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-1: though its deadline is far, and no scan is due."""
    monkeypatch.setattr(reader, "FULL_SCAN_SECONDS", 10 * PATIENCE)
    analytics = pair[1]
    with pytest.raises(speed.ServiceNotFoundError):
        analytics.call("billing", "missing", {"data": bytes(1 << 20)}, timeout=10 * PATIENCE)
    until = time.monotonic() + PATIENCE
    while any(one.payload for one in gc.get_objects() if type(one) is Accepted):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_arguments_are_decoded_by_a_worker(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    billing, analytics = pair
    billing.register("size", lambda data: len(data))
    where: list[str] = []
    decode = spc.decode_arguments

    def noted(*given: Any) -> Any:
        where.append(threading.current_thread().name)
        return decode(*given)

    monkeypatch.setattr(spc, "decode_arguments", noted)
    assert analytics.call("billing", "size", {"data": bytes(8 << 20)}, timeout=PATIENCE) == 8 << 20
    assert all(name.startswith("speed-billing-worker") for name in where)


def test_a_control_payload_that_is_too_large_is_refused_unread(
    pair: tuple[speed.Node, speed.Node], unpacked: list[int]
) -> None:
    """S-11."""
    billing, analytics = pair
    link = parts_of(analytics).links.granted("billing")
    payload = msgpack.packb({"requestId": "1.1", "more": bytes(8 << 20)})
    for type_ in (EnvelopeType.HEARTBEAT, EnvelopeType.DISCOVERY):
        link.send(type_, 0, payload, 0.0)
    for type_ in (EnvelopeType.ACK, EnvelopeType.ERROR):
        link.send(type_, FLAG_REPLY, payload, 0.0)
    analytics.ping("billing", timeout=PATIENCE)
    assert billing.stats()["counters"]["rejected_bad_payload"] == 4
    assert max(unpacked) < 65_536


@pytest.mark.parametrize("operation", sorted(calls._ANSWERS))
@pytest.mark.parametrize("answer", [None, 7, "text", [], {}, {"services": 3}, {"services": [1]}, {"counters": {1: 2}}])
def test_an_odd_answer_to_a_question_is_a_wire_error(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch, operation: str, answer: Any
) -> None:
    """S-12: never a TypeError or KeyError of the asking program."""
    billing, analytics = pair
    dispatch = parts_of(billing).dispatch
    monkeypatch.setattr(dispatch, "_answer", lambda *_: answer if answer is not None else [])
    verbs = {
        "INFO": analytics.info,
        "SERVICES": analytics.services,
        "STATS": analytics.stats,
        "DESCRIBE": analytics.describe,
    }
    with pytest.raises(speed.WireError, match="BAD_PAYLOAD"):
        verbs[operation]("billing", timeout=PATIENCE)


def test_rejections_are_logged_one_line_of_a_kind_at_a_time(
    pair: tuple[speed.Node, speed.Node], caplog: pytest.LogCaptureFixture
) -> None:
    billing, analytics = pair
    link = parts_of(analytics).links.granted("billing")
    with caplog.at_level(logging.WARNING, "speed.protocol"):
        for _ in range(200):
            link.send(EnvelopeType.DISCOVERY, 0, b"\xc1", 0.0)
        analytics.ping("billing", timeout=PATIENCE)
    assert billing.stats()["counters"]["rejected_bad_payload"] == 200
    assert len([one for one in caplog.records if "rejected" in one.getMessage()]) == 1


def test_a_bell_that_nobody_hears_is_acted_on_and_descriptors_stay(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-7: a closed node is told of at once, again and again, without a descriptor more."""
    billing, analytics = pair
    analytics.ping("billing", timeout=PATIENCE)
    billing.close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises((speed.UnknownNodeError, speed.NodeLeftError)):
            analytics.ping("billing", timeout=PATIENCE)
    assert len(os.listdir("/proc/self/fd")) <= before
