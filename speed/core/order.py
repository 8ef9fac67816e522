"""Serial queues, one per sender: items of one sender run one after another, senders run side by side (rule S-5)."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
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


class ByPriority(Generic[Item]):
    """Items that may run: the highest priority first, those of one priority as they came (M-33). Not locked."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._number = count()

    def push(self, priority: int, item: Item) -> None:
        heappush(self._heap, (-priority, next(self._number), item))

    def pop(self) -> Item:
        """The next one; IndexError if there is none."""
        return heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


class SenderHeads(Generic[Item]):
    """Items that wait to be fetched: in order for each sender, of different senders the highest priority first.

    Not locked.
    """

    __slots__ = ("_behind", "_heads")

    def __init__(self) -> None:
        self._heads: ByPriority[tuple[str, Item]] = ByPriority()
        self._behind: SenderOrder[tuple[int, Item]] = SenderOrder()

    def push(self, sender: str, priority: int, item: Item) -> None:
        if self._behind.push(sender, (priority, item)):
            self._heads.push(priority, (sender, item))

    def pop(self) -> Item:
        """The next one, whose sender's following takes its place; IndexError if there is none."""
        sender, item = self._heads.pop()
        following = self._behind.done(sender)
        if following is not None:
            self._heads.push(following[0], (sender, following[1]))
        return item

    def __len__(self) -> int:
        """How many senders have an item here."""
        return len(self._heads)
