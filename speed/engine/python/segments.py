"""Payloads in segments: as they arrive, kept and put together (G-12 to G-17), and as they go out (G-18 to G-20).

Segments are taken by the thread that reads. A large message takes its place among its sender's when the segment comes
that makes it ready; the worker whose turn it is puts it together (G-14).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import Any, Protocol

from speed.core import counters
from speed.core.lane import Token
from speed.core.log import logger
from speed.engine import threads
from speed.engine.futures import OneAnswer, Waiter
from speed.engine.large_payload import FRONT_BYTES, Front, LargeMessage, read_shards
from speed.engine.python.context import Context
from speed.engine.python.lanes import Lane
from speed.engine.python.links import Links
from speed.engine.python.outgoing import OutgoingLink
from speed.engine.workers import WorkerPool
from speed.errors import ConfigurationError, SegmentStoreError, WireError
from speed.fs.segment_store import SegmentStore, StoreDamagedError, StoredShards
from speed.fs.slots import OpenedEnvelope
from speed.message.view import MessageView
from speed.segment.form import MAX_HEAD_BYTES, ByteSource, Segment, keccak256, read_segment, write_segment
from speed.segment.parity import Splitter, splitter_for
from speed.segment.reassembly import Limits, PayloadKey, Reassembly, Reconstruction, SegmentVerdict, rebuild
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import (
    FILE_BACKED_BYTES,
    MAX_CALL_BYTES,
    MAX_DEFERRED_CONTROLS,
    MAX_PAYLOAD_BYTES,
    MAX_SEGMENTED_BYTES,
    RECONSTRUCTION_SECONDS,
)

# What must not overtake the requests of its sender that are still being put together (G-14).


class RequestBarrier:
    """Withdrawals and questions name requests: they are looked at once those before them are known.

    Not thread-safe: guarded by the lock of its owner.
    """

    def __init__(self) -> None:
        self._open: dict[str, set[object]] = {}
        """Requests that are being put together, by sender."""
        self._waiting: dict[str, list[tuple[set[object], Callable[[], None]]]] = {}
        """What waits, with the requests that came before it."""

    def begin(self, sender: str) -> object:
        """A request of ``sender`` is put together from now on, until ``end`` is told of what this returns."""
        ticket = object()
        self._open.setdefault(sender, set()).add(ticket)
        return ticket

    def wait(self, sender: str, do: Callable[[], None]) -> bool:
        """Whether ``do`` waits; if not, it is to be done at once: nothing is before it, or too much waits already."""
        before, waiting = self._open.get(sender), self._waiting.get(sender, [])
        if not before or len(waiting) >= MAX_DEFERRED_CONTROLS:
            return False
        self._waiting.setdefault(sender, []).append((set(before), do))
        return True

    def end(self, sender: str, ticket: object) -> list[Callable[[], None]]:
        """A request is known now, or given up; returns what waited for it alone, in its order."""
        self._drop(sender, ticket)
        due, rest = [], []
        for before, do in self._waiting.pop(sender, []):
            before.discard(ticket)
            if before:
                rest.append((before, do))
            else:
                due.append(do)
        if rest:
            self._waiting[sender] = rest
        return due

    def _drop(self, sender: str, ticket: object) -> None:
        self._open[sender].discard(ticket)
        if not self._open[sender]:
            del self._open[sender]


log = logger("speed.segments")

EXPIRE_SECONDS = 1.0
INLINE_BYTES = 1 << 20
"""Up to this size a payload is put together by the thread that reads lanes."""
_MESSAGES = frozenset({EnvelopeType.MESSAGE, EnvelopeType.EVENT})


@dataclass(slots=True, eq=False)
class AssembledLane:
    """The lane of a payload that was put together; the payload is complete before its last segment is committed."""

    lane: Lane
    completed: Callable[[], None]

    @property
    def source(self) -> str:
        return self.lane.source

    def fingerprint(self, key_id: bytes) -> str:
        return self.lane.fingerprint(key_id)

    def finish(self, tokens: Iterable[Token]) -> None:
        self.completed()
        self.lane.finish(tokens)

    def drop(self, token: Token) -> None:
        self.completed()
        self.lane.drop(token)

    def begin(self, token: Token, *, listed: bool) -> bool:
        return self.lane.begin(token, listed=listed)

    def keep_start(self) -> None:
        self.lane.keep_start()

    def begin_again(self, token: Token) -> int:
        return self.lane.begin_again(token)


class Onward(Protocol):
    """Where whole payloads go, and what is said to their senders."""

    def deliver(self, lane: Lane, received: OpenedEnvelope, order: Hashable = None) -> None: ...
    def deliver_later(
        self, lane: Lane, received: OpenedEnvelope, order: Hashable, view: Callable[[], MessageView]
    ) -> None: ...
    def acknowledge(self, source: str, sequence: int) -> None: ...
    def tell(self, source: str, sequence: int, code: str, text: str) -> None: ...


class Segments:
    """What a node holds in segments. Thread-safe."""

    def __init__(
        self,
        context: Context,
        pool: WorkerPool,
        limits: Limits | None,
        dispatch: Onward,
    ) -> None:
        self._context, self._pool, self._dispatch = context, pool, dispatch
        self._limits = limits
        self._reassembly = Reassembly(limits)
        self._store = SegmentStore(context.root, context.name, context.resting_keyring, durable=context.durable)
        self._restored = False
        self._lock = threads.reentrant("segments")
        self._latest: dict[PayloadKey, int] = {}
        """Sequence of the last segment of each payload that is not complete."""
        self._in_hand: dict[PayloadKey, StoredShards | None] = {}
        """Payloads with enough segments, until they were handled."""
        self._barrier = RequestBarrier()
        self._closed = False
        self._expire_at = 0.0

    def after_requests(self, source: str, do: Callable[[], None]) -> None:
        """Do it once the requests of ``source`` that are being put together are known; at once if there are none."""
        with self._lock:
            waits = self._barrier.wait(source, do)
        if not waits:
            do()

    def accept(self, lane: Lane, received: OpenedEnvelope) -> None:
        """Take one segment. WireError for one that is refused; its sender is told where G-19 says so."""
        segment = read_segment(received.payload)
        header = received.header
        key = PayloadKey(lane.source, header.type, segment.hash)
        if header.type == EnvelopeType.SPC_RESPONSE and not self._context.pending.waiting(lane.source):
            self._context.stats.count(counters.ANSWERS_UNEXPECTED)
            lane.drop(received.token)
            return
        with self._lock:
            if self._closed:
                return
            self._latest[key] = header.sequence
            try:
                ready = self._take(key, segment, lane, received)
            except WireError as error:
                if error.reason == "SEGMENT_LIMIT":
                    self._lost(key, str(error))
                raise
            except SegmentStoreError as error:
                self._store_failed(key, error)
                lane.drop(received.token)
                return
            finally:
                if key not in self._in_hand and self._reassembly.reconstruction(key) is None:
                    self._latest.pop(key, None)
        if ready is not None:
            ready()

    def _take(
        self, key: PayloadKey, segment: Segment, lane: Lane, received: OpenedEnvelope
    ) -> Callable[[], None] | None:
        """Keep a segment; returns what is to be done without the lock."""
        self._restore()
        limit = None if key.kind in _MESSAGES else MAX_CALL_BYTES
        verdict, evicted = self._reassembly.admit(key, segment, monotonic(), limit)
        for other in evicted:
            self._context.stats.count(counters.SEGMENTS_EVICTED)
            self._lost(other, "its segments were given up to make room for newer ones")
        if evicted:
            self._store.remove(evicted)
        if verdict is SegmentVerdict.DONE or key in self._in_hand:
            self._repeated(key, lane, received)
            return None
        one = self._reassembly.reconstruction(key)
        assert one is not None
        if verdict is SegmentVerdict.HELD:
            self._compare(one, segment)
        elif one.data_count == 1 and not segment.is_parity:
            self._in_hand[key] = None
            return partial(self._whole, key, segment, lane, received)
        else:
            self._store.put(self._dated(one), segment, time())
        if not one.is_ready:
            lane.drop(received.token)
            return None
        self._in_hand[key] = None
        order = (key.sender, key.hash) if segment.unordered else None
        if one.data_count * one.segment_size <= INLINE_BYTES:
            return partial(self._finish, key, lane, received, order)
        if key.kind in _MESSAGES:
            return partial(self._give_place, key, lane, received, order)
        if key.kind == EnvelopeType.SPC_REQUEST:
            ticket = self._barrier.begin(key.sender)
            return partial(self._pool.submit, self._finish_request, ticket, key, lane, received, order)
        return partial(self._pool.submit, self._finish, key, lane, received, order)

    def _compare(self, one: Reconstruction, segment: Segment) -> None:
        self._context.stats.count(counters.SEGMENTS_DUPLICATE)
        listed = self._store.listed(one.key)
        if listed is None:
            raise SegmentStoreError("a segment that was kept is not there any more")
        shards = self._store.shards(listed)
        try:
            if shards.read(segment.slot, 0, shards.size_of(segment.slot)) != segment.payload:
                raise WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before")
        finally:
            shards.close()

    def _repeated(self, key: PayloadKey, lane: Lane, received: OpenedEnvelope) -> None:
        self._context.stats.count(counters.SEGMENTS_REPEATED)
        lane.drop(received.token)
        if self._reassembly.is_complete(key) and received.header.flags & FLAG_ACK_REQUESTED:
            self._dispatch.acknowledge(lane.source, received.header.sequence)

    # --- a payload with enough segments ---

    def _whole(self, key: PayloadKey, segment: Segment, lane: Lane, received: OpenedEnvelope) -> None:
        """A payload of one segment."""
        payload = bytes(segment.payload)
        if keccak256(payload) != key.hash:
            self._failed(key, lane, received, WireError("SEGMENT_HASH", "the payload is not what its hash says"))
            return
        self._hand_on(key, lane, received, payload, (key.sender, key.hash) if segment.unordered else None)

    def _finish(self, key: PayloadKey, lane: Lane, received: OpenedEnvelope, order: Hashable) -> None:
        """Prove a payload and hand it on."""
        try:
            payload = self._assembled(key)
        except (WireError, SegmentStoreError) as error:
            self._failed(key, lane, received, error)
            return
        if payload is not None:
            self._hand_on(key, lane, received, payload, order)

    def _finish_request(
        self, ticket: object, key: PayloadKey, lane: Lane, received: OpenedEnvelope, order: Hashable
    ) -> None:
        """The same, and then what came behind it."""
        try:
            self._finish(key, lane, received, order)
        finally:
            with self._lock:
                due = self._barrier.end(key.sender, ticket)
            for do in due:
                do()

    def _give_place(self, key: PayloadKey, lane: Lane, received: OpenedEnvelope, order: Hashable) -> None:
        """Give a large message its place among others now; a worker puts it together when its turn has come."""
        made: list[Any] = []

        def view() -> MessageView:
            try:
                payload = self._assembled(key)
            except (WireError, SegmentStoreError) as error:
                self._failed(key, lane, received, error)
                raise SegmentStoreError(str(error)) from None
            if payload is None:
                raise SegmentStoreError("the node has ended")
            made.append(payload)
            self._context.stats.count(counters.PAYLOADS_FROM_SEGMENTS)
            return payload.view() if isinstance(payload, LargeMessage) else MessageView(payload)

        assembled = AssembledLane(lane, lambda: self._completed(key, made[0] if made else None))
        self._dispatch.deliver_later(assembled, _whole(received), order, view)

    def _assembled(self, key: PayloadKey) -> Any:
        """The payload, proven; None if the node has ended."""
        with self._lock:
            if self._closed:
                return None
            listed = self._store.listed(key)
            if listed is None:
                raise SegmentStoreError("segments that were kept are not there any more")
            self._in_hand[key] = shards = self._store.shards(listed)
        size = rebuild(shards, key.hash)
        return self._payload(key, shards, size)

    def _payload(self, key: PayloadKey, shards: StoredShards, size: int) -> Any:
        if key.kind in _MESSAGES and size > FILE_BACKED_BYTES:
            return LargeMessage(shards, size)
        payload = read_shards(shards, 0, size)
        if key.kind in _MESSAGES and shards.data_count > 1:
            Front(payload[:FRONT_BYTES], size)
        return payload

    def _hand_on(self, key: PayloadKey, lane: Lane, received: OpenedEnvelope, payload: Any, order: Hashable) -> None:
        self._context.stats.count(counters.PAYLOADS_FROM_SEGMENTS)
        assembled = AssembledLane(lane, partial(self._completed, key, payload))
        whole = _whole(received)._replace(payload=payload)
        try:
            self._dispatch.deliver(assembled, whole, order)
        except WireError as error:
            self._context.stats.count(counters.rejected(error.reason))
            text = "payload in segments of %s rejected: %s"
            self._context.limiter.warn(log, f"rejected {error.reason}", text, lane.source, error)
            assembled.drop(received.token)
        except Exception:
            self._context.stats.count(counters.DISPATCH_FAILURES)
            log.exception("payload in segments of %s could not be dispatched", lane.source)
            assembled.drop(received.token)
        if key.kind == EnvelopeType.SPC_RESPONSE:
            assembled.completed()

    def _completed(self, key: PayloadKey, payload: Any) -> None:
        """The payload was handled: it is never delivered again."""
        if isinstance(payload, LargeMessage):
            payload.content.close()
        with self._lock:
            if self._closed:
                return
            self._close_shards(key)
            self._latest.pop(key, None)
            forgotten = self._reassembly.complete(key, monotonic())
            try:
                self._store.complete(key, time(), forgotten)
            except SegmentStoreError as error:
                self._store_failed(None, error)

    def _failed(
        self, key: PayloadKey, lane: Lane, received: OpenedEnvelope, error: WireError | SegmentStoreError
    ) -> None:
        """The payload cannot be put together: it is discarded, and may be sent anew."""
        with self._lock:
            if self._closed:
                return
            self._close_shards(key)
            if isinstance(error, WireError):
                self._context.stats.count(counters.rejected(error.reason))
                text = "payload in segments of %s rejected: %s"
                self._context.limiter.warn(log, f"rejected {error.reason}", text, lane.source, error)
                self._discard(key)
                if error.reason != "BAD_MESSAGE":
                    self._lost(key, str(error))
                self._latest.pop(key, None)
            else:
                self._store_failed(key, error)
                self._discard(key)
        lane.drop(received.token)

    def _close_shards(self, key: PayloadKey) -> None:
        shards = self._in_hand.pop(key, None)
        if shards is not None:
            shards.close()

    # --- what is lost ---

    def _discard(self, key: PayloadKey) -> None:
        self._reassembly.discard(key)
        try:
            self._store.remove([key])
        except SegmentStoreError as error:
            self._store_failed(None, error)

    def _lost(self, key: PayloadKey, why: str) -> None:
        """Tell the sender that a payload will not be delivered (G-19)."""
        sequence = self._latest.pop(key, None)
        self._context.stats.count(counters.PAYLOADS_LOST)
        if sequence is not None and self._context.policy.allows(key.sender):
            self._dispatch.tell(key.sender, sequence, "SEGMENTS_LOST", why[:500])

    def _store_failed(self, key: PayloadKey | None, error: SegmentStoreError) -> None:
        self._context.stats.count(counters.SEGMENT_STORE_FAILURES)
        log.warning("segments of %s: %s", key.sender if key else "a payload", error)
        if key is not None:
            self._lost(key, str(error))
        if isinstance(error, StoreDamagedError):
            self._begin_anew()
        elif key is not None:
            self._reassembly.discard(key)
            with suppress(SegmentStoreError):
                self._store.remove([key])

    def _begin_anew(self) -> None:
        """The store was damaged: what it held is lost, and whoever waits for it is told."""
        self._reassembly = Reassembly(self._limits)
        for other in [key for key in self._latest if key not in self._in_hand]:
            self._lost(other, "the receiver's store of segments was damaged")
        with suppress(SegmentStoreError):
            self._store.start_anew()

    def expire(self, now: float) -> None:
        """Give up what waited too long; looked at about every second."""
        if now < self._expire_at:
            return
        self._expire_at = now + EXPIRE_SECONDS
        with self._lock:
            if self._closed or (not self._restored and not self._store.exists()):
                return
            try:
                self._restore()
                late, old = self._reassembly.expire(now)
                self._store.remove(late)
                self._store.forget(old)
            except SegmentStoreError as error:
                self._store_failed(None, error)
                return
            for key in late:
                self._context.stats.count(counters.SEGMENTS_EXPIRED)
                self._lost(key, "not all of its segments came in time")

    # --- what an earlier process kept ---

    def _restore(self) -> None:
        if self._restored:
            return
        listed, done = self._store.load()
        self._restored = True
        passed = monotonic() - time()
        for one in listed:
            kept = Reconstruction(one.key, one.data_count, one.parity_count, one.begun + passed, one.begun + passed)
            for place in one.places:
                kept.place(place.slot, place.size)
                kept.touched = max(kept.touched, place.at + passed)
            self._reassembly.restore([kept], [])
        self._reassembly.restore([], [(key, at + passed) for key, at in done])

    def _dated(self, one: Reconstruction) -> Reconstruction:
        """With the time of its beginning as a store keeps it."""
        begun = one.begun + time() - monotonic()
        return Reconstruction(one.key, one.data_count, one.parity_count, begun, begun)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for key in list(self._in_hand):
                self._close_shards(key)
            self._store.close()


def _whole(received: OpenedEnvelope) -> OpenedEnvelope:
    """As if the payload had not come in segments."""
    return received._replace(header=received.header._replace(flags=received.header.flags & ~FLAG_SEGMENT))


# Payloads that go out in segments because no envelope holds them: streamed, acknowledged once (G-18 to G-20).

Progress = Callable[[int, int], object]
"""Called with the bytes of the payload that were written so far, and all of them."""


class LargeSender:
    """Sends payloads in segments. Thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context, self._links = context, links

    def send(
        self,
        target: str,
        type_: int,
        source: ByteSource,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> None:
        """Send one payload; each segment waits for room as long as ``timeout_seconds``."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        for segment in self._segments(link, source, unordered):
            link.send(type_, FLAG_SEGMENT, write_segment(segment), monotonic() + timeout_seconds)
            _report(progress, segment, source)

    def send_acknowledged(
        self,
        target: str,
        type_: int,
        source: ByteSource,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> bool:
        """As ``send``, then wait for the acknowledgement, as long as ``timeout_seconds`` from the last segment on."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        waiter = Waiter()
        answer = OneAnswer(waiter.complete)
        flags = FLAG_SEGMENT | FLAG_ACK_REQUESTED
        tracked: list[int] = []

        def track(sequence: int) -> None:
            tracked.append(sequence)
            far = monotonic() + RECONSTRUCTION_SECONDS
            self._context.pending.add(sequence, far, target, answer)

        try:
            for segment in self._segments(link, source, unordered):
                if waiter.done:
                    self._context.stats.count(counters.PAYLOADS_GIVEN_UP)
                    break
                link.send_tracked(type_, flags, write_segment(segment), monotonic() + timeout_seconds, track)
                _report(progress, segment, source)
            deadline = monotonic() + timeout_seconds
            for sequence in tracked:
                if not answer.given:
                    self._context.pending.add(sequence, deadline, target, answer)
            self._context.waker.wake_by(deadline)
            return bool(waiter.result())
        finally:
            for sequence in tracked:
                self._context.pending.forget(target, sequence)

    def _segments(self, link: OutgoingLink, source: ByteSource, unordered: bool) -> Iterator[Segment]:
        link.check_takes(source.size, MAX_SEGMENTED_BYTES)
        return (link.splitter or splitter_for(source.size)).split(source, unordered=unordered)


def link_splitter(segment_size: int, parity_rate: float) -> Splitter:
    """What cuts all that goes out on a link. ConfigurationError for a size that no envelope holds."""
    if segment_size > MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES:
        limit = MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES
        raise ConfigurationError(f"segment_size {segment_size} cannot be used: an envelope holds at most {limit}")
    return Splitter(segment_size, parity_rate)


def _report(progress: Progress | None, segment: Segment, source: ByteSource) -> None:
    if progress is not None and not segment.is_parity:
        full = len(segment.payload) if not segment.is_last_data else 0
        progress((segment.index + 1) * full or source.size, source.size)
