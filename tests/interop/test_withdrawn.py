"""Withdrawn calls between nodes of every pair of languages (S-16)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.harness import Agent, until
from tests.interop.languages import pairs
from tests.interop.pool import Agents
from tests.torture.duel import Sniper

LONG = 60.0
SEGMENT_BYTES = 1000
MANY = 100
BETWEEN = 1000
"""Messages between a call and its withdrawal: who reads the lane again begins the call before it reads on."""

Between = Callable[..., tuple[Agent, Agent]]


def noted(path: Path) -> list[int]:
    """What ran, in the order of its start."""
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def start(caller: Agent, server: Agent, number: int, path: Path, **more: Any) -> int:
    """Begin the call of that number, of ``note``."""
    arguments = {"n": number, "file": str(path), **more}
    caller.ask("start", call=number, target=server.name, service="note", arguments=arguments, timeout=LONG)
    return number


@pytest.mark.parametrize("filler", [0, 5 * SEGMENT_BYTES], ids=["whole", "in segments"])
@pairs("calls")
def test_a_withdrawn_call_that_waited_never_runs(
    between: Between, tmp_path: Path, source: str, target: str, filler: int
) -> None:
    """S-16, S-8: it is told as not begun; what was asked before and behind it runs."""
    caller, server = between(source, target, "serial")
    caller.ask("segment", target=server.name, size=SEGMENT_BYTES if filler else None, parity=0)
    path = tmp_path / "noted"
    calls = [start(caller, server, 0, path, seconds=LONG)]
    assert until(lambda: noted(path) == [0])
    calls += [start(caller, server, number, path, filler="x" * filler) for number in range(1, 6)]
    for number in (2, 4):
        caller.ask("withdraw", call=calls[number])
        error = caller.refusal("outcome", call=calls[number])
        assert (error.code, error.details, error.execution) == ("WITHDRAWN", {"phase": "queued"}, "not begun")
    caller.ask("withdraw", call=calls[0])  # lets the others begin
    assert [caller.ask("outcome", call=calls[number]) for number in (0, 1, 3, 5)] == [True, False, False, False]
    assert noted(path) == [0, 1, 3, 5]
    caller.ask("segment", target=server.name, size=None, parity=0)


@pytest.mark.parametrize("filler", [0, 5 * SEGMENT_BYTES], ids=["whole", "in segments"])
@pairs("calls")
def test_a_withdrawal_does_not_overtake_its_call(
    between: Between, tmp_path: Path, source: str, target: str, filler: int
) -> None:
    """S-5, S-16: what is withdrawn at once is known to its server by then, put together from segments or not."""
    caller, server = between(source, target, "serial")
    caller.ask("segment", target=server.name, size=SEGMENT_BYTES if filler else None, parity=0)
    path = tmp_path / "noted"
    held = start(caller, server, 0, path, seconds=LONG)
    assert until(lambda: noted(path) == [0])
    for number in range(1, MANY):
        start(caller, server, number, path, filler="x" * filler)
        caller.ask("withdraw", call=number)
    ends = [caller.refusal("outcome", call=number).execution for number in range(1, MANY)]
    caller.ask("withdraw", call=held)
    assert caller.ask("outcome", call=held) is True
    assert ends == ["not begun"] * (MANY - 1)
    assert noted(path) == [0]
    caller.ask("segment", target=server.name, size=None, parity=0)


@pairs("calls")
def test_a_withdrawn_call_that_runs_sees_it(between: Between, tmp_path: Path, source: str, target: str) -> None:
    """S-16: its service is told, and its own answer is the call's."""
    caller, server = between(source, target)
    path = tmp_path / "noted"
    call = start(caller, server, 1, path, seconds=LONG)
    assert until(lambda: noted(path) == [1])
    caller.ask("withdraw", call=call)
    assert caller.ask("outcome", call=call) is True


@pairs("calls")
def test_a_service_that_ends_as_its_call_is_withdrawn(
    between: Between, tmp_path: Path, source: str, target: str
) -> None:
    """S-16, S-8: WITHDRAWN, and it may have run."""
    caller, server = between(source, target)
    path = tmp_path / "noted"
    call = start(caller, server, 1, path, seconds=LONG, quits=True)
    assert until(lambda: noted(path) == [1])
    caller.ask("withdraw", call=call)
    error = caller.refusal("outcome", call=call)
    assert (error.code, error.details, error.execution) == ("WITHDRAWN", {"phase": "running"}, "may have run")


@pairs("calls")
def test_a_call_is_withdrawn_after_its_end(between: Between, tmp_path: Path, source: str, target: str) -> None:
    """S-7: it ended once; its answer stays."""
    caller, server = between(source, target)
    call = start(caller, server, 1, tmp_path / "noted")
    assert caller.ask("outcome", call=call) is False
    caller.ask("withdraw", call=call)
    assert caller.call(server, "add", {"a": 1, "b": 1}) == 2


@pairs("calls")
def test_only_its_caller_withdraws_a_call(
    between: Between, agents: Agents, tmp_path: Path, source: str, target: str
) -> None:
    """T-8: calls of two callers may have the same request id."""
    caller, server = between(source, target, "serial")
    other = agents.shared("server", source)
    path = tmp_path / "noted"
    held = start(caller, server, 0, path, seconds=LONG)
    assert until(lambda: noted(path) == [0])
    waiting = [start(each, server, number, path) for number, each in enumerate((caller, other), 1)]
    caller.ask("withdraw", call=waiting[0])
    assert caller.refusal("outcome", call=waiting[0]).execution == "not begun"
    caller.ask("withdraw", call=held)
    assert other.ask("outcome", call=waiting[1]) is False
    assert noted(path) == [0, 2]


