"""Messages that the core received, as ``speed.Message``."""

from __future__ import annotations

from typing import Any

from speed.runtime.message import Message
from speed.wire.content import PROTOBUF_TYPE
from speed.wire.message import MessageView


class ReceivedView(MessageView):
    """A view that has the core read what is asked for most; the rest is parsed from the bytes as always."""

    __slots__ = ("_received", "_says_only_publisher")

    def __init__(self, received: Any, data: bytes, says_only_publisher: bool) -> None:
        super().__init__(data)
        self._received = received
        self._says_only_publisher = says_only_publisher

    @property
    def payload(self) -> Any:
        """The payload's value, decoded anew at each access; unknown content types give bytes."""
        if self.content_type == PROTOBUF_TYPE:  # whose types this process knows, and not the core
            return super().payload
        return self._received.payload()

    @property
    def content_type(self) -> str:
        """Media type of the payload."""
        return str(self._received.content_type)

    @property
    def content_encoding(self) -> str:
        """``none``, or the name of what the payload is compressed with."""
        return str(self._received.content_encoding)

    @property
    def says_only_publisher(self) -> bool:
        """Whether nothing but its publisher is told in its SecurityContext, or a token beside it."""
        return self._says_only_publisher

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
    received: Any,
    data: bytes,
    source: str,
    sequence: int,
    timestamp_ms: int,
    redelivered: bool,
    deliveries: int,
    says_only_publisher: bool,
    is_large: bool,
) -> Message:
    """The message in ``received``; finishing it finishes that of the core."""
    return Message(
        _large_view(received, data) if is_large else ReceivedView(received, data, says_only_publisher),
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
