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


class StandIns:
    """Made when first needed, and closed for others when they were used longest ago. Thread-safe."""

    def __init__(self, make: Callable[[str], Node], most: int = MAX_STAND_INS) -> None:
        self._make, self._most = make, most
        self._lock = threading.Lock()
        self._all: OrderedDict[str, StandIn] = OrderedDict()
        self._is_over = False

    def take(self, node: str, host: str) -> StandIn:
        """That of a node of another host, until it is given back.

        Raises what ``Node`` does, and InboxFullError if all are in use.
        """
        name = stand_in(node, host)
        with self._lock:
            one = self._all.get(name)
            if one is None or one.node.closed:
                self._make_room()
                one = self._all[name] = StandIn(self._make(name))
            self._all.move_to_end(name)
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
        idle = next((name for name, one in self._all.items() if not one.uses), None)
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
