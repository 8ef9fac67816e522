"""Why a request is not granted, as HTTP says it."""

from __future__ import annotations

from speed.topics.subscription import SubscriptionError

_STATUS = {
    "INVALID_ARGUMENTS": 400,
    "DENIED": 403,
    "UNKNOWN_TOPIC": 404,
    "UNKNOWN_SUBSCRIPTION": 404,
    "TAKEN": 409,
    "FULL": 429,
    "NOT_WRITTEN": 503,
}


class RefusedError(Exception):
    """A handshake that fails: ``status`` of HTTP, and a text for people."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def refused(error: SubscriptionError) -> RefusedError:
    """What the host of the topics refused."""
    return RefusedError(_STATUS.get(error.code, 500), f"{error.code}: {error}")
