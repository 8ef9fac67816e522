"""Payloads too large to be held in memory: what they are read from, and what a receiver is handed (G-18)."""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Callable
from typing import Any

from speed.errors import ConfigurationError, WireError
from speed.fs.segment_store import StoredShards
from speed.message.view import MessageView
from speed.message.writing import PAYLOAD_TAG, URL_TAG, VALUE_TAG, encode_head, frame_of
from speed.segment.form import ByteSource, Memory
from speed.wire.limits import MAX_SEGMENTED_HEAD_BYTES
from speed.wire.records import LENGTH_DELIMITED, MessageEnvelope, read_varint, varint, walk
from speed.wire.value import encode_content

# Messages that are too large to be held: what stands before the payload's value, and reading it (G-18, M-2).

FRONT_BYTES = MAX_SEGMENTED_HEAD_BYTES
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
        fields = self._url + VALUE_TAG + b"\x00"
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
            if field == MessageEnvelope.PAYLOAD and kind == LENGTH_DELIMITED:
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
    if data.startswith(URL_TAG, start):
        length, begin = read_varint(data, start + 1, _MAX_LENGTH_BYTES)
        url, start = data[start : begin + length], begin + length
    if not data.startswith(VALUE_TAG, start):
        raise WireError("BAD_MESSAGE", "payload")
    size, start = read_varint(data, start + 1, _MAX_LENGTH_BYTES)
    if start + size != total:
        raise WireError("BAD_MESSAGE", "payload")
    return url, start


# Payloads too large to be held in memory: what a sender reads them from, and what a receiver is handed (G-18).

COPY_BYTES = 1 << 20


class LargePayload(io.RawIOBase):
    """The received payload as a binary file: seekable, read from the node's sealed store, which is ``stored``.

    Readable until the handler returned (or the next ``receive``); later reads raise ValueError. For one thread at a
    time. ``size`` is in bytes.
    """

    def __init__(self, stored: ByteSource) -> None:
        super().__init__()
        self._stored, self.size = stored, stored.size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("the position lies before the payload")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self.closed:
            raise ValueError("the payload was read until its handler returned, and is closed")
        view = memoryview(buffer).cast("B")
        end = min(self.size, self._position + min(len(view), COPY_BYTES))
        if end <= self._position:
            return 0
        data = self._stored.read(self._position, end)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def read_all(self) -> bytes:
        """The whole payload, in memory; the position stays."""
        return bytes(self._stored.read(0, self.size))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole payload into a file, which is made or replaced."""
        self.seek(0)
        with open(path, "wb") as file:
            shutil.copyfileobj(self, file, COPY_BYTES)

    def __len__(self) -> int:
        return self.size


class LargeMessage:
    """A whole message that lies in the store."""

    def __init__(self, shards: StoredShards, size: int) -> None:
        self._shards, self._size = shards, size
        self._front = Front(read_shards(shards, 0, min(size, FRONT_BYTES)), size)
        self.content = LargePayload(StoredSource(shards, self._front.start, size))

    def view(self) -> MessageView:
        head, whole = self._front.without_value(), lambda: read_shards(self._shards, 0, self._size)
        return LargeMessageView(head, self._size, self.content, whole)


class StoredSource:
    """Some of the bytes of a payload that is put together."""

    def __init__(self, shards: StoredShards, begin: int, end: int) -> None:
        self._shards, self._begin, self.size = shards, begin, end - begin

    def read(self, begin: int, end: int) -> bytes:
        return read_shards(self._shards, self._begin + begin, self._begin + end)


def read_shards(shards: StoredShards, begin: int, end: int) -> bytes:
    """Bytes of a payload that is put together."""
    parts = []
    while begin < end:
        slot, at = divmod(begin, shards.segment_size)
        step = min(end - begin, shards.segment_size - at)
        parts.append(shards.read(slot, at, at + step))
        begin += step
    return b"".join(parts)


class File:
    """A payload in a seekable binary file, from its present position to its end."""

    def __init__(self, file: Any) -> None:
        self._file, self._lock = file, threading.Lock()
        try:
            self._begin = file.tell()
            self.size = file.seek(0, os.SEEK_END) - self._begin
            file.seek(self._begin)
        except (AttributeError, OSError, ValueError) as error:
            raise ConfigurationError(f"the file cannot be sent, it must be binary and seekable: {error}") from None

    def read(self, begin: int, end: int) -> bytes:
        with self._lock:
            self._file.seek(self._begin + begin)
            data = self._file.read(end - begin)
        if type(data) is not bytes or len(data) != end - begin:
            raise ConfigurationError("the file changed while it was sent, or is no binary file: send it again")
        return data


class PrefixedSource:
    """Some bytes with a payload behind them."""

    def __init__(self, front: bytes, rest: ByteSource) -> None:
        self._front, self._rest = front, rest
        self.size = len(front) + rest.size

    def read(self, begin: int, end: int) -> bytes | memoryview:
        edge = len(self._front)
        if begin >= edge:
            return self._rest.read(begin - edge, end - edge)
        head = self._front[begin:end]
        return head + bytes(self._rest.read(0, end - edge)) if end > edge else head


def source_of(payload: Any) -> ByteSource:
    """What to read the payload of a message from: bytes, or an open file. ConfigurationError for another file."""
    if isinstance(payload, memoryview) and not payload.c_contiguous:
        payload = payload.tobytes()
    return Memory(payload) if isinstance(payload, bytes | bytearray | memoryview) else File(payload)


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
