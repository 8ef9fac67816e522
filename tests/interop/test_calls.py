"""Calls between nodes of every pair of languages (registry_spec/spc.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from speed.core.calls import checked_answer
from speed.errors import CALL_ERRORS
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN, LANGUAGES, pairs
from tests.interop.pool import Agents

Between = Callable[..., tuple[Agent, Agent]]

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LARGE_BYTES = 32 << 20
PIPELINED = 10_000

ATTEMPTS = 5
SUCCESSORS = 8

caller_of_each = pytest.mark.parametrize("source", CHOSEN)


def phases_until(wanted: str, late: Callable[[], AgentError]) -> set[str]:
    """Phases of TIMEOUT, ``wanted`` among them: on a machine that hangs an answer may come after its caller left."""
    phases: set[str] = set()
    for _ in range(ATTEMPTS):
        error = late()
        assert error.code == "TIMEOUT"
        phases.add(str(error.details.get("phase")))
        if wanted in phases:
            return phases
    raise AssertionError(f"never {wanted!r}, only {phases}")


def calls_before_refusal(caller: Agent, server: Agent, timeout: float) -> tuple[int, AgentError]:
    """Call ``sequence`` until the server is too busy: how often it was served, and how the last call failed."""
    for number in range(1000):
        try:
            caller.call(server, "sequence", {"n": number}, timeout=timeout)
        except AgentError as error:
            return number, error
    raise AssertionError("the server was never busy")


@pairs("calls")
def test_a_call(between: Between, source: str, target: str) -> None:
    """S-1, S-2."""
    caller, server = between(source, target)
    assert caller.call(server, "add", {"a": 40, "b": 2}) == 42


SERVICES_SAY = [code for code in CALL_ERRORS if code not in ("LEAVING", "REPLACED")]
"""These are what a node says of itself: its callers are told that it left, or act on it."""


@pytest.mark.parametrize("code", SERVICES_SAY)
@pairs("calls")
def test_an_error_code_and_its_details(between: Between, source: str, target: str, code: str) -> None:
    """S-8: what a service answers is what its caller gets."""
    caller, server = between(source, target)
    error = caller.refusal("call", target=server.name, service="error", arguments={"code": code})
    assert (error.code, error.details) == (code, {"why": "asked"})


@pairs("calls")
def test_a_service_that_is_not_there(between: Between, source: str, target: str) -> None:
    """S-3, S-8: SERVICE_NOT_FOUND."""
    caller, server = between(source, target)
    assert caller.refusal("call", target=server.name, service="noSuch", arguments={}).code == "SERVICE_NOT_FOUND"


@pairs("calls")
def test_a_service_that_does_not_allow_its_caller(between: Between, source: str, target: str) -> None:
    """A-5, S-8: ACCESS_DENIED, although the node allows it."""
    caller, server = between(source, target)
    assert caller.refusal("call", target=server.name, service="forbidden", arguments={}).code == "ACCESS_DENIED"


@pairs("calls")
def test_arguments_that_a_service_refuses(between: Between, source: str, target: str) -> None:
    """S-8, S-9: INVALID_ARGUMENTS for a missing one."""
    caller, server = between(source, target)
    assert caller.refusal("call", target=server.name, service="add", arguments={"a": 1}).code == "INVALID_ARGUMENTS"


@pairs("calls")
def test_a_service_that_throws(between: Between, source: str, target: str) -> None:
    """S-8: EXECUTION_FAILED, with the text of the exception."""
    caller, server = between(source, target)
    error = caller.refusal("call", target=server.name, service="fail", arguments={"message": "out of ink"})
    assert error.code == "EXECUTION_FAILED"
    assert "out of ink" in str(error)


@pairs("calls")
def test_a_deadline_that_passes_while_the_service_runs(between: Between, source: str, target: str) -> None:
    """S-4: the server says TIMEOUT and that the service had begun; the next call is served."""
    caller, server = between(source, target)
    late = {"target": server.name, "service": "sleep", "arguments": {"seconds": 1.0}, "timeout": 0.3}
    phases = phases_until("running", lambda: caller.refusal("call", **late))
    assert phases <= {"running", "unanswered"}
    assert caller.call(server, "add", {"a": 1, "b": 1}) == 2


@pairs("calls")
def test_a_deadline_that_passes_in_the_queue(between: Between, agents: Agents, source: str, target: str) -> None:
    """S-4: a service that was not invoked in time never is."""
    caller, server = between(source, target, "serial")
    other = agents.shared("server", target)
    assert caller.call(server, "sequence_seen", {}) == []
    busy = other.tell("call", target=server.name, service="sleep", arguments={"seconds": 2.0})
    early, error = calls_before_refusal(caller, server, timeout=0.3)
    assert (error.code, error.details.get("phase")) == ("TIMEOUT", "queued")
    other.answer(busy)
    assert caller.call(server, "sequence_seen", {}) == list(range(early))


@pairs("calls")
def test_calls_that_are_not_waited_for_start_in_order(between: Between, source: str, target: str) -> None:
    """S-5: ten thousand of them, each answered with its own result."""
    caller, server = between(source, target, "serial")
    assert caller.call(server, "sequence_seen", {}) == []
    told = caller.ask("pipeline", target=server.name, service="sequence", count=PIPELINED)
    assert told == {"in_order": True, "results_ok": True}


@pairs("calls")
def test_thirty_two_mebibytes_there_and_back(between: Between, source: str, target: str) -> None:
    """W-5, L-6: far below the limit of a payload, above the size of a segment."""
    caller, server = between(source, target)
    assert caller.ask("large", target=server.name, bytes=LARGE_BYTES) is True


@pairs("calls")
def test_the_trace_context_of_a_call(between: Between, source: str, target: str) -> None:
    """S-13: a service runs under the traceparent of its request."""
    caller, server = between(source, target)
    assert caller.call(server, "traceparent", {}, traceparent=TRACE) == TRACE
    assert caller.call(server, "traceparent", {}) is None


@pairs("asks")
def test_a_ping(between: Between, source: str, target: str) -> None:
    """S-11: HEARTBEAT there and back."""
    caller, server = between(source, target)
    assert 0 < caller.ask("ping", target=server.name) < 5


@pairs("asks")
def test_what_a_node_says_about_itself(between: Between, source: str, target: str) -> None:
    """S-12: INFO, with the fields that every implementation has."""
    caller, server = between(source, target)
    info = caller.ask("info", target=server.name)
    assert (info["name"], info["pid"]) == (server.name, server.process.pid)
    assert info["language"] == LANGUAGES[target].says
    assert info["generation"] == server.generation
    assert {"nodeId", "version", "host", "fabrics", "startupTimestamp", "services"} <= info.keys()


@pairs("asks")
def test_the_services_that_the_asker_may_call(between: Between, source: str, target: str) -> None:
    """A-5, S-12: not those that do not allow it."""
    caller, server = between(source, target)
    services = caller.ask("services", target=server.name)
    assert {"echo", "add", "sleep", "fail"} <= set(services)
    assert "forbidden" not in services
    assert services == caller.ask("info", target=server.name)["services"]


@pairs("asks")
def test_the_counters_of_a_node(between: Between, source: str, target: str) -> None:
    """S-12, S-14: a call is counted under its service; the names of the fields are everyone's."""
    caller, server = between(source, target)

    def calls_of_add() -> int:
        stats = caller.ask("stats", target=server.name)
        assert {"name", "uptimeSeconds", "pendingCalls", "lanes", "counters", "services"} <= stats.keys()
        return int(stats["services"].get("add", {}).get("numRequests", 0))

    before = calls_of_add()
    caller.call(server, "add", {"a": 1, "b": 1})
    assert until(lambda: calls_of_add() == before + 1)  # counted a moment after it was answered
    row = caller.ask("stats", target=server.name)["services"]["add"]
    assert {"numRequests", "numErrors", "lastError", "processingSeconds", "averageSeconds"} <= row.keys()


