"""Messages of one backend into another, old forms as envelopes: none lost, none twice (M-39, M-40), and compared.

What is being published is written down before. After a failure, or a kill, the target is asked which of it has arrived.

Ids are kept in a file that is removed at the end: memory does not grow with them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.backends.backend import MAX_BATCH_BYTES, BackendAwayError, Delivered, Outgoing
from speed.backends.scans import scan
from speed.core.log import logger
from speed.errors import ConfigurationError, WireError
from speed.fs.open import open_directory, replace_file
from speed.message.old_forms import OldMessage, SourcePosition, of_kafka, of_nats, of_postgresql, of_redis, take_over
from speed.message.view import MessageView

if TYPE_CHECKING:
    from speed.backends.backend import Backend, BackendSubscription


# Messages of one backend into another, old forms as envelopes: none lost, and none twice (M-39, M-40).

log = logger("speed.bridges")

ENVELOPE, DUPLICATE, UNKNOWN, TOO_LARGE = "envelope", "beside", "unknown", "too large"
BATCH = 1000
MAX_SHOWN = 20
"""Places of what was not taken over that are kept to be shown."""
PATIENCE_SECONDS = 300.0
"""How long a backend may be away."""
_PUBLISH_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_MAX_STATE_BYTES = 16 << 20
_CLOCKS_MS = 600_000
"""By how much clocks of this host and the target's may differ."""


class Judged(NamedTuple):
    """What a message of the source is (an ``envelope``, an old form, ``beside``, ``unknown``, ``too large``), and what
    is published for it."""

    form: str
    outgoing: Outgoing | None
    why: str = ""

    @property
    def is_duplicate(self) -> bool:
        """An old form, whose envelope its publisher wrote as well."""
        return self.form == DUPLICATE


@dataclass(frozen=True)
class Judge:
    """Says of each message of the source what is made of it. Pure.

    Attributes:
        backend: of the source, as in its address.
        forms: old forms that are taken over.
        namespace: for messages that are taken over.
        max_message_bytes: what the target takes.
    """

    backend: str
    forms: frozenset[str]
    namespace: str
    max_message_bytes: int

    def judge(self, delivered: Delivered) -> Judged:
        """An envelope goes on as it is, but for a token."""
        try:
            return self._of(ENVELOPE, Outgoing.of(delivered.envelope, delivered.key))
        except WireError as error:
            why = str(error)
        old = self._recognised(delivered)
        if old is None or old.form not in self.forms:
            return Judged(UNKNOWN, None, why if old is None else f"the form of {old.form} is not asked for")
        if old.is_duplicate:
            return Judged(DUPLICATE, None)
        place = SourcePosition(self.backend, delivered.topic, delivered.position, delivered.stored_at_ms)
        try:
            taken = take_over(old, delivered.envelope, place, self.namespace)
        except WireError as error:
            return Judged(UNKNOWN, None, str(error))
        return self._of(old.form, Outgoing.made(taken.envelope, delivered.key, *taken[1:]))

    def _of(self, form: str, outgoing: Outgoing) -> Judged:
        size = len(outgoing.envelope)
        if size > self.max_message_bytes:
            return Judged(TOO_LARGE, None, f"{size} bytes, and {self.max_message_bytes} are taken")
        return Judged(form, outgoing)

    def _recognised(self, delivered: Delivered) -> OldMessage | None:
        """By what stands beside it, as its backend has it, or else as a text of JSON."""
        data, headers = delivered.envelope, delivered.headers
        if self.backend == "postgres":
            return _of_row(delivered)
        found = None
        if self.backend == "kafka":
            found = of_kafka(data, headers)
        elif self.backend == "nats":
            found = of_nats(data, headers)
        return found or of_redis(data)


def _of_row(delivered: Delivered) -> OldMessage | None:
    try:
        payload, metadata = json.loads(delivered.envelope), json.loads(delivered.headers.get("metadata", b"[]"))
    except (ValueError, RecursionError):
        return None
    return of_postgresql({"topic": delivered.topic, "payload": payload, "metadata": metadata})


