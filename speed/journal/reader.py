"""Reading a journal beside its writer, or after it: lanes, positions, records, the call log.

No node, no thread, no lock: the last volume only grows, others are removed or replaced whole, and a record keeps its
offset for ever.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import merge
from typing import Any, NamedTuple

from speed.errors import (
    JournalDamagedError,
    JournalError,
    JournalExpiredError,
    JournalReplacedError,
    KeyFileError,
    WireError,
)
from speed.fs.keyfile import KeySource
from speed.journal.files import Block, Call, End, JournalLane, Record, Volume, lanes_in, read_call, removed_lanes
from speed.wire import names
from speed.wire.journal import BlockHeader, Description, VolumeKeys
from speed.wire.limits import MAX_JOURNAL_LANES
from speed.wire.seal import Keyring

NEVER_MS = 1 << 64
"""Later than every time in a block."""


class LaneInfo(NamedTuple):
    """One lane: ``kind`` is ``topic``, ``inbox`` or ``calls``; ``source`` the node whose messages it holds."""

    id: str
    kind: str
    subject: str
    source: str


class Journal:
    """A journal as a reader sees it. Pickled as its two paths; each thread needs its own.

    Args:
        directory: where it lies; ``journal`` in the root unless speedd was told otherwise.
        key: the key file of its root.

    Its methods raise JournalError, JournalExpiredError, JournalDamagedError, JournalReplacedError, KeyFileError.
    """

    def __init__(self, directory: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        self.directory = os.path.abspath(os.fspath(directory))
        self.key = os.path.abspath(os.fspath(key))
        self._ring: Keyring | None = None
        self._lanes: dict[str, Description] = {}
        self._places: dict[str, tuple[int, int, int]] = {}
        """Where the last walk of each lane's last volume ended: volume, position, offset."""
        self._marked: dict[str, tuple[int, int, int]] = {}
        """The block that was marked last in each lane: volume, position, first offset."""

    def __reduce__(self) -> Any:
        return Journal, (self.directory, self.key)

    def __repr__(self) -> str:
        return f"<Journal {self.directory}>"

    # --- lanes ---

    def lanes(self, *, skip_damaged: bool = False) -> list[LaneInfo]:
        """All lanes, by kind, subject and source. A lane keeps its id for ever.

        Raises JournalDamagedError if what a lane records cannot be read; with ``skip_damaged`` it is left out.
        """
        found, damaged = self.survey()
        if damaged and not skip_damaged:
            raise next(iter(damaged.values()))
        return found

    def survey(self) -> tuple[list[LaneInfo], dict[str, JournalDamagedError]]:
        """All lanes, and by their ids those of which nobody can tell what they record."""
        try:
            present = lanes_in(self.directory, MAX_JOURNAL_LANES)
        except OSError as error:
            raise JournalError(
                f"there is no journal in {self.directory} ({error.strerror}): name the directory that speedd writes"
            ) from None
        self._lanes = {lane_id: self._lanes[lane_id] for lane_id in present if lane_id in self._lanes}
        found: list[LaneInfo] = []
        damaged: dict[str, JournalDamagedError] = {}
        for lane_id in present:
            try:
                info = self._info(lane_id)
            except JournalDamagedError as error:
                damaged[lane_id] = error
            else:
                found += [info] if info else []
        return sorted(found, key=lambda info: info[1:]), damaged

    def lane(self, lane_id: str) -> LaneInfo:
        """What one lane holds. Raises JournalExpiredError if retention removed all of it."""
        info = self._info(lane_id) if names.is_journal_lane(lane_id) else None
        if info is None:
            self._check_removed(lane_id)
            raise JournalError(f"there is no lane {lane_id!r} in {self.directory}: `speed journal list` shows all")
        return info

    def _check_removed(self, lane_id: str) -> None:
        end = self.removed().get(lane_id)
        if end is not None:
            raise JournalExpiredError(
                f"lane {lane_id} was removed by retention with all its records, the last was {end - 1}: "
                "keep more (max_bytes, max_age_seconds)",
                end,
            )

    def removed(self) -> dict[str, int]:
        """Lanes that retention removed wholly, not long ago, and the offset that came next in each."""
        try:
            lanes = removed_lanes(self.directory, self._keyring())
        except OSError as error:
            raise JournalError(f"{self.directory}/{names.JOURNAL_REMOVED} cannot be read: {error.strerror}") from None
        return {lane.hex(): end for lane, end in lanes.items()}

    def _info(self, lane_id: str) -> LaneInfo | None:
        """None for a directory that is only just being made, or no lane."""
        known = self._lanes.get(lane_id) or self._description(lane_id)
        if known is None:
            return None
        self._lanes[lane_id] = known
        return LaneInfo(lane_id, *known.subject)

    def _description(self, lane_id: str) -> Description | None:
        try:
            with JournalLane(self.directory, lane_id) as files:
                return files.description(self._keyring())
        except OSError:
            return None
        except WireError as error:
            raise self._unreadable(lane_id, "its description", 0, error) from None

    # --- offsets ---

    def first(self, lane_id: str) -> int:
        """The first offset that retention kept; ``end`` of a lane without records."""
        with self._files(lane_id) as files:
            volumes = files.volumes()
        return volumes[0] if volumes else 0

    def end(self, lane_id: str, *, skip_damaged: bool = False) -> int:
        """The offset behind the last whole record. Reads headers of the last volume, and those only once.

        Raises JournalDamagedError for a lane that was cut, or is damaged there; with ``skip_damaged`` it is where the
        lane ended before, as far as that is known.
        """
        with self._files(lane_id) as files:
            noted = self._noted_end(files, skip_damaged)
            found = self._found_end(files, skip_damaged)
        if found < noted and not skip_damaged:
            raise self._cut(lane_id, found, noted)
        return max(found, noted)

    def _noted_end(self, files: JournalLane, skip_damaged: bool) -> int:
        """The end that the writer noted: what is behind it may be there, what is before it must."""
        if not self._lanes[files.id].has_end:
            return 0
        try:
            return files.end(self._keyring())
        except WireError as error:
            self._check_removed(files.id)
            if not skip_damaged or error.reason == "UNKNOWN_KEY":
                raise self._unreadable(files.id, "its end", 0, error) from None
            return 0

    def _found_end(self, files: JournalLane, skip_damaged: bool) -> int:
        while volumes := files.volumes():
            volume = self._open(files, volumes[-1])
            if volume is not None:
                return self._walk_to_end(files.id, volume, skip_damaged)
        self._check_removed(files.id)
        return 0

    def _walk_to_end(self, lane_id: str, volume: Volume, skip_damaged: bool) -> int:
        try:
            first, position, offset = self._places.get(lane_id, (-1, 0, 0))
            if first == volume.first and position <= volume.size():
                volume.seek(position, offset)
            for _ in volume.headers():
                pass
            if volume.ended is End.DAMAGED and not skip_damaged:
                raise self._damaged(lane_id, volume)
            self._places[lane_id] = volume.first, volume.position, volume.offset
            return volume.offset
        finally:
            volume.close()

    def offset_at(self, lane_id: str, unix_ms: int) -> int:
        """The first offset of the first block whose last record is not older; ``end`` if all are."""
        with self._files(lane_id) as files:
            volumes = files.volumes()
            # The first volume that begins at that time or later; what is asked for may lie in the one before it.
            later = bisect_left(volumes, unix_ms, key=lambda first: self._first_ms(lane_id, files, first))
            for first in volumes[max(0, later - 1) : later]:
                volume = self._open(files, first)
                found = None if volume is None else self._walk_to_time(lane_id, volume, unix_ms)
                if found is not None:
                    return found
        return volumes[later] if later < len(volumes) else self.end(lane_id)

    def _walk_to_time(self, lane_id: str, volume: Volume, unix_ms: int) -> int | None:
        try:
            for header, _ in volume.headers():
                if header.last_ms >= unix_ms:
                    return header.first
            if volume.ended is End.DAMAGED:
                raise self._damaged(lane_id, volume)
            return None
        finally:
            volume.close()

    def _first_ms(self, lane_id: str, files: JournalLane, first: int) -> int:
        """When a volume begins; never, if nothing is in it yet."""
        volume = self._open(files, first)
        if volume is None:
            return 0  # removed meanwhile: older than all that is kept
        try:
            header = next((header for header, _ in volume.headers()), None)
            if header is None and volume.ended is End.DAMAGED:
                raise self._damaged(lane_id, volume)
            return NEVER_MS if header is None else header.first_ms
        finally:
            volume.close()

    # --- positions ---

    def mark(self, lane_id: str, offset: int) -> str:
        """What a reader keeps beside the offset that comes next, for ``check``: of the block before it; empty for none.

        Raises JournalDamagedError where the way to that block is damaged.
        """
        with self._files(lane_id) as files:
            found = self._block_before(files, offset)
        return found[0].nonce.hex() if found else ""

    def check(self, lane_id: str, offset: int, mark: str) -> None:
        """Whether a saved position is one of this lane, which may have been restored from a copy since then.

        Raises JournalReplacedError if not; JournalDamagedError if that cannot be found out.
        """
        end = self.end(lane_id, skip_damaged=True)
        if offset > end:
            raise self._replaced(lane_id, offset, f"this lane ends at {end}")
        with self._files(lane_id) as files:
            found = self._block_before(files, offset) if mark else None
        if found is not None and not (found[1] and (found[0].is_rewritten or found[0].nonce.hex() == mark)):
            raise self._replaced(lane_id, offset, "what is recorded there is something else")

    def _block_before(self, files: JournalLane, offset: int) -> tuple[BlockHeader, bool] | None:
        """The block that holds the record before ``offset``, and whether it is authentic; None if it is not there."""
        volumes = files.volumes()
        place = bisect_left(volumes, offset) - 1
        volume = self._open(files, volumes[place]) if place >= 0 else None
        if volume is None:
            return None
        try:
            first, position, begin = self._marked.get(files.id, (-1, 0, 0))
            if first == volume.first and begin < offset and position < volume.size():
                volume.seek(position, begin)
                found = self._walk_to_block(files, volume, offset)
                if found is not None:
                    return found
                volume.seek(0, volume.first)  # it was rewritten since then
            found = self._walk_to_block(files, volume, offset)
            if found is None and volume.ended is End.DAMAGED:
                raise self._damaged(files.id, volume)
            return found
        finally:
            volume.close()

    def _walk_to_block(self, files: JournalLane, volume: Volume, offset: int) -> tuple[BlockHeader, bool] | None:
        for header, _ in volume.headers():
            if header.end >= offset:
                self._marked[files.id] = volume.first, volume.position, header.first
                keys = VolumeKeys(self._keyring(), files.raw_id, volume.first)
                _, block = next(volume.headers(bodies=True), (header, b""))
                return header, keys.opens(header, block)
        return None

    def _replaced(self, lane_id: str, offset: int, what: str) -> JournalReplacedError:
        return JournalReplacedError(
            f"offset {offset} of lane {lane_id} is not of this journal: {what}. It was restored from a copy, or cut, "
            "since that offset was saved: begin anew, at the first record kept"
        )

    # --- records ---

    def read(self, lane_id: str, start: int, end: int, *, skip_damaged: bool = False) -> Iterator[Record]:
        """Records ``start <= offset < end`` in order, as far as they are written.

        Offsets that compaction left out are passed. Raises JournalExpiredError for a ``start`` that retention removed.
        Damage raises JournalDamagedError; with ``skip_damaged`` reading goes on behind it, and offsets show what is
        missing.
        """
        source = self.lane(lane_id).source
        blocks = self.blocks(lane_id, start, end, skip_damaged=skip_damaged)
        return (record for block in blocks for record in block.records(source))

    def blocks(self, lane_id: str, start: int, end: int, *, skip_damaged: bool = False) -> Iterator[Block]:
        """What ``read`` gives, undecoded and many records at once."""
        info = self.lane(lane_id)
        if start < end and start < (first := self.first(lane_id)):
            raise self._expired(lane_id, start, first)
        return self._blocks(info, start, end, skip_damaged)

    def calls(self, start_ms: int, end_ms: int) -> Iterator[Call]:
        """The calls answered at ``start_ms <= time < end_ms``, by time."""
        lanes = [info for info in self.lanes() if info.kind == "calls"]
        return merge(*(self._calls(info, start_ms, end_ms) for info in lanes))

    def _calls(self, info: LaneInfo, start_ms: int, end_ms: int) -> Iterator[Call]:
        for record in self.read(info.id, self.offset_at(info.id, start_ms), self.end(info.id)):
            if record.recorded_at_ms >= end_ms:
                return
            if record.recorded_at_ms >= start_ms:
                yield read_call(record, info.subject)

    def _blocks(self, info: LaneInfo, start: int, end: int, skip_damaged: bool) -> Iterator[Block]:
        """Volume by volume; the listing is looked at anew for each, as they come and go meanwhile."""
        with self._files(info.id) as files:
            while start < end:
                noted = min(end, self._noted_end(files, skip_damaged))
                volumes = files.volumes()
                place = bisect_right(volumes, start) - 1
                if place < 0:
                    if volumes:
                        raise self._expired(info.id, start, volumes[0])
                    if start < noted and not skip_damaged:
                        raise self._cut(info.id, start, noted)
                    return
                volume = self._open(files, volumes[place])
                if volume is None:
                    continue
                try:
                    yield from self._volume(info, volume, start, end, skip_damaged)
                finally:
                    volume.close()
                start = max(start, volume.offset)
                following = volumes[place + 1 : place + 2]
                if following:  # it was final before it was read, or covers what its successors did
                    if volume.offset < min(end, following[0]) and not skip_damaged:
                        raise self._damaged(info.id, volume)
                    start = max(start, following[0])
                elif files.volumes()[-1:] == volumes[-1:]:
                    if start < noted and not skip_damaged:
                        raise self._cut(info.id, start, noted)
                    return

    def _volume(self, info: LaneInfo, volume: Volume, start: int, end: int, skip: bool) -> Iterator[Block]:
        """The wanted records of one volume; ``volume.offset`` stands behind them."""
        keys = VolumeKeys(self._keyring(), bytes.fromhex(info.id), volume.first)
        for header, _ in volume.headers():
            if header.end > start:
                break
        while True:
            for header, block in volume.headers(bodies=True):
                if header.first >= end:
                    return
                try:
                    opened = keys.decrypt(header, block)
                except WireError as error:
                    if not skip or error.reason == "UNKNOWN_KEY":
                        raise self._unreadable(info.id, f"block at {volume.position}", header.first, error) from None
                    volume.ended = End.DAMAGED
                    break
                yield Block(header.first, *opened, header.left_out).between(start, end)
            if volume.ended is not End.DAMAGED:
                return
            if not skip:
                raise self._damaged(info.id, volume)
            if not volume.search(keys.opens):
                return
            volume.ended = End.CLEAN

    # --- opening, refusing ---

    def _keyring(self) -> Keyring:
        if self._ring is None:
            self._ring = KeySource(self.key).keyring
        return self._ring

    def _files(self, lane_id: str) -> JournalLane:
        self.lane(lane_id)
        try:
            return JournalLane(self.directory, lane_id)
        except OSError as error:
            self._lanes.pop(lane_id, None)
            self._check_removed(lane_id)
            raise JournalError(f"lane {lane_id} of {self.directory} cannot be opened: {error.strerror}") from None

    def _open(self, files: JournalLane, first: int) -> Volume | None:
        """An open volume; None if retention removed it since it was listed."""
        try:
            return Volume(files.open(first), first)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"volume {first} of lane {files.id} cannot be opened: {error.strerror}") from None

    def _expired(self, lane_id: str, start: int, first: int) -> JournalExpiredError:
        return JournalExpiredError(
            f"offset {start} of lane {lane_id} was removed by retention, the first one kept is {first}: "
            f"begin there, or keep more (max_bytes, max_age_seconds)",
            first,
        )

    def _damaged(self, lane_id: str, volume: Volume) -> JournalDamagedError:
        return JournalDamagedError(
            f"lane {lane_id}, volume {volume.first}: no block of offset {volume.offset} at byte "
            f"{volume.position}; read with skip_damaged to go on behind it",
            volume.offset,
        )

    def _cut(self, lane_id: str, end: int, noted: int) -> JournalError:
        """What is missing before a lane's noted end; JournalExpiredError if retention just removed the lane."""
        self._check_removed(lane_id)
        return JournalDamagedError(
            f"lane {lane_id} was cut: it was written to offset {noted}, and ends at {end}. Somebody cut it, or "
            "the power failed before it was on disk; read with skip_damaged to go on behind it",
            end,
        )

    def _unreadable(self, lane_id: str, what: str, offset: int, error: WireError) -> JournalError | KeyFileError:
        if error.reason == "UNKNOWN_KEY":
            return KeyFileError(f"lane {lane_id}: {what}: {error}: add the key that speedd used to {self.key}")
        return JournalDamagedError(
            f"lane {lane_id}: {what}: {error}; read with skip_damaged to go on behind it", offset
        )
