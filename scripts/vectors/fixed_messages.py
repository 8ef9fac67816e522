"""What the vectors of protected messages share: a signer, a message, and ways to change one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scripts.vectors.messages import BASE
from speed.message import message_pb2
from speed.message.algorithms import algorithm_of
from speed.message.keys import MessageKey
from speed.message.protect import Protection, protect_message
from speed.wire.records import walk

pb: Any = message_pb2
Case = dict[str, Any]
META: dict[str, Any] = {**BASE, "publisher_id": "billing"}
SIGNER = MessageKey("ed-1", algorithm_of("ed25519"), bytes(range(32)), publishers=("billing",), topics=("orders.*",))


def message(payload: Any = b"hello", **protection: Any) -> bytes:
    return protect_message(payload, Protection(**protection), **META)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def places(data: bytes, *path: int) -> tuple[int, int]:
    """Where the value of the first record on a path of field numbers lies."""
    start, end = 0, len(data)
    for wanted in path:
        inside = data[start:end]
        value, stop = next((v, e) for field, _, _, v, e in walk(inside) if field == wanted)
        start, end = start + value, start + stop
    return start, end


def changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The message parsed, changed and written again; its payload last as ever."""
    envelope = pb.MessageEnvelope.FromString(data)
    change(envelope)
    return bytes(envelope.SerializeToString())
