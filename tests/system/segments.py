"""A sender that chooses its segments, for the tests of segments."""

from __future__ import annotations

import os
from time import monotonic
from typing import Any

import speed
from speed.engine.python.node import PythonEngine
from speed.message.writing import encode_message, new_message_id
from speed.segment import Segment, write_segment
from speed.wire.envelope import FLAG_SEGMENT, EnvelopeType

WAIT = 30.0


def engine(node: speed.Node) -> PythonEngine:
    assert isinstance(node._engine, PythonEngine)
    return node._engine


def counters(node: speed.Node) -> dict[str, int]:
    return dict(node.stats()["counters"])


def message(payload: Any, **more: Any) -> bytes:
    """An encoded message, each time another."""
    identifier = new_message_id(1_700_000_000_123, os.urandom(16))
    said: dict[str, Any] = {"topic": "t", "namespace": "default", "message_id": identifier, **more}
    return encode_message(payload, published_at_ms=1_700_000_000_123, **said)


class Outsider:
    """A sender that chooses which segments it sends, and in which order; whatever it is granted, once it was."""

    def __init__(self, node: speed.Node) -> None:
        self.node = node
        self._link: Any = None

    def write(self, segments: list[Segment], flags: int = 0, type_: int = EnvelopeType.MESSAGE) -> None:
        for segment in segments:
            self.raw(write_segment(segment), flags, type_)

    def raw(self, data: bytes, flags: int = 0, type_: int = EnvelopeType.MESSAGE) -> None:
        self._link = self._link or engine(self.node)._parts.links.granted("billing")
        self._link.send(type_, flags | FLAG_SEGMENT, data, monotonic() + WAIT)

    def settled(self) -> dict[str, int]:
        """The receiver's counters once it has read all that was written."""
        self.node.ping("billing", timeout=WAIT)
        return dict(self.node.stats("billing", timeout=WAIT)["counters"])
