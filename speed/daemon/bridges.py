"""The bridges of a running speedd, of which there may be none; what carries is loaded only for the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from speed import Node
from speed.bridges.settings import EVENTS, TOPICS, BridgeSettings
from speed.daemon.config import Config
from speed.daemon.hosting import Hosting
from speed.daemon.recording import Recording
from speed.daemon.surroundings_check import key_path
from speed.wire.names import bridges_node

if TYPE_CHECKING:
    from speed.daemon.bridging import Bridging


class Bridges:
    """What ``[[bridge]]`` asks for, now and after a reload."""

    def __init__(self, config: Config, node: Node, hosting: Hosting | None, recording: Recording | None) -> None:
        """Carries nothing before ``change`` says what."""
        self._config, self._node = config, node
        self._hosting, self._recording = hosting, recording
        self._bridging: Bridging | None = None

    def can_change(self, wanted: Sequence[BridgeSettings]) -> bool:
        """Whether the topics and the journal that they need are there."""
        needs_topics = any(TOPICS in (one.source, one.target) or one.dead_letter for one in wanted)
        needs_journal = any(one.source == EVENTS for one in wanted)
        return (self._hosting is not None or not needs_topics) and (self._recording is not None or not needs_journal)

    def change(self, wanted: Sequence[BridgeSettings]) -> dict[str, list[str]]:
        """Carry what is ``wanted``, and no more: the names of bridges that were begun, replaced and ended.

        Raises ConfigurationError, StorageError, and what ``Node`` does; then all is as before.
        """
        if self._bridging is None:
            from speed.daemon.bridging import Bridging

            key = key_path(self._config)
            self._bridging = Bridging(self._config, self._node, key, self._hosting, self._recording)
        return self._bridging.change(wanted)

    def metrics(self) -> list[str]:
        """The counters of each bridge, and how it is now, as Prometheus reads them."""
        return [] if self._bridging is None else self._bridging.metrics()

    @property
    def is_lost(self) -> bool:
        """Whether another process has the name of the node that publishes events."""
        return self._bridging is not None and self._bridging.is_lost

    @property
    def node_name(self) -> str:
        """That of the node that publishes events."""
        return bridges_node(self._node.name)

    def close(self) -> None:
        """Carry no more."""
        if self._bridging is not None:
            self._bridging.close()


__all__ = ["Bridges"]
