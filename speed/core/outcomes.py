"""What the other side's answer means for a caller: the error, whether the service ran, and what to do (S-8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speed.core.codes import own_code
from speed.core.verdicts import Verdict
from speed.errors import (
    CALL_ERRORS,
    ApplicationError,
    CallError,
    Execution,
    InternalError,
    NodeLeftError,
    SpeedError,
    fresh,
)
from speed.wire.harmless import harmless

_NOT_BEGUN = frozenset({"SERVICE_NOT_FOUND", "ACCESS_DENIED", "INVALID_ARGUMENTS", "SEGMENTS_LOST", "LEAVING"})
_ADVISED = frozenset({"TIMEOUT", "INTERNAL_ERROR", "WITHDRAWN", "LEAVING"})
_ADVICE = {
    Execution.NOT_BEGUN: "nothing ran: call again",
    Execution.MAY_HAVE_RUN: "it may have run: look before you repeat it",
    Execution.RAN: "it ran",
}


def call_error(source: str, code: str, message: str, details: dict[str, Any]) -> CallError:
    """The exception for an error that ``source`` answered."""
    execution = execution_of(code, details)
    text = f"{source}: {harmless(message)}"
    if code in _ADVISED or execution is Execution.MAY_HAVE_RUN:
        text = f"{text}; {_ADVICE[execution]}"
    own = own_code(code)
    error = ApplicationError(own, text, details) if own else CALL_ERRORS.get(code, InternalError)(text, details)
    error.execution = execution
    return error


def execution_of(code: str, details: dict[str, Any]) -> Execution:
    """Whether the service of a call that ended with ``code`` ran."""
    if code in _NOT_BEGUN or (details.get("phase") == "queued" and not own_code(code)):
        return Execution.NOT_BEGUN
    return Execution.RAN if code == "EXECUTION_FAILED" or own_code(code) else Execution.MAY_HAVE_RUN


def node_left(name: str, verdict: Verdict = Verdict.MAY_HAVE_RUN) -> NodeLeftError:
    """What a caller gets when the other side goes while it waits."""
    if verdict is Verdict.NOT_BEGUN:
        error = NodeLeftError(f"{name!r} left or died before it began this: nothing ran, and nothing will: call again")
        error.execution = Execution.NOT_BEGUN
        return error
    error = NodeLeftError(
        f"{name!r} left or died before it answered; what was asked may have been done: look before you repeat it"
    )
    error.execution = Execution.MAY_HAVE_RUN
    return error


def perhaps_run_before(completion: Callable[[Any], object]) -> Callable[[Any], object]:
    """A completion for a call that an earlier process may have run: no error says that it was not begun."""

    def complete(outcome: Any) -> None:
        if isinstance(outcome, Unread):
            outcome.may_have_run = True
        elif isinstance(outcome, SpeedError):
            outcome = ran_before(outcome)
        completion(outcome)

    return complete


class Unread:
    """An answer that is read by who waits for it."""

    __slots__ = ("may_have_run",)

    def __init__(self) -> None:
        self.may_have_run = False
        """Whether an earlier process may have run the call."""


def ran_before(error: SpeedError) -> SpeedError:
    """An error that ended the repetition of a call that may have run before."""
    again = fresh(error)
    if again.execution in (None, Execution.NOT_BEGUN):
        again.execution = Execution.MAY_HAVE_RUN
    return again


def not_begun(error: SpeedError) -> None:
    """Let a local error say that nothing was written."""
    error.execution = Execution.NOT_BEGUN


def raised(error: SpeedError, execution: Execution | None) -> SpeedError:
    """What a caller gets of an error that ended its wait, an object of its own; ``execution`` unless it says itself."""
    again = fresh(error)
    if again.execution is None:
        again.execution = execution
    return again
