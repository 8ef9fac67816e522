"""What every message says beside what its program says of it: id, time, publisher and the trace at hand (M-5, M-13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speed.errors import ConfigurationError
from speed.runtime.context import unix_ms
from speed.runtime.options import MESSAGE_OPTIONS
from speed.runtime.tracing import current_trace
from speed.wire.seal import random_bytes


def described(options: Mapping[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """The arguments of ``encode_message``, with a new ``message_id``; ConfigurationError for no message option."""
    from speed.wire.message import new_message_id  # imported by those who send only

    unknown = options.keys() - MESSAGE_OPTIONS
    if unknown:
        raise ConfigurationError(
            f"no such message option: {', '.join(sorted(unknown))}; there are {sorted(MESSAGE_OPTIONS)}"
        )
    now = unix_ms()
    return {
        "topic": "message",
        "namespace": namespace,
        "message_id": new_message_id(now, random_bytes(16)),
        "published_at_ms": now,
        "publisher_id": name,
        **options,
        "traceparent": options["traceparent"] if "traceparent" in options else current_trace(),
    }
