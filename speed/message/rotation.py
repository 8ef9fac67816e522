"""The next key of a set: two keys overlap while both sides learn of the new one (M-26)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from speed.message.errors import KeyRefusedError
from speed.message.keys import MAX_SET_KEYS, MessageKey, generate_key


def is_due(keys: Sequence[MessageKey], now_ms: int, period_ms: int) -> bool:
    """Whether the newest key is older than the period."""
    return max(key.not_before_ms for key in keys) + period_ms <= now_ms


def rotated(keys: Sequence[MessageKey], now_ms: int, overlap_ms: int, ahead_ms: int = 0) -> tuple[MessageKey, ...]:
    """The set with a new key that begins ``ahead_ms`` from now; older ones end ``overlap_ms`` after that.

    Keys that have ended are dropped. The new key's bounds are those of the newest one, after which it begins. Its id is
    that one's, up to the last dot, with the time it begins. KeyRefusedError for a set that has no room for it.
    """
    if not keys:
        raise KeyRefusedError("a set without keys cannot be rotated: make its first key")
    newest = max(keys, key=lambda key: key.not_before_ms)
    kept = [key for key in keys if key.not_after_ms is None or key.not_after_ms >= now_ms]
    if len(kept) >= MAX_SET_KEYS:
        raise KeyRefusedError(f"the set has {len(kept)} keys, and no more are read: wait until one has ended")
    begins = max(now_ms + ahead_ms, newest.not_before_ms + 1)  # no two keys begin at once, or have one id
    fresh = generate_key(
        f"{newest.id.rpartition('.')[0] or newest.id}.{_stamp(begins)}",
        newest.algorithm.name,
        namespaces=newest.namespaces,
        topics=newest.topics,
        publishers=newest.publishers,
        not_before_ms=begins,
    )
    return (*(_ending(key, begins + overlap_ms) for key in kept), fresh)


def _stamp(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y%m%dT%H%M%S") + f"{milliseconds:03}"


def _ending(key: MessageKey, at_ms: int) -> MessageKey:
    return replace(key, not_after_ms=at_ms if key.not_after_ms is None else min(key.not_after_ms, at_ms))
