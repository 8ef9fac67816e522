"""Messages as Pulsar's client gives them, as their readers get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from speed.topics.cluster.places import Place
from speed.topics.cluster.records import record
from speed.topics.group import Stored

if TYPE_CHECKING:
    import pulsar


class Received(NamedTuple):
    """A message, and where it lies."""

    place: Place
    stored: Stored


def received(message: pulsar.Message) -> Received:
    """Raises SubscriptionError UNSUPPORTED for one that has no offset."""
    id_ = message.message_id()
    place = Place(id_.ledger_id(), id_.entry_id(), id_.batch_index())
    payload = None if message.has_null_value() else message.data()
    try:
        key, properties = message.partition_key(), message.properties()
    except UnicodeDecodeError:  # of another program: it comes without what is no text
        key, properties = "", {}
    return Received(place, Stored(place.offset, message.publish_timestamp(), record(payload, key, properties)))
