"""Payloads too large to be held in memory: what a sender reads them from, and what a receiver is handed (G-18)."""

from __future__ import annotations

import io
import os
import shutil
import threading
from typing import Any

from speed.errors import ConfigurationError
from speed.fs.segment_store import StoredShards
from speed.segment.source import Memory, Source
from speed.wire.message import MessageView
from speed.wire.message.large import FRONT_BYTES, Front, LargeMessageView

COPY_BYTES = 1 << 20


class LargePayload(io.RawIOBase):
    """The received payload as a binary file: seekable, read from the node's sealed store, which is ``stored``.

    Readable until the handler returned (or the next ``receive``); later reads raise ValueError. For one thread at a
    time. ``size`` is in bytes.
    """

    def __init__(self, stored: Source) -> None:
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
        self.content = LargePayload(Stored(shards, self._front.start, size))

    def view(self) -> MessageView:
        head, whole = self._front.without_value(), lambda: read_shards(self._shards, 0, self._size)
        return LargeMessageView(head, self._size, self.content, whole)


class Stored:
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


class Behind:
    """Some bytes with a payload behind them."""

    def __init__(self, front: bytes, rest: Source) -> None:
        self._front, self._rest = front, rest
        self.size = len(front) + rest.size

    def read(self, begin: int, end: int) -> bytes | memoryview:
        edge = len(self._front)
        if begin >= edge:
            return self._rest.read(begin - edge, end - edge)
        head = self._front[begin:end]
        return head + bytes(self._rest.read(0, end - edge)) if end > edge else head


def source_of(payload: Any) -> Source:
    """What to read the payload of a message from: bytes, or an open file. ConfigurationError for another file."""
    if isinstance(payload, memoryview) and not payload.c_contiguous:
        payload = payload.tobytes()
    return Memory(payload) if isinstance(payload, bytes | bytearray | memoryview) else File(payload)
