"""One lane being read, as the holder of the protocol role and those who finish envelopes share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from speed.core.log import logger
from speed.core.progress import Token
from speed.fs.envelope_reader import Received
from speed.fs.lane_reader import LaneReader
from speed.runtime import locks
from speed.runtime.stats import Stats
from speed.wire.envelope import EnvelopeType
from speed.wire.names import node_id

log = logger("speed.protocol")

WORK = frozenset({EnvelopeType.MESSAGE, EnvelopeType.SPC_REQUEST, EnvelopeType.EVENT})
"""Types that are finished after they were handled; all others are done when they are read (L-15)."""


class Lane(Protocol):
    """Where an envelope came from, and how it is finished."""

    @property
    def source(self) -> str: ...
    def begin(self, token: Token, *, listed: bool) -> bool: ...
    def keep_start(self) -> None: ...
    def begin_again(self, token: Token) -> int: ...
    def finish(self, tokens: Iterable[Token]) -> None: ...
    def drop(self, token: Token) -> None: ...


class InboundLane:
    """Orders reading, finishing and committing by ``lock``; ``resume(id)`` has a paused lane read again.

    At rest it holds no file open: what is finished meanwhile opens them for that long only.
    """

    __slots__ = (
        "_closed",
        "_opened",
        "_paused",
        "_rang",
        "_rests",
        "_resume",
        "_stats",
        "ended_at",
        "holds_large",
        "id",
        "is_elsewhere",
        "lock",
        "reader",
        "source",
        "unread",
    )

    def __init__(self, source: str, reader: LaneReader, stats: Stats, resume: Callable[[bytes], None]) -> None:
        self.source = source
        self.id = node_id(source)
        self.lock = locks.lock("lane")
        self.reader = reader
        self._stats = stats
        self._resume = resume
        self._paused = False
        self._closed = False
        self._rests = False
        self.unread = False
        """Whether the last ``read`` may have left something, by its bounds or because too much is unfinished."""
        self.holds_large = False
        """Whether it was left at a large envelope, for ``read_large``."""
        self.is_elsewhere = False
        """Whether another thread reads that one now: whoever leaves it to that thread sets it, which clears it."""
        self._opened: tuple[list[Received], bool] | Exception | None = None
        """What ``read_large`` brought."""
        self._rang = False
        """Whether it was to be read while another thread read it."""
        self.ended_at: int | None = None
        """When its directory was changed last, if its sender was gone before a scan read it; -1: just now."""

    def read(self, max_envelopes: int, max_bytes: int, now: float, scan: bool) -> tuple[list[Received], bool]:
        """What the reader has now, nothing while too much is unfinished; OSError if the filesystem fails.

        It stops before a large envelope, and brings what ``read_large`` read.
        """
        with self.lock:
            self._rests = False
            received, more = self._take_opened() or self._read(max_envelopes, max_bytes, now, scan)
            self.holds_large = more and not self._paused and self.reader.holds_large
            self.unread = more or self._paused
            for envelope in received:
                if envelope.header.type not in WORK:
                    self.reader.finish(envelope.token, lazy=True)
            return received, more

    def _read(self, max_envelopes: int, max_bytes: int, now: float, scan: bool) -> tuple[list[Received], bool]:
        self._paused = self.reader.is_full
        if self._paused or self._closed:
            return [], False
        return self.reader.read(max_envelopes, max_bytes, now, scan=scan, large=False)

    def _take_opened(self) -> tuple[list[Received], bool] | None:
        opened, self._opened = self._opened, None
        rang, self._rang = self._rang, False
        if isinstance(opened, Exception):
            raise opened
        return None if rang and opened == ([], False) else opened  # what was missing may be there

    def read_later(self) -> bool:
        """Whether another thread reads a large one now; if it brings nothing, the lane is read once more after that."""
        is_elsewhere = self.is_elsewhere
        self._rang = self._rang or is_elsewhere
        return is_elsewhere

    def read_large(self, now: float, scan: bool) -> None:
        """Read the large one that ``holds_large`` tells of, on any thread: the next ``read`` brings it."""
        with self.lock:
            try:
                if not self._closed:
                    self._opened = self.reader.read(1, 1, now, scan=scan)
            except Exception as error:  # for the thread that reads to act on
                self._opened = error
            finally:
                self.is_elsewhere = False
        self._resume(self.id)

    @property
    def is_read(self) -> bool:
        """Whether nothing of it is unread or unfinished."""
        with self.lock:
            return not self.unread and self.reader.is_idle

    def begin(self, token: Token, *, listed: bool) -> bool:
        """Commit a request before it is begun (S-8); False if that could not be written, so that it must not begin.

        ``listed``: until it is finished the cursor says that it began. LeaseLostError if a successor reads the lane.
        """
        with self.lock:
            if self._closed:
                return False
            committed = self.reader.begin(token, listed=listed)
            self._stay_at_rest()
            resume = self._paused and not self.reader.is_full
        if resume:
            self._resume(self.id)
        return committed

    def keep_start(self) -> None:
        """Before a request for another generation is finished (L-31)."""
        with self.lock:
            if not self._closed:
                self.reader.keep_start()
                self._stay_at_rest()

    def begin_again(self, token: Token) -> int:
        """How often a message that came again has been begun, with this time (L-25)."""
        with self.lock:
            if self._closed:
                return 2
            count = self.reader.begin_again(token)
            self._stay_at_rest()
            return count

    def finish(self, tokens: Iterable[Token]) -> None:
        """Commit that these envelopes are done. A failing filesystem is counted: they may be redelivered."""
        with self.lock:
            if self._closed:
                return
            try:
                *first, last = tokens
                for token in first:
                    self.reader.finish(token, lazy=True)
                self.reader.finish(last)
            except OSError as error:
                self._commit_failed(error)
            self._stay_at_rest()
            resume = self._paused and not self.reader.is_full
        if resume:
            self._resume(self.id)

    def drop(self, token: Token) -> None:
        """A refused envelope is done; it is committed with the next ones."""
        with self.lock:
            self.reader.finish(token, lazy=True)
            self._stay_at_rest()

    def rest(self) -> None:
        """Hold no file open until it is read again."""
        with self.lock:
            self._rests = True
            self._stay_at_rest()

    def _stay_at_rest(self) -> None:
        if not self._rests or self._closed:
            return
        try:
            self.reader.rest()
        except OSError as error:
            self._commit_failed(error)

    def _commit_failed(self, error: OSError) -> None:
        self._stats.count("commits_failed")
        log.warning("lane of %s: cursor not written: %s", self.source, error)

    def close(self, *, clean: bool) -> None:
        """Release the lane; with ``clean`` its position is committed first."""
        with self.lock:
            if not self._closed:
                self._closed = True
                if clean:
                    self.reader.close(clean=True)
                else:
                    self.reader.abandon()

    def abandon(self) -> None:
        """In a forked child: close descriptors; the parent's lock may be held for ever and is not taken."""
        self.reader.abandon()
