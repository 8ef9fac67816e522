"""One event to many nodes: who has room gets it at once, the others within one bound for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from speed.core.access import granted
from speed.core.log import logger
from speed.errors import AccessDeniedError, InboxFullError, SpeedError
from speed.runtime.published import Published
from speed.wire.entry import Entry
from speed.wire.names import matches

log = logger("speed.messages")

Send = Callable[[str, float], object]
"""Sends the event to one node, waiting for room until a time (monotonic seconds)."""


def subscribers(entries: Iterable[Entry], topic: str, publisher: str) -> tuple[list[str], list[str]]:
    """Nodes that subscribe to ``topic``: those that allow the publisher, and those that do not."""
    allowed: list[str] = []
    denied: list[str] = []
    for entry in entries:
        if entry.name == publisher or entry.status == "leaving":
            continue
        if any(matches(pattern, topic) for pattern in entry.subscriptions):
            if granted(entry.allow, publisher):
                allowed.append(entry.name)
            elif entry.status == "online":  # one that is starting has not said yet whom it allows
                denied.append(entry.name)
    return allowed, denied


def publish_to(
    entries: Iterable[Entry], topic: str, publisher: str, send: Send, timeout_seconds: float, *, waits: bool
) -> Published:
    """Send to all; who is full comes last, and is left out unless ``waits``."""
    deadline = monotonic() + timeout_seconds
    allowed, denied = subscribers(entries, topic, publisher)
    failed = dict.fromkeys(denied, AccessDeniedError.code)
    delivered: list[str] = []
    full: list[str] = []

    def try_to_send(name: str, until: float) -> None:
        try:
            send(name, until)
        except InboxFullError:
            full.append(name)
        except SpeedError as error:
            failed[name] = error.code
            log.warning("an event of %s did not reach %s: %s", topic, name, error)
        else:
            delivered.append(name)

    for name in allowed:
        try_to_send(name, monotonic())
    if waits:
        behind, full = full, []
        for name in behind:
            try_to_send(name, deadline)
    for name in full:
        failed[name] = InboxFullError.code
        log.warning("an event of %s did not reach %s: its inbox is full", topic, name)
    return Published(delivered, failed)
