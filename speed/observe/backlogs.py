"""What waits: in subscriptions of durable topics, as their host tells, and in the lanes of nodes, from their files."""

from __future__ import annotations

import bisect
import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from speed import Node
from speed.errors import ApplicationError, SpeedError, WireError
from speed.fs.committed import MAX_LANE_FILES, read_cursor
from speed.fs.identity import is_settled
from speed.fs.open import names_in, open_directory, open_regular, owners_of
from speed.fs.registry import listed
from speed.observe import Finding, seconds_text
from speed.observe.traffic import OTHERS
from speed.wire import names
from speed.wire.cursor import Cursor
from speed.wire.envelope import ENVELOPE_OVERHEAD, EnvelopeType, Header, generation_of, parse_header
from speed.wire.limits import AAD_BYTES, MAX_LANES
from speed.wire.seal import Keyring

TOPICS = "speedd.topics"
BEHIND_SECONDS = 60.0
"""A subscription whose oldest message waits for longer is behind."""
MAX_AT_ONCE = 8
MAX_WATCHED = 64
"""So many topics are looked at again and again."""
BROKEN, UNCONSUMED, FULL, BEHIND, WELL, UNUSED = range(6)


class Backlog(NamedTuple):
    """One subscription; of a topic without one, and of one that cannot be used, ``subscription`` is empty.

    ``rank`` is how bad it is, 0 the worst; ``state`` says why, in a word or two.
    """

    rank: int
    topic: str
    subscription: str
    state: str
    backlog: int = 0
    oldest_seconds: float | None = None
    in_flight: int = 0
    consumers: int = 0
    dead: int = 0

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {name: value for name, value in self._asdict().items() if name != "rank"}


def backlogs(node: Node, topics: Sequence[str] = (), host: str = TOPICS, timeout: float = 30.0) -> list[Backlog]:
    """Of ``topics``, or of all that ``node`` may use; ``timeout`` in seconds is for each question.

    Of topics that are named an error says what is wrong: what ``Topic.describe`` raises. Of all, those that are gone
    meanwhile are left out. Raises what ``Node.call`` does.
    """
    broken: list[Backlog] = []
    chosen: Sequence[str] = topics
    if not topics:
        listed = node.call(host, "topics.list", timeout=timeout)
        broken = [Backlog(BROKEN, one["topic"], "", f"broken: {one['broken']}") for one in listed if "broken" in one]
        chosen = [one["topic"] for one in listed if "broken" not in one]

    def describe(name: str) -> dict[str, Any]:
        try:
            return node.topic(name, host=host).describe(timeout=timeout)
        except ApplicationError:
            if topics:
                raise
            return {}

    with ThreadPoolExecutor(MAX_AT_ONCE, "speed-topics") as asking:
        described = list(asking.map(describe, chosen))
    rows = [row for name, one in zip(chosen, described, strict=True) if one for row in _rows_of(name, one)]
    return sorted([*broken, *rows], key=lambda one: (one.rank, -one.backlog, one.topic, one.subscription))


def waiting(node: Node, timeout: float, host: str = TOPICS) -> list[Backlog]:
    """The subscriptions in which something waits; none where no host is there, or it tells ``node`` nothing."""
    try:
        listed = node.call(host, "topics.list", timeout=timeout)
        used = [one["topic"] for one in listed if one.get("subscriptions")][:MAX_WATCHED]
        return [one for one in backlogs(node, used, host, timeout) if one.backlog] if used else []
    except (SpeedError, AttributeError, LookupError, TypeError, ValueError):
        return []  # `speed topic overview` tells what is wrong


def _rows_of(topic: str, described: dict[str, Any]) -> Iterator[Backlog]:
    if described["damaged"]:
        yield Backlog(BROKEN, topic, "", f"damaged: see `speed topic subscriptions {topic}`")
    for one in described["subscriptions"]:
        backlog, consumers = one["backlog"], len(one["consumers"])
        oldest = max(0.0, time.time() - one["oldest_ms"] / 1000) if backlog and one.get("oldest_ms") else None
        rank, state = _state(one, oldest)
        yield Backlog(
            rank, topic, one["subscription"], state, backlog, oldest, one["in_flight"], consumers, one["dead"]
        )
    if not described["subscriptions"]:
        yield Backlog(UNUSED, topic, "", "no subscription")


def _state(one: dict[str, Any], oldest_seconds: float | None) -> tuple[int, str]:
    if one["backlog"] and not one["consumers"]:
        return UNCONSUMED, "nobody consumes"
    if one["full"]:
        return FULL, "too much unacknowledged"
    if oldest_seconds is not None and oldest_seconds > BEHIND_SECONDS:
        return BEHIND, "behind"
    return WELL, ""


# What waits in a lane, as anybody with the key sees it, also of a receiver that hangs (L-32).

