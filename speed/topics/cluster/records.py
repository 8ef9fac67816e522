"""A message of a durable topic as one of Pulsar: payload and key as they are, all else as properties. Pure (D-22).

So a program that uses Pulsar's own client reads what a node published, and a node what such a program did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.topics.subscription import SubscriptionError
from speed.wire.topic import DEAD_LETTER, MAX_ATTEMPTS, MESSAGE, TOMBSTONE, Head, decode, encode, key_hash
from speed.wire.value import pack, unpack

OWN = "speed."
"""How the names of the host's own properties begin."""
_TEXTS = ("publisher", "producer", "owner")
_NUMBERS = ("sequence", "due", "attempts")
MAX_NUMBER = (1 << 63) - 1


class Outgoing(NamedTuple):
    """What Pulsar gets; ``payload`` is None of a tombstone."""

    payload: bytes | None
    key: str | None
    properties: dict[str, str]
    sequence: int


def outgoing(record: bytes) -> Outgoing:
    """Of the record of a message. Raises SubscriptionError INVALID_ARGUMENTS for what Pulsar cannot say."""
    head, about, payload = decode(record)
    properties = dict(about.get("properties", {}))
    if about.get("key") == "":
        raise _wrong("an empty key is none in Pulsar: leave it out, or give another one")
    taken = next((name for name in properties if name.startswith(OWN)), None)
    if taken is not None:
        raise _wrong(f"property {taken!r}: names that begin with {OWN!r} are the host's own")
    properties.update({OWN + name: about[name] for name in _TEXTS if about.get(name)})
    numbers = {"sequence": head.sequence, "due": head.due_ms, "attempts": head.attempts}
    properties.update({OWN + name: str(number) for name, number in numbers.items() if number})
    if head.type == DEAD_LETTER:
        topic, offset, subscription = about["origin"]
        properties[OWN + "origin"] = f"{topic} {offset} {subscription}"
    return Outgoing(None if head.type == TOMBSTONE else payload, about.get("key"), properties, head.sequence)


def _wrong(text: str) -> SubscriptionError:
    return SubscriptionError("INVALID_ARGUMENTS", text)


def record(payload: bytes | None, key: str, properties: Mapping[str, str]) -> bytes:
    """The record of a message of Pulsar; ``payload`` None is a tombstone, an empty ``key`` is none.

    The payload of one that no host published is its bytes.
    """
    own = {name[len(OWN) :]: text for name, text in properties.items() if name.startswith(OWN)}
    numbers = {name: _number(own.get(name, "")) for name in _NUMBERS}
    about: dict[str, Any] = {name: own[name] for name in _TEXTS if name in own}
    about.setdefault("publisher", "")
    about.update({"key": key} if key else {})
    others = {name: text for name, text in properties.items() if not name.startswith(OWN)}
    about.update({"properties": others} if others else {})
    origin = _origin(own.get("origin", ""))
    about.update({"origin": origin} if origin else {})
    kind = DEAD_LETTER if origin else TOMBSTONE if payload is None and key else MESSAGE
    attempts = min(numbers["attempts"], MAX_ATTEMPTS)
    head = Head(kind, attempts, key_hash(key) if key else 0, numbers["due"], numbers["sequence"])
    if payload is None:
        payload = b""
    elif "publisher" not in own or not _is_value(payload):
        payload = pack(payload)
    return encode(head, about, payload)


def _number(text: str) -> int:
    """0 for what no host wrote."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_NUMBER else 0


def _origin(text: str) -> list[Any]:
    parts = text.split(" ")
    return [parts[0], _number(parts[1]), parts[2]] if len(parts) == 3 else []


def _is_value(payload: bytes) -> bool:
    """Other bytes would stop every consumer that gets them."""
    try:
        if payload:
            unpack(payload)
    except WireError:
        return False
    return True
