"""The bytes of durable topics: what publishers send (D-5), what stands before a payload, state files (D-2, D-4).

head:   0 version  1 type  2 attempts(2)  4 key hash(4)  8 due ms(8)  16 sequence(8)  24 bytes N(4)  28 zero(4)
        32 msgpack map (N)  |  payload
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from hashlib import sha256
from hmac import compare_digest
from struct import Struct, error
from typing import Any, Final, NamedTuple
from zlib import crc32

from speed.errors import ConfigurationError, WireError
from speed.wire.limits import MAX_TOPIC_PROPERTIES
from speed.wire.seal import Keyring
from speed.wire.text import parse_traceparent
from speed.wire.value import pack, unpack_map

MESSAGE, TOMBSTONE, DEAD_LETTER = 0, 1, 2
MAC_BYTES: Final = 16
MAX_STATE_BYTES: Final = 1 << 20
_CURSOR_ENDING: Final = ".cursor"
SETTINGS: Final = "settings"
PRODUCERS: Final = "producers"
COMPACTED: Final = "compacted"
_HEAD = Struct(">BBHIQQII")
_STATE = Struct(">4sB3x8s")
MAX_ATTEMPTS: Final = 0xFFFF


class RecordHead(NamedTuple):
    """What the host needs to know of a message; times are Unix ms, 0 is none."""

    type: int = MESSAGE
    attempts: int = 0
    key_hash: int = 0
    due_ms: int = 0
    sequence: int = 0


class KeptMessage(NamedTuple):
    """A message as it is kept: its head, what was said with it, its packed payload."""

    head: RecordHead
    about: Mapping[str, Any]
    payload: bytes


def key_hash(key: str) -> int:
    """Never 0, which stands for no key."""
    return crc32(key.encode()) or 1


def encode(head: RecordHead, about: Mapping[str, Any], payload: bytes) -> bytes:
    """The message of a record."""
    return join(head, pack(dict(about)), payload)


def join(head: RecordHead, packed: bytes, payload: bytes) -> bytes:
    """The same of a map that is packed already."""
    return _HEAD.pack(1, *head, len(packed), 0) + packed + payload


def decode_head(data: bytes) -> RecordHead:
    """The head alone; WireError BAD_JOURNAL."""
    return _unpacked(data)[0]


def decode(data: bytes) -> KeptMessage:
    """All of it; WireError BAD_JOURNAL, BAD_PAYLOAD."""
    head, packed, payload = parts(data)
    return KeptMessage(head, read_about(packed), payload)


def parts(data: bytes) -> tuple[RecordHead, bytes, bytes]:
    """The head, what is said of the message as it is packed, the payload; WireError BAD_JOURNAL."""
    head, size = _unpacked(data)
    end = _HEAD.size + size
    return head, data[_HEAD.size : end], data[end:]


def read_about(packed: bytes) -> dict[str, Any]:
    """What is said of a message; WireError BAD_PAYLOAD."""
    return unpack_map(packed, "what is said of a message")


def due_of(data: bytes) -> int:
    """When a record that was just made is due."""
    return int.from_bytes(data[8:16], "big")


def _unpacked(data: bytes) -> tuple[RecordHead, int]:
    try:
        version, *fields, size, zero = _HEAD.unpack_from(data)
    except error:
        raise WireError("BAD_JOURNAL", "the head of a message is cut") from None
    if version != 1 or zero or fields[0] > DEAD_LETTER or _HEAD.size + size > len(data):
        raise WireError("BAD_JOURNAL", "no head of a message of version 1")
    return RecordHead(*fields), size


def cursor_name(subscription: str) -> str:
    """The file of a subscription: any text is a name, and none is a path."""
    return sha256(subscription.encode()).hexdigest()[:32] + _CURSOR_ENDING


def is_cursor(name: str) -> bool:
    """Whether a file of this name is that of a subscription."""
    return name.endswith(_CURSOR_ENDING) and not name.startswith(".")


def is_state(name: str) -> bool:
    """Whether a file of this name says something of a topic."""
    return name in (SETTINGS, PRODUCERS, COMPACTED) or is_cursor(name)


def seal_state(value: Mapping[str, Any], lane: bytes, name: str, keyring: Keyring) -> bytes:
    """The state file ``name`` of the topic of lane id ``lane``."""
    body = _STATE.pack(b"SPTS", 1, keyring.key_id) + pack(dict(value))
    return body + keyring.journal_mac(keyring.key_id, _info(lane, name), body)


def open_state(data: bytes, lane: bytes, name: str, keyring: Keyring) -> dict[str, Any]:
    """What is in it; WireError BAD_JOURNAL, UNKNOWN_KEY, BAD_PAYLOAD."""
    body, mac = data[:-MAC_BYTES], data[-MAC_BYTES:]
    if len(body) < _STATE.size or body[:8] != b"SPTS\1\0\0\0":
        raise WireError("BAD_JOURNAL", "no state of a topic of version 1")
    if not compare_digest(mac, keyring.journal_mac(body[8:16], _info(lane, name), body)):
        raise WireError("BAD_JOURNAL", "the state of a topic is not authentic")
    return unpack_map(body[_STATE.size :], "the state of a topic")


def _info(lane: bytes, name: str) -> bytes:
    return b"topic" + lane + name.encode()


TRACE = "traceparent"
"""The property with the trace that a message belongs to (D-29)."""
BATCH_MESSAGES = 1000
BATCH_BYTES = 4 << 20


def outgoing(
    payload: bytes, key: str | None, properties: Mapping[str, str] | None, due_ms: int, sequence: int
) -> dict[str, Any]:
    """A message for ``publish_all``, whose payload is packed; 0 and None say nothing."""
    one: dict[str, Any] = {"payload": payload}
    if key is not None:
        one["key"] = key
    if properties:
        one["properties"] = dict(properties)
    if due_ms:
        one["due_ms"] = due_ms
    if sequence:
        one["sequence"] = sequence
    return one


def traced(properties: Mapping[str, str] | None, traceparent: str | None) -> Mapping[str, str] | None:
    """Properties with a trace, unless they have one, or no room for it (D-29)."""
    given = properties or {}
    if traceparent is None or TRACE in given or len(given) >= MAX_TOPIC_PROPERTIES:
        return properties
    return {**given, TRACE: traceparent}


def trace_in(properties: Mapping[str, str]) -> str | None:
    """The trace that they say; None for text that is no traceparent, as W3C asks of whoever receives one (D-29)."""
    given = properties.get(TRACE)
    try:
        return None if given is None else str(parse_traceparent(given))
    except WireError:
        return None


def outgoing_all(
    payloads: Iterable[Any], keys: Iterable[str | None] | None, properties: Mapping[str, str] | None, sequence: int
) -> Iterator[dict[str, Any]]:
    """Messages with the same properties, the first of this ``sequence`` unless that is 0.

    Raises ConfigurationError for another number of keys than messages.
    """
    if isinstance(payloads, Sized) and isinstance(keys, Sized) and len(keys) != len(payloads):
        raise _other_number()
    given = None if keys is None else iter(keys)
    for number, payload in enumerate(payloads):
        key = None if given is None else next(given, _MISSING)
        if isinstance(key, _Missing):
            raise _other_number()
        yield outgoing(pack(payload, "payload"), key, properties, 0, sequence + number if sequence else 0)
    if given is not None and next(given, _MISSING) is not _MISSING:
        raise _other_number()


class _Missing:
    """Stands for the key that is not there."""


_MISSING = _Missing()


def _other_number() -> ConfigurationError:
    return ConfigurationError("keys must be as many as the messages, or none: None is for a message without one")


def batches(messages: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """What goes into one write each."""
    batch: list[dict[str, Any]] = []
    size = 0
    for one in messages:
        if batch and (len(batch) >= BATCH_MESSAGES or size + len(one["payload"]) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one["payload"])
    if batch:
        yield batch


class TopicOffset(int):
    """Where a published message is kept: a number, and whether the message was there before."""

    duplicate: bool = False
    """It is a repetition: nothing was kept again. Its number is then that of the message that is kept, or -1 if the
    host does not remember that."""

    @classmethod
    def of(cls, offset: int, *, duplicate: bool) -> TopicOffset:
        """As the host answers."""
        made = cls(offset)
        made.duplicate = duplicate
        return made


def offsets_of(answer: Mapping[str, Any]) -> list[TopicOffset]:
    """Of what was published, as the host answers."""
    repeated = set(answer.get("repeated", ()))
    return [
        TopicOffset.of(offset, duplicate=place in repeated or offset < 0)
        for place, offset in enumerate(answer["offsets"])
    ]
