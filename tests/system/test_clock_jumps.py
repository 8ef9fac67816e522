"""Wall clocks jump by an hour: leases follow the monotonic clock, so no live node loses its name (R-8, R-12, S-4)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import speed
from speed.fs.identity import parse_offsets

Make = Callable[..., speed.Node]
Start = Callable[..., Any]

HOUR = 3600
LEASE_SECONDS = 0.8

# A process whose wall clock, as Python sees it, is what the test says; its monotonic clock is the kernel's.
AGENT = """
import sys, time
shift, real, real_ns = 0, time.time, time.time_ns
time.time, time.time_ns = lambda: real() + shift, lambda: real_ns() + shift * 10**9
import speed

me, other, root = sys.argv[1:]
node = speed.Node(me, root=root, engine="python", allow=[other], lease_seconds=0.8, heartbeat_seconds=0.2)
node.register("double", lambda x: 2 * x)
left = []
node.on_leave(lambda entry: left.append(entry))
for line in sys.stdin:
    command, number = line.split()
    try:
        if command == "jump":
            shift = int(number)
            print("jumped")
        elif command == "call":
            print(node.call(other, "double", {"x": int(number)}, timeout=5))
        elif command == "ping":
            print(node.ping(other) < 5)
        elif command == "send":
            node.send(other, int(number), ack=True)
            print("acknowledged")
        else:
            print(sorted(entry.name for entry in node.nodes()), len(left), node.generation)
    except speed.SpeedError as error:
        print(type(error).__name__, getattr(error, "details", {}).get("phase"))
"""


@pytest.fixture
def pair(root: str, child: Start) -> tuple[Any, Any]:
    """Two agents that allow each other."""
    agents = child(AGENT, "billing", "analytics", root), child(AGENT, "analytics", "billing", root)
    for agent in agents:
        while ask(agent, "look 0") != "['analytics', 'billing'] 0 1":
            pass
    return agents


def ask(agent: Any, command: str) -> str:
    agent.tell(command)
    return str(agent.line())


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_when_the_clock_of_a_host_jumps_calls_go_on_and_nobody_is_evicted(
    pair: tuple[Any, Any], node: Make, shift: int
) -> None:
    """R-8, S-4."""
    for agent in pair:
        assert ask(agent, f"jump {shift}") == "jumped"
    until = time.monotonic() + 2.5 * LEASE_SECONDS
    while time.monotonic() < until:
        assert [ask(agent, "call 21") for agent in pair] == ["42", "42"]
    for agent in pair:
        assert ask(agent, "look 0") == "['analytics', 'billing'] 0 1"
    with pytest.raises(speed.NameTakenError):
        node("billing", lease_seconds=LEASE_SECONDS, heartbeat_seconds=0.2)


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_a_process_whose_clock_alone_is_wrong_keeps_its_name_and_its_messages(
    pair: tuple[Any, Any], node: Make, shift: int
) -> None:
    """R-8: such as one in a container with a clock of its own."""
    assert ask(pair[0], f"jump {shift}") == "jumped"
    until = time.monotonic() + 2.5 * LEASE_SECONDS
    while time.monotonic() < until:
        for agent in pair:
            assert ask(agent, "ping 0") == "True"
            assert ask(agent, "send 7") == "acknowledged"
            assert ask(agent, "look 0") == "['analytics', 'billing'] 0 1"
    with pytest.raises(speed.NameTakenError):
        node("billing", lease_seconds=LEASE_SECONDS, heartbeat_seconds=0.2)


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_no_call_ends_because_the_clock_of_its_server_is_another(pair: tuple[Any, Any], shift: int) -> None:
    """S-4: on one host the clock of the boot counts, which nobody sets."""
    billing, analytics = pair
    assert ask(billing, f"jump {shift}") == "jumped"
    assert ask(analytics, "call 21") == "42"
    assert ask(billing, "call 21") == "42"


def test_between_hosts_the_wall_clock_counts(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-4: nothing ran, and the server tells so."""
    from speed.engine.python import calls

    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    billing.register("double", lambda x: 2 * x)
    context = analytics._engine._parts.context  # type: ignore[attr-defined]
    object.__setattr__(context, "boot_id", "another boot")  # it is frozen
    assert analytics.call("billing", "double", {"x": 21}, timeout=20) == 42
    now = calls.unix_ms()
    monkeypatch.setattr(calls, "unix_ms", lambda: now - HOUR * 1000)
    with pytest.raises(speed.CallTimeoutError) as caught:
        analytics.call("billing", "double", {"x": 21}, timeout=20)
    assert caught.value.details["phase"] == "queued"
    assert caught.value.execution is speed.Execution.NOT_BEGUN


INSIDE = """
import sys, speed
root, engine = sys.argv[1:]
try:
    speed.Node("billing", root=root, engine=engine)
    print("taken")
except speed.NameTakenError:
    print("refused", flush=True)
node = speed.Node("inside", root=root, engine=engine, allow=["billing"])
node.register("double", lambda number: 2 * number)
print(node.call("billing", "double", {"number": 2}, timeout=20), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("engine", ["python", "native"])
@pytest.mark.parametrize("ahead", ["5000", "-20"])
def test_a_process_in_a_time_namespace_takes_no_name_and_loses_none(
    node: Make, root: str, engine: str, ahead: str
) -> None:
    """R-30: its clocks and the starts of processes are shifted there."""
    billing = node("billing", allow=["inside"], engine=engine)
    billing.register("double", lambda number: 2 * number)
    space = ["unshare", "--time", "--fork", "--monotonic", ahead, "--boottime", ahead]
    user = ["--user", "--map-root-user"] * (os.geteuid() != 0)
    command = [*space, *user, sys.executable, "-c", INSIDE, root, engine]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert [other.stdout.readline() for _ in range(2)] == ["refused\n", "4\n"]
        assert billing.call("inside", "double", {"number": 3}, timeout=20) == 6
        with pytest.raises(speed.NameTakenError):
            node("inside", engine=engine)
        other.communicate("go on\n")


def test_offsets_are_read_as_the_kernel_writes_them() -> None:
    """R-30."""
    read = parse_offsets("monotonic        5000         7\nboottime          -20 500000000\n")
    assert (read.monotonic, read.boottime) == (5_000_000_000_007, -19_500_000_000)
