"""The journal of a running speedd: its writer, the nodes that record, and the call log (J-9, J-10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from speed import Node
from speed.daemon.config import Config, JournalSettings
from speed.daemon.grants import change_grants
from speed.journal.call_log import CallLog
from speed.journal.recorder import Recorded, Recorder
from speed.journal.reseal import Resealed
from speed.journal.writer import JournalWriter
from speed.wire.names import journal_dir, journal_node


class Recording:
    """Everything that ``[journal]`` asks for. Made in two steps: services are wrapped before nodes listen."""

    def __init__(self, config: Config, settings: JournalSettings, node: Node, key: str) -> None:
        """Takes the journal. Raises JournalTakenError, DurabilityError, RootError."""
        self._settings = settings
        self._options: dict[str, Any] = {
            "root": node.root,
            "key": key,
            "lease_seconds": config.node.lease_seconds,
            "heartbeat_seconds": config.node.heartbeat_seconds,
        }
        self._name = node.name
        self._recorder: Recorder | None = None
        self._log: CallLog | None = None
        self._writer = JournalWriter(
            settings.directory or journal_dir(node.root),
            key,
            durability=settings.durability,
            max_bytes=settings.max_bytes,
            max_age_seconds=settings.max_age_seconds,
        )
        self.directory = self._writer.directory

    def logged(self, name: str, service: Any) -> Any:
        """``service``, with its calls logged if that is asked for."""
        if not self._settings.calls:
            return service
        if self._log is None:
            self._log = CallLog(self._writer, self._name)
        return self._log.logging(name, service)

    def start(self) -> None:
        """Begin to record."""
        settings = self._settings
        recorded = Recorded(settings.topics, settings.inboxes, settings.allow, settings.refuse)
        self._recorder = Recorder(self._writer, recorded, journal_node(self._name), **self._options)

    def change_grants(self, old: tuple[str, ...], allow: tuple[str, ...]) -> None:
        """Let others than before be recorded."""
        for node in self._recorder.nodes if self._recorder else ():
            change_grants(node, old, allow)

    def refuse(self, topics: tuple[str, ...]) -> None:
        """Refuse the events of other topics than before."""
        if self._recorder:
            self._recorder.refuse(topics)

    def lost(self) -> str | None:
        """The name of a recording node that is lost."""
        node = self._recorder.lost if self._recorder else None
        return node.name if node else None

    def retain(self) -> str:
        """Remove what retention does not keep. Returns why the journal cannot be written, empty if it can."""
        self._writer.retain()
        return self._writer.trouble

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key what others sealed; recording goes on meanwhile."""
        return self._writer.reseal()

    def close(self) -> None:
        """Record what is at hand, and end."""
        if self._recorder is not None:
            self._recorder.close()
        if self._log is not None:
            self._log.close()
        self._writer.close()
