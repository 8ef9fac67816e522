"""All topics of one host: opened, made, removed (D-1, D-15). One lock holds everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from speed.errors import JournalError, JournalExpiredError, KeyFileError, SpeedError, StorageError, WireError
from speed.journal.files import lanes_in
from speed.journal.reseal import Resealed
from speed.journal.writer import JournalWriter
from speed.topics.storage import Compacting, Reserve, Stopped, TopicLog, TopicState, compact
from speed.topics.subscription import SubscriptionError
from speed.topics.topic import HostedTopic, Keeping
from speed.wire.journal import Subject
from speed.wire.limits import JOURNAL_SEGMENT_BYTES, MAX_JOURNAL_LANES, MAX_TOPICS
from speed.wire.topic import SETTINGS

SEGMENTS_KEPT = 16
MIN_VOLUME_BYTES = 65536


class Catalogue:
    """Not thread-safe: hold ``lock``.

    Args:
        directory: where the topics lie; made if it is missing.
        key: the key file of the root.
        source: name of the host, for topics that are made.
        keeping: how long messages are kept, and ``kept`` for single topics.

    Raises JournalTakenError, KeyFileError, RootError, DurabilityError.
    """

    def __init__(
        self,
        directory: str,
        key: str,
        source: str,
        *,
        durability: str = "process",
        keeping: Keeping | None = None,
        kept: Mapping[str, Keeping] | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self._key, self._source = key, source
        self._keeping, self._kept = keeping or Keeping(), dict(kept or {})
        self._durable = durability == "disk"
        self._directory = directory
        self._writer = JournalWriter(
            directory, key, durability=durability, volume_bytes=self._volume_bytes(), lock=self.lock
        )
        self.notify: Callable[[str], None] = lambda _: None
        """Called with the name of a topic in which something may be new."""
        self.topics: dict[str, HostedTopic] = {}
        self.broken: dict[str, str] = {}
        """Topics that cannot be used, and why."""
        self._reserve = Reserve(directory)
        self._reserve.refill()
        self._requested: set[str] = set()
        """Topics whose compaction was requested."""
        self._compacting = Compacting(self.compact)
        self._subjects = {subject.subject: subject for subject in self._writer.subjects() if subject.kind == "topic"}
        for name in self._subjects:
            self._open(name)
        self._lost: dict[str, str] = {}
        """Lanes of topics whose descriptions cannot be read, by the topics' names."""
        self._nameless: list[str] = []
        """Lanes of which nobody can tell which topic they are."""
        self._look_for_lost()

    def _look_for_lost(self) -> None:
        """No topic is made anew over one that is damaged."""
        undescribed, known = set(self._writer.undescribed()), {topic.lane for topic in self.topics.values()}
        for lane in lanes_in(self._directory, MAX_JOURNAL_LANES):
            if lane in known:
                continue
            name = _name_in(self._directory, lane, self._writer)
            if name and name not in self._subjects:
                self._lost[name] = lane
                self.broken[name] = (
                    f"the description of lane {lane} cannot be read: restore it from a copy, or delete it"
                )
            elif lane in undescribed and not name:
                self._nameless.append(lane)

    def _volume_bytes(self) -> int:
        """Small enough for the least topic to give back a little at a time."""
        bounds = [one.max_bytes for one in (self._keeping, *self._kept.values()) if one.max_bytes is not None]
        least = min(bounds, default=JOURNAL_SEGMENT_BYTES * SEGMENTS_KEPT) // SEGMENTS_KEPT
        return max(MIN_VOLUME_BYTES, min(JOURNAL_SEGMENT_BYTES, least))

    def _open(self, name: str) -> None:
        """What is wrong with one topic is told of that one."""
        state: TopicState | None = None
        try:
            log = TopicLog(self._writer, self._key, self._subjects[name])
            if log.is_cut:
                raise JournalError("its lane was cut: acknowledged messages are missing; delete it")
            keyring, reserve = self._writer.keyring, self._reserve
            state = TopicState(self._directory, log.lane, keyring, durable=self._durable, reserve=reserve)
            keeping = self._kept.get(name, self._keeping)
            topic = HostedTopic(name, log, state, keeping, self.lock, self.bury, self._tell)
            topic.parent = _parent(state, name)
            self.topics[name] = topic
        except (SpeedError, WireError, OSError) as error:
            self.broken[name] = str(error)
            if state is not None:
                state.close()

    @property
    def place(self) -> str:
        """Where they lie, for people."""
        return self._directory

    def known(self, name: str) -> HostedTopic | None:
        """The topic of a name; None if it is not there or broken."""
        return self.topics.get(name)

    def used(self) -> Iterable[HostedTopic]:
        """Those with consumers."""
        return self.topics.values()

    def every(self) -> Iterable[HostedTopic]:
        """All there are."""
        return self.topics.values()

    def begin(self, wanted: Sequence[str]) -> None:
        """Make these topics; compact those that ask for it from now on.

        Raises SubscriptionError, StorageError, JournalFullError.
        """
        for name in wanted:
            if name in self.broken:
                continue
            try:
                self.make(name)
            except SubscriptionError as error:
                if error.code != "DAMAGED":
                    raise
                self.broken[name] = str(error)
        self._compacting.begin()

    def change_keeping(self, keeping: Keeping, kept: Mapping[str, Keeping]) -> None:
        """Keep messages for longer or shorter than before, from the next look of ``retain`` on."""
        with self.lock:
            self._keeping, self._kept = keeping, dict(kept)
            for name, topic in self.topics.items():
                topic.keeping = self._kept.get(name, keeping)

    def find(self, name: str) -> HostedTopic:
        """Raises SubscriptionError UNKNOWN_TOPIC, DAMAGED."""
        if name in self.broken:
            raise SubscriptionError("DAMAGED", f"topic {name!r} cannot be used: {self.broken[name]}")
        if name not in self.topics:
            raise SubscriptionError("UNKNOWN_TOPIC", f"there is no topic {name!r}: `speed topic create` makes one")
        return self.topics[name]

    def make(self, name: str, parent: str = "") -> HostedTopic:
        """The topic of a name, made if it is not there. Raises SubscriptionError, StorageError, JournalFullError."""
        if name in self.topics or name in self.broken:
            return self.find(name)
        if self._nameless:
            text = (
                f"{self._directory}/{self._nameless[0]} is damaged, and may be topic {name!r}: restore it from a copy, "
            )
            raise SubscriptionError("DAMAGED", f"{text}or remove it while speedd is stopped; until then none is made")
        if len(self._subjects) >= MAX_TOPICS:
            raise SubscriptionError("FULL", f"there are {MAX_TOPICS} topics: delete some")
        self._subjects[name] = Subject("topic", name, self._source)
        self._open(name)
        if name in self.broken:
            del self._subjects[name]
            raise StorageError(f"topic {name!r} cannot be made: {self.broken.pop(name)}")
        if parent:
            self.topics[name].set_parent(parent)
        return self.topics[name]

    def remove(self, name: str) -> None:
        """Remove a topic with everything in it, a broken one too. Raises SubscriptionError UNKNOWN_TOPIC, OSError."""
        if name in self._lost:
            self._remove_lost(name)
            return
        if name in self.broken and name in self._subjects:
            lane = self._writer.end(self._subjects[name]).lane
            TopicState(self._directory, lane, self._writer.keyring, durable=self._durable).remove_all()
            try:
                with suppress(JournalError):
                    self._writer.remove(self._subjects[name])
            except KeyFileError:  # where it ended cannot be known, and need not be
                self._writer.remove_undescribed(lane)
            del self.broken[name]
        else:
            self.find(name).remove()
            self.topics.pop(name).wake()
        del self._subjects[name]

    def _remove_lost(self, name: str) -> None:
        lane = self._lost[name]
        TopicState(self._directory, lane, self._writer.keyring, durable=self._durable).remove_all()
        self._writer.remove_undescribed(lane)
        del self._lost[name], self.broken[name]

    def bury(self, name: str, message: bytes) -> None:
        """Publish a dead letter: what is consumed must not wait for room."""
        self.find(name).record(None, [(0, message)])

    def _tell(self, name: str) -> None:
        self.notify(name)

    def retain(self) -> str:
        """Remove what need not be kept. Returns why that failed somewhere; empty if it did not."""
        trouble = ""
        with self.lock:
            self._reserve.refill()
            for topic in self.topics.values():
                try:
                    topic.retain()
                except (OSError, SpeedError) as error:
                    trouble = f"topic {topic.name!r}: {error}"
        return trouble or self._writer.trouble or self._compacting.trouble

    # --- compaction ---

    def compact(self, stopped: Stopped) -> str:
        """Compact the topics that keep the latest of each key, where that is due or was asked for.

        Call it without the lock, which is held only in between. Returns why that failed somewhere, else nothing.
        """
        with self.lock:
            topics = [topic for topic in self.topics.values() if topic.keeping.keep == "latest"]
        trouble = ""
        for topic in topics:
            try:
                with suppress(JournalExpiredError, FileNotFoundError):  # retention was there first; it is tried again
                    self._compact(topic, stopped)
            except (OSError, SpeedError) as error:
                if self.topics.get(topic.name) is topic:
                    trouble = f"topic {topic.name!r} is not compacted: {error}"
        return trouble

    def _compact(self, topic: HostedTopic, stopped: Stopped) -> None:
        with self.lock:
            if topic.name not in self._requested and not topic.plan().is_due:
                return
            self._requested.discard(topic.name)
        topic.log.tidy()
        with self.lock:
            plan = topic.prepare_compaction()
        end = compact(topic.log, plan, stopped)
        with self.lock:
            if end > plan.compacted:
                topic.note_compacted(end)
            topic.log.measure()

    def ask_to_compact(self, name: str) -> int:
        """Have a topic compacted soon. Returns the offset before which that may be.

        Raises SubscriptionError UNKNOWN_TOPIC, DAMAGED, INVALID_ARGUMENTS; StorageError.
        """
        topic = self.find(name)
        if topic.keeping.keep != "latest":
            text = f"topic {name!r} keeps {topic.keeping.keep!r}: set keep = 'latest' to have it compacted"
            raise SubscriptionError("INVALID_ARGUMENTS", text)
        topic.log.leave_volume()
        self._requested.add(name)
        self._compacting.ask()
        return topic.needed

    def reseal(self) -> Iterator[Resealed]:
        """As ``JournalWriter.reseal``; it takes ``lock`` by itself, for a moment with each file."""
        return self._writer.reseal()

    def close(self) -> None:
        """Save what is only in memory, and release everything."""
        self._compacting.close()
        with self.lock:
            for topic in self.topics.values():
                topic.close()
            self._writer.close()


def _parent(state: TopicState, name: str) -> str:
    """What the settings say; they have the topic's name too, for when its description is damaged."""
    settings = state.get(SETTINGS) or {}
    parent = str(settings.get("parent", ""))
    if settings.get("topic") != name:
        with suppress(StorageError):  # the next start writes it
            state.put(SETTINGS, {"topic": name, "parent": parent})
    return parent


def _name_in(directory: str, lane: str, writer: JournalWriter) -> str:
    """The topic whose settings lie in a lane; empty if they do not say."""
    try:
        state = TopicState(directory, lane, writer.keyring, durable=False)
    except OSError:
        return ""
    try:
        return str((state.get(SETTINGS) or {}).get("topic", ""))
    except (OSError, WireError):
        return ""
    finally:
        state.close()
