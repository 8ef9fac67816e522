"""Message envelopes of outgoing messages and events: ids, times and the trace at hand are filled in (M-2)."""

from __future__ import annotations

import os
from typing import Any

from speed.errors import ConfigurationError
from speed.runtime.context import Context, unix_ms
from speed.runtime.tracing import current_traceparent
from speed.wire.message import encode_message, new_message_id

OPTIONS = frozenset(
    {
        "topic",
        "priority",
        "ttl_seconds",
        "correlation_id",
        "causality_parent",
        "traceparent",
        "labels",
        "baggage",
        "extensions",
    }
)


def encode(context: Context, payload: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
    """The id and the bytes of one message; ConfigurationError for metadata that does not exist."""
    unknown = metadata.keys() - OPTIONS
    if unknown:
        raise ConfigurationError(f"no such message option: {', '.join(sorted(unknown))}; there are {sorted(OPTIONS)}")
    now = unix_ms()
    message_id = new_message_id(now, os.urandom(16))
    metadata.setdefault("traceparent", current_traceparent.get())
    encoded = encode_message(
        payload,
        namespace=context.namespace,
        message_id=message_id,
        published_at_ms=now,
        publisher_id=context.name,
        **metadata,
    )
    return message_id, encoded