@pytest.mark.parametrize("at", ["commit", "answer"])
@pairs("calls")
def test_a_call_that_is_said_not_to_have_begun_never_runs_whoever_is_killed(
    private: Agents, tmp_path: Path, source: str, target: str, at: str
) -> None:
    """S-8: the server is killed as it commits the withdrawn call, or as it answers; its next life reads the lane again.

    What the caller was told by then holds: the call is committed before anybody says that it was not begun.
    """
    caller = private.start(source, "caller", allow=["server"], heartbeat=0.5).ready()
    server = private.start(target, "server", allow=["caller"], workers=1).ready()
    path = tmp_path / "noted"
    held = start(caller, server, 0, path, seconds=LONG)
    assert until(lambda: noted(path) == [0])
    waiting = start(caller, server, 1, path)
    caller.ask("burst", target="server", count=BETWEEN, bytes=10)
    caller.ask("ping", target="server")  # so all of it was read
    inbox = f"{private.root}/server/inbox" if at == "commit" else f"{private.root}/caller/inbox"
    pattern = "cursor.*" if at == "commit" else "*.lane"
    (watched,) = list(Path(inbox).rglob(pattern))
    sniper = Sniper(server, "pwrite64,write,writev", 1, path=str(watched))
    caller.ask("withdraw", call=waiting)
    server.process.wait(LONG)
    sniper.end()
    error = caller.refusal("outcome", call=waiting)
    heir = private.start(target, "server", allow=["caller"], workers=1).ready()
    caller.ask("ping", target=heir.name)  # what the dead server left was read
    assert caller.call(heir, "add", {"a": 1, "b": 1}, timeout=LONG) == 2  # and begun, or never will be
    assert error.execution in ("not begun", "may have run")
    assert error.execution != "not begun" or noted(path) == [0]
    assert caller.refusal("outcome", call=held).execution == "may have run"


@pytest.mark.parametrize("filler", [0, 5 * SEGMENT_BYTES], ids=["whole", "in segments"])
@pairs("calls")
def test_a_call_whose_server_is_killed_before_its_beginning_is_committed_never_runs(
    private: Agents, tmp_path: Path, source: str, target: str, filler: int
) -> None:
    """S-8, S-21: the commit is the beginning; one that was not committed is not begun, put together or not."""
    caller = private.start(source, "caller", allow=["server"], heartbeat=0.5).ready()
    server = private.start(target, "server", allow=["caller"]).ready()
    assert caller.call(server, "add", {"a": 1, "b": 1}) == 2
    (cursor,) = list(Path(f"{private.root}/server/inbox").rglob("cursor.*"))
    caller.ask("segment", target=server.name, size=SEGMENT_BYTES if filler else None, parity=0)
    sniper = Sniper(server, "pwrite64", 1, path=str(cursor))
    call = start(caller, server, 1, tmp_path / "noted", filler="x" * filler)
    server.process.wait(LONG)
    sniper.end()
    assert caller.refusal("outcome", call=call).execution == "not begun"
    private.start(target, "server", allow=["caller"]).ready()
    caller.ask("ping", target="server")  # so all that it wrote was read
    assert noted(tmp_path / "noted") == []


@pairs("calls")
def test_a_server_that_is_back_before_its_caller_looks_gets_again_what_had_not_begun(
    private: Agents, tmp_path: Path, source: str, target: str
) -> None:
    """S-21: that is answered, however long it takes; what the dead one had begun is not waited for."""
    caller = private.start(source, "caller", heartbeat=1).ready()
    server = private.start(target, "server", allow=["caller"], workers=1).ready()
    path = tmp_path / "noted"
    begun = start(caller, server, 0, path, seconds=LONG)
    assert until(lambda: noted(path) == [0])
    waiting = [start(caller, server, number, path, seconds=2) for number in (1, 2)]
    caller.pause()
    server.kill()
    private.start(target, "server", allow=["caller"], workers=1).ready()
    caller.resume()
    error = caller.refusal("outcome", call=begun)
    assert (error.code, error.execution) == ("NODE_LEFT", "may have run")
    assert [caller.ask("outcome", call=call) for call in waiting] == [False, False]
    assert noted(path) == [0, 1, 2]


@pairs("calls")
def test_a_caller_that_is_back_before_its_server_looks_holds_up_nothing(
    private: Agents, tmp_path: Path, source: str, target: str
) -> None:
    """T-8: what its predecessor asked is cancelled where it runs, and never begins where it waits."""
    caller = private.start(source, "caller").ready()
    server = private.start(target, "server", allow=["caller"], workers=1, heartbeat=1).ready()
    path = tmp_path / "noted"
    start(caller, server, 0, path, seconds=LONG)
    assert until(lambda: noted(path) == [0])
    start(caller, server, 1, path)
    caller.ask("ping", target="server")  # so all of it was read
    server.pause()
    caller.kill()
    heir = private.start(source, "caller").ready()
    server.resume()
    assert heir.call(server, "add", {"a": 1, "b": 1}, timeout=LONG / 2) == 2
    assert noted(path) == [0]
