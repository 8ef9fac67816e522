"""Which of many may hold files open: whoever was used longest ago goes to rest first (L-26)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Awake(Generic[Key]):
    """Those that hold files open, in the order of their last use. Not locked."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: OrderedDict[Key, None] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._keys))

    def use(self, key: Key) -> list[Key]:
        """``key`` is used now: returns those that were used longest ago, to be put to rest for it."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        return [self._keys.popitem(last=False)[0] for _ in range(len(self._keys) - self._most)]

    def rest(self, key: Key) -> None:
        """``key`` holds nothing open any more."""
        self._keys.pop(key, None)
