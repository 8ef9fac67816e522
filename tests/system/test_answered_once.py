"""Every request is answered exactly once, whatever the answer looks like, and one bad answer harms no other (S-3)."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import speed
from speed.core.services import Response

Make = Callable[..., speed.Node]
PATIENCE = 20.0


class Hostile(Mapping[str, Any]):
    """Details that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


class Unspeakable:
    """What has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


ANSWERS: dict[str, tuple[Response, str, str]] = {
    "an error too large": (Response.error("EXECUTION_FAILED", "x" * 10_000_000), "EXECUTION_FAILED", "xxx"),
    "an error without a code": (Response(None, "", "why"), "EXECUTION_FAILED", "error code"),
    "a code that is no text": (Response(None, 5, "why"), "EXECUTION_FAILED", "error code"),  # type: ignore[arg-type]
    "a null message": (Response(None, "EXECUTION_FAILED", None), "EXECUTION_FAILED", ""),  # type: ignore[arg-type]
    "a message that is no text": (Response(None, "EXECUTION_FAILED", 7), "EXECUTION_FAILED", "7"),  # type: ignore[arg-type]
    "null details": (Response(None, "EXECUTION_FAILED", "why", None), "EXECUTION_FAILED", "why"),  # type: ignore[arg-type]
    "details too large": (
        Response.error("EXECUTION_FAILED", "why", {"x": bytes(70_000)}),
        "EXECUTION_FAILED",
        "details are too large",
    ),
    "details without representation": (
        Response.error("EXECUTION_FAILED", "why", {"x": object()}),
        "EXECUTION_FAILED",
        "no representation",
    ),
    "details that cannot be read": (
        Response(None, "EXECUTION_FAILED", "why", Hostile()),
        "EXECUTION_FAILED",
        "no representation",
    ),
    "a text that cannot be made": (
        Response(None, "EXECUTION_FAILED", Unspeakable()),  # type: ignore[arg-type]
        "INTERNAL_ERROR",
        "could not be made",
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_an_error_looks_like_it_is_answered(make: Make, what: str) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    answer, code, said = ANSWERS[what]
    billing.register("answer", lambda: answer)
    billing.register("echo", lambda x: x)
    others = [analytics.submit("billing", "echo", {"x": number}, timeout=PATIENCE) for number in range(20)]
    with pytest.raises(speed.CallError) as caught:
        analytics.call("billing", "answer", timeout=PATIENCE)
    assert caught.value.code == code
    assert said in str(caught.value)
    assert len(str(caught.value)) < 2200
    assert [other.result(PATIENCE) for other in others] == list(range(20))


def test_a_service_that_raises_leaves_its_traceback_in_the_log_of_its_node(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    def charge() -> None:
        raise ValueError("no such account")

    billing.register("charge", charge)
    with caplog.at_level(logging.ERROR, "speed.spc"), pytest.raises(speed.ExecutionFailedError) as caught:
        analytics.call("billing", "charge", timeout=PATIENCE)
    assert "in charge" not in str(caught.value)
    (record,) = [one for one in caplog.records if one.name == "speed.spc"]
    said = logging.Formatter().format(record)
    assert "in charge" in said
    assert "no such account" in said


def test_an_answer_that_cannot_be_read_ends_its_call(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-2."""
    from speed.wire import spc
    from speed.wire.value import pack

    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    billing.register("echo", lambda x: x)
    encode = spc.encode_success

    def odd(request_id: str, result: Any) -> bytes:
        return pack({"requestId": request_id, "status": "PERHAPS"}) if result == 1 else encode(request_id, result)

    monkeypatch.setattr(spc, "encode_success", odd)
    with pytest.raises(speed.InternalError, match="cannot be read") as caught:
        analytics.call("billing", "echo", {"x": 1}, timeout=PATIENCE)
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN
    assert analytics.call("billing", "echo", {"x": 2}, timeout=PATIENCE) == 2


def test_a_call_whose_beginning_cannot_be_recorded_is_not_run_and_may_run_later(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-8: it is still in the lane, so the next process of that name may find it there."""
    from speed.fs.lane_files import LaneFiles

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ran: list[int] = []
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    billing.register("note", lambda n: ran.append(n))
    analytics.ping("billing")
    with monkeypatch.context() as patch, pytest.raises(speed.InternalError, match="cannot be written") as caught:
        patch.setattr(LaneFiles, "write_cursor", full)
        analytics.call("billing", "note", {"n": 1}, timeout=PATIENCE)
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN
    assert ran == []
