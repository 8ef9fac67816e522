"""Payloads that the core received in segments, as files that read from its store (G-18)."""

from __future__ import annotations

from typing import Any

from speed.runtime.large_payload import LargePayload
from speed.wire.message.large import LargeMessageView


class ReceivedLargePayload(LargePayload):
    """A file that ends with the message of the core, whoever finishes that."""

    def __init__(self, received: Any) -> None:
        self._received = received
        super().__init__(_Stored(received))

    @property
    def closed(self) -> bool:
        return super().closed or bool(self._received.finished)


class _Stored:
    """What the core reads."""

    def __init__(self, received: Any) -> None:
        self._received, self.size = received, int(received.large_size)

    def read(self, begin: int, end: int) -> bytes:
        return bytes(self._received.read(begin, end))


def large_view(received: Any, head: bytes) -> LargeMessageView:
    """The message in ``received``, of which ``head`` is all but the payload."""
    return LargeMessageView(head, int(received.whole_size), ReceivedLargePayload(received), received.whole)
