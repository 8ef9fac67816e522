"""Calls that wait for an answer (rule S-7), what answers mean (S-8, S-12, S-19, S-21), and who is called (S-40)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from hashlib import sha256
from typing import Any, NamedTuple

from speed.core import texts
from speed.core.access import granted
from speed.core.scheduler import TIMES
from speed.errors import (
    CALL_ERRORS,
    AccessDeniedError,
    ApplicationError,
    CallError,
    ConfigurationError,
    Execution,
    InternalError,
    NodeLeftError,
    NodeStartingError,
    ServiceNotFoundError,
    SpeedError,
    UnknownNodeError,
    WireError,
    fresh,
)
from speed.wire import names
from speed.wire.cursor import Cursor
from speed.wire.entry import Entry
from speed.wire.limits import MAX_KEPT_REQUEST_BYTES, MAX_UNFINISHED
from speed.wire.text import harmless

# Codes of errors that a service answers with: the contract's, and its own (S-19).

_PREFIX = "app/"
_OWN = re.compile("[A-Z][A-Z0-9_]{0,63}")
_SHOWN_CHARACTERS = 80
_NODES_OWN = frozenset({"LEAVING", "REPLACED"})
"""What a node says of itself: its callers act on it."""


def is_code(code: Any) -> bool:
    """Whether a service may answer with ``code``."""
    return type(code) is str and code not in _NODES_OWN and (code in CALL_ERRORS or _OWN.fullmatch(code) is not None)


def checked_code(code: Any) -> str:
    """``code``, if a service may answer with it. Raises ConfigurationError, which names another."""
    if is_code(code):
        return str(code)
    shown = harmless(repr(code[:_SHOWN_CHARACTERS])) if type(code) is str else f"of type {type(code).__name__}"
    raise ConfigurationError(
        f"error code {shown} cannot be used: take a capital letter, then up to 63 of A-Z, 0-9 and _, or one of SPEED's"
    )


def travelling(code: str) -> str:
    """A checked code as it travels: a service's own never meets one that SPEED adds later."""
    return code if code in CALL_ERRORS else _PREFIX + code


def own_code(travelled: str) -> str | None:
    """The code of a service in what travelled; None for any other."""
    code = travelled.removeprefix(_PREFIX)
    return code if code != travelled and _OWN.fullmatch(code) else None


# What a lane tells its sender of a request whose receiver is gone, or was replaced (S-21, steps 2 and 3).


class RequestVerdict(Enum):
    """Whether a request had begun. None of them changes any more."""

    NOT_BEGUN = "not begun"
    REPEATABLE = "repeatable"
    """It had, and its service may run twice."""
    MAY_HAVE_RUN = "may have run"


class Decider(NamedTuple):
    """Which file decides; ``is_start``: the first cursor that was kept, not the cursor."""

    generation: int
    is_start: bool


def decider(starts: Collection[int], cursors: Collection[int], written_to: int) -> Decider | None:
    """The file of the first generation above the one that a request was written to; None without any."""
    above = [generation for generation in (*starts, *cursors) if generation > written_to]
    lowest = min(above, default=0)
    return Decider(lowest, lowest in starts) if lowest else None


class RequestEnvelopes(NamedTuple):
    """The envelopes of a request; ``parts`` of them suffice to begin it."""

    sequences: Sequence[int]
    parts: int


def verdict_of(cursor: Cursor, written: RequestEnvelopes) -> RequestVerdict:
    """What a cursor says of a request, all of whose envelopes were written to its lane."""
    listed = {entry.sequence: entry.begun for entry in cursor.unfinished}
    is_full = len(cursor.unfinished) >= MAX_UNFINISHED
    unread = [one for one in written.sequences if one > cursor.last_sequence and one not in listed]
    waits = [one for one in written.sequences if listed.get(one) is False]
    passed = len(written.sequences) - len(unread) - len(waits)
    if waits or (unread and not is_full and passed < written.parts):
        return RequestVerdict.NOT_BEGUN
    if unread and passed < written.parts:
        return RequestVerdict.MAY_HAVE_RUN
    return (
        RequestVerdict.REPEATABLE if any(listed.get(one) for one in written.sequences) else RequestVerdict.MAY_HAVE_RUN
    )


NOTHING_BEGAN = Cursor(0, 0, 0, 0, 0)
"""Stands for the cursor of a generation that never opened the lane."""


# What the other side's answer means for a caller: the error, whether the service ran, and what to do (S-8).

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


def node_left(name: str, verdict: RequestVerdict = RequestVerdict.MAY_HAVE_RUN) -> NodeLeftError:
    """What a caller gets when the other side goes while it waits."""
    if verdict is RequestVerdict.NOT_BEGUN:
        error = NodeLeftError(texts.left_not_begun(name))
        error.execution = Execution.NOT_BEGUN
        return error
    error = NodeLeftError(texts.left_in_doubt(name))
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
    """Let a local error say that nothing was written, unless it says more."""
    if error.execution is None:
        error.execution = Execution.NOT_BEGUN


