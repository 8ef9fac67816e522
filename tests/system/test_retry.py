"""Calls that are tried again: what was not begun always may be, what may have run only where it may run twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import speed
from speed.engine.options import Attempts, RetryBudget, may_repeat
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system
PATIENT = speed.Retry(attempts=200, backoff_seconds=0.02, budget=None)


def error_of(kind: type[speed.SpeedError], execution: speed.Execution) -> speed.SpeedError:
    error = kind("as it was")
    error.execution = execution
    return error


@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_of_a_node_that_is_not_there_yet_is_tried_until_it_is(node: Make, engine: str) -> None:
    caller = node("caller", engine=engine)
    outcome: list[int] = []
    call = threading.Thread(
        target=lambda: outcome.append(caller.call("server", "double", {"x": 2}, timeout=30, retry=PATIENT))
    )
    call.start()
    server = node("server", engine=engine, starting=True)
    server.register("double", lambda x: 2 * x)
    server.allow("caller")
    server.ready()
    call.join(30)
    assert outcome == [4]


def test_an_awaited_call_is_tried_again_too(node: Make) -> None:
    caller = node("caller")

    async def both() -> int:
        call = asyncio.create_task(caller.aio.call("server", "double", {"x": 2}, timeout=30, retry=PATIENT))
        await asyncio.to_thread(serve)
        return await call  # type: ignore[no-any-return]

    def serve() -> None:
        server = node("server", starting=True)
        server.register("double", lambda x: 2 * x)
        server.allow("caller")
        server.ready()

    assert asyncio.run(both()) == 4


def test_so_many_attempts_are_made_and_the_last_error_is_raised(node: Make) -> None:
    caller = node("caller")
    with pytest.raises(speed.UnknownNodeError) as failed:
        caller.call("gone", "x", retry=speed.Retry(attempts=3, backoff_seconds=0.001))
    assert (failed.value.node, failed.value.service) == ("gone", "x")
    with pytest.raises(speed.UnknownNodeError):
        caller.call("gone", "x", timeout=0.05, retry=PATIENT)  # never longer than the call may take


def test_what_the_service_answers_is_never_tried_again(node: Make) -> None:
    server, caller = node("server", allow=["caller"]), node("caller")
    calls: list[int] = []

    @server.service("fail")
    def fail() -> None:
        calls.append(1)
        raise speed.ApplicationError("SOLD_OUT", "none left")

    with pytest.raises(speed.ApplicationError):
        caller.call("server", "fail", retry=speed.Retry(attempts=5, idempotent=True))
    assert calls == [1]


@pytest.mark.parametrize(
    ("kind", "execution", "always", "if_idempotent"),
    [
        (speed.UnknownNodeError, speed.Execution.NOT_BEGUN, True, True),
        (speed.NodeStartingError, speed.Execution.NOT_BEGUN, True, True),
        (speed.NodeLeftError, speed.Execution.NOT_BEGUN, True, True),
        (speed.NodeLeftError, speed.Execution.MAY_HAVE_RUN, False, True),
        (speed.CallTimeoutError, speed.Execution.MAY_HAVE_RUN, False, True),
        (speed.AccessDeniedError, speed.Execution.NOT_BEGUN, False, False),
        (speed.InvalidArgumentsError, speed.Execution.NOT_BEGUN, False, False),
        (speed.ExecutionFailedError, speed.Execution.RAN, False, False),
    ],
)
def test_what_may_be_repeated(
    kind: type[speed.SpeedError], execution: speed.Execution, always: bool, if_idempotent: bool
) -> None:
    error = error_of(kind, execution)
    assert may_repeat(error, idempotent=False) is always
    assert may_repeat(error, idempotent=True) is if_idempotent


def test_a_node_in_trouble_gets_no_more_than_its_budget_of_retries_whoever_calls() -> None:
    """Five of ten are there for a start; then each call that succeeds earns a tenth of an attempt."""
    budget, retry = RetryBudget(), speed.Retry(attempts=100, backoff_seconds=0.0)
    gone = error_of(speed.UnknownNodeError, speed.Execution.NOT_BEGUN)

    def again() -> bool:
        try:
            Attempts(retry, 30, budget).pause(gone)
        except speed.UnknownNodeError:
            return False
        return True

    assert [again() for _ in range(6)] == [True] * 4 + [False] * 2
    for _ in range(21):
        Attempts(retry, 30, budget).succeeded()
    assert again()
    assert not again()


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"attempts": 2.5}, {"backoff_seconds": -1}, {"budget": 0.0}])
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(speed.ConfigurationError, match=f"{next(iter(wrong))} is"):
        speed.Retry(**wrong)  # type: ignore[arg-type]


def test_anything_but_a_retry_is_refused(node: Make) -> None:
    with pytest.raises(speed.ConfigurationError, match=r"retry must be a speed.Retry, not int"):
        node("caller").call("server", "x", retry=3)  # type: ignore[arg-type]
