"""Nodes of this root under which nodes of other hosts act here: ``at.hosta.analytics`` (H-9)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from speed.errors import InboxFullError
from speed.wire.hosts import stand_in

if TYPE_CHECKING:
    from speed.node import Node

MAX_STAND_INS = 32
END_SECONDS = 1.0


class StandIn:
    """One of them, and how many use it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.uses = 0
        self.has_sent = False
        self.is_answered = False
        """Whether its last call was."""

    @property
    def is_quick(self) -> bool:
        """Whether its lanes have room for sure: they hold nothing but calls that are about to be answered."""
        return self.is_answered and not self.has_sent and not self.node.closed


class StandIns:
    """Made when first needed, and closed for others when they were used longest ago. Thread-safe."""

    def __init__(self, make: Callable[[str], Node], most: int = MAX_STAND_INS) -> None:
        self._make, self._most = make, most
        self._lock = threading.Lock()
        self._all: OrderedDict[tuple[str, str], StandIn] = OrderedDict()
        self._is_over = False

    def take(self, node: str, host: str) -> StandIn:
        """That of a node of another host, until it is given back.

        Raises what ``Node`` does, and InboxFullError if all are in use.
        """
        name = stand_in(node, host)
        with self._lock:
            one = self._all.get((node, host))
            if one is not None and one.node.closed:  # its lease was lost
                del self._all[node, host]
                one = None
            if one is None:
                self._make_room()
                one = self._all[node, host] = StandIn(self._make(name))
            self._all.move_to_end((node, host))
            one.uses += 1
            return one

    def take_quick(self, node: str, host: str) -> StandIn | None:
        """The same if it is there, and a call of it begins without a wait."""
        with self._lock:
            one = self._all.get((node, host))
            if one is None or not one.is_quick:
                return None
            self._all.move_to_end((node, host))
            one.uses += 1
            return one

    def give_back(self, one: StandIn) -> None:
        """It is not used any more."""
        with self._lock:
            one.uses -= 1

    def _make_room(self) -> None:
        if self._is_over:
            raise InboxFullError("the gateway is closed")
        if len(self._all) < self._most:
            return
        idle = next((key for key, one in self._all.items() if not one.uses), None)
        if idle is None:
            raise InboxFullError(f"{self._most} nodes of other hosts are at work here: try again")
        self._all.pop(idle).node.close(drain_seconds=0.0)

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            self._is_over = True
            every = list(self._all.values())
            self._all.clear()
        for one in every:
            if not one.node.closed:
                one.node.close(drain_seconds=END_SECONDS)
