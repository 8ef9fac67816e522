"""A message of a durable topic as one of Pulsar, and back; their offsets. Pure (D-21, D-22).

So a program that uses Pulsar's own client reads what a node published, and a node what such a program did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.errors import WireError
from speed.topics.backend import StoredMessage
from speed.topics.subscription import SubscriptionError
from speed.wire.topic import DEAD_LETTER, MAX_ATTEMPTS, MESSAGE, TOMBSTONE, RecordHead, decode, encode, key_hash
from speed.wire.value import pack, unpack

if TYPE_CHECKING:
    import pulsar


# Offsets of messages that lie in Pulsar: the parts of a message's id, made one number. Pure (D-21).

LEDGER_BITS, ENTRY_BITS, BATCH_BITS = 31, 24, 8


class MessagePosition(NamedTuple):
    """Where a message lies, in the order of its topic. ``batch`` is -1 of one that is alone in its entry."""

    ledger: int
    entry: int
    batch: int = -1

    @property
    def offset(self) -> int:
        """63 bits. Raises SubscriptionError UNSUPPORTED if a part needs more than its share."""
        ledger, entry, batch = self.ledger, max(self.entry, 0), max(self.batch, 0)
        if ledger >> LEDGER_BITS or entry >> ENTRY_BITS or batch >> BATCH_BITS:
            text = f"the message {ledger}:{entry}:{batch} of Pulsar has no offset: its numbers are too large; "
            todo = f"batches of other producers may hold {1 << BATCH_BITS} messages, and ledgers {1 << ENTRY_BITS}"
            raise SubscriptionError("UNSUPPORTED", text + todo)
        return (ledger << ENTRY_BITS | entry) << BATCH_BITS | batch

    @classmethod
    def of(cls, offset: int) -> MessagePosition:
        """The first place that an offset may mean."""
        entry = offset >> BATCH_BITS
        batch = offset & (1 << BATCH_BITS) - 1
        return cls(entry >> ENTRY_BITS, entry & (1 << ENTRY_BITS) - 1, batch or -1)

    @classmethod
    def read(cls, text: str) -> MessagePosition:
        """Of ``ledger:entry``, as Pulsar's statistics write it. ValueError for anything else."""
        ledger, entry = text.split(":")[:2]
        return cls(int(ledger), int(entry))

    @property
    def next_entry(self) -> MessagePosition:
        """The entry that comes next, if its ledger goes on."""
        return MessagePosition(self.ledger, self.entry + 1)


OWN = "speed."
"""How the names of the host's own properties begin."""
_TEXTS = ("publisher", "producer", "owner")
_NUMBERS = ("sequence", "due", "attempts")
MAX_NUMBER = (1 << 63) - 1


class PulsarRecord(NamedTuple):
    """What Pulsar gets; ``payload`` is None of a tombstone."""

    payload: bytes | None
    key: str | None
    properties: dict[str, str]
    sequence: int


def outgoing(record: bytes) -> PulsarRecord:
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
    return PulsarRecord(None if head.type == TOMBSTONE else payload, about.get("key"), properties, head.sequence)


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
    head = RecordHead(kind, attempts, key_hash(key) if key else 0, numbers["due"], numbers["sequence"])
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


class ReceivedRecord(NamedTuple):
    """A message, and where it lies."""

    place: MessagePosition
    stored: StoredMessage


def received(message: pulsar.Message) -> ReceivedRecord:
    """Raises SubscriptionError UNSUPPORTED for one that has no offset."""
    id_ = message.message_id()
    place = MessagePosition(id_.ledger_id(), id_.entry_id(), id_.batch_index())
    payload = None if message.has_null_value() else message.data()
    try:
        key, properties = message.partition_key(), message.properties()
    except UnicodeDecodeError:  # of another program: it comes without what is no text
        key, properties = "", {}
    return ReceivedRecord(
        place, StoredMessage(place.offset, message.publish_timestamp(), record(payload, key, properties))
    )