_LATE_TYPES = frozenset(EnvelopeType) - {EnvelopeType.MESSAGE, EnvelopeType.EVENT, EnvelopeType.SPC_REQUEST}
_LATE_SECONDS = 2.0
_HEAD_BYTES = 4096
_TAIL_BYTES = (65_536, 1 << 20)
"""How far behind is looked for a lane's last envelope; behind a larger one its number is not known."""
_IDS_OFFSET = 32
_CANDIDATES = 16
_GENERATIONS = 8
"""Bounds of the work that a hostile lane can cause: what lies beyond is not counted."""
LaneFile = tuple[int, int]


class Waiting(NamedTuple):
    """Envelopes that a receiver has not finished, their bytes, and when the oldest was sealed (Unix ms)."""

    envelopes: int
    size: int
    oldest_ms: int


class WaitingInLane:
    """Looks at one lane again and again; not thread-safe. It reads only, and keeps nothing open between two looks."""

    __slots__ = ("_cursors", "_end", "_files", "_ids", "_keys", "_last", "_node_path", "_path", "_sender", "_stamp")

    def __init__(self, root: str, node: str, sender: str, keyring: Keyring) -> None:
        self._node_path, self._sender = names.node_dir(root, node), sender
        self._path = names.lane_dir(root, node, sender)
        source, target = names.node_id(sender), names.node_id(node)
        self._ids, self._keys = source + target, keyring.lane_keys(source, target)
        self._stamp: tuple[int, ...] = ()
        """The directory as it was listed, unless more may have come at that very time."""
        self._files: list[LaneFile] = []
        self._cursors: list[int] = []
        self._last, self._end = "", -1
        """The last file, and how long it was when nothing waited; -1 while something does."""

    def look(self) -> Waiting | None:
        """What waits now, None for nothing. OSError if the lane cannot be read, or is none."""
        if self._end >= 0 and self._is_as_it_was():
            return None
        directory = _opened_beneath(self._node_path, "inbox", self._sender)
        try:
            self._list(directory)
            cursor = self._newest_cursor(directory)
            sizes = self._sizes(directory, (cursor.sender_generation, cursor.file) if cursor else (0, 0))
            found, is_late = _Unread(directory, self._ids, sizes).beyond(cursor)
            is_settled_now = bool(self._stamp) and not found and not is_late
            self._end = (sizes[max(sizes)] if sizes else 0) if is_settled_now else -1
            return found
        finally:
            os.close(directory)

    def _is_as_it_was(self) -> bool:
        """Whether no file came or went, and the last one did not grow."""
        try:
            if _stamp_of(os.stat(self._path, follow_symlinks=False)) != self._stamp:
                return False
            return not self._last or os.stat(self._last, follow_symlinks=False).st_size == self._end
        except OSError:
            return False

    def _list(self, directory: int) -> None:
        status = os.fstat(directory)
        if self._stamp and self._stamp == _stamp_of(status):
            return
        self._stamp = _stamp_of(status) if is_settled(status.st_mtime_ns) else ()
        listed = [entry.name for entry in names_in(directory, MAX_LANE_FILES)]
        self._files = sorted(filter(None, map(names.parse_lane_file, listed)))
        self._cursors = sorted(filter(None, map(names.parse_cursor, listed)), reverse=True)
        last = names.lane_file_name(*self._files[-1]) if self._files else ""
        self._last = last and names.child_path(self._path, last)

    def _newest_cursor(self, directory: int) -> Cursor | None:
        owners = owners_of(directory)
        found = (read_cursor(directory, names.cursor_name(one), self._keys, owners) for one in self._cursors)
        return next(filter(None, found), None)

    def _sizes(self, directory: int, start: LaneFile) -> dict[LaneFile, int]:
        """Of the files from a position on; links and the like are left out."""
        sizes = {}
        for file in self._files[bisect.bisect_left(self._files, start) :]:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(names.lane_file_name(*file), dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    sizes[file] = status.st_size
        return sizes


class _Unread:
    """Finds envelopes in the files of a lane directory. ``sizes`` are those from the position on."""

    def __init__(self, directory: int, ids: bytes, sizes: Mapping[LaneFile, int]) -> None:
        self._directory, self._ids, self._sizes = directory, ids, sizes
        self._owners = owners_of(directory)

    def beyond(self, cursor: Cursor | None) -> tuple[Waiting | None, bool]:
        """What waits; and whether there is something that was mostly read, though that is not committed."""
        listed = [] if cursor is None else [one for one in cursor.unfinished if not one.begun]
        heads = [head for one in listed if (head := self._at((one.generation, one.file), one.offset))]
        count, size = len(listed), sum(ENVELOPE_OVERHEAD + head.payload_bytes for head in heads)
        behind = self._behind(cursor)
        is_late = behind is not None and _was_read(behind[0])
        if behind is not None and not is_late:
            head, envelopes, left = behind
            heads, count, size = [*heads, head], count + envelopes, size + left
        if not heads:
            return None, is_late
        return Waiting(count, size, min(head.timestamp_ms for head in heads)), is_late

    def _behind(self, cursor: Cursor | None) -> tuple[Header, int, int] | None:
        """The first whole envelope behind the position, how many there are, and bytes; None without one."""
        position = (0, 0) if cursor is None else (cursor.sender_generation, cursor.file)
        begins = {position: 0 if cursor is None else cursor.offset}
        left = {file: size for file, size in sorted(self._sizes.items()) if size > begins.get(file, 0)}
        by_generation: dict[int, list[LaneFile]] = {}
        for file in left:
            by_generation.setdefault(file[0], []).append(file)
        oldest, count = None, 0
        for files in list(by_generation.values())[:_GENERATIONS]:
            first = self._first(files[0], begins.get(files[0], 0))
            last = first and (self._last(files[-1], begins.get(files[-1], 0)) or self._first(files[-1], 0))
            if first is not None:
                oldest = oldest or first
                count += max(1, (last or first).sequence - first.sequence + 1)
        size = sum(left.values()) - sum(begin for file, begin in begins.items() if file in left)
        return None if oldest is None else (oldest, min(count, size // ENVELOPE_OVERHEAD), size)

    def _at(self, file: LaneFile, offset: int) -> Header | None:
        """The header of a listed envelope."""
        head = self._read(file, offset, AAD_BYTES)
        with contextlib.suppress(WireError):
            header = parse_header(head)
            return header if header.source + header.target == self._ids else None
        return None

    def _first(self, file: LaneFile, begin: int) -> Header | None:
        """The first whole envelope from ``begin`` on."""
        data, at = self._read(file, begin, _HEAD_BYTES), -1
        for _ in range(_CANDIDATES):
            at = data.find(self._ids, at + 1)
            if at < 0:
                break
            if found := self._whole(data, at, begin, file):
                return found
        return None

    def _last(self, file: LaneFile, begin: int) -> Header | None:
        """The last whole envelope that begins near the end."""
        for most in _TAIL_BYTES:
            base = max(begin, self._sizes[file] - most)
            data = self._read(file, base, self._sizes[file] - base)
            at = len(data)
            for _ in range(_CANDIDATES):
                at = data.rfind(self._ids, 0, at)
                if at < 0:
                    break
                if found := self._whole(data, at, base, file):
                    return found
                at += len(self._ids) - 1
            if base == begin:
                break
        return None

    def _whole(self, data: bytes, at: int, base: int, file: LaneFile) -> Header | None:
        """The envelope whose ids stand at a place, if it is one of the file's generation, and ends in the file."""
        at -= _IDS_OFFSET
        if at < 0:
            return None
        try:
            header = parse_header(data, at)
        except WireError:
            return None
        end = base + at + ENVELOPE_OVERHEAD + header.payload_bytes
        return header if generation_of(header.sequence) == file[0] and end <= self._sizes[file] else None

    def _read(self, file: LaneFile, offset: int, size: int) -> bytes:
        """Nothing where the file is gone, or is none of a lane."""
        try:
            fd = open_regular(names.lane_file_name(*file), self._directory, self._owners)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)


def _opened_beneath(path: str, *steps: str) -> int:
    """Descriptor of a directory below another; neither it nor one between is a link. OSError."""
    fd = open_directory(path)
    for step in steps:
        try:
            inner = open_directory(step, fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _was_read(head: Header) -> bool:
    return head.type in _LATE_TYPES and time.time() * 1000 - head.timestamp_ms < _LATE_SECONDS * 1000


def _stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns


# All lanes of a root.

MAX_PEERS = 64
"""Of one node so many senders are told one by one, the others together."""
MAX_LANES_A_LOOK = 4096
LOOK_SECONDS = 2.0
"""What one look has no time for keeps what was seen before, and comes first in the next one."""


class LaneBacklog(NamedTuple):
    """What one node has sent another that is not handled yet: messages, events and calls, as envelopes are counted.

    ``size`` is in bytes, without payloads in slots; ``oldest_seconds`` by the clock of who sent it.
    """

    messages: int
    size: int
    oldest_seconds: float

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"messages": self.messages, "bytes": self.size, "oldestSeconds": self.oldest_seconds}


LaneBacklogs = dict[str, dict[str, LaneBacklog]]
"""By node that has not handled it, and sender; only where something waits."""


def together(rows: Iterable[LaneBacklog]) -> LaneBacklog:
    """The sum of what waits, and the age of the oldest."""
    messages, sizes, ages = zip(*rows, strict=True)
    return LaneBacklog(sum(messages), sum(sizes), max(ages))


class LaneWatch:
    """Looks at the inboxes of all nodes again and again, from the files alone: no node has to answer. Not thread-safe.

    Args:
        root: whose nodes.
        keyring: of that root.
        but: a name whose lanes are left out: who looks writes and reads lanes for that.
    """

    def __init__(self, root: str, keyring: Keyring, but: str = "") -> None:
        self._root, self._keyring, self._but = root, keyring, but
        self._inboxes: dict[str, _Inbox] = {}

    def look(self) -> LaneBacklogs:
        """What waits for nodes that have an entry, also one that expired. OSError if the registry cannot be read."""
        self._keyring.look()
        present = sorted(name for name in listed(self._root) if name != self._but)
        self._inboxes = {name: self._inboxes.get(name) or _Inbox(self._root, name, self._but) for name in present}
        left, ends = MAX_LANES_A_LOOK, time.monotonic() + LOOK_SECONDS
        for inbox in sorted(self._inboxes.values(), key=lambda one: one.looked):
            if left <= 0 or time.monotonic() > ends:
                break
            left -= inbox.look(self._keyring, left)
        return {name: _most(inbox.found) for name, inbox in self._inboxes.items() if inbox.found}


class _Inbox:
    """The lanes into one node."""

    def __init__(self, root: str, node: str, but: str) -> None:
        self._root, self._node, self._but = root, node, but
        self._stamp: tuple[int, ...] = ()
        self._lanes: dict[str, WaitingInLane] = {}
        self.looked = 0.0
        self.found: dict[str, LaneBacklog] = {}

    def look(self, keyring: Keyring, most: int) -> int:
        """Look at no more than so many lanes; returns a number for what it cost."""
        self.looked = time.monotonic()
        self._list(keyring)
        now, found = time.time() * 1000, {}
        for sender, lane in islice(self._lanes.items(), most):
            try:
                waits = lane.look()
            except OSError:
                continue  # it was removed meanwhile, or `speed root doctor` tells why
            if waits is not None:
                age = max(0.0, now - waits.oldest_ms) / 1000
                found[sender] = LaneBacklog(waits.envelopes, waits.size, age)
        self.found = found
        return 1 + len(self._lanes)

    def _list(self, keyring: Keyring) -> None:
        """Which lanes there are, unless none came or went since they were listed."""
        try:
            if self._stamp and self._stamp == _stamp_of(os.stat(names.inbox_dir(self._root, self._node))):
                return
            fd = _opened_beneath(names.node_dir(self._root, self._node), "inbox")
        except OSError:
            self._stamp, self._lanes = (), {}
            return
        try:
            status = os.fstat(fd)
            self._stamp = _stamp_of(status) if is_settled(status.st_mtime_ns) else ()
            senders = sorted(one.name for one in names_in(fd, MAX_LANES) if names.is_node_name(one.name))
        finally:
            os.close(fd)
        self._lanes = {
            sender: self._lanes.get(sender) or WaitingInLane(self._root, self._node, sender, keyring)
            for sender in senders
            if sender != self._but
        }


def _most(found: dict[str, LaneBacklog]) -> dict[str, LaneBacklog]:
    """The senders of whom most waits, the others as one."""
    if len(found) <= MAX_PEERS:
        return found
    ordered = sorted(found, key=lambda sender: (-found[sender].messages, sender))
    return {sender: found[sender] for sender in ordered[:MAX_PEERS]} | {
        OTHERS: together(found[sender] for sender in ordered[MAX_PEERS:])
    }


def lane_troubles(found: LaneBacklogs, patience_seconds: float = BEHIND_SECONDS) -> Iterator[Finding]:
    """Nodes for which something waits that long."""
    for node, rows in sorted(found.items()):
        everything = together(rows.values())
        if everything.oldest_seconds > patience_seconds:
            text = f"{waiting_text(node, everything)}; from {_senders(rows)}"
            yield Finding("lanes", "warning", text, _TODO.format(node))


_TODO = "its process is gone, stopped or hangs, or its handlers are slow: see `speed stats {}`, then restart it"
_SENDERS_SHOWN = 3


def waiting_text(node: str, one: LaneBacklog) -> str:
    """What waits for a node, as half a sentence."""
    messages = "1 message waits" if one.messages == 1 else f"{one.messages} messages wait"
    return f"{messages} in the lanes of {node}, the oldest for {seconds_text(one.oldest_seconds)}"


def _senders(rows: Mapping[str, LaneBacklog]) -> str:
    """Those of whom the oldest waits longest."""
    ordered = sorted(rows, key=lambda sender: -rows[sender].oldest_seconds)
    others = len(ordered) - _SENDERS_SHOWN
    return ", ".join(ordered[:_SENDERS_SHOWN]) + (f" and {others} more" if others > 0 else "")
