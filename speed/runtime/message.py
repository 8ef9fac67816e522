"""What a handler or ``receive`` gets: one message with its envelope's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from speed.errors import SpeedError
from speed.runtime.tracing import trace_context_of
from speed.wire.content import BATCH_TYPE
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.message import MessageView

FRONT_ROOM = 1 << 16
"""What the limit of an envelope leaves for all of a message but its payload."""


def is_large(payload: Any) -> bool:
    """Whether a payload goes in segments by its kind or size: a file, or bytes that no envelope holds."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return memoryview(payload).nbytes > MAX_PAYLOAD_BYTES - FRONT_ROOM
    return hasattr(payload, "read") and hasattr(payload, "seek")


class Message:
    """One received message or event.

    It is finished when its handler returns, when the next one is asked for with ``receive``, or by ``done()``. A
    message that was not finished comes again when the node starts the next time.

    Attributes:
        source: name of the node that sent it, which is authenticated.
        sequence: number of its envelope; grows from each sender, and is the same when the message comes again.
        timestamp_ms: when it was sent, by the sender's clock, in Unix milliseconds.
        redelivered: whether an earlier process of this name may already have handled it.
        deliveries: how often it was begun, this time included.
    """

    __slots__ = ("_after", "_finish", "_view", "deliveries", "redelivered", "sequence", "source", "timestamp_ms")

    def __init__(
        self,
        view: MessageView,
        *,
        source: str,
        sequence: int,
        timestamp_ms: int,
        redelivered: bool,
        finish: Callable[[], None],
        deliveries: int = 1,
    ) -> None:
        self._view = view
        self._finish: Callable[[], None] | None = finish
        self._after: Callable[[], None] | None = None
        self.source = source
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.redelivered = redelivered
        self.deliveries = deliveries

    @property
    def payload(self) -> Any:
        """The value that the sender gave: map, list, str, bytes, number, …, decoded when it is first asked for.

        A payload that came in segments is a seekable binary file, readable until the message is finished.
        """
        return self._view.payload

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as it travelled, without a copy."""
        return self._view.payload_bytes

    @property
    def payloads(self) -> list[Any]:
        """The values of a batch, else the one payload. Raises BatchError, and WireError as ``payload`` does."""
        if self._view.content_type != BATCH_TYPE:
            return [self._view.payload]
        from speed.message.batch import decode_batch

        return decode_batch(self._view.plain_bytes)

    def trace_context(self) -> Any:
        """The publisher's trace as an OpenTelemetry context, to start a span in; an empty one if there is none."""
        return trace_context_of(self._view.traceparent, self._view.baggage)

    def with_view(self, view: MessageView) -> Message:
        """The same message seen another way; finishing either finishes both."""
        return Message(
            view,
            source=self.source,
            sequence=self.sequence,
            timestamp_ms=self.timestamp_ms,
            redelivered=self.redelivered,
            finish=self.done,
            deliveries=self.deliveries,
        )

    @property
    def metadata(self) -> MessageView:
        """What the message says beside its payload: ids, times, labels, signer; parsed when it is asked for."""
        return self._view

    @property
    def topic(self) -> str:
        """The topic of an event; of a message ``message``, unless its sender gave one."""
        return self._view.topic

    @property
    def message_id(self) -> str:
        """The id that ``send`` returned; it is unique, and the same when the message comes again."""
        return self._view.message_id

    @property
    def traceparent(self) -> str | None:
        """The sender's trace, as a W3C ``traceparent``."""
        return self._view.traceparent

    def done(self) -> None:
        """Finish the message; calling it again does nothing."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        after, self._after = self._after, None
        if after is not None:
            after()

    @property
    def is_done(self) -> bool:
        """Whether it is finished."""
        return self._finish is None

    def when_done(self, after: Callable[[], None] | None) -> None:
        """Have ``after`` run once it is finished."""
        self._after = after

    def __repr__(self) -> str:
        return f"<Message from {self.source} sequence={self.sequence:#x} redelivered={self.redelivered}>"


BatchHandler = Callable[[Sequence[Message]], Mapping[int, SpeedError] | None]
"""Takes a batch; the messages at the places it returns are refused, and their senders told."""
