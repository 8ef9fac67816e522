"""A call runs at most once, whatever ends its server (S-8)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0
SERVER = """
import os, sys, threading, speed
root, engine, marks, idempotent = sys.argv[1:5]
node = speed.Node("billing", root=root, engine=engine, workers=1)

def charge(request: speed.Request, dies: bool):
    with open(marks, "a") as file:
        file.write(f"{request.request_id} {request.redelivered}\\n")
    if dies and not request.redelivered:
        os._exit(1)
    return "charged"

node.register("charge", charge, idempotent=idempotent == "yes")
node.register("ready", lambda: True)
node.allow("analytics")
print("up", flush=True)
sys.stdin.readline()
node.close()
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where the service notes each time that it runs."""
    return tmp_path / "marks"


def runs(marks: Path) -> list[list[str]]:
    return [line.split() for line in marks.read_text().splitlines()]


def test_a_call_whose_service_kills_its_process_runs_once_in_however_many_lives(
    root: str, make: Make, kind: str, child: Start, marks: Path
) -> None:
    analytics = make("analytics")
    first = child(SERVER, root, kind, str(marks), "no")
    assert first.line() == "up"
    with pytest.raises(speed.NodeLeftError) as caught:
        analytics.call("billing", "charge", {"dies": True}, timeout=3 * PATIENCE)
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN
    assert "look before you repeat it" in str(caught.value)
    for _ in range(3):
        successor = child(SERVER, root, kind, str(marks), "no")
        assert successor.line() == "up"
        assert analytics.call("billing", "ready", timeout=PATIENCE) is True
        successor.kill()
    assert len(runs(marks)) == 1


FATAL_SERVER = """
import os, sys, speed
root, engine, marks = sys.argv[1:4]
node = speed.Node("billing", root=root, engine=engine)

def charge():
    with open(marks, "a") as file:
        file.write("charged\\n")
    os._exit(1)

node.register("charge", charge)
node.register("ready", lambda: True)
node.allow("analytics")
print("up", flush=True)
sys.stdin.readline()
"""


def test_a_call_that_ended_its_server_does_not_end_the_next_ones(
    root: str, make: Make, kind: str, child: Start, marks: Path
) -> None:
    """The caller would still wait, and its deadline is far."""
    analytics = make("analytics")
    first = child(FATAL_SERVER, root, kind, str(marks))
    assert first.line() == "up"
    with pytest.raises(speed.NodeLeftError):
        analytics.call("billing", "charge", timeout=10 * PATIENCE)
    for _ in range(3):
        successor = child(FATAL_SERVER, root, kind, str(marks))
        assert successor.line() == "up"
        assert analytics.call("billing", "ready", timeout=PATIENCE) is True
        successor.kill()
    assert marks.read_text() == "charged\n"


def test_what_a_service_sees_as_id_is_unique_across_callers(make: Make) -> None:
    billing = make("billing", allow=["analytics", "audit"])
    seen: list[str] = []

    def note(request: speed.Request) -> None:
        seen.append(request.request_id)

    billing.register("noted", note)
    for name in ("analytics", "audit"):
        make(name).call("billing", "noted", timeout=PATIENCE)
    assert [one.partition("/")[0] for one in seen] == ["analytics", "audit"]
    assert len(set(seen)) == 2


@pytest.mark.parametrize(
    ("service", "execution"),
    [
        ("missing", speed.Execution.NOT_BEGUN),
        ("narrow", speed.Execution.NOT_BEGUN),
        ("wants", speed.Execution.NOT_BEGUN),
        ("raises", speed.Execution.RAN),
        ("slow", speed.Execution.MAY_HAVE_RUN),
    ],
)
def test_an_error_says_whether_the_service_ran(make: Make, service: str, execution: speed.Execution) -> None:
    import threading

    end = threading.Event()
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("narrow", lambda: 1, allow=["somebody"])
    billing.register("wants", lambda x: x)
    billing.register("raises", lambda: 1 / 0)
    billing.register("slow", lambda: end.wait(PATIENCE))
    with pytest.raises(speed.CallError) as caught:
        analytics.call("billing", service, timeout=0.3 if service == "slow" else PATIENCE)
    end.set()
    assert caught.value.execution is execution


def test_an_error_before_anything_was_written_says_that_nothing_began(make: Make) -> None:
    make("billing")
    analytics = make("analytics")
    for target, arguments in (("nobody", {}), ("billing", {})):
        with pytest.raises(speed.SpeedError) as caught:
            analytics.call(target, "any", arguments)
        assert caught.value.execution is speed.Execution.NOT_BEGUN


def test_an_error_that_is_not_about_a_call_says_nothing_of_that(make: Make) -> None:
    with pytest.raises(speed.UnknownNodeError) as caught:
        make("analytics").send("nobody", 1)
    assert caught.value.execution is None


def test_a_request_whose_beginning_cannot_be_told_is_not_run_and_its_caller_is_told(
    root: str, make: Make, kind: str, child: Start, marks: Path
) -> None:
    """The newest cursor is damaged: what it said is lost."""
    first = child(SERVER, root, kind, str(marks), "no")
    assert first.line() == "up"
    analytics = make("analytics")
    future = analytics.submit("billing", "charge", {"dies": True}, timeout=3 * PATIENCE)
    first.process.wait(PATIENCE)
    lane = f"{root}/billing/inbox/analytics"
    for name in os.listdir(lane):
        if name.startswith("cursor."):
            Path(lane, name).write_bytes(b"x" * 80)
    successor = child(SERVER, root, kind, str(marks), "no")
    assert successor.line() == "up"
    analytics.ping("billing", timeout=PATIENCE)  # what is written from here on is new to the lane
    assert analytics.call("billing", "ready", timeout=PATIENCE) is True
    with pytest.raises(speed.SpeedError) as caught:
        future.result(PATIENCE)
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN
    assert len(runs(marks)) == 1