@pairs("asks")
def test_how_long_calls_ran_and_waited(between: Between, source: str, target: str) -> None:
    """S-14: spans are counted by their length, the same in every language; 0.2 s is in the thirteenth."""
    caller, server = between(source, target)

    def times_of_sleep(kind: str) -> list[int]:
        return list(caller.ask("stats", target=server.name)["services"].get("sleep", {}).get(kind, [0] * 24))

    before, waited = times_of_sleep("runTimes"), times_of_sleep("queueTimes")
    caller.call(server, "sleep", {"seconds": 0.2})
    assert until(lambda: sum(times_of_sleep("runTimes")) == sum(before) + 1)
    after = times_of_sleep("runTimes")
    assert len(after) == 24
    assert sum(after[:12]) == sum(before[:12])
    assert sum(times_of_sleep("queueTimes")) == sum(waited) + 1


@pairs("asks")
def test_calls_that_wait_and_those_that_run(between: Between, agents: Agents, source: str, target: str) -> None:
    """S-12: each is in one of the two numbers until it is answered; at most as many run as there are workers."""
    caller, server = between(source, target, "serial")
    other = agents.shared("server", target)
    assert server.ask("stats")["workers"] == 1
    calls = [
        (one, one.tell("call", target=server.name, service="sleep", arguments={"seconds": 2.0}))
        for one in (caller, other)
    ]

    def load() -> tuple[int, int]:
        stats = server.ask("stats")
        return stats["runningRequests"], stats["queuedRequests"]

    assert until(lambda: load() == (1, 1))
    for one, call in calls:
        one.answer(call)
    assert until(lambda: load() == (0, 0))


