"""The nodes that record (J-9), and the call log of a process (J-10).

A message is acknowledged and finished when its block is written: what a crash cuts off comes again from its
sender's lane, and is recognised by its sequence.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from speed import Message, Node, Request, Response
from speed.core.services import Service, as_service, run
from speed.errors import JournalFullError, JournalRefusedError, SpeedError
from speed.journal.files import call_bytes
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.errors import AwayError
from speed.wire.journal import RECORD_BYTES, Subject
from speed.wire.limits import MAX_JOURNAL_BLOCK_BYTES
from speed.wire.names import matches

# The nodes that record: one for the topics, one for each inbox (J-9).

LARGEST_RECORD_BYTES = MAX_JOURNAL_BLOCK_BYTES - RECORD_BYTES


@dataclass(frozen=True)
class RecordingRule:
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

    def __init__(self, writer: JournalWriter, recorded: RecordingRule, name: str, **options: Any) -> None:
        """Starts the nodes; raises what ``Node`` does, and then none is left running."""
        self._writer = writer
        self._nodes: list[Node] = []
        self._recorded = recorded
        self._options = options
        try:
            if recorded.topics:
                self._start(name, "", widest(recorded.topics))
            for inbox in recorded.inboxes:
                self._start(inbox, inbox, ())
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, inbox: str, topics: tuple[str, ...]) -> None:
        node = Node(
            name, workers=1, accept_namespaces=("*",), starting=True, **self._options
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

    def change_inboxes(self, inboxes: tuple[str, ...], allow: tuple[str, ...]) -> None:
        """Record other inboxes than before; what waits in the former ones stays there. Raises what ``Node`` does."""
        before, self._recorded = self._recorded, replace(self._recorded, inboxes=inboxes, allow=allow)
        gone = {one for one in before.inboxes if one not in inboxes}
        for node in [node for node in self._nodes if node.name in gone]:
            self._nodes.remove(node)
            node.close()
        for inbox in inboxes:
            if inbox not in {node.name for node in self._nodes}:
                self._start(inbox, inbox, ())

    @property
    def lost(self) -> Node | None:
        """A node whose name another process has, or whose lease ran out."""
        return next((node for node in self._nodes if node.closed), None)

    def _record(self, inbox: str, messages: Sequence[Message]) -> dict[int, SpeedError]:
        """Write a batch, lane by lane; raises AwayError where that fails, and then it waits: nothing is given up."""
        try:
            return self._recorded_of(inbox, messages)
        except Exception as error:
            raise AwayError(f"the journal cannot be written: {error}") from error

    def _recorded_of(self, inbox: str, messages: Sequence[Message]) -> dict[int, SpeedError]:
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


GATHER_SECONDS = 0.02
"""How long rows are gathered before they are written: they may be lost for so long."""
MAX_WAITING = 65536
"""Rows that wait while the journal cannot be written; beyond that the oldest are dropped and counted."""
MAX_AT_ONCE = 4096
AGAIN_SECONDS = 1.0


class _Row(NamedTuple):
    service: str
    data: bytes


class CallLog:
    """Writes rows on a thread of its own, so that no call waits for the disk. Thread-safe."""

    def __init__(self, writer: JournalWriter, source: str) -> None:
        """``source`` is the node whose services are logged."""
        self._writer = writer
        self._source = source
        self._waiting: deque[_Row] = deque(maxlen=MAX_WAITING)
        self._arrived = threading.Event()
        self._closing = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="speed-call-log", daemon=True)
        self._thread.start()

    def logging(self, name: str, service: Service | Callable[..., Any]) -> Service:
        """``service`` with a row for each of its answers."""
        return _Logged(self, as_service(name, service))

    def add(self, service: str, caller: str, seconds: float, outcome: str, traceparent: str = "") -> None:
        """Have one row written soon."""
        if len(self._waiting) == MAX_WAITING:
            self.dropped += 1
        self._waiting.append(_Row(service, call_bytes(caller, round(seconds * 1e6), outcome, traceparent)))
        self._arrived.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._arrived.wait()
            self._closing.wait(GATHER_SECONDS)
            self._arrived.clear()
            self._write()

    def _write(self) -> None:
        """Write what waits; rows that cannot be written wait on."""
        while self._waiting:
            rows = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
            groups: dict[str, list[Incoming]] = {}
            for row in rows:
                groups.setdefault(row.service, []).append(Incoming(0, False, row.data))
            failed = [service for service, incoming in groups.items() if not self._written(service, incoming)]
            for service in failed:
                self._put_back(service, groups[service])
            if failed:
                self._closing.wait(AGAIN_SECONDS)
                return

    def _written(self, service: str, incoming: list[Incoming]) -> bool:
        try:
            self._writer.record(Subject("calls", service, self._source), incoming)
        except SpeedError:
            return False
        return True

    def _put_back(self, service: str, incoming: list[Incoming]) -> None:
        room = MAX_WAITING - len(self._waiting)
        self.dropped += max(0, len(incoming) - room)
        self._waiting.extendleft(_Row(service, one.message) for one in reversed(incoming[-room:] if room else []))
        self._arrived.set()

    def close(self) -> None:
        """Write what waits, and end."""
        self._closing.set()
        self._arrived.set()
        self._thread.join()
        self._write()


class _Logged:
    """A service that notes who called it, for how long and how it ended."""

    def __init__(self, log: CallLog, service: Service) -> None:
        self._log = log
        self._service = service

    def invoke(self, request: Request) -> Response:
        began = perf_counter()
        response = run(self._service, request)
        seconds, outcome = perf_counter() - began, response.error_code or "OK"
        self._log.add(request.service, request.caller, seconds, outcome, request.traceparent or "")
        return response
