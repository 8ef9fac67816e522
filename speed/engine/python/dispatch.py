"""From an opened envelope to the part that handles it: one table over the nine types (W-4, S-11, S-12).

Runs on the thread that reads. Messages, events and requests are finished by the worker that handled them, or
here when they are refused; all other types are done when they are read.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from speed.core import counters, texts
from speed.core.calls import PendingCall
from speed.core.log import logger
from speed.core.services import ServiceRegistry
from speed.engine.message import Message
from speed.engine.python.batches import Arrival, is_expired
from speed.engine.python.calls import Calls
from speed.engine.python.context import Context, Peers
from speed.engine.python.delivery import Delivery
from speed.engine.python.lanes import Lane
from speed.engine.python.links import Links
from speed.engine.python.serving import Serving
from speed.engine.python.settling import Settling
from speed.engine.workers import WorkerPool
from speed.errors import NodeLeftError, SpeedError, WireError
from speed.fs.identity import unix_ms
from speed.fs.slots import OpenedEnvelope
from speed.message.view import MessageView
from speed.wire import spc
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_REPLY, FLAG_SEGMENT, EnvelopeType, generation_of
from speed.wire.limits import MAX_DISCOVERY_BYTES

if TYPE_CHECKING:
    from speed.engine.python.segments import Segments


# Answers to DISCOVERY questions, shaped like the NATS service contract: INFO, STATS, SERVICES (S-12).


_ROOM_BYTES = 4096
"""Of an answer, for what stands around descriptions."""


class Introspection:
    """What a node tells of itself to a node that it allows."""

    def __init__(self, context: Context, services: ServiceRegistry, pool: WorkerPool) -> None:
        self._context = context
        self._services = services
        self._pool = pool
        self.senders: Callable[[], list[str]] = list
        """Names of the nodes whose lanes are open; known once the protocol part exists."""
        self.lane_counts: Callable[[], dict[str, int]] = dict
        """What was dropped from lanes, by reason; known once the protocol part exists."""
        self._operations: dict[str, Callable[[str], dict[str, Any]]] = {
            "INFO": self._info,
            "STATS": self._stats,
            "SERVICES": self._list,
            "DESCRIBE": self._describe,
        }

    def answer(self, operation: str, asker: str) -> dict[str, Any] | None:
        """The result for ``operation``; None if there is no such operation."""
        ask = self._operations.get(operation)
        return None if ask is None else ask(asker)

    def _info(self, asker: str) -> dict[str, Any]:
        entry = self._context.registration.entry
        return {
            "name": entry.name,
            "nodeId": entry.id.hex(),
            "generation": entry.generation,
            "language": entry.language,
            "version": entry.version,
            "pid": entry.pid,
            "host": entry.host,
            "fabrics": list(entry.fabrics),
            "startupTimestamp": entry.startup_timestamp,
            "services": list(self._services.names(asker)),
            "features": list(entry.features),
        }

    def _list(self, asker: str) -> dict[str, Any]:
        """Only what the asker may call: others cannot learn what exists (A-5)."""
        return {"services": list(self._services.names(asker))}

    def _describe(self, asker: str) -> dict[str, Any]:
        """What they take and give (S-26)."""
        return {"services": self._services.descriptions(asker, MAX_DISCOVERY_BYTES - _ROOM_BYTES)}

    def _stats(self, asker: str) -> dict[str, Any]:
        looks = self._context.policy.observes(asker)
        visible = set(self._services.names(None if looks else asker))
        snapshot = self._context.stats.snapshot()
        snapshot["services"] = {name: row for name, row in snapshot["services"].items() if name in visible}
        snapshot["counters"] |= self.lane_counts()
        started = self._context.registration.entry.startup_timestamp
        return {
            "name": self._context.name,
            "uptimeSeconds": max(0, unix_ms() - started) / 1000,
            "pendingCalls": len(self._context.pending),
            "lanes": len(self.senders()),
            **self._pool.load(),
            **_open_files(),
            **snapshot,
        }


def _open_files() -> dict[str, int]:
    """Descriptors of this process, and how many it may have; nothing where the system does not tell."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        found = {"openFiles": len(os.listdir("/proc/self/fd")) - 1}  # without that of the listing
    except OSError:
        return {}
    return found if most == resource.RLIM_INFINITY else {**found, "maxOpenFiles": most}


