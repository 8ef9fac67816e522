"""Messages that tasks of asyncio have in their hands."""

from __future__ import annotations

import asyncio
from typing import Any

from speed.runtime.message import Message


class InHand:
    """What each task received last; finished when that task asks again or, once it has ended, when any task does.

    Thread-safe: a node may serve several event loops.
    """

    def __init__(self) -> None:
        self._of: dict[asyncio.Task[Any] | None, Message] = {}

    def give(self, message: Message) -> Message:
        self._of[asyncio.current_task()] = message
        return message

    def over(self) -> list[Message]:
        """What is to be finished now that this task asks again."""
        this = asyncio.current_task()
        over = [task for task in list(self._of) if task is this or task is None or task.done()]
        return [message for task in over if (message := self._of.pop(task, None)) is not None]

    def all(self) -> list[Message]:
        """The same at the end of the node."""
        found = []
        while self._of:
            found.append(self._of.popitem()[1])
        return found
