"""What a bridge is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from speed.bridges.backend import MAX_MESSAGE_BYTES

TOPICS, EVENTS = "topics", "events"
ROOT = (TOPICS, EVENTS)
"""Ends of bridges in the root."""
KEEPS = ("payload", "message")
MAX_BRIDGES = 64
SERVICE = "bridges.list"
"""Of speedd's node, which tells what its bridges do."""


@dataclass(frozen=True)
class BridgeSettings:
    """``[[bridge]]``: messages that speedd carries from its root to a backend, or from a backend to its root."""

    name: str
    """Its name: in the log, for `speed bridge`, and of what it keeps its position under."""
    source: str = field(repr=False)
    """Where messages come from: `topics` (durable topics of this speedd), `events` (those that its journal records), or
    the address of a backend, as `kafka://host:9092`."""
    target: str = field(repr=False)
    """Where they go: an address, or `topics` or `events`."""
    topics: str
    """The topic, or the topics of a pattern (`orders.*`), that are carried."""
    rename: str = ""
    """What they are called at the other end, as `eu.orders.*`; the same without it."""
    filter: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which messages are wanted: for each field of their metadata its texts, of which one may end with `*`."""
    start: str = "latest"
    """Where a bridge that is new begins: `latest`, or `earliest` with all that is there."""
    group: str = ""
    """Of a backend as the source: the group that keeps the position there; the name of the bridge without it."""
    keep: str = "payload"
    """Into topics: `payload` records what a message holds; `message` all of it, also if it is signed or encrypted."""
    make_topics: bool = False
    """Into topics: whether those that are missing are made. Without it the bridge waits for them."""
    dead_letter: str = ""
    """A durable topic for messages that cannot be carried; it is made. Without it they are logged and dropped."""
    give_up_seconds: float = 0.0
    """How long a message that the target refuses is tried before it is a dead letter; 0 for ever."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Bound of a whole message, in bytes."""

    @property
    def backend(self) -> str:
        """The address among its ends."""
        return self.target if self.source in ROOT else self.source


__all__ = ["BridgeSettings"]