@dataclass
class MigrationState:
    """How far a migration has come, beside its group in the source; kept in a file.

    Attributes:
        what: source, target, topics and group: a file of another migration is refused.
        counts: messages by what they were.
        doubt: topics by ids of messages that are being published, or may come again: after a kill nobody knows.
        passed: places of the same batch of what is not published.
        since_ms: when the oldest of ``doubt`` was written down, and some minutes more: clocks differ.
        offsets: by partition of Kafka, what is behind those that were published: others come again when it moves.
    """

    path: str
    what: dict[str, str]
    counts: Counter[str] = field(default_factory=Counter)
    doubt: dict[str, str] = field(default_factory=dict)
    since_ms: int = 0
    passed: list[str] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)

    def read(self) -> None:
        """ConfigurationError for a file that is none, or of another migration."""
        try:
            with open(self.path, "rb") as file:
                state = json.loads(file.read(_MAX_STATE_BYTES))
            what, self.counts = state["what"], Counter(state["counts"])
            self.doubt, self.passed, self.offsets = state["doubt"], state["passed"], state["offsets"]
            self.since_ms = int(state["since_ms"])
        except FileNotFoundError:
            raise ConfigurationError(f"there is no {self.path}: begin without --resume") from None
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(f"{self.path} is no state of a migration: name another file") from None
        if what != self.what:
            raise ConfigurationError(f"{self.path} is of another migration, of {what}: name another file")

    def write(self) -> None:
        """Whole or not at all, and for good."""
        names = ("what", "counts", "doubt", "since_ms", "passed", "offsets")
        directory, name = os.path.split(os.path.abspath(self.path))
        dir_fd = open_directory(directory)
        try:
            data = json.dumps({name: getattr(self, name) for name in names}).encode()
            os.close(replace_file(name, data, dir_fd, private=True, durable=True))
        finally:
            os.close(dir_fd)

    @property
    def is_there(self) -> bool:
        """Whether a migration was begun."""
        return os.path.lexists(self.path)


