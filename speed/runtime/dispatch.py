"""From an opened envelope to the part that handles it: one table over the eight types (W-4, S-11).

Runs under the protocol role. Messages, events and requests are finished by the worker that handled them, or
here when they are refused; all other types are done when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from speed.errors import NodeLeftError, SpeedError
from speed.fs.envelope_reader import Received
from speed.runtime.arrival import Arrival
from speed.runtime.calls import Calls
from speed.runtime.context import Context, unix_ms
from speed.runtime.delivery import Delivery
from speed.runtime.inbound import Lane
from speed.runtime.message import Message
from speed.runtime.outgoing import Links
from speed.runtime.serving import Serving
from speed.wire import control
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_REPLY, FLAG_SEGMENT, EnvelopeType, generation_of
from speed.wire.message import MessageView

if TYPE_CHECKING:
    from speed.runtime.segments import Segments

Answer = Callable[[str, str], dict[str, Any] | None]
Deliver = Callable[[Lane, Received], None]
Acknowledge = Callable[[str, int], None]
Refuse = Callable[[str, int, str, str], None]


def node_left(name: str) -> NodeLeftError:
    """What a caller gets when the other side goes while it waits."""
    return NodeLeftError(f"{name!r} left or died before it answered; start it again, then repeat the call")


class Dispatch:
    """Checks the right of an envelope to be here, then hands it on by type."""

    def __init__(
        self,
        context: Context,
        links: Links,
        calls: Calls,
        serving: Serving,
        delivery: Delivery,
        answer: Answer,
        left: Callable[[str], None],
        make_segments: Callable[[Deliver, Acknowledge, Refuse], Segments],
    ) -> None:
        self._context = context
        self._links = links
        self._calls = calls
        self._serving = serving
        self._delivery = delivery
        self._answer = answer
        self._left = left
        self._make_segments = make_segments
        self._segments: Segments | None = None
        self._table: dict[int, Callable[[Lane, Received], None]] = {
            EnvelopeType.MESSAGE: self._message,
            EnvelopeType.SPC_REQUEST: self._request,
            EnvelopeType.SPC_RESPONSE: self._response,
            EnvelopeType.EVENT: self._message,
            EnvelopeType.DISCOVERY: self._discovery,
            EnvelopeType.HEARTBEAT: self._heartbeat,
            EnvelopeType.ERROR: self._error,
            EnvelopeType.ACK: self._ack,
        }

    def may_read(self, source: str) -> bool:
        """Whether a lane of ``source`` is to be read: published grants cover it, or it owes an answer (L-21)."""
        return self._context.policy.publishes(source) or self._links.known(source)

    def dispatch(self, lane: Lane, received: Received) -> None:
        """Handle one authentic envelope; raises WireError for a payload that breaks a rule."""
        header = received.header
        if not header.flags & FLAG_REPLY and not self._context.policy.allows(lane.source):
            self._unauthorised(lane, received)
        elif header.flags & FLAG_SEGMENT:
            self.segments().accept(lane, received)
        else:
            self._table[header.type](lane, received)

    def _unauthorised(self, lane: Lane, received: Received) -> None:
        """Discard (RFC 9.6); only a request is told, since its caller waits (RFC 9.8)."""
        self._context.stats.count("unauthorised")
        lane.drop(received.token)
        if received.header.type == EnvelopeType.SPC_REQUEST:
            self._serving.refuse(lane.source, generation_of(received.header.sequence), received.payload)

    def segments(self) -> Segments:
        """What receives segments, made when the first one comes, or an earlier process left some."""
        if self._segments is None:
            self._segments = self._make_segments(self._deliver, self._acknowledge, self._tell)
        return self._segments

    def close(self) -> None:
        """Let go of what was kept."""
        if self._segments is not None:
            self._segments.close()

    def _deliver(self, lane: Lane, received: Received) -> None:
        """Hand on what came in segments as if it had come whole."""
        self._table[received.header.type](lane, received)

    def _message(self, lane: Lane, received: Received) -> None:
        header, source = received.header, lane.source
        payload: Any = received.payload
        view = MessageView(payload) if isinstance(payload, bytes | memoryview) else payload.view()
        view.validate()
        message = Message(
            view,
            source=source,
            sequence=header.sequence,
            timestamp_ms=header.timestamp_ms,
            redelivered=received.redelivered,
            finish=partial(lane.finish, (received.token,)),  # before the next is begun: one redelivery a crash (L-15)
        )
        if header.flags & FLAG_ACK_REQUESTED:
            arrival = Arrival(
                message,
                header.type == EnvelopeType.EVENT,
                acknowledge=lambda: self._acknowledge(source, header.sequence),
                refuse=lambda code, text: self._refuse(source, received, code, text),
                lane=lane,
                token=received.token,
            )
        else:
            arrival = Arrival(message, header.type == EnvelopeType.EVENT, _nothing, _nothing, lane, received.token)
        if view.is_expired(unix_ms()):
            self._context.stats.count("messages_expired")
            arrival.refuse("EXECUTION_FAILED", "the message expired before it was handled")
            message.done()
            return
        self._context.stats.count("messages_received")
        self._delivery.arrive(arrival)

    def _acknowledge(self, source: str, sequence: int) -> None:
        self._reply(source, sequence, EnvelopeType.ACK, control.encode_ack(sequence))

    def _refuse(self, source: str, received: Received, code: str, text: str) -> None:
        self._tell(source, received.header.sequence, code, text)

    def _tell(self, source: str, sequence: int, code: str, text: str) -> None:
        self._reply(source, sequence, EnvelopeType.ERROR, control.encode_error(code, text, sequence=sequence))

    def _reply(self, source: str, sequence: int, type_: int, payload: bytes) -> None:
        """Answer without waiting: a sender that left or does not read loses it, counted."""
        try:
            link = self._links.open(source, generation_of(sequence))
            link.send(type_, FLAG_REPLY, payload, 0.0, urgent=True)
        except SpeedError:
            self._context.stats.count("replies_undelivered")

    def _request(self, lane: Lane, received: Received) -> None:
        self._serving.accept(lane, received.token, received.payload)

    def _response(self, lane: Lane, received: Received) -> None:
        self._calls.answered(lane.source, received.payload)

    def _ack(self, lane: Lane, received: Received) -> None:
        self._calls.acknowledged(lane.source, control.decode_ack(received.payload))

    def _error(self, lane: Lane, received: Received) -> None:
        self._calls.refused(lane.source, control.decode(received.payload))

    def _heartbeat(self, lane: Lane, received: Received) -> None:
        body = control.decode(received.payload)
        if received.header.flags & FLAG_REPLY:
            self._calls.replied(lane.source, str(body.get("requestId")), None)
        else:
            self._reply(lane.source, received.header.sequence, EnvelopeType.HEARTBEAT, bytes(received.payload))

    def _discovery(self, lane: Lane, received: Received) -> None:
        body = control.decode(received.payload)
        if received.header.flags & FLAG_REPLY:
            self._calls.replied(lane.source, str(body.get("requestId")), body.get("result"))
            return
        operation = str(body.get("op"))
        if operation == "LEAVE":
            self._left(lane.source)
            return
        result = self._answer(operation, lane.source)
        if result is None:
            text = f"unknown DISCOVERY operation {operation!r}"
            refusal = control.encode_error("INVALID_ARGUMENTS", text, request_id=body.get("requestId"))
            self._reply(lane.source, received.header.sequence, EnvelopeType.ERROR, refusal)
            return
        reply = control.encode({"op": operation, "requestId": body.get("requestId"), "result": result})
        self._reply(lane.source, received.header.sequence, EnvelopeType.DISCOVERY, reply)

    def node_died(self, name: str) -> None:
        """The reader of a node's bell is gone: nobody will answer what waits there, and nothing more is written."""
        self._links.drop(name)
        self._context.pending.fail_target(name, node_left(name))

    def expire(self, now: float) -> None:
        self._calls.expire(now)
        self._serving.expire(now)
        if self._segments is not None:
            self._segments.expire(now)

    def next_deadline(self) -> float:
        """Monotonic seconds of the next thing that ``expire`` has to do."""
        return min(self._context.pending.next_deadline(), self._serving.next_deadline())


def _nothing(*_: object) -> None:
    """The sender asked for no answer."""
