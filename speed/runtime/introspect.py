"""Answers to DISCOVERY questions, shaped like the NATS service contract: INFO, STATS, SERVICES (S-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speed.core.services import ServiceRegistry
from speed.runtime.context import Context, unix_ms


class Introspection:
    """What a node tells of itself to a node that it allows."""

    def __init__(self, context: Context, services: ServiceRegistry) -> None:
        self._context = context
        self._services = services
        self.senders: Callable[[], list[str]] = list
        """Names of the nodes whose lanes are open; known once the protocol part exists."""
        self.lane_counts: Callable[[], dict[str, int]] = dict
        """What was dropped from lanes, by reason; known once the protocol part exists."""
        self._operations: dict[str, Callable[[str], dict[str, Any]]] = {
            "INFO": self._info,
            "STATS": self._stats,
            "SERVICES": self._list,
        }

    def answer(self, operation: str, asker: str) -> dict[str, Any] | None:
        """The result for ``operation``; None if there is no such operation."""
        ask = self._operations.get(operation)
        return None if ask is None else ask(asker)

    def _info(self, asker: str) -> dict[str, Any]:
        entry = self._context.registration.entry
        return {
            "name": entry.name,
            "nodeId": entry.id.hex(),
            "generation": entry.generation,
            "language": entry.language,
            "version": entry.version,
            "pid": entry.pid,
            "host": entry.host,
            "fabrics": list(entry.fabrics),
            "startupTimestamp": entry.startup_timestamp,
            "services": list(self._services.names(asker)),
            "features": list(entry.features),
        }

    def _list(self, asker: str) -> dict[str, Any]:
        """Only what the asker may call: others cannot learn what exists (A-5)."""
        return {"services": list(self._services.names(asker))}

    def _stats(self, asker: str) -> dict[str, Any]:
        visible = set(self._services.names(asker))
        snapshot = self._context.stats.snapshot()
        snapshot["services"] = {name: row for name, row in snapshot["services"].items() if name in visible}
        snapshot["counters"] |= self.lane_counts()
        started = self._context.registration.entry.startup_timestamp
        return {
            "name": self._context.name,
            "uptimeSeconds": max(0, unix_ms() - started) / 1000,
            "pendingCalls": len(self._context.pending),
            "lanes": len(self.senders()),
            **snapshot,
        }
