"""Spans of time that a program gives, as numbers that no sum of them with a clock overflows."""

from __future__ import annotations

from typing import Any

from speed.errors import ConfigurationError

MOST = 1e9


def checked_seconds(what: str, seconds: Any) -> float:
    """``seconds`` of the parameter ``what``; below 0 they are over already.

    Raises ConfigurationError for what is no number, for NaN, infinity, and a span of 10^9 seconds or more.
    """
    if not isinstance(seconds, int | float) or not -MOST < seconds < MOST:
        raise ConfigurationError(f"{what} is {seconds!r}; use a number of seconds below {MOST:.0f}")
    return seconds


def milliseconds(what: str, seconds: Any) -> int:
    """Likewise, whole milliseconds as they travel, 0 at least."""
    return max(0, round(checked_seconds(what, seconds) * 1000))
