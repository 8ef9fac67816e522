"""What the metadata of a message must look like; the same check on both sides (rules M-5, M-6, M-8, M-9)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from speed.errors import WireError
from speed.wire.content import CUSTOM
from speed.wire.limits import MAX_MESSAGE_ID_BYTES, MAX_NAMESPACE_BYTES, MAX_TOPIC_BYTES

MAX_PRIORITY = 10

_TOPIC = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*").fullmatch


def check_metadata(metadata: Any) -> None:
    """Check a MessageMetadata, parsed or about to be written; WireError(BAD_MESSAGE) names the field."""
    _check_text("message_id", metadata.message_id, MAX_MESSAGE_ID_BYTES)
    _check_names(metadata.topic, metadata.namespace)
    if metadata.published_at_ms <= 0:
        raise WireError("BAD_MESSAGE", "published_at_ms: is required and greater than zero")
    if not 0 <= metadata.priority <= MAX_PRIORITY:
        raise WireError("BAD_MESSAGE", f"priority: {metadata.priority} is outside 0..{MAX_PRIORITY}")
    if metadata.ttl_seconds < 0:
        raise WireError("BAD_MESSAGE", "ttl_seconds: is negative")
    if metadata.content_type == CUSTOM and not metadata.content_type_custom:
        raise WireError("BAD_MESSAGE", "content_type_custom: is required when content_type is CUSTOM")
    if metadata.content_encoding == CUSTOM and not metadata.content_encoding_custom:
        raise WireError("BAD_MESSAGE", "content_encoding_custom: is required when content_encoding is CUSTOM")


@lru_cache(maxsize=256)
def _check_names(topic: str, namespace: str) -> None:
    """Of most messages the same; what is refused is not remembered."""
    _check_text("topic", topic, MAX_TOPIC_BYTES)
    if not _TOPIC(topic):
        raise WireError("BAD_MESSAGE", f"topic: {topic!r} is not dot-separated parts of [A-Za-z0-9_-]")
    _check_text("namespace", namespace, MAX_NAMESPACE_BYTES)


def _check_text(field: str, text: str, most: int) -> None:
    if not text:
        raise WireError("BAD_MESSAGE", f"{field}: is required and not empty")
    if len(text) > most or (not text.isascii() and len(text.encode()) > most):
        raise WireError("BAD_MESSAGE", f"{field}: is longer than {most} bytes")