def raised(error: SpeedError, execution: Execution | None) -> SpeedError:
    """What a caller gets of an error that ended its wait, an object of its own; ``execution`` unless it says itself."""
    again = fresh(error)
    if again.execution is None:
        again.execution = execution
    return again


# Groups: which node of a family is called next, and when another one is (S-40).

_PASSED_ON = (UnknownNodeError, NodeLeftError, NodeStartingError, ServiceNotFoundError, AccessDeniedError)
"""With these another member may take what this one did not begin."""


class Member(NamedTuple):
    """One process of a node."""

    name: str
    generation: int


def member_of(entry: Entry) -> Member:
    return Member(entry.name, entry.generation)


def members(entries: Iterable[Entry], family: str) -> list[Entry]:
    """The entries of a family."""
    return [entry for entry in entries if names.matches(family, entry.name)]


def candidates(group: Iterable[Entry], caller: str, tried: Container[Member] = ()) -> list[Entry]:
    """The members that may be asked: those that allow ``caller``, without those that it has tried."""
    return [one for one in group if granted(one, caller) and member_of(one) not in tried]


def choose(able: Sequence[str], under_way: Mapping[str, int], last: str, key: str | None = None) -> str:
    """Which of these names is asked: with the fewest calls under way, of equals the one whose turn it is.

    That is the next one by name behind ``last``, which was asked before. With a ``key`` it is always the same one, as
    long as it is there.
    """
    if key is not None:
        return max(able, key=lambda name: _weight(name, key))
    return min(able, key=lambda name: (under_way.get(name, 0), name <= last, name))


def _weight(name: str, key: str) -> bytes:
    """By rendezvous: when one of n members comes or goes, one key of n moves, to it or from it."""
    return sha256(name.encode() + b"\0" + key.encode("utf-8", "surrogatepass")).digest()


def passes_on(error: BaseException) -> bool:
    """Whether another member may be asked after ``error``: this one began nothing, and another may take it."""
    return isinstance(error, _PASSED_ON) and error.execution is Execution.NOT_BEGUN


