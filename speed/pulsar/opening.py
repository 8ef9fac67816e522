"""A delivered payload opened: decrypted, then uncompressed, then split, in this order."""

from __future__ import annotations

from dataclasses import dataclass, field

from speed.message.errors import EncryptionError, NoRecipientKeyError
from speed.pulsar import batch, compression
from speed.pulsar.crypto import Decryptor
from speed.pulsar.frames import Delivery, EncryptionContext


@dataclass(frozen=True, eq=False)
class PulsarMessage:
    """A message of a topic.

    Attributes:
        message_id: what the server calls it; messages of one batch share it.
        payload: its bytes; None for a null value in a batch.
        key, properties, event_time_ms: what its publisher wrote; 0 without a time.
        publish_time: when the server took it, in ISO 8601.
        redelivery_count: how often it was delivered before.
        batch_index: its place in an encrypted batch; None outside one.
        encryption: set if the payload is still encrypted.
    """

    message_id: str
    payload: bytes | None = field(repr=False)
    key: str | None
    properties: dict[str, str]
    event_time_ms: int
    publish_time: str
    redelivery_count: int
    batch_index: int | None = None
    encryption: EncryptionContext | None = None
    unfinished: set[int] = field(default_factory=set, repr=False)

    def finish(self) -> bool:
        """Whether with this one the whole delivery is acknowledged."""
        self.unfinished.discard(self.batch_index or 0)
        return not self.unfinished


def closed(delivery: Delivery) -> PulsarMessage:
    """The message as it came."""
    return PulsarMessage(
        delivery.message_id,
        delivery.payload,
        delivery.key,
        delivery.properties,
        delivery.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
        encryption=delivery.encryption,
    )


def opened(delivery: Delivery, decryptor: Decryptor | None, most: int, is_told: bool = True) -> list[PulsarMessage]:
    """The messages in a delivery: one, or those of a batch. Raises MessageErrors for what cannot be opened.

    ``is_told`` is whether the server tells of each payload if it is encrypted.
    """
    context = delivery.encryption
    if context is None:
        if decryptor is not None and not is_told:
            raise EncryptionError(
                "the server does not say whether this is encrypted: use a consumer instead of a reader"
            )
        return [closed(delivery)]
    if decryptor is None:
        raise NoRecipientKeyError("the payload is encrypted: give this consumer private_keys")
    compressed = decryptor.decrypt(delivery.payload, context.keys, context.iv)
    plain = compression.uncompress(context.compression, compressed, context.uncompressed_bytes, most)
    if context.batch_size is None:
        return [_message(delivery, plain)]
    singles = batch.split(plain, context.batch_size)
    unfinished = set(range(len(singles)))
    return [_of_batch(delivery, single, index, unfinished) for index, single in enumerate(singles)]


def _message(delivery: Delivery, payload: bytes) -> PulsarMessage:
    return PulsarMessage(
        delivery.message_id,
        payload,
        delivery.key,
        delivery.properties,
        delivery.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
    )


def _of_batch(delivery: Delivery, single: batch.Single, index: int, unfinished: set[int]) -> PulsarMessage:
    return PulsarMessage(
        delivery.message_id,
        single.payload,
        single.key,
        single.properties,
        single.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
        index,
        None,
        unfinished,
    )