@pairs("asks")
def test_who_is_refused_is_counted_at_both_ends(between: Between, agents: Agents, source: str, target: str) -> None:
    """S-14: by the name of the peer, where it refuses and where it is refused."""
    caller, server = between(source, target)
    shy = agents.shared("closed", target)
    assert caller.refusal("call", target=server.name, service="forbidden", arguments={}).code == "ACCESS_DENIED"
    assert until(lambda: server.ask("stats")["refusedSenders"].get(caller.name, 0) > 0)
    assert caller.refusal("call", target=shy.name, service="add", arguments={"a": 1, "b": 1}).code == "ACCESS_DENIED"
    assert caller.ask("stats")["refusedBy"][shy.name] > 0


@pairs("asks")
def test_nodes_of_all_languages_tell_the_same_of_themselves(between: Between, source: str, target: str) -> None:
    """S-14: of services, handlers of messages, peers and descriptors."""
    caller, server = between(source, target)
    topic = f"counted.{source}-{target}"
    server.ask("subscribe", pattern=topic)
    caller.ask("publish", topic=topic, payload=1)
    assert server.ask("event", timeout=20)["topic"] == topic
    caller.call(server, "add", {"a": 1, "b": 1})

    def told() -> dict[str, Any]:
        return dict(checked_answer("STATS", caller.ask("stats", target=server.name), server.name))

    assert until(lambda: topic in told()["handlers"])
    stats = told()
    assert {"numTimedOut", "numTimedOutQueued", "numWithdrawn", "numRefused"} < stats["services"]["add"].keys()
    handler = stats["handlers"][topic]
    assert sum(handler["runTimes"]) == sum(handler["queueTimes"]) == handler["numHandled"] > handler["numErrors"] == 0
    assert 3 < stats["openFiles"] <= stats["maxOpenFiles"]
    assert stats["queuedMessages"] >= 0
    assert stats["peers"][caller.name]["receivedBytes"] >= stats["peers"][caller.name]["received"] >= 2
    assert caller.ask("stats")["peers"][server.name]["sent"] >= stats["peers"][caller.name]["received"]


@caller_of_each
def test_a_node_that_nobody_knows(between: Between, source: str) -> None:
    """S-7, A-3: UNKNOWN_NODE, at once."""
    caller, _ = between(source, source)
    assert caller.refusal("call", target="nobody", service="add", arguments={}).code == "UNKNOWN_NODE"


@caller_of_each
def test_a_call_to_a_successor_does_not_end_with_its_predecessor(private: Agents, source: str) -> None:
    """S-7: the notice that the predecessor left lies unread in a caller that is stopped; it calls as it goes on."""
    caller = private.start(source, "caller", allow=["server"]).ready()
    for turn in range(SUCCESSORS):
        server = private.start("cpp", "server", allow=["caller"]).ready()
        if turn:
            call = caller.tell("call", target="server", service="sleep", arguments={"seconds": 0.2})
            caller.resume()
            caller.answer(call)
        caller.ask("ping", target="server")
        server.ask("ping", target="caller")
        caller.pause()
        server.close()
    caller.resume()


@caller_of_each
def test_a_payload_beyond_the_limit(between: Between, source: str) -> None:
    """G-18: refused by its sender, before anything is written."""
    caller, server = between(source, source)
    assert caller.refusal("large", target=server.name, bytes=(256 << 20) + 1).code == "PAYLOAD_TOO_LARGE"
