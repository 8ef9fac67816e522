"""Serial queues, one per sender: items of one sender run one after another, senders run side by side (rule S-5)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class SenderOrder(Generic[Item]):
    """Which item of which sender may run now. Not locked: the caller's lock covers every method."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A sender is present exactly while one of its items runs; the deque holds those behind it.
        self._waiting: dict[str, deque[Item]] = {}

    def push(self, sender: str, item: Item) -> bool:
        """True: run ``item`` now and call `done` afterwards. False: it waits and `done` will hand it out."""
        queue = self._waiting.get(sender)
        if queue is None:
            self._waiting[sender] = deque()
            return True
        queue.append(item)
        return False

    def done(self, sender: str) -> Item | None:
        """The running item of ``sender`` ended: returns the next one to run, None when none waits."""
        queue = self._waiting.get(sender)
        if queue:
            return queue.popleft()
        self._waiting.pop(sender, None)
        return None

    def drop(self, sender: str) -> tuple[Item, ...]:
        """Give back all waiting items of ``sender`` (it was denied); the running one still ends with `done`."""
        queue = self._waiting.get(sender)
        if not queue:
            return ()
        items = tuple(queue)
        queue.clear()
        return items

    def waiting(self, sender: str) -> int:
        """How many items of ``sender`` wait behind the running one."""
        return len(self._waiting.get(sender, ()))

    def __len__(self) -> int:
        """How many senders have a running item."""
        return len(self._waiting)
