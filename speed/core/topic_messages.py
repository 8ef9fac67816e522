"""What a publisher sends to the host of a durable topic (D-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from speed.errors import ConfigurationError
from speed.wire.seconds import milliseconds
from speed.wire.value import pack

BATCH_MESSAGES = 1000
BATCH_BYTES = 4 << 20


def due_ms(after: float | None, at_ms: int | None, now_ms: int) -> int:
    """When a message is due, in Unix milliseconds; 0 for at once. ConfigurationError where both are given."""
    if after is not None and at_ms is not None:
        raise ConfigurationError("deliver_after and deliver_at_ms are both given: use one of them")
    if after is not None:
        return now_ms + milliseconds("deliver_after", after)
    return at_ms or 0


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
