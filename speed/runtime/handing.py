"""What is looked at before a message is handed to the program, wherever it waited (M-7, M-34)."""

from __future__ import annotations

from speed.core.log import logger
from speed.message.errors import NamespaceError
from speed.runtime.arrival import Arrival
from speed.runtime.context import Context, unix_ms

log = logger("speed.messages")

_EXPIRED = "the message expired before it was handled"
_SAID_SECONDS = 60.0
ALL_NAMESPACES = "*"


def may_be_handed(context: Context, arrival: Arrival) -> bool:
    """Whether the program may have the message; else it is counted, its sender is told, and it is finished.

    Of a dead letter that is not asked: it was handed over before, and somebody asked for another try.
    """
    return arrival.letter is not None or not (is_expired(context, arrival) or _is_of_others(context, arrival))


def is_expired(context: Context, arrival: Arrival) -> bool:
    """Whether its time is over; then it is finished as well."""
    assert arrival.message is not None
    if not arrival.message.metadata.is_expired(unix_ms()):
        return False
    text = "a message of %s expired before it was handled"
    context.said.warn(log, "expired", text, arrival.source, seconds=_SAID_SECONDS)
    _refuse(context, arrival, "messages_expired", "EXECUTION_FAILED", _EXPIRED)
    return True


def _is_of_others(context: Context, arrival: Arrival) -> bool:
    """Whether it is of a namespace that this node does not take."""
    assert arrival.message is not None
    namespace = arrival.message.metadata.namespace
    taken = context.accept_namespaces
    if namespace in taken or ALL_NAMESPACES in taken:
        return False
    why = f"namespace: {namespace!r} is not taken by {context.name!r}"
    context.said.warn(log, "namespace", "a message of %s is refused: %s", arrival.source, why, seconds=_SAID_SECONDS)
    _refuse(context, arrival, "messages_refused", "INVALID_ARGUMENTS", f"{NamespaceError.code}: {why}")
    return True


def _refuse(context: Context, arrival: Arrival, counter: str, code: str, text: str) -> None:
    context.stats.count(counter)
    arrival.refuse(code, text)
    arrival.finish()
