"""One message on its way from the reader to whoever handles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speed.core.progress import Token
from speed.runtime.inbound import Lane
from speed.runtime.message import Message

Refuse = Callable[[str, str], None]


@dataclass(slots=True)
class Arrival:
    """``acknowledge`` and ``refuse`` answer its sender if it asked for that; ``token`` commits it in ``lane``."""

    message: Message
    is_event: bool
    acknowledge: Callable[[], None]
    refuse: Refuse
    lane: Lane | None = None
    token: Token | None = None