def difference(described: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """What differs between the services that members, by name, describe; empty where nothing does."""
    (first, known), *others = ((name, {one["name"]: one for one in each}) for name, each in described.items())
    for name, theirs in others:
        for service in sorted(known.keys() | theirs.keys()):
            text = _service_difference(known.get(service), theirs.get(service))
            if text:
                return f"{first!r} and {name!r} differ: {service!r} {text}"
    return ""


def _service_difference(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> str:
    if one is None or other is None:
        return "is a service of one of them alone"
    if one["version"] != other["version"]:
        return f"has version {one['version']!r} and {other['version']!r}"
    return "" if one == other else "is not described alike"


# What a peer may say of itself when it is asked: checked before a program sees it (S-12).

Check = Callable[[Any], bool]
_NO_COUNT = 1 << 63
"""Nothing counts so far; NaN is below no number."""


def _is_texts(value: Any) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < _NO_COUNT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _NO_COUNT


def _is_time(value: Any) -> bool:
    """A span of wall-clock time, which may have been set back."""
    return type(value) in (int, float) and -_NO_COUNT < value < _NO_COUNT


def _is_counters(value: Any) -> bool:
    return type(value) is dict and all(type(name) is str and _is_whole(one) for name, one in value.items())


def _is_times(value: Any) -> bool:
    return type(value) is list and len(value) == TIMES and all(map(_is_whole, value))


def _optional(check: Check) -> Check:
    """What older nodes do not tell."""
    return lambda value: value is None or check(value)


_SERVICE: dict[str, Check] = {
    "numRequests": _is_whole,
    "numErrors": _is_whole,
    "lastError": _is_text,
    "processingSeconds": _is_number,
    "averageSeconds": _is_number,
    **dict.fromkeys(("numTimedOut", "numTimedOutQueued", "numWithdrawn", "numRefused"), _optional(_is_whole)),
    "queueTimes": _optional(_is_times),
    "runTimes": _optional(_is_times),
}


_HANDLER: dict[str, Check] = {
    **dict.fromkeys(("numHandled", "numErrors"), _is_whole),
    "processingSeconds": _is_number,
    **dict.fromkeys(("queueTimes", "runTimes"), _is_times),
}
_PEER = dict.fromkeys(("received", "receivedBytes", "sent", "sentBytes"), _is_whole)


def _rows_of(checks: Mapping[str, Check]) -> Check:
    """A map of names to rows with these columns."""
    return lambda value: (
        type(value) is dict
        and all(
            type(name) is str and type(row) is dict and all(check(row.get(key)) for key, check in checks.items())
            for name, row in value.items()
        )
    )


_DESCRIPTION: dict[str, Check] = {
    "name": _is_text,
    "summary": _is_text,
    "version": _is_text,
    "streaming": lambda value: type(value) is bool,
    "idempotent": lambda value: type(value) is bool,
    "columns": lambda value: type(value) is bool,
    "parameters": lambda value: type(value) in (dict, type(None)),
    "result": lambda value: type(value) in (dict, type(None)),
    "items": lambda value: value is None or type(value) is str,
}


def _is_descriptions(value: Any) -> bool:
    return type(value) is list and all(
        type(one) is dict and all(check(one.get(key)) for key, check in _DESCRIPTION.items()) for one in value
    )


_ANSWERS: dict[str, dict[str, Check]] = {
    "SERVICES": {"services": _is_texts},
    "DESCRIBE": {"services": _is_descriptions},
    "INFO": {
        "name": _is_text,
        "nodeId": _is_text,
        "generation": _is_whole,
        "language": _is_text,
        "version": _is_text,
        "pid": _is_whole,
        "host": _is_text,
        "fabrics": _is_texts,
        "startupTimestamp": _is_whole,
        "services": _is_texts,
    },
    "STATS": {
        "name": _is_text,
        "uptimeSeconds": _is_time,
        **dict.fromkeys(("pendingCalls", "lanes"), _is_whole),
        **dict.fromkeys(("queuedRequests", "runningRequests", "queuedMessages", "workers"), _optional(_is_whole)),
        **dict.fromkeys(("refusedSenders", "refusedBy"), _optional(_is_counters)),
        "counters": _is_counters,
        "services": _rows_of(_SERVICE),
        "handlers": _optional(_rows_of(_HANDLER)),
        "peers": _optional(_rows_of(_PEER)),
        **dict.fromkeys(("openFiles", "maxOpenFiles"), _optional(_is_whole)),
    },
}


def checked_answer(operation: str, result: Any, node: str) -> dict[str, Any]:
    """The result of a DISCOVERY question; WireError BAD_PAYLOAD names ``node`` and the field that is missing or odd."""
    if type(result) is not dict:
        raise WireError("BAD_PAYLOAD", f"the answer of {node} to {operation} is no map")
    for name, check in _ANSWERS.get(operation, {}).items():
        if not check(result.get(name)):
            raise WireError("BAD_PAYLOAD", f"the answer of {node} to {operation} has no {name} of the right kind")
    return result


_RESCAN_SECONDS = 1.0


class RequestState:
    """The state of a call's request, kept for the case that its server is replaced (S-21)."""

    __slots__ = (
        "entry",
        "is_settled",
        "is_withdrawn",
        "is_written",
        "may_have_run",
        "parts",
        "payload",
        "sequences",
        "until",
    )

    def __init__(self, entry: Entry, until: float) -> None:
        self.entry = entry
        """Of the server's generation that it was written to last."""
        self.until = until
        """How long the program waits, in monotonic seconds."""
        self.payload: bytes | None = None
        """The request, while it is kept."""
        self.sequences: Sequence[int] = ()
        """Of its envelopes."""
        self.parts = 1
        """So many of them suffice to begin it."""
        self.is_written = self.is_settled = self.is_withdrawn = False
        self.may_have_run = False
        """Whether an earlier generation may have run it."""


class PendingCall:
    """One waiting caller. ``deadline`` is in seconds of the caller's monotonic clock."""

    __slots__ = ("completion", "deadline", "is_part", "key", "request", "target")

    def __init__(self, key: Hashable, deadline: float, target: str, completion: Callable[[Any], object]) -> None:
        self.key, self.deadline, self.target, self.completion = key, deadline, target, completion
        self.request: RequestState | None = None
        """Of a call: its request."""
        self.is_part = False
        """Whether this waits for what becomes of one segment of a request."""


class PendingCalls:
    """The table of waiting callers, by target and key (request id, or sequence for acknowledgements).

    Not locked itself. `add`, `complete`, `forget` and `waiting` are single dict operations, atomic under CPython's GIL,
    so any thread may call them at any time; whoever pops a call completes it, hence at most one completion. `expire`
    and `fail` belong to one thread. A deadline added while `expire` scans is noticed within a second.
    After `fail_all` nobody can wait any more.
    """

    __slots__ = ("_calls", "_earliest", "_end", "_kept", "_lock", "_scanned")

    def __init__(self, lock: AbstractContextManager[Any] | None = None) -> None:
        """``lock`` guards the count of what is kept, where several threads use this."""
        self._calls: dict[str, dict[Hashable, PendingCall]] = {}
        self._earliest = math.inf
        self._scanned = -math.inf
        self._end: BaseException | None = None
        self._lock = nullcontext() if lock is None else lock
        self._kept = 0

    def add(self, key: Hashable, deadline: float, target: str, completion: Callable[[Any], object]) -> PendingCall:
        """Wait for ``key``; ``completion(outcome)`` runs on the thread that completes it and must not block.

        Raises what `fail_all` was given, once it was: then nothing may be written.
        """
        call = PendingCall(key, deadline, target, completion)
        try:
            self._calls[target][key] = call
        except KeyError:
            self._calls.setdefault(target, {})[key] = call
        if deadline < self._earliest:
            self._earliest = deadline
        # Looked at last: whoever ends the table either finds this call in it or was seen here.
        if self._end is not None and self.forget(target, key):
            raise fresh(self._end) if isinstance(self._end, SpeedError) else self._end
        return call

    def complete(self, source: str, key: Hashable, outcome: object) -> bool:
        """Hand ``outcome`` to the caller that waits for ``key`` of ``source``, and of nobody else (rule S-6).

        False when nobody waits any more.
        """
        call = self._taken(source, key)
        if call is None:
            return False
        call.completion(outcome)
        return True

    def _taken(self, source: str, key: Hashable) -> PendingCall | None:
        call = self._calls.get(source, _NONE).pop(key, None)
        if call is not None and call.request is not None:
            self._release(call.request)
        return call

    def end(self, call: PendingCall, outcome: object) -> bool:
        """The same for this very call, which another one may have taken the place of."""
        return self.is_open(call) and self.complete(call.target, call.key, outcome)

    def is_open(self, call: PendingCall) -> bool:
        """Whether its caller still waits."""
        return self._calls.get(call.target, _NONE).get(call.key) is call

    # --- requests, to be sent again (S-21) ---

    def keep(self, request: RequestState, payload: bytes) -> bool:
        """Keep a request as long as its caller waits; False if too much is kept already."""
        with self._lock:
            if self._kept + len(payload) > MAX_KEPT_REQUEST_BYTES:
                return False
            self._kept += len(payload)
            request.payload = payload
            return True

    def _release(self, request: RequestState) -> None:
        with self._lock:
            if request.payload is not None:
                self._kept -= len(request.payload)
                request.payload = None

    @property
    def kept_bytes(self) -> int:
        """What is kept of requests."""
        return self._kept

    def withdrawn(self, target: str, key: Hashable) -> None:
        """The program of a call does not wait any more: it is not sent again."""
        call = self._calls.get(target, _NONE).get(key)
        if call is not None and call.request is not None:
            call.request.is_withdrawn = True

    def forget(self, target: str, key: Hashable) -> bool:
        """Stop waiting without completing; False when nobody waits any more."""
        return self._taken(target, key) is not None

    def waits_for(self, target: str, key: Hashable) -> bool:
        """Whether somebody waits for ``key``."""
        return key in self._calls.get(target, _NONE)

    def waiting(self, target: str) -> int:
        """How many callers wait for ``target``."""
        return len(self._calls.get(target, _NONE))

    def expire(self, now: float) -> list[PendingCall]:
        """Take out the calls whose deadline has passed; the caller of this method completes them."""
        if now < min(self._earliest, self._scanned + _RESCAN_SECONDS):
            return []
        self._earliest, self._scanned = math.inf, now
        calls = self._all()
        late = [call for call in calls if call.deadline <= now]
        rest = min((call.deadline for call in calls if call.deadline > now), default=math.inf)
        self._earliest = min(self._earliest, rest)
        return [call for call in late if self.forget(call.target, call.key)]

    def to(self, target: str) -> list[PendingCall]:
        """The calls to ``target`` that wait now."""
        return list(self._calls.get(target, _NONE).values())

    def fail(self, calls: list[PendingCall], error: BaseException) -> int:
        """Complete those of ``calls`` that still wait with ``error``; returns how many."""
        return sum(self.complete(call.target, call.key, error) for call in calls)

    def fail_all(self, error: BaseException) -> int:
        """Complete every call with ``error``, and refuse those to come: the node stops. Returns how many."""
        self._end = error
        return self.fail(self._all(), error)

    def targets(self) -> set[str]:
        """Nodes that somebody waits for."""
        return {target for target, calls in list(self._calls.items()) if calls}

    def next_deadline(self) -> float:
        """A time not after the earliest deadline, of calls that may have ended since ``expire`` looked."""
        return self._earliest

    def __len__(self) -> int:
        """How many callers wait."""
        return sum(map(len, list(self._calls.values())))

    def _all(self) -> list[PendingCall]:
        return [call for calls in list(self._calls.values()) for call in list(calls.values())]


_NONE: dict[Hashable, PendingCall] = {}
"""Stands for the table of a target that was never asked; only read and popped from."""
