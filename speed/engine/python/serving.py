"""The serving side of SPC: the ten steps of RFC 7.5 (S-3), on a worker from the look-up of the service on.

A request is answered exactly once, by whoever claims that first: the worker with its result, or the thread that reads
when the deadline passes or the caller withdraws it first.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core import counters
from speed.core.calls import checked_code, travelling
from speed.core.hints import checked_seconds
from speed.core.lane import Token
from speed.core.log import logger
from speed.core.scheduler import Admission, Work, WorkState
from speed.core.services import (
    Registered,
    Request,
    Response,
    ServiceRegistry,
    check_streaming,
    failure_line,
    run,
)
from speed.core.streams import StreamCredit, StreamWindow
from speed.engine.python.calls import STREAM_WRITE_SECONDS
from speed.engine.python.context import Context
from speed.engine.python.lanes import Lane
from speed.engine.python.links import Answers, Links
from speed.engine.python.streams import LaneChannel, Streams
from speed.engine.threads import ProgramsCode
from speed.engine.tracing import continued
from speed.engine.workers import WorkerPool
from speed.errors import (
    CALL_ERRORS,
    ConfigurationError,
    LeaseLostError,
    PayloadTooLargeError,
    SpeedError,
    UnserialisableError,
    WireError,
)
from speed.fs.identity import boot_ms, unix_ms
from speed.wire import spc
from speed.wire.envelope import FLAG_REPLY, EnvelopeType, generation_of
from speed.wire.spc import RequestHead

if TYPE_CHECKING:
    from speed.fs.slots import OpenedEnvelope


TIMED_OUT = {"queued": counters.REQUESTS_TIMED_OUT_QUEUED, "running": counters.REQUESTS_TIMED_OUT_RUNNING}
"""As what a passed deadline is counted, by the phase of its request."""

# What tells a service that nobody waits for it any longer (S-16).


class Withdrawal:
    """Set once, for good; nothing is thrown into a running thread. Thread-safe."""

    __slots__ = ("_hooks", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._hooks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        while self._hooks:
            try:
                hook = self._hooks.pop()
            except IndexError:
                return
            hook()

    def call_when_set(self, hook: Callable[[], object]) -> None:
        """Run ``hook``, which must be brief, when it is set; now, if it is."""
        self._hooks.append(hook)
        if self._is_set:
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most ``timeout`` seconds; whether it is."""
        if not self._is_set:  # few services ever wait for it
            event = threading.Event()
            self.call_when_set(event.set)
            event.wait(None if timeout is None else checked_seconds("timeout", timeout))
            with suppress(ValueError):  # it was told
                self._hooks.remove(event.set)
        return self._is_set


# One accepted request, from its head to its answer.


class Accepted:
    """``token`` commits its envelope in ``lane``; ``deadline`` is in monotonic seconds, ``sent_ms`` Unix time.

    ``unsure``: whether this process began it before its lane failed cannot be told (S-8).
    """

    __slots__ = (
        "_right",
        "cancellation",
        "deadline",
        "generation",
        "head",
        "identity",
        "is_over",
        "lane",
        "payload",
        "sent_ms",
        "source",
        "taken_at",
        "token",
        "unsure",
        "was_found_again",
    )

    def __init__(
        self,
        lane: Lane,
        token: Token,
        generation: int,
        head: RequestHead,
        payload: bytes,
        deadline: float,
        sent_ms: int,
        unsure: bool,
    ) -> None:
        self.lane, self.source, self.token, self.generation = lane, lane.source, token, generation
        self.head, self.payload, self.deadline = head, payload, deadline
        self.sent_ms, self.unsure = sent_ms, unsure
        self.identity = ""
        self.cancellation, self.taken_at = Withdrawal(), monotonic()
        self.is_over = self.was_found_again = False
        self._right = [None]

    def claim_answer(self) -> bool:
        """Whether the caller of this method is the one that answers: exactly one is (S-3). Thread-safe."""
        try:
            self._right.pop()
        except IndexError:
            return False
        return True

    def begin(self, *, listed: bool) -> bool:
        """Commit that it begins, as ``Lane.begin``; once more where its lane was opened again meanwhile."""
        lane = self.lane
        began = lane.begin(self.token, listed=listed)
        if not began and self.lane is not lane:
            began = self.lane.begin(self.token, listed=listed)
        return began

    def found_again(self, lane: Lane, token: Token) -> bool:
        """Its lane failed and was opened again: there it is finished from now on. False if it is another envelope."""
        if token.sequence != self.token.sequence:
            return False
        self.token, self.lane = token, lane
        self.was_found_again = True
        if self.is_over:
            self.finish()
        return True

    def end(self) -> None:
        """Nothing is left to do for it, but in a lane that was opened again meanwhile."""
        self.is_over = True
        self.payload = b""  # its deadline is remembered for a while, and the call with it
        if self.was_found_again:
            self.finish()

    def finish(self) -> None:
        """Commit it; again does nothing."""
        self.lane.finish((self.token,))


