"""Messages whose time to live is over: never handed out, wherever they waited (M-7)."""

from __future__ import annotations

from speed.core.log import logger
from speed.runtime.arrival import Arrival
from speed.runtime.context import Context, unix_ms

log = logger("speed.messages")

_TEXT = "the message expired before it was handled"
_SAID_SECONDS = 60.0


def is_expired(context: Context, arrival: Arrival) -> bool:
    """Whether the message is over; then it is counted, its sender is told, and it is finished.

    A dead letter is not judged: it is there because somebody asked for another try.
    """
    assert arrival.message is not None
    if arrival.letter is not None or not arrival.message.metadata.is_expired(unix_ms()):
        return False
    context.stats.count("messages_expired")
    text = "a message of %s expired before it was handled"
    context.said.warn(log, "expired", text, arrival.source, seconds=_SAID_SECONDS)
    arrival.refuse("EXECUTION_FAILED", _TEXT)
    arrival.finish()
    return True
