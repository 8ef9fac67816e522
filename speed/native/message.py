"""Messages that the core received, as ``speed.Message``."""

from __future__ import annotations

from typing import Any

from speed.runtime.message import Message
from speed.wire.message import MessageView


class ReceivedView(MessageView):
    """A view that has the core read what is asked for most; the rest is parsed from the bytes as always."""

    __slots__ = ("_received",)

    def __init__(self, received: Any, data: bytes) -> None:
        super().__init__(data)
        self._received = received

    @property
    def payload(self) -> Any:
        """The payload's value, decoded anew at each access; unknown content types give bytes."""
        return self._received.payload()

    @property
    def topic(self) -> str:
        """Topic it was published under."""
        return str(self._received.topic)

    @property
    def message_id(self) -> str:
        """Unique id of the message."""
        return str(self._received.message_id)

    @property
    def traceparent(self) -> str | None:
        """W3C traceparent, or None when absent or not valid (M-11)."""
        trace = self._received.traceparent
        return None if trace is None else str(trace)


def received_message(
    received: Any, data: bytes, source: str, sequence: int, timestamp_ms: int, redelivered: bool, deliveries: int
) -> Message:
    """The message in ``received``; finishing it finishes that of the core."""
    return Message(
        ReceivedView(received, data) if received.large_size is None else _large_view(received, data),
        source=source,
        sequence=sequence,
        timestamp_ms=timestamp_ms,
        redelivered=redelivered,
        deliveries=deliveries,
        finish=received.done,
    )


def _large_view(received: Any, head: bytes) -> MessageView:
    """Of a message whose payload lies in the node's store."""
    from speed.native.large import large_view  # few messages are

    return large_view(received, head)
