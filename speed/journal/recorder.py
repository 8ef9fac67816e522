"""The nodes that record: one for the topics, one for each inbox (J-9).

A message is acknowledged and finished when its block is written: what a crash cuts off comes again from its
sender's lane, and is recognised by its sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from speed import Message, Node
from speed.errors import JournalFullError, JournalRefusedError, SpeedError
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.wire.journal import RECORD_BYTES, Subject
from speed.wire.limits import MAX_JOURNAL_BLOCK_BYTES
from speed.wire.names import matches

LARGEST_RECORD_BYTES = MAX_JOURNAL_BLOCK_BYTES - RECORD_BYTES


@dataclass(frozen=True)
class Recorded:
    """What is recorded, and from whom: ``allow`` are the grants of the recording nodes; topics may be refused."""

    topics: tuple[str, ...] = ()
    inboxes: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()

    def why_not(self, topic: str) -> str:
        """Why an event is not recorded; empty if it is."""
        if any(matches(one, topic) for one in self.refuse):
            return f"topic {topic!r} is refused by the configuration of the journal"
        if not any(matches(one, topic) for one in self.topics):
            return f"topic {topic!r} is not recorded: send to an inbox instead"
        return ""


class Recorder:
    """Records topics and inboxes into a journal until it is closed.

    Args:
        name: of the node that subscribes to the topics.
        options: further arguments of the nodes (root, key, lease_seconds, …).
    """

    def __init__(self, writer: JournalWriter, recorded: Recorded, name: str, **options: Any) -> None:
        """Starts the nodes; raises what ``Node`` does, and then none is left running."""
        self._writer = writer
        self._nodes: list[Node] = []
        self._recorded = recorded
        try:
            if recorded.topics:
                self._start(name, "", widest(recorded.topics), options)
            for inbox in recorded.inboxes:
                self._start(inbox, inbox, (), options)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, inbox: str, topics: tuple[str, ...], options: Mapping[str, Any]) -> None:
        node = Node(
            name, workers=1, accept_namespaces=("*",), starting=True, **options
        )  # a journal is of the whole root
        self._nodes.append(node)
        node.on_batch(partial(self._record, inbox), topics)
        node.allow(*self._recorded.allow)
        node.ready()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that record."""
        return tuple(self._nodes)

    def refuse(self, topics: tuple[str, ...]) -> None:
        """Refuse the events of other topics than before."""
        self._recorded = replace(self._recorded, refuse=topics)

    @property
    def lost(self) -> Node | None:
        """A node whose name another process has, or whose lease ran out."""
        return next((node for node in self._nodes if node.closed), None)

    def _record(self, inbox: str, messages: Sequence[Message]) -> dict[int, SpeedError]:
        """Write a batch, lane by lane; raises StorageError, and then the whole batch comes again."""
        groups: dict[Subject, list[int]] = {}
        refused: dict[int, SpeedError] = {}
        for place, message in enumerate(messages):
            if message.metadata.size > LARGEST_RECORD_BYTES:
                text = f"{message.metadata.size} bytes are more than a record holds: send it to who needs it"
                refused[place] = JournalRefusedError(text)
            elif inbox:
                groups.setdefault(Subject("inbox", inbox, message.source), []).append(place)
            elif why := self._recorded.why_not(message.topic):
                refused[place] = JournalRefusedError(why)
            else:
                groups.setdefault(Subject("topic", message.topic, message.source), []).append(place)
        for subject, places in groups.items():
            try:
                self._writer.record(subject, [_incoming(messages[place]) for place in places])
            except JournalFullError as error:
                named = JournalFullError(f"{subject.kind} {subject.subject}: {error}")
                refused.update(dict.fromkeys(places, named))
        return refused

    def close(self) -> None:
        """End the nodes; what waits for them stays in their inboxes."""
        for node in self._nodes:
            if not node.closed:
                node.close()


def _incoming(message: Message) -> Incoming:
    return Incoming(message.sequence, message.redelivered, message.metadata.to_bytes())


def widest(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns that no other covers: each event comes once."""
    return tuple(
        one
        for at, one in enumerate(patterns)
        if not any(matches(other, one) and (other != one or before < at) for before, other in enumerate(patterns))
    )
