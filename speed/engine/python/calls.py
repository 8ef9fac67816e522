"""What goes out: requests that wait for an answer (S-6 to S-10), messages and events (M-2).

A request is entered into ``PendingCalls`` before it is written, so no answer can come too early. It ends
exactly once: by the answer, by its deadline, because the other node left, or because this node stops.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core import counters, texts
from speed.core.calls import PendingCall, PendingCalls, RequestState, call_error, checked_answer, not_begun
from speed.core.log import logger
from speed.core.streams import StreamCredit, StreamWindow, check_needless
from speed.engine.futures import Answer, CallFuture, Carried, Completion, OneAnswer, Outcome, Waiter
from speed.engine.message import FRONT_ROOM, Published, Sent, Turns, described, is_large, publish_to
from speed.engine.options import WRITE_MESSAGES, CallRequest, SendRequest
from speed.engine.python.context import Context
from speed.engine.python.links import Links
from speed.engine.python.outgoing import OutgoingLink
from speed.engine.python.settling import Settling, Withdrawals
from speed.engine.python.streams import LaneChannel, Streams
from speed.engine.tracing import current_trace
from speed.engine.workers import WorkerPool
from speed.errors import (
    CallTimeoutError,
    Execution,
    JournalFullError,
    JournalRefusedError,
    NodeReplacedError,
    NodeStartingError,
    NotAcknowledgedError,
    SegmentsLostError,
    SpeedError,
    WireError,
)
from speed.fs.identity import boot_ms, unix_ms
from speed.wire import lazily, names, spc
from speed.wire.cursor import Cursor
from speed.wire.envelope import FLAG_ACK_REQUESTED, EnvelopeType
from speed.wire.limits import CALL_GRACE_SECONDS, CALL_TIMEOUT_SECONDS, MAX_PAYLOAD_BYTES
from speed.wire.spc import StreamOffer
from speed.wire.text import harmless
from speed.wire.value import as_views

if TYPE_CHECKING:
    from speed.engine.python.segments import LargeSender, Progress
    from speed.segment.form import ByteSource

log = logger("speed.segments")
messages = logger("speed.messages")

_REPLACED = NodeReplacedError.code.encode()
_CODE_BYTES = 160
"""The code of an answer lies within so many bytes, whatever its id."""
STREAM_WRITE_SECONDS = 30.0
"""How long a part of a stream waits for room in a full inbox, before the stream fails."""
_UNRECORDED = frozenset({JournalFullError.code, JournalRefusedError.code})


class Calls:
    """Starts requests and completes them. Thread-safe."""

    def __init__(self, context: Context, links: Links, pool: WorkerPool, withdrawals: Withdrawals) -> None:
        self._context = context
        self._pool = pool
        self._links = links
        self._withdrawals = withdrawals
        self._process = os.getpid()
        self._pending: PendingCalls = context.pending
        self._untold: deque[Callable[[], None]] = deque()
        """The callbacks of calls that ended, until a worker runs them."""
        self._over = False
        self.settling: Settling
        """What ends, or sends again, calls whose server was replaced; set once both are made."""
        self.replaced: Callable[[str], None] = lambda _: None
        """Told of a node that answers for a successor of the one that was called."""
        self.streams = Streams()
        self._numbers = count(1)
        self._prefix = f"{context.generation:x}."

    # --- what the program starts ---

    def call(self, request: CallRequest) -> Any:
        """Call and wait. One that the exception of a signal handler ends is withdrawn."""
        self._context.check_open()
        waiter = Waiter(Execution.MAY_HAVE_RUN)
        request_id = self._next_id()
        try:
            self._start(request_id, request, waiter.complete)
            result = waiter.result()
        except SpeedError:
            raise
        except BaseException:
            self._withdrawals.withdraw(request.target, request_id)
            raise
        result = as_views(result) if request.views else result
        return result if request.read is None else request.read(result)

    def submit(self, request: CallRequest, carried: Carried | None = None) -> CallFuture:
        """Call, and wait later; ``carried`` makes of the answer what the caller gets."""
        self._context.check_open()
        request_id = self._next_id()
        future = CallFuture(self.tell, self._process, request.target, request.service)
        future.views, future.carried, future.read = request.views, carried, request.read
        future.on_cancelled(partial(self._withdrawals.withdraw, request.target, request_id))
        try:
            self._start(request_id, request, future.complete)
            return future
        except SpeedError:
            raise
        except BaseException:
            future.cancel()
            raise

    def open_stream(self, request: CallRequest, offer: StreamOffer) -> LaneChannel:
        """Begin a call with a stream; credit of the offer is the window of its items."""
        self._context.check_open()
        target, request_id = request.target, self._next_id()
        channel = LaneChannel(request_id, offer, StreamWindow(offer.items, offer.bytes), StreamCredit())
        withdraw = partial(self._withdraw_stream, target, request_id)
        channel.bind(
            partial(self._send_part, target, STREAM_WRITE_SECONDS), partial(self._send_part, target, 0.0), withdraw
        )
        self.streams.add(target, channel)

        def complete(outcome: Outcome) -> None:
            self.streams.remove(target, request_id)
            channel.end(outcome)

        try:
            self._start(request_id, request, complete, offer)
        except BaseException as error:
            self.streams.remove(target, request_id)
            if not isinstance(error, SpeedError):
                self._withdrawals.withdraw(target, request_id)
            raise
        return channel

    def _withdraw_stream(self, target: str, request_id: str) -> None:
        self.streams.remove(target, request_id)
        self._withdrawals.withdraw(target, request_id)

    def _send_part(self, target: str, seconds: float, payload: bytes) -> None:
        self._context.check_open()  # a forked child among others
        deadline = monotonic() + seconds
        self._links.granted(target, deadline).send(EnvelopeType.STREAM, 0, payload, deadline)

    def _start(
        self, request_id: str, request: CallRequest, completion: Completion, offer: StreamOffer | None = None
    ) -> None:
        """Send one SPC request; ``completion`` runs once, unless this raises a SpeedError: then nothing began."""
        target, service, arguments, timeout_seconds, traceparent, *_ = request
        try:
            streams = offer is not None and (offer.wants_items or offer.sends)
            until = monotonic() + min(timeout_seconds, CALL_TIMEOUT_SECONDS) if streams else 0.0
            link = self._links.granted(target, until, starting=not streams)
            entry = link.entry
            assert entry is not None
            if offer is not None and "streams" not in entry.features:
                check_needless(target, streams)
                offer = None
            milliseconds = int(timeout_seconds * 1000)
            payload = spc.encode_request(
                request_id,
                service,
                arguments,
                self._context.name,
                entry.generation,
                max(0, unix_ms() + milliseconds),
                traceparent or current_trace(),
                (self._context.boot_id, max(0, boot_ms() + milliseconds)),
                offer,
            )
            deadline = monotonic() + timeout_seconds
            call = self._track(request_id, deadline + CALL_GRACE_SECONDS, target, completion)
            call.request = state = RequestState(entry, deadline)
            is_kept = not streams and self._pending.keep(state, payload)
            if streams or entry.status != "starting":
                self._send_request(link, request_id, payload, state)
            elif is_kept:
                self.settling.wait_until_online(call, state)
            else:
                raise NodeStartingError(f"{target!r} is starting, and too many large calls wait already: call it later")
        except SpeedError as error:
            self._pending.forget(target, request_id)
            not_begun(error)
            raise

    def send_again(self, call: PendingCall, request: RequestState) -> None:
        """Write a request that no earlier generation of its target begins to the one that is there now (S-21)."""
        kept = request.payload
        if kept is None:
            return  # it has ended
        link = self._links.granted(call.target)
        assert link.entry is not None
        request.is_written, request.entry = False, link.entry
        payload = spc.encode_again(kept, link.entry.generation, repeated=request.may_have_run)
        self._send_request(link, str(call.key), payload, request)
        request.is_settled = False
        if request.is_withdrawn:
            self._withdrawals.withdraw(call.target, str(call.key))

    def _send_request(self, link: OutgoingLink, request_id: str, payload: bytes, request: RequestState) -> None:
        """An ERROR under any of the sequences of a request in segments ends the call (G-19)."""
        deadline = request.until
        if link.splitter is None and len(payload) <= MAX_PAYLOAD_BYTES:
            request.sequences, request.parts = (link.send(EnvelopeType.SPC_REQUEST, 0, payload, deadline),), 1
            request.is_written = True
            return
        sequences: list[int] = []

        def lost(outcome: Outcome) -> None:
            if not isinstance(outcome, NotAcknowledgedError):
                self._pending.complete(link.target, request_id, outcome)

        def track(sequence: int) -> None:
            sequences.append(sequence)
            self._pending.add(sequence, deadline + CALL_GRACE_SECONDS, link.target, lost).is_part = True

        parts = 0 if link.splitter is None else link.splitter.shape(len(payload)).data_count
        if len(payload) > MAX_PAYLOAD_BYTES:
            link.send_cut(EnvelopeType.SPC_REQUEST, 0, payload, max(0.0, deadline - monotonic()), track)
        else:
            link.send_tracked(EnvelopeType.SPC_REQUEST, 0, payload, deadline, track)
        request.sequences, request.parts = sequences, parts or len(sequences)
        request.is_written = True

    def ask(self, target: str, type_: int, body: dict[str, Any], timeout_seconds: float) -> Any:
        """Send a HEARTBEAT or DISCOVERY question, and wait for its reply."""
        self._context.check_open()
        waiter = Waiter()
        looking = spc.is_look(type_, body)
        self.begin_to_ask(target, type_, body, monotonic() + timeout_seconds, waiter.complete, looking=looking)
        return waiter.result()

    def discover_each(self, targets: Sequence[str], operation: str, timeout: float) -> list[dict[str, Any] | None]:
        """What many say of themselves, asked at once; None of one that cannot be asked, or does not answer in time."""
        self._context.check_open()
        body, deadline = {"op": operation}, monotonic() + timeout
        looking = spc.is_look(EnvelopeType.DISCOVERY, body)
        waiters = [Waiter() for _ in targets]
        for target, waiter in zip(targets, waiters, strict=True):
            try:
                self.begin_to_ask(
                    target, EnvelopeType.DISCOVERY, body, deadline, waiter.complete, urgent=True, looking=looking
                )
            except SpeedError as error:
                waiter.complete(error)
        return [_answer(waiter, operation, target) for target, waiter in zip(targets, waiters, strict=True)]

    def begin_to_ask(
        self,
        target: str,
        type_: int,
        body: dict[str, Any],
        deadline: float,
        completion: Completion,
        *,
        urgent: bool = False,
        looking: bool = False,
    ) -> None:
        """Send such a question; ``urgent`` waits for no room, ``looking`` takes the right of an observer.

        ``completion`` runs once, unless this raises.
        """
        link = self._links.granted(target, 0.0 if urgent else deadline, looking=looking)
        request_id = self._next_id()
        self._track(request_id, deadline, target, completion)
        try:
            link.send(type_, 0, spc.encode({**body, "requestId": request_id}), deadline, urgent=urgent)
        except BaseException:
            self._pending.forget(target, request_id)
            raise

    def send_acknowledged(self, target: str, type_: int, payload: bytes, timeout_seconds: float) -> bool:
        """Send a message and wait until it is acknowledged; whether it waits there for the program to take it."""
        deadline = monotonic() + timeout_seconds
        link = self._links.granted(target, deadline)
        tracked: list[int] = []
        waiter = Waiter()
        completion = waiter.complete if link.splitter is None else OneAnswer(waiter.complete)

        def track(sequence: int) -> None:
            tracked.append(sequence)
            self._track(sequence, deadline, target, completion)

        try:
            link.send_tracked(type_, FLAG_ACK_REQUESTED, payload, deadline, track)
        except BaseException:
            for sequence in tracked:
                self._pending.forget(target, sequence)
            raise
        return bool(waiter.result())

    def _next_id(self) -> str:
        return f"{self._prefix}{next(self._numbers):x}"

    def _track(self, key: Hashable, deadline: float, target: str, completion: Completion) -> PendingCall:
        call = self._pending.add(key, deadline, target, completion)
        self._context.waker.wake_by(deadline)
        return call

    # --- callbacks ---

    def tell(self, run_callbacks: Callable[[], None]) -> None:
        self._untold.append(run_callbacks)
        if self._over:
            self.tell_rest()
        else:
            self._pool.submit(self._tell_next)

    def _tell_next(self) -> None:
        try:
            run_callbacks = self._untold.popleft()
        except IndexError:
            return
        run_callbacks()

    def tell_rest(self) -> None:
        """The workers have ended: run the callbacks that they did not."""
        self._over = True
        while self._untold:
            self._tell_next()

    # --- what the other side says ---

    def _complete(self, key: Hashable, source: str, outcome: Outcome) -> None:
        """Only the node that was asked can answer (S-6); what nobody waits for is counted."""
        if not self._pending.complete(source, key, outcome):
            self._unexpected(outcome)

    def _unexpected(self, outcome: Outcome) -> None:
        if isinstance(outcome, SegmentsLostError):
            self._context.stats.count(counters.PAYLOADS_REPORTED_LOST)
            text = "payloads sent in segments were not delivered, the last one: %s"
            self._context.limiter.warn(log, "payloads lost", text, outcome)
        else:
            self._context.stats.count(counters.ANSWERS_UNEXPECTED)

    def answered(self, source: str, payload: bytes) -> None:
        """An SPC_RESPONSE completes the call it belongs to; only its id is read here."""
        request_id = spc.readable_request_id(payload)
        if request_id is None:
            raise WireError("BAD_PAYLOAD", "a response does not begin with a requestId of 1 to 64 bytes")
        if _REPLACED in payload[:_CODE_BYTES] and self._is_replaced(source, payload):
            return
        self._complete(request_id, source, Answer(source, payload, self._context.stats.count))

    def _is_replaced(self, source: str, payload: bytes) -> bool:
        """Whether an answer says that its request was for another generation: a reason to look, and no end (S-21)."""
        try:
            response = spc.decode_response(payload)
        except WireError:
            return False
        if response.error_code != NodeReplacedError.code or not self._pending.waits_for(source, response.request_id):
            return False
        self.replaced(source)
        return True

    def replied(self, source: str, request_id: str, result: Any) -> None:
        """The reply to a HEARTBEAT or DISCOVERY question."""
        self._complete(request_id, source, result)

    def acknowledged(self, source: str, sequence: int, waiting: bool) -> None:
        """An ACK completes the message it names; ``waiting``: nothing takes it there yet."""
        self._complete(sequence, source, waiting)

    def refused(self, source: str, body: dict[str, Any]) -> None:
        """An ERROR envelope ends the request or message that it names."""
        key = body.get("requestId") or body.get("sequence")
        code, text = str(body.get("errorCode")), str(body.get("errorMessage", ""))
        error = call_error(source, code, text, {})
        if self._pending.complete(source, key, error):
            return
        if code in _UNRECORDED:
            self._context.stats.count(counters.EVENTS_REPORTED_REFUSED)
            kind = f"refused {code} {source}"
            self._context.limiter.warn(
                messages, kind, "%s does not record events: %s: %s", source, code, harmless(text)
            )
        else:
            self._unexpected(error)

    def expire(self, now: float) -> None:
        """Fail what is over its deadline."""
        read: defaultdict[str, dict[int, Cursor | None]] = defaultdict(dict)
        for call in self._pending.expire(now):
            call.completion(self.settling.overdue(call, read[call.target]) or _overdue(call))


def _overdue(call: PendingCall) -> SpeedError:
    """The error for a call, question or acknowledgement whose deadline passed."""
    if isinstance(call.key, int):
        return NotAcknowledgedError(texts.not_acknowledged(call.target))
    text = texts.question_unanswered if call.request is None else texts.call_unanswered
    return CallTimeoutError(text(call.target), {"phase": "unanswered"})


# Outgoing messages and events: their envelopes, with ids, times and the trace at hand (M-2).

WRITE_BYTES = 64 << 10
"""What goes in one write at most; a large message goes alone."""


def _answer(waiter: Waiter, operation: str, target: str) -> dict[str, Any] | None:
    try:
        return checked_answer(operation, waiter.result(), target)
    except SpeedError:
        return None


class Outbox:
    """Sends messages and publishes events for one node. Thread-safe."""

    def __init__(self, context: Context, links: Links, calls: Calls) -> None:
        self._context = context
        self._links = links
        self._calls = calls
        self._turns = Turns()

    def send(self, request: SendRequest) -> Sent:
        """Send one message, in segments where it is large, and wait for an acknowledgement that was asked for."""
        self._context.check_open()
        return self._send_file(request) if is_large(request.payload) else self._send(request)

    def _send(self, request: SendRequest) -> Sent:
        target, payload, acknowledged, timeout_seconds, metadata, _, unordered = request
        message_id, encoded = self._encode(payload, metadata)
        waiting = False
        if len(encoded) > MAX_PAYLOAD_BYTES or (unordered and self._links.is_cut(target)):
            waiting = self._send_large(target, _memory(encoded), acknowledged, timeout_seconds, None, unordered)
        elif acknowledged:
            waiting = self._calls.send_acknowledged(target, EnvelopeType.MESSAGE, encoded, timeout_seconds)
        else:
            deadline = monotonic() + timeout_seconds
            self._links.granted(target, deadline).send(EnvelopeType.MESSAGE, 0, encoded, deadline)
        return Sent(message_id, waiting=waiting)

    def _send_file(self, request: SendRequest) -> Sent:
        """A file or large bytes, in segments if need be."""
        with lazily.guard:
            from speed.engine.large_payload import PrefixedSource, large_front, source_of

        target, payload, acknowledged, timeout_seconds, metadata, progress, unordered = request
        source = source_of(payload)
        if source.size <= MAX_PAYLOAD_BYTES - FRONT_ROOM:  # one envelope holds it
            whole = bytes(source.read(0, source.size))
            sent = self._send(request._replace(payload=whole))
            if progress is not None:
                progress(source.size, source.size)
            return sent
        message_id, metadata = self._metadata(metadata)
        source = PrefixedSource(large_front(source.size, **metadata), source)
        waiting = self._send_large(target, source, acknowledged, timeout_seconds, progress, unordered)
        return Sent(message_id, waiting=waiting)

    def _send_large(
        self,
        target: str,
        source: ByteSource,
        acknowledged: bool,
        timeout_seconds: float,
        progress: Progress | None,
        unordered: bool,
    ) -> bool:
        """Whether it was acknowledged as one that waits there."""
        if acknowledged:
            return self._large.send_acknowledged(
                target, EnvelopeType.MESSAGE, source, timeout_seconds, progress, unordered
            )
        self._large.send(target, EnvelopeType.MESSAGE, source, timeout_seconds, progress, unordered)
        return False

    @cached_property
    def _large(self) -> LargeSender:
        with lazily.guard:
            from speed.engine.python.segments import LargeSender  # few nodes send what no envelope holds

        return LargeSender(self._context, self._links)

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        """Send messages in order, some in one write."""
        self._context.check_open()
        encoded = (self._encode(payload, options)[1] for payload in payloads)
        self._send_batches(target, EnvelopeType.MESSAGE, encoded, monotonic() + timeout)

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        """Send messages that are encoded already; with ``ack`` wait until the last one is acknowledged."""
        self._context.check_open()
        type_ = EnvelopeType.EVENT if event else EnvelopeType.MESSAGE
        deadline = monotonic() + timeout
        self._send_batches(target, type_, messages[:-1] if ack else messages, deadline)
        if ack and messages:
            left = max(0.0, deadline - monotonic())
            self._calls.send_acknowledged(target, type_, messages[-1], left)

    def _send_batches(self, target: str, type_: int, messages: Iterable[bytes], deadline: float) -> None:
        batch: list[bytes] = []
        size = 0
        for encoded in messages:
            if batch and size + len(encoded) >= WRITE_BYTES:
                self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)
                batch, size = [], 0
            batch.append(encoded)
            size += len(encoded)
            if len(batch) == WRITE_MESSAGES:  # now: the next one may not be encodable
                self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)
                batch, size = [], 0
        if batch:
            self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)

    def publish(self, topic: str, payload: Any, timeout: float, on_full: str, options: dict[str, Any]) -> Published:
        """Send an event to all who subscribe to it and allow this node."""
        self._context.check_open()
        names.check_topic(topic)
        _, encoded = self._encode(payload, {**options, "topic": topic})

        def send(name: str, deadline: float) -> None:
            if len(encoded) > MAX_PAYLOAD_BYTES:
                self._large.send(name, EnvelopeType.EVENT, _memory(encoded), max(0.0, deadline - monotonic()))
            else:
                self._links.granted(name).send(EnvelopeType.EVENT, 0, encoded, deadline)

        entries, me = self._context.registry.live_entries(), self._context.name
        published = publish_to(entries, topic, me, send, timeout, self._turns, waits=on_full == "wait")
        if published.failed:
            self._context.stats.count(counters.EVENTS_UNDELIVERED, len(published.failed))
        return published

    def _encode(self, payload: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message; ConfigurationError for metadata that does not exist."""
        with lazily.guard:
            from speed.message.writing import encode_message  # imported by those who send only

        message_id, metadata = self._metadata(metadata)
        return message_id, encode_message(payload, **metadata)

    def _metadata(self, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A new id, and all metadata with it."""
        complete = described(metadata, self._context.name, self._context.namespace)
        return complete["message_id"], complete


def _memory(payload: bytes) -> ByteSource:
    with lazily.guard:
        from speed.segment.form import Memory

    return Memory(payload)
