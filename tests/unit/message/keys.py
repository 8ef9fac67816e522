"""What the tests of protected messages share: keys, a message, a way to open one."""

from __future__ import annotations

from functools import cache
from typing import Any

from speed.message.keys import MessageKey, generate_key, key_of_record
from speed.message.protect import OpenedView, Protection, open_view, protect_message
from speed.message.view import MessageView
from tests.vectors import load

BASE: dict[str, Any] = {
    "topic": "orders.created",
    "namespace": "default",
    "message_id": "0190-1",
    "published_at_ms": 1_700_000_000_000,
    "publisher_id": "billing",
}


@cache
def key(name: str) -> MessageKey:
    """A key of the algorithm; RSA's are those of the vectors, for making one takes seconds."""
    for record in load("encryption")["keys"]:
        if record["algorithm"] == name:
            return key_of_record(record)
    return generate_key(f"{name}-1", name, publishers=("billing",))


def protected(payload: Any, **protection: Any) -> MessageView:
    return MessageView(protect_message(payload, Protection(**protection), **BASE)).validate()


def opened(view: MessageView, *keys: MessageKey, fips_mode: str = "off") -> OpenedView:
    return open_view(view, {one.id: one for one in keys}.get, fips_mode)