log = logger("speed.protocol")

Answer = Callable[[str, str], dict[str, Any] | None]


class Dispatch:
    """Checks the right of an envelope to be here, then hands it on by type."""

    def __init__(
        self,
        context: Context,
        links: Links,
        calls: Calls,
        settling: Settling,
        serving: Serving,
        delivery: Delivery,
        pool: WorkerPool,
        answer: Answer,
        left: Callable[[str], None],
        make_segments: Callable[[Dispatch], Segments],
    ) -> None:
        self._context = context
        self._links = links
        self._calls = calls
        self._settling = settling
        self._serving = serving
        self._delivery = delivery
        self._pool = pool
        self._answer = answer
        self._left = left
        self._make_segments = make_segments
        self._segments: Segments | None = None
        self._table: dict[int, Callable[[Lane, OpenedEnvelope], None]] = {
            EnvelopeType.MESSAGE: self._message,
            EnvelopeType.SPC_REQUEST: self._serving.accept,
            EnvelopeType.SPC_RESPONSE: self._response,
            EnvelopeType.EVENT: self._message,
            EnvelopeType.DISCOVERY: self._discovery,
            EnvelopeType.HEARTBEAT: self._heartbeat,
            EnvelopeType.ERROR: self._error,
            EnvelopeType.ACK: self._ack,
            EnvelopeType.STREAM: self._stream,
        }

    def may_read(self, source: str) -> bool:
        """Whether a lane of ``source`` is to be read: published grants cover it, or it owes an answer (L-21)."""
        return self._context.policy.publishes(source) or self._links.known(source)

    def dispatch(self, lane: Lane, received: OpenedEnvelope) -> None:
        """Handle one authentic envelope; raises WireError for a payload that breaks a rule."""
        header = received.header
        if self._context.peers is not None and not self._is_known(self._context.peers, lane, received):
            return
        policy = self._context.policy
        if not header.flags & FLAG_REPLY and not policy.allows(lane.source) and not self._is_look(lane, received):
            self._unauthorised(lane, received)
            return
        if not header.flags & FLAG_REPLY or self._links.known(lane.source):
            self._context.stats.received(lane.source, len(received.payload))
        if header.flags & FLAG_SEGMENT:
            self.segments().accept(lane, received)
        else:
            self._table[header.type](lane, received)

    def _is_look(self, lane: Lane, received: OpenedEnvelope) -> bool:
        """Whether it is what an observer may write without a grant: a ping, or a question for figures (A-7)."""
        header = received.header
        if not self._context.policy.observes(lane.source) or header.flags & FLAG_SEGMENT:
            return False
        is_question = header.type == EnvelopeType.DISCOVERY
        return spc.is_look(header.type, spc.decode(received.payload) if is_question else {})

    def _is_known(self, peers: Peers, lane: Lane, received: OpenedEnvelope) -> bool:
        """Whether it comes of the identity that its sender is to have, or is discarded; answers too (I-7)."""
        source = lane.source
        policy = self._context.policy
        may_write = policy.allows(source) or policy.observes(source)
        if not may_write and not self._links.known(source):
            return True  # it has no grant, which is told; nothing is remembered of it
        verdict = peers.verdict(source, lane.fingerprint(received.header.key_id), is_met=may_write)
        if verdict == "accepted":
            return True
        self._context.stats.count(counters.UNAUTHORISED)
        self._context.stats.refused_sender(source)
        text = "an envelope of %s is discarded: its identity is %s"
        self._context.limiter.warn(log, f"identity {verdict}", text, source, verdict)
        lane.drop(received.token)
        return False

    def _unauthorised(self, lane: Lane, received: OpenedEnvelope) -> None:
        """Discard (RFC 9.6); only a request is told, since its caller waits (RFC 9.8)."""
        self._context.stats.count(counters.UNAUTHORISED)
        self._context.stats.refused_sender(lane.source)
        self._context.limiter.warn(log, "unauthorised", "an envelope of %s is discarded: it has no grant", lane.source)
        if received.header.type != EnvelopeType.SPC_REQUEST:
            lane.drop(received.token)
        else:
            self._serving.refuse(lane, received)

    def segments(self) -> Segments:
        """What receives segments, made when the first one comes, or an earlier process left some."""
        if self._segments is None:
            self._segments = self._make_segments(self)
        return self._segments

    def close(self) -> None:
        """Let go of what was kept."""
        if self._segments is not None:
            self._segments.close()

    # --- messages and events ---

    def deliver(self, lane: Lane, received: OpenedEnvelope, order: Hashable = None) -> None:
        """Hand on what came in segments as if it had come whole; messages of one ``order`` follow each other."""
        if received.header.type in (EnvelopeType.MESSAGE, EnvelopeType.EVENT):
            self._message(lane, received, order)
        else:
            self._table[received.header.type](lane, received)

    def _message(self, lane: Lane, received: OpenedEnvelope, order: Hashable = None) -> None:
        arrival = self._arrival(lane, received, order)
        arrival.message = self._made(lane, received, MessageView(received.payload))
        arrival.priority = arrival.message.metadata.priority
        if self._is_expired(arrival):
            return
        self._delivery.arrive(arrival)

    def deliver_later(
        self, lane: Lane, received: OpenedEnvelope, order: Hashable, view: Callable[[], MessageView]
    ) -> None:
        """Give a payload in segments its place now; ``view`` puts it together when its turn has come.

        ``view`` raises WireError or SegmentStoreError for what is lost by then, having told whom it had to.
        """

        def open_(arrival: Arrival) -> Message | None:
            try:
                arrival.message = self._made(lane, received, view())
            except WireError as error:
                self._refused(lane, error)
                lane.drop(received.token)
                return None
            except SpeedError as error:
                log.warning("a payload in segments of %s is lost: %s", lane.source, error)
                return None
            return None if self._is_expired(arrival) else arrival.message

        arrival = self._arrival(lane, received, order)
        arrival.opens_with(open_)
        self._delivery.arrive(arrival)

    def _refused(self, lane: Lane, error: WireError) -> None:
        self._context.stats.count(counters.rejected(error.reason))
        text = "payload in segments of %s rejected: %s"
        self._context.limiter.warn(log, f"rejected {error.reason}", text, lane.source, error)

    def _arrival(self, lane: Lane, received: OpenedEnvelope, order: Hashable) -> Arrival:
        header, source = received.header, lane.source
        answer = (partial(self.acknowledge, source, header.sequence), partial(self.tell, source, header.sequence))
        return Arrival(
            lane,
            received.token,
            is_event=header.type == EnvelopeType.EVENT,
            redelivered=received.redelivered,
            run=self._delivery.handle,
            order=order,
            answer=answer,
            wants_ack=bool(header.flags & FLAG_ACK_REQUESTED),
        )

    def _made(self, lane: Lane, received: OpenedEnvelope, view: MessageView) -> Message:
        view.validate()
        return Message(
            view,
            source=lane.source,
            sequence=received.header.sequence,
            timestamp_ms=received.header.timestamp_ms,
            redelivered=received.redelivered,
            sender_identity=lane.fingerprint(received.header.key_id),
            finish=partial(lane.finish, (received.token,)),  # before the next is begun: one redelivery a crash (L-15)
        )

    def _is_expired(self, arrival: Arrival) -> bool:
        if is_expired(self._context, arrival):
            return True
        self._context.stats.count(counters.MESSAGES_RECEIVED)
        return False

    def acknowledge(self, source: str, sequence: int, waiting: bool = False) -> None:
        self._reply(source, sequence, EnvelopeType.ACK, spc.encode_ack(sequence, waiting=waiting))

    def tell(self, source: str, sequence: int, code: str, text: str) -> None:
        """An ERROR for the sender of an envelope."""
        self._reply(source, sequence, EnvelopeType.ERROR, spc.encode_error_envelope(code, text, sequence=sequence))

    def _reply(self, source: str, sequence: int, type_: int, payload: bytes) -> None:
        """Answer without waiting: a sender that left or does not read loses it, counted."""
        try:
            link = self._links.open(source, generation_of(sequence))
            link.send(type_, FLAG_REPLY, payload, 0.0, urgent=True)
        except SpeedError:
            self._context.stats.count(counters.REPLIES_UNDELIVERED)

    # --- answers and questions ---

    def _response(self, lane: Lane, received: OpenedEnvelope) -> None:
        self._calls.answered(lane.source, received.payload)

    def _ack(self, lane: Lane, received: OpenedEnvelope) -> None:
        self._calls.acknowledged(lane.source, *spc.decode_ack(received.payload))

    def _stream(self, lane: Lane, received: OpenedEnvelope) -> None:
        side = self._calls if received.header.flags & FLAG_REPLY else self._serving
        side.streams.arrive(lane.source, received.payload, self._context.stats.count)

    def _error(self, lane: Lane, received: OpenedEnvelope) -> None:
        self._calls.refused(lane.source, spc.decode(received.payload))

    def _heartbeat(self, lane: Lane, received: OpenedEnvelope) -> None:
        body = spc.decode(received.payload)
        if received.header.flags & FLAG_REPLY:
            self._calls.replied(lane.source, str(body.get("requestId")), None)
        else:
            self._reply(lane.source, received.header.sequence, EnvelopeType.HEARTBEAT, received.payload)

    def _discovery(self, lane: Lane, received: OpenedEnvelope) -> None:
        if received.header.flags & FLAG_REPLY:
            body = spc.decode(received.payload, MAX_DISCOVERY_BYTES)
            self._calls.replied(lane.source, str(body.get("requestId")), body.get("result"))
            return
        body = spc.decode(received.payload)
        operation = str(body.get("op"))
        if operation == "LEAVE":
            self._settling.left(lane.source, generation_of(received.header.sequence))
            self._left(lane.source)
        elif operation == "WITHDRAW":
            self._after_requests(lane.source, partial(self._serving.withdraw, lane.source, spc.request_ids(body)))
        else:
            self._answer_question(lane.source, received.header.sequence, body, self._answer(operation, lane.source))

    def _after_requests(self, source: str, do: Callable[[], None]) -> None:
        """What names requests overtakes none that is still put together; if it waits, a worker does it."""
        if self._segments is None:
            do()
        else:
            self._segments.after_requests(source, do)

    def _answer_question(self, source: str, sequence: int, body: dict[str, Any], result: dict[str, Any] | None) -> None:
        operation, request_id = str(body.get("op")), body.get("requestId")
        if result is None:
            text = f"unknown DISCOVERY operation {operation[:64]!r}"
            refusal = spc.encode_error_envelope("INVALID_ARGUMENTS", text, request_id=request_id)
            self._reply(source, sequence, EnvelopeType.ERROR, refusal)
            return
        reply = spc.encode({"op": operation, "requestId": request_id, "result": result})
        self._reply(source, sequence, EnvelopeType.DISCOVERY, reply)

    # --- departures and time ---

    def node_died(self, name: str, waiting: list[PendingCall]) -> None:
        """Nobody wants an answer from here any more, and ``waiting`` get none; nothing more is written."""
        self._serving.forget(name)  # at once: what a successor asks comes after the look
        self._links.drop(name)
        self._settling.settle(name, waiting, None)
        others = [call for call in waiting if call.request is None and not call.is_part]
        self._context.pending.fail(others, NodeLeftError(texts.left_unanswered(name)))

    def concerns(self, name: str, generation: int) -> bool:
        """Whether calls are open that were written to a generation of ``name`` before that one."""
        return self._settling.concerns(name, generation)

    def node_replaced(self, name: str, generation: int, waiting: list[PendingCall]) -> None:
        """The same of the generations of ``name`` before the one that lives."""
        self._serving.forget_older(name, generation)
        self._settling.settle(name, waiting, generation)

    def expire(self, now: float) -> None:
        """End what is over its deadline, and let be tried again what waited for that."""
        self._calls.expire(now)
        overdue = self._pool.expire(now)
        self._serving.time_out(overdue.waiting, "queued")
        self._serving.time_out(overdue.running, "running")
        self._delivery.unclaimed(overdue.unclaimed)
        if self._segments is not None:
            self._segments.expire(now)

    @property
    def has_withdrawn(self) -> bool:
        """Whether some calls that were withdrawn are not answered yet."""
        return self._serving.has_withdrawn

    def answer_withdrawn(self) -> None:
        """Answer some of them."""
        self._serving.answer_withdrawn()

    def next_deadline(self) -> float:
        """Monotonic seconds of the next thing that ``expire`` has to do."""
        work = self._pool.next_time()
        pending = self._context.pending.next_deadline()
        return pending if work is None else min(pending, work)
