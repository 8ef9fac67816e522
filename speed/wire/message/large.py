"""Messages that are too large to be held: what stands before the payload's value, and reading it (G-18, M-2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speed.errors import WireError
from speed.wire.content import encode_content
from speed.wire.limits import MAX_SEGMENTED_HEAD_BYTES
from speed.wire.message.view import MessageView
from speed.wire.message.writing import PAYLOAD_TAG, encode_head, frame_of
from speed.wire.records import LENGTH_DELIMITED, read_varint, varint, walk

FRONT_BYTES = MAX_SEGMENTED_HEAD_BYTES
_PAYLOAD_FIELD = 99
_URL_TAG, _VALUE_TAG = b"\x0a", b"\x12"
_MAX_LENGTH_BYTES = 5


def large_front(payload_bytes: int, content_type: str | None = None, **metadata: Any) -> bytes:
    """All of a message that stands before a payload of so many bytes. ``metadata`` as for ``encode_message``."""
    return encode_head(encode_content(b"", content_type), **metadata) + frame_of(payload_bytes)


class Front:
    """The beginning of a message of ``total`` bytes; ``start`` is where its payload's value begins.

    WireError(BAD_MESSAGE) unless the payload comes last and begins within the first bytes (G-18).
    """

    def __init__(self, data: bytes, total: int) -> None:
        try:
            self._end = _end_of_others(data)
            self._url, self.start = _value(data, self._end, total)
        except WireError:
            raise WireError("BAD_MESSAGE", "payload: is not the last record, or begins too late") from None
        self._data, self.total = data, total

    def without_value(self) -> bytes:
        """A message of the same records with an empty value."""
        fields = self._url + _VALUE_TAG + b"\x00"
        return b"".join((self._data[: self._end], PAYLOAD_TAG, varint(len(fields)), fields))


class LargeMessageView(MessageView):
    """A message whose payload is read from where it lies: ``content.read_all()`` gives all of it.

    ``head`` is the message with an empty payload, ``total`` its whole size in bytes.
    """

    __slots__ = ("_content", "_total", "_whole")

    def __init__(self, head: bytes, total: int, content: Any, whole: Callable[[], bytes]) -> None:
        super().__init__(head)
        self._content, self._whole, self._total = content, whole, total

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return self._total

    def to_bytes(self) -> bytes:
        """Exactly the bytes received, in memory."""
        return self._whole()

    def _find_payload(self) -> memoryview:
        """All of the value, in memory: for content that has to be decoded, and for who asks for its bytes."""
        super()._find_payload()
        return memoryview(self._content.read_all())

    def validate(self) -> MessageView:
        """As for any message, without reading the payload."""
        MessageView(self._data).validate()
        return self

    @property
    def payload(self) -> Any:
        """What reads the bytes, where the payload is bytes; any other value, decoded."""
        if self.content_type == "application/octet-stream" and self.content_encoding == "none":
            return self._content
        return super().payload


def _end_of_others(data: bytes) -> int:
    """Where the payload record begins."""
    end = 0
    try:
        for field, kind, start, _, stop in walk(data):
            if field == _PAYLOAD_FIELD and kind == LENGTH_DELIMITED:
                return start
            end = stop
    except WireError:
        pass  # the record that reaches beyond: the payload, or _value says what is wrong
    return end


def _value(data: bytes, at: int, total: int) -> tuple[bytes, int]:
    """The record of the type URL, and where the value begins that ends with the message."""
    if not data.startswith(PAYLOAD_TAG, at):
        raise WireError("BAD_MESSAGE", "payload")
    size, start = read_varint(data, at + len(PAYLOAD_TAG), _MAX_LENGTH_BYTES)
    if start + size != total:
        raise WireError("BAD_MESSAGE", "payload")
    url = b""
    if data.startswith(_URL_TAG, start):
        length, begin = read_varint(data, start + 1, _MAX_LENGTH_BYTES)
        url, start = data[start : begin + length], begin + length
    if not data.startswith(_VALUE_TAG, start):
        raise WireError("BAD_MESSAGE", "payload")
    size, start = read_varint(data, start + 1, _MAX_LENGTH_BYTES)
    if start + size != total:
        raise WireError("BAD_MESSAGE", "payload")
    return url, start