log = logger("speed.spc")

ANSWERED_AT_ONCE = 64
"""So many withdrawn calls are answered before anything else has its turn."""

_MAY_HAVE_RUN = Response.error("INTERNAL_ERROR", "may have run before its node was interrupted", {"phase": "running"})
LOOKED_AFTER_SECONDS = 0.1
"""Who waited longer than this may be gone: that is looked at before it begins."""
_FAILED = Response.error("INTERNAL_ERROR", "the request could not be answered: see the log of that node")


class Serving:
    """Requests of other nodes, from acceptance to answer. Thread-safe."""

    def __init__(
        self, context: Context, links: Links, pool: WorkerPool, answers: Answers, lost: Callable[[SpeedError], None]
    ) -> None:
        """``lost`` is told when another process turns out to have the name."""
        self._lost = lost
        self._links = links
        self.services = ServiceRegistry()
        self._context = context
        self._pool = pool
        self._answers = answers
        self.streams = Streams()
        self._callers: dict[str, dict[str, Accepted]] = {}
        """What waits or runs, by caller and id."""
        self._withdrawn: deque[Accepted] = deque()
        """What never began, and is not answered yet: the thread that reads does it."""

    # --- accepting: steps 1 and 2 are behind us ---

    def accept(self, lane: Lane, received: OpenedEnvelope) -> None:
        """Accept one authenticated, authorised request; WireError for one whose head breaks S-1."""
        token, payload = received.token, received.payload
        generation = generation_of(token.sequence)
        try:
            head = spc.decode_head(payload)
            if head.generation != self._context.generation:
                self._refuse_other(lane, token, head)
                return
            if head.caller != lane.source:
                raise WireError("BAD_PAYLOAD", f"caller {head.caller!r} is not the sender {lane.source!r}")
        except WireError as error:
            self._reject(lane.source, generation, payload, "INVALID_ARGUMENTS", str(error))
            raise
        deadline = self._deadline(head)
        sent_ms = received.header.timestamp_ms
        call = Accepted(lane, token, generation, head, payload, deadline, sent_ms, received.unsure)
        call.identity = lane.fingerprint(received.header.key_id)
        if deadline <= monotonic():
            self._time_out(call, "queued")
            return
        admission = self._pool.request(lane.source, head.request_id, Prepared(self, call), deadline)
        if admission is Admission.WAITING:
            self._callers.setdefault(lane.source, {})[head.request_id] = call
            self._context.waker.wake_by(deadline)
            if call.is_over:  # a worker was quicker
                self._forget(call)
        elif admission is Admission.DUPLICATE:
            self._context.stats.count(counters.REQUESTS_DUPLICATE)
            known = self._callers.get(lane.source, {}).get(head.request_id)
            if known is None or not known.found_again(lane, token):
                lane.drop(token)
        else:
            self.refuse_leaving(call)

    def _deadline(self, head: spc.RequestHead) -> float:
        """Monotonic seconds; by the clock of the boot where caller and server share it (S-4)."""
        same_boot = head.boot_id and head.boot_id == self._context.boot_id
        left_ms = head.boot_deadline_ms - boot_ms() if same_boot else head.deadline_ms - unix_ms()
        return monotonic() + left_ms / 1000

    def _refuse_other(self, lane: Lane, token: Token, head: spc.RequestHead) -> None:
        """A request for another generation of this node never begins; its caller is told while it waits (S-8)."""
        self._context.stats.count(counters.REQUESTS_FOR_ANOTHER_GENERATION)
        lane.keep_start()
        lane.drop(token)
        if self._deadline(head) > monotonic() and self._context.registry.live(lane.source) is not None:
            text = f"the call was for generation {head.generation} of {self._context.name!r}, which was replaced"
            reply = spc.encode_error(head.request_id, "REPLACED", text)
            self._answers.send_urgently(lane.source, generation_of(token.sequence), reply)

    def refuse(self, lane: Lane, received: OpenedEnvelope) -> None:
        """Its sender has no grant: answer ACCESS_DENIED without looking at services (RFC 9.8)."""
        token, payload = received.token, received.payload
        with contextlib.suppress(WireError):
            head = spc.decode_head(payload)
            if head.generation != self._context.generation:
                self._refuse_other(lane, token, head)
                return
        lane.finish((token,))  # before its caller is told that it was not begun
        text = f"{self._context.name!r} does not allow {lane.source!r}"
        self._reject(lane.source, generation_of(token.sequence), payload, "ACCESS_DENIED", text)

    def _reject(self, source: str, generation: int, payload: bytes, code: str, text: str) -> None:
        """Tell the caller of a request that was not accepted, if its id can be read (S-2)."""
        request_id = spc.readable_request_id(payload)
        if request_id is not None:
            self._answers.send_urgently(source, generation, spc.encode_error(request_id, code, text))

    def refuse_leaving(self, call: Accepted) -> None:
        """The node leaves: the request never begins (R-15)."""
        text = f"{self._context.name!r} is leaving and takes nothing more"
        self._send(call, spc.encode_error(call.head.request_id, "LEAVING", text), has_begun=False)

    # --- on a worker ---

    def prepare(self, call: Accepted) -> Callable[[], None]:
        """Steps 3 to 6, and the beginning (S-8); returns the rest, which may take as long as it likes."""
        try:
            return self._prepare(call)
        except BaseException:
            log.exception("a request of %s could not be prepared", call.source)
            return partial(self._end, call, _FAILED)

    def _prepare(self, call: Accepted) -> Callable[[], None]:
        if call.cancellation.is_set():  # withdrawn since it was taken
            return partial(self._end, call, _withdrawn(call, "queued"))
        if not self._has_caller(call):
            return partial(self._drop_prepared, call)
        found = self.services.find(call.head.service, call.source)
        if isinstance(found, Response):
            if found.error_code == "SERVICE_NOT_FOUND":
                self._context.stats.count(counters.REQUESTS_FOR_NO_SERVICE)
            elif found.error_code == "ACCESS_DENIED":
                self._context.stats.refused_sender(call.source)
                self._context.stats.refused(call.head.service)
            return partial(self._end, call, found)
        if (call.unsure or call.head.repeated) and not found.idempotent:
            self._context.stats.count(counters.REQUESTS_IN_DOUBT)
            return partial(self._end, call, _MAY_HAVE_RUN)
        try:
            arguments = spc.decode_arguments(call.payload, call.head)
        except WireError as error:
            self._context.stats.count(counters.REJECTED_BAD_PAYLOAD)
            return partial(self._end, call, Response.error("INVALID_ARGUMENTS", str(error)))
        call.payload = b""
        try:
            # Without its lease it begins nothing, whether a successor has read the lane yet or not.
            self._context.registration.check_held()
            if not call.begin(listed=found.idempotent):
                self._context.stats.count(counters.REQUESTS_NOT_BEGUN)
                return partial(self._end, call, _unwritten(call.head.service))
        except LeaseLostError as error:
            self._context.stats.count(counters.REQUESTS_NOT_BEGUN)
            self._lost(error)
            return partial(self._forget, call)
        return partial(self._invoke, call, found, arguments)

    def _has_caller(self, call: Accepted) -> bool:
        """Whether somebody waits for the answer, as far as what waited for long is concerned (T-8)."""
        if unix_ms() - call.sent_ms <= LOOKED_AFTER_SECONDS * 1000:
            return True
        entry = self._context.registry.live(call.source, sure=True)
        return entry is not None and entry.generation == call.generation

    def _drop_prepared(self, call: Accepted) -> None:
        self._context.stats.count(counters.REQUESTS_FORGOTTEN)
        call.finish()
        self._forget(call)

    def _invoke(self, call: Accepted, found: Registered, arguments: dict[str, Any]) -> None:
        """Steps 7 to 10."""
        began = monotonic()
        head = call.head
        request = Request(
            head.service,
            arguments,
            call.source,
            spc.full_request_id(call.source, head.request_id),
            head.deadline_ms,
            head.traceparent,
            call.head.repeated or call.unsure,
            call.cancellation,
            caller_identity=call.identity,
        )
        if head.stream is not None:
            self._run_stream(call, found, request, began)
            return
        with ProgramsCode(), continued(head.traceparent):
            response = run(found.service, request)
        self._end(call, response, began)

    def _run_stream(self, call: Accepted, found: Registered, request: Request, began: float) -> None:
        """The same where items or progress travel beside the call."""
        head, offer = call.head, call.head.stream
        assert offer is not None
        channel = LaneChannel(
            head.request_id, offer, StreamWindow(is_open=False), StreamCredit(offer.items, offer.bytes)
        )
        write = partial(self._send_part, call, STREAM_WRITE_SECONDS)
        channel.bind(write, partial(self._report, call), channel.close)
        self.streams.add(call.source, channel)
        call.cancellation.call_when_set(channel.close)
        try:
            response = check_streaming(found, head.service, offer)
            if response is None:
                with ProgramsCode(), continued(head.traceparent):
                    response = run(found.service, request._replace(channel=channel))
        finally:
            self.streams.remove(call.source, head.request_id)
            channel.close()
        self._end(call, response, began)

    def _send_part(self, call: Accepted, seconds: float, payload: bytes) -> None:
        self._context.check_open()  # a forked child among others
        link = self._links.open(call.source, call.generation)
        link.send(EnvelopeType.STREAM, FLAG_REPLY, payload, monotonic() + seconds)

    def _report(self, call: Accepted, payload: bytes) -> None:
        """Progress is lost where there is no room for it."""
        with suppress(SpeedError):
            link = self._links.open(call.source, call.generation)
            link.send(EnvelopeType.STREAM, FLAG_REPLY, payload, 0.0, urgent=True)

    def _end(self, call: Accepted, response: Response, began: float | None = None) -> None:
        """Answer what a worker took, and forget it."""
        code = self._answer(call, response, has_begun=began is not None)
        self._forget(call)
        if began is not None:
            queued_seconds = began - call.taken_at
            self._context.stats.served(call.head.service, monotonic() - began, code, queued_seconds)

    def _answer(self, call: Accepted, response: Response, *, has_begun: bool) -> str:
        """Answer, unless that was done; returns the code of the error, for the counters."""
        reply, failed = self._encoded(call, response)
        self._send(call, reply, has_begun=has_begun)
        return failed

    def _send(self, call: Accepted, reply: bytes, *, has_begun: bool) -> None:
        if not call.claim_answer():
            self._context.stats.count(counters.ANSWERS_TOO_LATE)
            call.finish()
        elif has_begun:
            self._answers.send(call.lane, call.generation, reply, call.token)
        else:
            call.finish()  # first: the next life of this node must not begin what its caller is told was not begun
            self._answers.send_urgently(call.source, call.generation, reply)

    def _encoded(self, call: Accepted, response: Response) -> tuple[bytes, str]:
        """The answer's bytes, whatever the service made of it (S-3), and the code of its error."""
        request_id = call.head.request_id
        try:
            if response.error_code is None:
                try:
                    reply = spc.encode_success(request_id, response.result)
                    self._answers.check_size(call.source, len(reply))
                    return reply, ""
                except (UnserialisableError, PayloadTooLargeError) as error:
                    response = Response.error("EXECUTION_FAILED", f"the result cannot be sent: {error}")
                except Exception:
                    raise
                except BaseException as error:  # an exit that a mapping of the program's own asked for
                    response = Response.error("EXECUTION_FAILED", f"the result cannot be sent: {failure_line(error)}")
            try:
                code = travelling(checked_code(response.error_code))
            except ConfigurationError as error:  # of a Response that was not made by ``Response.error``
                code, response = "EXECUTION_FAILED", Response.error("EXECUTION_FAILED", str(error))
            reply = spc.encode_error(request_id, code, response.error_message, response.details)
            return reply, code if code in CALL_ERRORS else "APPLICATION"
        except BaseException:  # texts and mappings of the program's own: anything may come out of them
            log.exception("the answer of %s cannot be made", call.head.service)
            text = "the answer could not be made: see the log of that node"
            return spc.encode_error(request_id, "INTERNAL_ERROR", text), "INTERNAL_ERROR"

    def _forget(self, call: Accepted) -> None:
        call.end()
        calls = self._callers.get(call.source)
        if calls is not None and calls.get(call.head.request_id) is call:
            del calls[call.head.request_id]

    # --- ends that others decide ---

    def withdraw(self, source: str, request_ids: Iterable[str]) -> None:
        """Their caller withdrew requests (S-16): those that wait never begin, those that run are told."""
        for request_id in request_ids:
            work = self._pool.withdraw(source, request_id)
            if work is None:
                continue
            self._context.stats.count(counters.REQUESTS_WITHDRAWN)
            if work.item.call.head.service in self.services:
                self._context.stats.withdrawn(work.item.call.head.service)
            if work.state is WorkState.ENDED:
                self._forget(work.item.call)
                self._withdrawn.append(work.item.call)
            else:
                work.item.call.cancellation.set()
        if self._withdrawn:  # this may be a worker, with a request that was just put together
            self._context.waker.wake()

    @property
    def has_withdrawn(self) -> bool:
        """Whether some that never began are not answered yet."""
        return bool(self._withdrawn)

    def answer_withdrawn(self) -> None:
        """Answer some that never began, in one commit and one write: nobody waits until thousands are answered."""
        calls = [self._withdrawn.popleft() for _ in range(min(len(self._withdrawn), ANSWERED_AT_ONCE))]
        groups: dict[tuple[Lane, int], list[Accepted]] = {}
        for call in calls:
            if call.claim_answer():
                groups.setdefault((call.lane, call.generation), []).append(call)
        for (lane, generation), group in groups.items():
            lane.finish([call.token for call in group])  # first, as in ``_answer``
            replies = [self._encoded(call, _withdrawn(call, "queued"))[0] for call in group]
            self._answers.send_urgently(lane.source, generation, *replies)

    def forget(self, source: str) -> None:
        """A caller left or died: what waits ends unanswered, what runs is told (T-8)."""
        for work in self._pool.forget(source):
            self._drop(work)

    def _drop(self, work: Work) -> None:
        call: Accepted = work.item.call
        call.cancellation.set()
        if work.state is WorkState.ENDED:
            self._context.stats.count(counters.REQUESTS_FORGOTTEN)
            call.finish()
            self._forget(call)

    def forget_older(self, source: str, generation: int) -> None:
        """A caller was replaced: nobody waits for what its predecessors asked."""
        for call in list(self._callers.get(source, {}).values()):
            if call.generation < generation:
                work = self._pool.withdraw(source, call.head.request_id)
                if work is not None and work.item.call is call:
                    self._drop(work)

    def cancel_all(self) -> None:
        """The node ends: what still runs is told."""
        for calls in list(self._callers.values()):
            for call in list(calls.values()):
                call.cancellation.set()

    def callers(self) -> list[str]:
        """Nodes whose requests wait or run."""
        return [source for source, calls in list(self._callers.items()) if calls]

    def time_out(self, works: tuple[Work, ...], phase: str) -> None:
        """Answer TIMEOUT for what is over its deadline; a running service is told, its result is dropped (S-4)."""
        for work in works:
            call: Accepted = work.item.call
            self._time_out(call, phase)
            if phase == "queued":
                self._forget(call)

    def _time_out(self, call: Accepted, phase: str) -> None:
        call.cancellation.set()
        if not call.claim_answer():
            return
        self._context.stats.count(TIMED_OUT[phase])
        if call.head.service in self.services:  # others choose the rest, and how many there are
            self._context.stats.timed_out(call.head.service, queued=phase == "queued")
        call.finish()
        text = f"the deadline of {call.head.service!r} passed while {phase}: allow it more time"
        reply = spc.encode_error(call.head.request_id, "TIMEOUT", text, {"phase": phase})
        self._answers.send_urgently(call.source, call.generation, reply)


class Prepared:
    """A request as the workers see it."""

    __slots__ = ("_serving", "call")

    def __init__(self, serving: Serving, call: Accepted) -> None:
        self._serving, self.call = serving, call

    def prepare(self) -> Callable[[], None]:
        return self._serving.prepare(self.call)


def _unwritten(service: str) -> Response:
    text = f"that {service!r} begins cannot be written: whether it ran cannot be told later"
    return Response.error("INTERNAL_ERROR", text, {"phase": "running"})


def _withdrawn(call: Accepted, phase: str) -> Response:
    text = f"the call of {call.head.service!r} was withdrawn while {phase}"
    return Response.error("WITHDRAWN", text, {"phase": phase})