class Migration:
    """One run. For one thread; ``stop`` for any.

    Attributes:
        state: counts, and what is in doubt.
        refused: places and reasons of the first that were not taken over.
    """

    def __init__(
        self,
        source: BackendSubscription,
        target: Backend,
        judge: Judge,
        state: MigrationState,
        look: Callable[[Backend, str, int], Iterable[list[Delivered]]] = scan,
    ) -> None:
        self._source, self._target, self._judge, self._look = source, target, judge, look
        self.state = state
        self.refused: list[tuple[str, str, str]] = []
        self._arrived: dict[str, str] = {}
        """Topics by ids of what has arrived and may come again: then it is not published again."""
        self._passed = set(state.passed)
        """Places of what is not published and may come again."""
        self._counted = {*state.doubt, *state.passed}
        """Ids and places of what may come again and was counted."""
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End after the messages in hand."""
        self._stopping.set()

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` ended it."""
        return self._stopping.is_set()

    def run(self, idle_seconds: float | None, on_batch: Callable[[int], None]) -> None:
        """Until nothing came for so long (None: until ``stop``). ``on_batch`` is given the number of each batch.

        Raises BackendAwayError when one of them is away for five minutes, and other errors of backends.
        """
        self._patiently(self._shut_out)
        self._patiently(self._settle)
        came = monotonic()
        while not self._stopping.is_set():
            found = self._patiently(self._receive)
            if found:
                self._move(found)
                on_batch(len(found))
                came = monotonic()
            elif idle_seconds is not None and monotonic() - came >= idle_seconds:
                return

    def _receive(self) -> list[Delivered]:
        return self._source.receive(BATCH, 1.0)

    def _move(self, found: Sequence[Delivered]) -> None:
        """Publish them, and acknowledge what has arrived."""
        new = [(one, self._judge.judge(one)) for one in found if not self._was_moved(one)]
        for one, judged in new:
            if _own(one, judged) not in self._counted:
                self._count(one, judged)
        messages = [judged.outgoing for _, judged in new if judged.outgoing is not None]
        passed = {_own(one, judged) for one, judged in new if judged.outgoing is None}
        self.state.passed = sorted(self._passed | passed)
        self._publish(messages)
        for one, _ in new:
            self._note(one)
        try:
            self._source.acknowledge(found)
        except BackendAwayError:
            self._expect_again(messages, passed)
        else:
            self._forget(messages, passed)

    def _expect_again(self, messages: Sequence[Outgoing], passed: set[str]) -> None:
        self._arrived |= {one.message_id: one.topic for one in messages}
        self._passed |= passed
        self._counted |= self._arrived.keys() | passed

    def _forget(self, messages: Sequence[Outgoing], passed: set[str]) -> None:
        for one in messages:
            self._arrived.pop(one.message_id, None)
            self._counted.discard(one.message_id)
        self._passed -= passed
        self._counted -= passed

    def _count(self, one: Delivered, judged: Judged) -> None:
        self.state.counts[judged.form] += 1
        if judged.why and len(self.refused) < MAX_SHOWN:
            self.refused.append((one.topic, one.position, f"{judged.form}: {judged.why}"))

    def _publish(self, messages: Sequence[Outgoing]) -> None:
        """Each once: where it is not known whether one arrived, the target is asked before it is sent again."""
        if not self._arrived:
            self.state.since_ms = max(0, time.time_ns() // 1_000_000 - _CLOCKS_MS)
        self.state.doubt = self._arrived | {one.message_id: one.topic for one in messages}
        self.state.write()
        while missing := [one for one in messages if one.message_id not in self._arrived]:
            try:
                for part in _parts(missing):
                    self._target.publish(part, _PUBLISH_SECONDS)
            except BackendAwayError as error:
                log.warning("the target is away: %s", error)
                self._patiently(self._settle)
            else:
                return

    def _shut_out(self) -> None:
        """Have what a killed run left under way decided before anybody looks: a transaction of Kafka ends with this."""
        self._target.publish([], _PUBLISH_SECONDS)

    def _settle(self) -> None:
        """Look for what is in doubt in the target."""
        for topic in sorted(set(self.state.doubt.values())):
            for page in self._look(self._target, topic, self.state.since_ms):
                there = {message_id_of(one) for one in page} & self.state.doubt.keys()
                self._arrived |= {known: self.state.doubt[known] for known in there}

    # --- Kafka gives a partition again from where it stood, whatever was acknowledged meanwhile ---

    def _was_moved(self, one: Delivered) -> bool:
        return self._judge.backend == "kafka" and one.sequence < self.state.offsets.get(_partition(one), 0)

    def _note(self, one: Delivered) -> None:
        if self._judge.backend == "kafka":
            self.state.offsets[_partition(one)] = one.sequence + 1

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        """What it returns; a backend that is away is waited for."""
        until = monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask()
            except BackendAwayError:
                if monotonic() > until or self._stopping.wait(_PAUSE_SECONDS):
                    raise


def _own(one: Delivered, judged: Judged) -> str:
    """The id of what is published for a message, or its place."""
    return f"{one.topic} {one.position}" if judged.outgoing is None else judged.outgoing.message_id


def _partition(one: Delivered) -> str:
    return f"{one.topic} {one.position.partition(':')[0]}"


def _parts(messages: Sequence[Outgoing]) -> list[list[Outgoing]]:
    """What is published at a time."""
    parts: list[list[Outgoing]] = [[]]
    size = 0
    for one in messages:
        if parts[-1] and size + len(one.envelope) > MAX_BATCH_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += len(one.envelope)
    return parts


def message_id_of(delivered: Delivered) -> str:
    """Empty for what is no message."""
    try:
        return MessageView(delivered.envelope).message_id
    except WireError:
        return ""


SHOWN = 20
_TABLE = "CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT, source INTEGER, target INTEGER) WITHOUT ROWID"
_SOURCE = "INSERT INTO seen VALUES (?, ?, 1, 0) ON CONFLICT DO UPDATE SET source = source + 1"
_TARGET = "INSERT INTO seen VALUES (?, ?, 0, 1) ON CONFLICT DO UPDATE SET target = target + 1"
_COUNTS = """
SELECT COALESCE(SUM(source > 0), 0), COALESCE(SUM(source > 0 AND target > 0), 0),
  COALESCE(SUM(source > 0 AND target = 0), 0), COALESCE(SUM(source > 0 AND target > source), 0)
FROM seen
"""


class Compared(NamedTuple):
    """How many messages of the source there are, have arrived, are missing, and lie there more often than here.

    ``missing_places`` and ``twice_ids`` name the first of them.
    """

    messages: int
    arrived: int
    missing: int
    twice: int
    missing_places: tuple[str, ...]
    twice_ids: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Nothing lost, nothing twice."""
        return not self.missing and not self.twice


def compare(source: Backend, target: Backend, pattern: str, judge: Judge, on_page: Callable[[int], None]) -> Compared:
    """What lies in the topics of a pattern. ``on_page`` is given the number of each page that was read.

    What came into the source after its end was read is not asked for.
    """
    with _ids() as ids:
        for page in scan(source, pattern):
            judged = ((one, judge.judge(one).outgoing) for one in page)
            rows = [(to.message_id, f"{one.topic} {one.position}") for one, to in judged if to is not None]
            _count(ids, _SOURCE, rows)
            on_page(len(page))
        for page in scan(target, pattern):
            _count(ids, _TARGET, [(message_id_of(one), "") for one in page])
            on_page(len(page))
        return _result(ids)


@contextmanager
def _ids() -> Iterator[sqlite3.Connection]:
    """An empty table; nothing of it has to outlive a crash."""
    with tempfile.TemporaryDirectory(prefix="speed-compare-") as directory:
        ids = sqlite3.connect(str(Path(directory) / "ids"), isolation_level=None)
        try:
            ids.execute("PRAGMA journal_mode = OFF")
            ids.execute("PRAGMA synchronous = OFF")
            ids.execute(_TABLE)
            yield ids
        finally:
            ids.close()


def _count(ids: sqlite3.Connection, statement: str, rows: Iterable[tuple[str, str]]) -> None:
    ids.execute("BEGIN")
    ids.executemany(statement, rows)
    ids.execute("COMMIT")


def _result(ids: sqlite3.Connection) -> Compared:
    missing = ids.execute("SELECT place FROM seen WHERE source > 0 AND target = 0 LIMIT ?", (SHOWN,))
    twice = ids.execute("SELECT id FROM seen WHERE source > 0 AND target > source LIMIT ?", (SHOWN,))
    messages, arrived, lost, more = ids.execute(_COUNTS).fetchone()
    return Compared(messages, arrived, lost, more, tuple(row[0] for row in missing), tuple(row[0] for row in twice))
