"""What happens with an encrypted message: it is opened, or its ``cryptoFailureAction`` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from speed.errors import SpeedError
from speed.gateway.counters import Counters
from speed.gateway.frames import Delivery
from speed.gateway.held_keys import HeldKeys
from speed.gateway.limits import KEYS_AWAY_SECONDS
from speed.gateway.topics import set_within
from speed.message.errors import KeyUnavailableError

CONSUME = "CONSUME"


class Fate(Enum):
    """What becomes of a message."""

    TOLD = "it is sent"
    HIDDEN = "FAIL"
    """It is not sent, and not acknowledged either."""
    DISCARDED = "DISCARD"
    """It is acknowledged, and not sent."""


class Opener:
    """Opens messages for one consumer or reader; without any keys they are sent as they are."""

    def __init__(self, held: HeldKeys, action: str, counters: Counters) -> None:
        """``action`` is FAIL, DISCARD or CONSUME."""
        self._held, self._action, self._counters = held, action, counters
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Wait for no more keys."""
        self._ended.set()

    async def open(self, topic: str, row: Sequence[Any], message: Delivery) -> Fate:
        """Open ``message``, which is the host's ``row`` of ``topic``; while its keys are away it waits for them."""
        context = message.encryption_context
        if not self._held or isinstance(context, msgspec.UnsetType):
            return Fate.TOLD
        while not self._ended.is_set():
            try:
                message.payload = await self._held.opened(topic, row[2], context, message.payload)
            except KeyUnavailableError:
                if self._action == CONSUME:
                    return Fate.TOLD
                await set_within(self._ended, KEYS_AWAY_SECONDS)
            except SpeedError:
                self._counters.count("gateway_messages_unopened")
                return Fate.TOLD if self._action == CONSUME else Fate(self._action)
            else:
                message.encryption_context = msgspec.UNSET
                return Fate.TOLD
        return Fate.HIDDEN
