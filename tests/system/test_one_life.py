"""A call belongs to one life of its server: what that had not begun never runs, or is sent again (S-8, S-21, L-31)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import speed
from tests.interop.harness import pause, until
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 30.0
SERVER = """
import os, sys, time, speed
root, engine, marks, lease = sys.argv[1:5]

def mark(what):
    with open(marks, "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

def note(x: int):
    mark(x)
    return x

def charge(request: speed.Request):
    mark(f"charged {request.redelivered}")
    if not request.redelivered:
        os._exit(1)
    return "charged"

def hold():
    mark("hold")
    while not os.path.exists(marks + ".go"):
        time.sleep(0.01)

def fatal():
    mark("fatal")
    os._exit(1)

print("loaded", flush=True)
sys.stdin.readline()
node = speed.Node("billing", root=root, engine=engine, workers=1, lease_seconds=float(lease),
                  heartbeat_seconds=float(lease) / 5)
for service in (note, hold, fatal):
    node.register(service.__name__, service)
node.register("charge", charge, idempotent=True)
node.allow("analytics", "audit")
print("up", flush=True)
sys.stdin.readline()
"""
CALLER = """
import sys, speed
node = speed.Node("audit", root=sys.argv[1], engine=sys.argv[2])
calls = [
    node.submit("billing", service, {"x": 7} if service == "note" else {}, timeout=600) for service in sys.argv[3:]
]
node.ping("billing", timeout=60)
print("asked", flush=True)
for call in calls:
    try:
        print(call.result(), flush=True)
    except speed.SpeedError as error:
        print(error.code, error.execution.value, flush=True)
"""


class Servers:
    """Lives of ``billing``; each is loaded before it is needed, so that it starts at once."""

    def __init__(self, root: str, kind: str, child: Start, marks: Path) -> None:
        self._begin = lambda lease: child(SERVER, root, kind, str(marks), str(lease))
        self._marks = marks

    def loaded(self, lease: float = 30.0) -> Child:
        server = self._begin(lease)
        assert server.line() == "loaded"
        return server

    def start(self, server: Child | None = None, lease: float = 30.0) -> Child:
        server = server or self.loaded(lease)
        server.tell("")
        assert server.line() == "up"
        return server

    def marks(self) -> list[list[str]]:
        """What ran, with the process that ran it."""
        return [line.split() for line in self._marks.read_text().splitlines()] if self._marks.exists() else []

    def ran(self) -> list[str]:
        return [what for what, _ in self.marks()]

    def go(self) -> None:
        """Let what is held go on."""
        Path(f"{self._marks}.go").touch()

    def is_held(self) -> bool:
        return "hold" in self.ran()


@pytest.fixture
def servers(root: str, kind: str, child: Start, tmp_path: Path) -> Servers:
    return Servers(root, kind, child, tmp_path / "marks")


def executions(*futures: Any) -> list[Any]:
    """The result of each call, or what its error says of it."""
    told = []
    for future in futures:
        try:
            told.append(future.result(PATIENCE))
        except speed.NodeLeftError as error:
            told.append(error.execution)
    return told


def test_a_call_to_a_server_that_has_just_died_was_not_begun_and_never_runs(make: Make, servers: Servers) -> None:
    analytics = make("analytics")
    servers.start().kill()
    with pytest.raises(speed.SpeedError) as first:
        analytics.call("billing", "note", {"x": 1}, timeout=0.5)
    with pytest.raises(speed.SpeedError) as second:
        analytics.call("billing", "note", {"x": 2}, timeout=0.5)
    assert first.value.execution is second.value.execution is speed.Execution.NOT_BEGUN
    servers.start()
    assert analytics.call("billing", "note", {"x": 3}, timeout=PATIENCE) == 3
    assert servers.ran() == ["3"]


def test_a_call_whose_deadline_passes_before_the_death_of_its_server_is_noticed_was_not_begun(
    make: Make, servers: Servers
) -> None:
    analytics = make("analytics")
    server = servers.start()
    analytics.ping("billing", timeout=PATIENCE)
    pause(server.process.pid)
    waiting = analytics.submit("billing", "note", {"x": 1}, timeout=0.001)
    server.kill()
    with pytest.raises(speed.SpeedError) as caught:
        waiting.result(PATIENCE)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    assert servers.ran() == []


def test_what_waited_in_a_server_that_was_killed_is_sent_to_the_next_one(
    servers: Servers, child: Start, root: str, kind: str
) -> None:
    """The caller does not look while its server is killed and started again."""
    first, second = servers.start(), servers.loaded()
    caller = child(CALLER, root, kind, "hold", "note", "note", "note")
    assert caller.line() == "asked"
    assert until(servers.is_held)
    pause(caller.process.pid)
    first.kill()
    servers.start(second)
    caller.signal(signal.SIGCONT)
    assert [caller.line() for _ in range(4)] == ["NODE_LEFT may have run", "7", "7", "7"]
    assert servers.ran() == ["hold", "7", "7", "7"]


def test_a_call_of_an_idempotent_service_that_had_begun_is_sent_again_and_says_so(
    servers: Servers, child: Start, root: str, kind: str
) -> None:
    first, second = servers.start(), servers.loaded()
    caller = child(CALLER.replace("node.ping", "sys.stdin.readline() #"), root, kind, "hold", "charge")
    assert until(servers.is_held)
    pause(caller.process.pid)
    servers.go()
    first.process.wait(PATIENCE)
    servers.start(second)
    caller.tell("")
    caller.signal(signal.SIGCONT)
    asked, held, charged = (caller.line() for _ in range(3))
    # A process that ends itself at once may take the answer of the service before along.
    assert held in ("None", "NODE_LEFT may have run")
    assert (asked, charged) == ("asked", "charged")
    assert [words[1:-1] for words in servers.marks() if words[0] == "charged"] == [["False"], ["True"]]


def test_what_waited_in_a_server_that_does_not_come_back_was_not_begun(make: Make, servers: Servers) -> None:
    analytics = make("analytics")
    server = servers.start()
    held = analytics.submit("billing", "hold", timeout=PATIENCE)
    waiting = analytics.submit("billing", "note", {"x": 1}, timeout=PATIENCE)
    assert until(servers.is_held)
    analytics.ping("billing", timeout=PATIENCE)
    server.kill()
    assert executions(held, waiting) == [speed.Execution.MAY_HAVE_RUN, speed.Execution.NOT_BEGUN]
    servers.start()
    assert analytics.call("billing", "note", {"x": 2}, timeout=PATIENCE) == 2
    assert servers.ran() == ["hold", "2"]


def test_calls_of_a_job_that_is_gone_end_no_server(
    make: Make, servers: Servers, child: Start, root: str, kind: str
) -> None:
    analytics = make("analytics")
    server = servers.start()
    held = analytics.submit("billing", "hold", timeout=PATIENCE)
    assert until(servers.is_held)
    job = child(CALLER, root, kind, "fatal", "fatal")
    assert job.line() == "asked"
    job.kill()
    server.kill()
    assert executions(held) == [speed.Execution.MAY_HAVE_RUN]
    for number in range(2):
        successor = servers.start()
        assert analytics.call("billing", "note", {"x": number}, timeout=PATIENCE) == number
        successor.kill()
    assert "fatal" not in servers.ran()


def test_nothing_runs_for_a_caller_that_is_gone(
    make: Make, servers: Servers, child: Start, root: str, kind: str
) -> None:
    """T-8: its requests waited behind another's, for longer than a tenth of a second."""
    analytics = make("analytics")
    servers.start()
    held = analytics.submit("billing", "hold", timeout=PATIENCE)
    assert until(servers.is_held)
    caller = child(CALLER, root, kind, "note", "note")
    assert caller.line() == "asked"
    asked = monotonic()
    caller.kill()
    assert until(lambda: monotonic() - asked > 0.1)
    servers.go()
    assert held.result(PATIENCE) is None
    assert analytics.call("billing", "note", {"x": 1}, timeout=PATIENCE) == 1
    assert servers.ran() == ["hold", "1"]


def test_a_server_that_was_paused_and_replaced_begins_nothing_more(make: Make, servers: Servers) -> None:
    """L-31: what waits in it is sent to its successor, and runs there only."""
    analytics = make("analytics")
    first, second = servers.start(lease=1.0), servers.loaded()
    held = analytics.submit("billing", "hold", timeout=2 * PATIENCE)
    assert until(servers.is_held)
    waiting = analytics.submit("billing", "note", {"x": 1}, timeout=2 * PATIENCE)
    analytics.ping("billing", timeout=PATIENCE)
    pause(first.process.pid)
    assert until(lambda: not [entry for entry in analytics.nodes() if entry.name == "billing"], PATIENCE)
    servers.start(second)
    servers.go()
    first.signal(signal.SIGCONT)
    told = executions(held, waiting)
    assert told[0] is speed.Execution.MAY_HAVE_RUN
    assert told[1] in (1, speed.Execution.NOT_BEGUN, speed.Execution.MAY_HAVE_RUN)
    assert analytics.call("billing", "note", {"x": 2}, timeout=PATIENCE) == 2
    ran = [(what, told) for what, pid in servers.marks() if what != "hold" and pid == str(first.process.pid)]
    assert ran == []


# --- a node that is starting ---


def serve(billing: speed.Node) -> None:
    billing.register("double", lambda x: 2 * x)
    billing.allow("analytics")
    billing.ready()


@pytest.mark.parametrize("verb", ["call", "submit"])
def test_who_calls_a_node_that_is_starting_waits_until_it_serves(make: Make, verb: str) -> None:
    billing, analytics = make("billing", starting=True), make("analytics")
    timer = threading.Timer(0.2, serve, (billing,))
    timer.start()
    answer = getattr(analytics, verb)("billing", "double", {"x": 21}, timeout=PATIENCE)
    assert (answer.result(PATIENCE) if verb == "submit" else answer) == 42


def test_a_call_to_a_node_that_is_still_starting_was_not_begun(make: Make) -> None:
    billing, analytics = make("billing", starting=True, allow=["analytics"]), make("analytics")
    billing.register("double", lambda x: 2 * x)
    with pytest.raises(speed.NodeStartingError) as caught:
        analytics.call("billing", "double", {"x": 1}, timeout=0.1)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    billing.ready()
    assert analytics.call("billing", "double", {"x": 2}, timeout=PATIENCE) == 4


def test_a_message_to_a_node_that_is_starting_waits_for_its_grant_only(make: Make) -> None:
    billing, analytics = make("billing", starting=True), make("analytics")
    with pytest.raises(speed.NodeStartingError):
        analytics.send("billing", 1, timeout=0.1)
    billing.allow("analytics")
    analytics.send("billing", 2, timeout=PATIENCE)
    message = billing.receive(PATIENCE)
    assert message is not None
    assert message.payload == 2


def test_a_node_that_is_starting_is_in_no_listing_and_is_waited_for(make: Make) -> None:
    billing, analytics = make("billing", starting=True, allow=["analytics"]), make("analytics")
    assert [entry.name for entry in analytics.nodes()] == ["analytics"]
    with pytest.raises(speed.UnknownNodeError, match="starting"):
        analytics.wait_for("billing", timeout=0.05)
    billing.ready()
    assert analytics.wait_for("billing", timeout=PATIENCE).status == "online"
    billing.ready()


def test_a_call_that_nobody_waits_for_any_more_is_not_sent_once_its_node_serves(make: Make) -> None:
    ran: list[int] = []
    billing, analytics = make("billing", starting=True), make("analytics")
    waiting = analytics.submit("billing", "note", {"x": 1}, timeout=PATIENCE)
    waiting.cancel()
    assert until(lambda: analytics.stats()["pendingCalls"] == 0)
    billing.register("note", lambda x: ran.append(x))
    billing.allow("analytics")
    billing.ready()
    assert analytics.call("billing", "note", {"x": 2}, timeout=PATIENCE) is None
    assert ran == [2]


def test_a_repeated_call_of_a_service_that_is_not_idempotent_does_not_run(make: Make, node: Make) -> None:
    """S-8: it was when the call began."""
    from speed.wire import spc
    from speed.wire.envelope import EnvelopeType

    ran: list[int] = []
    billing, analytics = make("billing", allow=["analytics"]), node("analytics", engine="python")
    billing.register("note", lambda x: ran.append(x))
    parts = analytics._engine._parts  # type: ignore[attr-defined]
    told: list[Any] = []
    parts.context.pending.add("1.99", float("inf"), "billing", told.append)
    once = spc.encode_request("1.99", "note", {"x": 1}, "analytics", 7, 1 << 50)
    again = spc.encode_again(once, billing.generation, repeated=True)
    parts.links.granted("billing").send(EnvelopeType.SPC_REQUEST, 0, again, float("inf"))
    assert until(lambda: bool(told))
    error = told[0].outcome()
    assert (error.code, error.execution) == ("INTERNAL_ERROR", speed.Execution.MAY_HAVE_RUN)
    assert ran == []
    assert billing.stats()["counters"]["requests_in_doubt"] == 1


def test_a_request_for_another_life_of_its_server_is_not_run_whatever_is_granted(make: Make, node: Make) -> None:
    """S-3, S-8."""
    from speed.wire import spc
    from speed.wire.envelope import EnvelopeType

    ran: list[int] = []
    billing, analytics = make("billing"), node("analytics", engine="python")
    billing.register("note", lambda x: ran.append(x))
    parts = analytics._engine._parts  # type: ignore[attr-defined]
    told: list[Any] = []
    parts.context.pending.add("1.99", float("inf"), "billing", told.append)
    request = spc.encode_request("1.99", "note", {"x": 1}, "analytics", billing.generation + 1, 1 << 50)
    answered: list[bytes] = []
    parts.calls._is_replaced = lambda source, payload: answered.append(payload) or False
    parts.links.open("billing", billing.generation).send(EnvelopeType.SPC_REQUEST, 0, request, float("inf"))
    assert until(lambda: bool(told))
    assert spc.decode_response(answered[0]).error_code == "REPLACED"
    assert ran == []
