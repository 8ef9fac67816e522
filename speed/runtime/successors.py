"""Calls whose server was replaced: its successor is asked which of them it has (S-21).

What a server that died had begun is answered by nobody, and one that is back at once is never found gone.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Any

from speed.core.pending import PendingCall
from speed.errors import InvalidArgumentsError, SpeedError
from speed.runtime.calls import Calls
from speed.runtime.context import Context
from speed.runtime.dispatch import node_left
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_WITHDRAWN_IDS

_ANSWER_SECONDS = 1.0


class Successors:
    """Asked by the registry thread; what comes back is taken by the thread that reads."""

    def __init__(self, context: Context, calls: Calls) -> None:
        self._context = context
        self._calls = calls

    def ask(self, target: str, generation: int) -> None:
        """Ask the present life of ``target`` for the calls that were written to an earlier one."""
        older = [call for call in self._context.pending.to(target) if 0 < call.life < generation]
        for first in range(0, len(older), MAX_WITHDRAWN_IDS):
            self._ask_for(target, generation, older[first : first + MAX_WITHDRAWN_IDS])

    def _ask_for(self, target: str, generation: int, asked: list[PendingCall]) -> None:
        body = {"op": "REQUESTS", "requestIds": [call.key for call in asked]}
        deadline = monotonic() + _ANSWER_SECONDS
        told = partial(self._told, generation, asked)
        try:
            self._calls.begin_to_ask(target, EnvelopeType.DISCOVERY, body, deadline, told, urgent=True)
        except (SpeedError, OSError):
            self._context.stats.count("questions_unasked")  # asked again with the next look

    def _told(self, generation: int, asked: list[PendingCall], outcome: Any) -> None:
        """Twice unknown means gone: the first time the answer may have been on its way."""
        named = outcome.get("requestIds") if isinstance(outcome, dict) else None
        if not isinstance(named, list) and not isinstance(outcome, InvalidArgumentsError):
            return
        gone: list[PendingCall] = []
        for call in asked:
            if named is None or call.key in named:
                call.life = generation
            elif call.missed_by == generation:
                gone.append(call)
            else:
                call.missed_by = generation
        for call in gone:
            self._context.pending.fail([call], node_left(call.target))
