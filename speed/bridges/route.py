"""Where a bridge carries messages: names, wanted messages, hops (B-12, B-16, B-19). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from speed.errors import ConfigurationError
from speed.wire.message import MessageView
from speed.wire.names import check_topic, matches

MAX_HOPS = 16
HOP_DIGITS = 16
FIELDS = ("publisher", "key", "namespace", "priority", "content_type", "correlation_id")
"""What a filter looks at, beside ``labels.<name>``."""
LABEL = "labels."
_HOPS = re.compile(rf"[0-9a-f]{{{HOP_DIGITS}}}(,[0-9a-f]{{{HOP_DIGITS}}}){{0,{MAX_HOPS - 1}}}", re.ASCII)


class Route:
    """Which topics a bridge carries, and what they are called at the other end.

    >>> Route("orders.*", "eu.orders.*").renamed("orders.created")
    'eu.orders.created'
    """

    def __init__(self, pattern: str, rename: str = "") -> None:
        """ConfigurationError if only one of them has a ``*``."""
        self.pattern, self.rename = pattern, rename or pattern
        if _is_wide(self.pattern) != _is_wide(self.rename):
            raise ConfigurationError("either both have a '*' at their end, or none: write 'orders.*' and 'eu.orders.*'")
        self._kept = len(self.pattern.removesuffix("*"))
        self._before = self.rename.removesuffix("*")

    def covers(self, topic: str) -> bool:
        """Whether messages of a topic are carried."""
        return matches(self.pattern, topic)

    def renamed(self, topic: str) -> str:
        """What a topic that is covered is called at the other end. InvalidNameError if that is too long."""
        if self.pattern == self.rename:
            return topic
        return check_topic(self._before + topic[self._kept :] if _is_wide(self.pattern) else self.rename)


def _is_wide(pattern: str) -> bool:
    return pattern.endswith("*")


class Filter:
    """Which messages are wanted: each field has one of its texts, of which one may end with ``*``."""

    def __init__(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """ConfigurationError for a field that there is not."""
        unknown = [name for name in wanted if name not in FIELDS and not (name.startswith(LABEL) and name != LABEL)]
        if unknown:
            raise ConfigurationError(f"there is no field {min(unknown)!r}: use {', '.join(FIELDS)} or labels.NAME")
        self._wanted = tuple(wanted.items())

    def wants(self, envelope: bytes, key: str | None) -> bool:
        """Whether a valid message is wanted. Its payload is not looked at."""
        if not self._wanted:
            return True
        view = MessageView(envelope)
        return all(_fits(_said(view, key, name), texts) for name, texts in self._wanted)


def _said(view: MessageView, key: str | None, name: str) -> str | None:
    if name.startswith(LABEL):
        return view.labels.get(name[len(LABEL) :])
    said: Mapping[str, str | None] = {
        "publisher": view.publisher_id,
        "key": key,
        "namespace": view.namespace,
        "priority": str(view.priority),
        "content_type": view.content_type,
        "correlation_id": view.correlation_id,
    }
    return said[name]


def _fits(said: str | None, texts: Sequence[str]) -> bool:
    if said is None:
        return False
    return any(said.startswith(text[:-1]) if text.endswith("*") else said == text for text in texts)


def hop_of(*parts: str) -> str:
    """The hop of a place that has no lane id."""
    return sha256("\0".join(parts).encode()).hexdigest()[:HOP_DIGITS]


def hop_of_lane(lane: str) -> str:
    """The hop of a durable topic."""
    return lane[:HOP_DIGITS]


def read_hops(text: str) -> tuple[str, ...]:
    """What stands beside a message; anything else than hops is none."""
    return tuple(text.split(",")) if _HOPS.fullmatch(text) else ()


def write_hops(hops: Sequence[str]) -> str:
    """As it stands beside a message."""
    return ",".join(hops)


__all__ = ["Filter", "Route"]
