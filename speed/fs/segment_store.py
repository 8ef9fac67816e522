"""The segments that a node received and not yet put together: sealed, beside an index (G-14).

All that tells anything is sealed; names are made with the key. One process writes it.

The segments of one payload lie one after the other in a file, in sealed blocks that can be read each for itself.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import RootError, SegmentStoreError, WireError
from speed.fs.open import ensure_directory, names_in, open_directory, open_or_make, sync_directory, unlink_quietly
from speed.segment.form import Segment
from speed.segment.reassembly import COLUMN_UNIT, PayloadKey, Reconstruction
from speed.wire import names
from speed.wire.limits import NONCE_BYTES, TAG_BYTES
from speed.wire.seal import Keyring

# Which segments a node holds, of what, and which payloads are complete: a small SQLite file (G-14).

VERSION = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS payload(id BLOB PRIMARY KEY, head BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS shard(id BLOB PRIMARY KEY, payload BLOB NOT NULL, head BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS shard_of ON shard(payload);
CREATE TABLE IF NOT EXISTS complete(id BLOB PRIMARY KEY, head BLOB NOT NULL);
"""
# No write-ahead log: a forked child that closes its copy would write it back under the parent's feet.
_PRAGMAS = ("locking_mode=EXCLUSIVE", "journal_mode=PERSIST")
_PAYLOAD = Struct(">BBBd32s")
_SHARD = Struct(">BIQd")
_COMPLETE = Struct(">Bd32s")


class StoreDamagedError(SegmentStoreError):
    """The store is of another version, of another key, or not what was written."""


class StoredSegment(NamedTuple):
    """Where a segment's bytes lie in the file of its payload; when it came (Unix seconds)."""

    slot: int
    size: int
    offset: int
    at: float


class Listed(NamedTuple):
    """A payload that is not complete; ``begun`` is in Unix seconds."""

    key: PayloadKey
    data_count: int
    parity_count: int
    begun: float
    places: list[StoredSegment]


class SegmentIndex:
    """The tables. Not thread-safe. Every method may raise SegmentStoreError."""

    def __init__(self, path: str, node: bytes, keyring: Keyring, *, durable: bool) -> None:
        """Open or make it. StoreDamagedError if it cannot be used as it is."""
        self._node, self._keyring = node, keyring
        with _translated():
            os.close(open_or_make(path, os.O_RDWR))
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare("FULL" if durable else "OFF")
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, synchronous: str) -> None:
        with _translated():
            for pragma in (*_PRAGMAS, f"synchronous={synchronous}"):
                self._db.execute(f"PRAGMA {pragma}")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise StoreDamagedError(f"the segment store has version {version}; this is version {VERSION}")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO setting VALUES ('key', ?)", (self._keyring.key_id,))
            self._db.execute(f"PRAGMA user_version={VERSION}")
            self._db.execute("COMMIT")
            self.key_id = bytes(self._db.execute("SELECT value FROM setting WHERE name='key'").fetchone()[0])
            try:
                self._aead = self._keyring.segments_aead(self.key_id, self._node)
            except WireError as error:
                raise StoreDamagedError(f"the segment store was sealed with another key: {error}") from None
            self._keyring = self._keyring.frozen()  # it goes on with the key that it was opened with (W-20)

    def id_of(self, key: PayloadKey) -> bytes:
        """The name of a payload in files and tables."""
        return self._keyring.segments_id(self.key_id, bytes((key.kind,)) + key.hash + key.sender.encode())

    def aead_of(self, payload_id: bytes) -> Any:
        """Seals the segments of one payload."""
        return self._keyring.segments_aead(self.key_id, self._node + payload_id)

    def add(self, key: PayloadKey, counts: tuple[int, int], begun: float, place: StoredSegment) -> None:
        """Note a segment whose bytes are in place; noting it again changes nothing."""
        payload = self.id_of(key)
        head = _PAYLOAD.pack(key.kind, *counts, begun, key.hash) + key.sender.encode()
        shard = self._keyring.segments_id(self.key_id, payload + bytes((place.slot,)))
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO payload VALUES (?, ?)", (payload, self._seal(head, payload)))
            sealed = self._seal(_SHARD.pack(*place), shard)
            db.execute("INSERT OR REPLACE INTO shard VALUES (?, ?, ?)", (shard, payload, sealed))

    def remove(self, key: PayloadKey) -> None:
        """Forget a payload that is not complete."""
        with self._writing() as db:
            self._remove(db, self.id_of(key))

    def complete(self, key: PayloadKey, at: float, forgotten: list[PayloadKey]) -> None:
        """Note that a payload was delivered, and forget others that were."""
        payload = self.id_of(key)
        head = self._seal(_COMPLETE.pack(key.kind, at, key.hash) + key.sender.encode(), payload)
        with self._writing() as db:
            self._remove(db, payload)
            db.execute("INSERT OR REPLACE INTO complete VALUES (?, ?)", (payload, head))
            self._forget(db, forgotten)

    def forget(self, keys: list[PayloadKey]) -> None:
        """Forget payloads that were delivered."""
        with self._writing() as db:
            self._forget(db, keys)

    def payloads(self) -> Iterator[Listed]:
        """All payloads that are not complete."""
        with _translated():
            for payload, head in self._db.execute("SELECT id, head FROM payload").fetchall():
                yield self._listed(payload, head)

    def payload(self, key: PayloadKey) -> Listed | None:
        """One payload that is not complete."""
        with _translated():
            payload = self.id_of(key)
            row = self._db.execute("SELECT head FROM payload WHERE id=?", (payload,)).fetchone()
            return None if row is None else self._listed(payload, row[0])

    def completions(self) -> Iterator[tuple[PayloadKey, float]]:
        """All payloads that were delivered, and when (Unix seconds)."""
        with _translated():
            for payload, head in self._db.execute("SELECT id, head FROM complete").fetchall():
                opened = self._open(head, payload)
                kind, at, digest = _COMPLETE.unpack_from(opened)
                yield PayloadKey(opened[_COMPLETE.size :].decode(), kind, digest), at

    def close(self) -> None:
        self._db.close()

    def _listed(self, payload: bytes, head: bytes) -> Listed:
        opened = self._open(head, payload)
        kind, data_count, parity_count, begun, digest = _PAYLOAD.unpack_from(opened)
        key = PayloadKey(opened[_PAYLOAD.size :].decode(), kind, digest)
        return Listed(key, data_count, parity_count, begun, self._places(payload))

    def _places(self, payload: bytes) -> list[StoredSegment]:
        rows = self._db.execute("SELECT id, head FROM shard WHERE payload=?", (payload,)).fetchall()
        return [StoredSegment(*_SHARD.unpack(self._open(head, shard))) for shard, head in rows]

    def _remove(self, db: sqlite3.Connection, payload: bytes) -> None:
        db.execute("DELETE FROM shard WHERE payload=?", (payload,))
        db.execute("DELETE FROM payload WHERE id=?", (payload,))

    def _forget(self, db: sqlite3.Connection, keys: list[PayloadKey]) -> None:
        db.executemany("DELETE FROM complete WHERE id=?", [(self.id_of(key),) for key in keys])

    def _seal(self, head: bytes, name: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._aead.encrypt(nonce, head, name))

    def _open(self, sealed: bytes, name: bytes) -> bytes:
        try:
            return bytes(self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name))
        except Exception:
            raise StoreDamagedError("a row of the segment store is not authentic") from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SegmentStoreError(f"the segment store cannot be used now: {error}") from error
    except (sqlite3.Error, ValueError, UnicodeDecodeError) as error:
        raise StoreDamagedError(f"the segment store is damaged: {error}") from error
    except OSError as error:
        raise SegmentStoreError(f"the segment store cannot be used now: {error.strerror}") from error


BLOCK_BYTES = COLUMN_UNIT
_SEALED_BYTES = NONCE_BYTES + BLOCK_BYTES + TAG_BYTES
_BLOCKS_A_WRITE = 256
_MAX_FILES = 1 << 16
_OPEN = os.O_RDWR | os.O_NONBLOCK


class SegmentStore:
    """Keeps segments. Not thread-safe; ``shards`` are, each for one thread. Every method may raise SegmentStoreError.

    ``put_aside`` counts stores that could not be used and were begun anew.
    """

    def __init__(self, root: str, name: str, keyring: Keyring, *, durable: bool = False) -> None:
        self._path = names.segments_dir(root, name)
        self._node, self._keyring, self._durable = names.node_id(name), keyring, durable
        self._dir = -1
        self._index: SegmentIndex | None = None
        self.put_aside = 0

    def exists(self) -> bool:
        """Whether an earlier process of this name left something."""
        return os.path.isdir(self._path)

    def load(self) -> tuple[list[Listed], list[tuple[PayloadKey, float]]]:
        """What is held and what is complete; files that belong to nothing are removed."""
        try:
            listed, done = list(self.index().payloads()), list(self.index().completions())
        except StoreDamagedError:
            self.start_anew()
            return [], []
        index = self.index()
        self._remove_files(except_for={names.shards_name(index.id_of(one.key)) for one in listed})
        return listed, done

    def put(self, one: Reconstruction, segment: Segment, at: float) -> None:
        """Keep a segment of ``one``; ``at`` and ``one.begun`` are Unix seconds."""
        index = self.index()
        payload_id = index.id_of(one.key)
        try:
            fd = open_or_make(names.shards_name(payload_id), _OPEN, self._dir)
            try:
                offset = _append(fd, index.aead_of(payload_id), segment.slot, memoryview(segment.payload))
                if self._durable:
                    os.fdatasync(fd)
                    os.fsync(self._dir)
            finally:
                os.close(fd)
        except OSError as error:
            raise SegmentStoreError(f"a segment cannot be kept: {error.strerror}") from error
        place = StoredSegment(segment.slot, len(segment.payload), offset, at)
        index.add(one.key, (one.data_count, one.parity_count), one.begun, place)

    def shards(self, listed: Listed) -> StoredShards:
        """The segments of one payload, for reading."""
        index = self.index()
        payload_id = index.id_of(listed.key)
        try:
            fd = open_or_make(names.shards_name(payload_id), _OPEN, self._dir)
        except OSError as error:
            raise SegmentStoreError(f"segments cannot be read: {error.strerror}") from error
        return StoredShards(fd, index.aead_of(payload_id), listed)

    def listed(self, key: PayloadKey) -> Listed | None:
        """What is kept of one payload."""
        return self.index().payload(key)

    def remove(self, keys: Iterable[PayloadKey]) -> None:
        """Forget payloads that are not complete."""
        index = self.index()
        for key in keys:
            index.remove(key)
            unlink_quietly(names.shards_name(index.id_of(key)), self._dir)

    def complete(self, key: PayloadKey, at: float, forgotten: list[PayloadKey]) -> None:
        """Note a delivery at ``at`` (Unix seconds), and forget older ones."""
        index = self.index()
        index.complete(key, at, forgotten)
        unlink_quietly(names.shards_name(index.id_of(key)), self._dir)

    def forget(self, keys: list[PayloadKey]) -> None:
        """Forget deliveries."""
        if keys:
            self.index().forget(keys)

    def close(self) -> None:
        index, directory = self._index, self._dir
        self._index, self._dir = None, -1  # first: a child that is forked between closes them no second time
        if index is not None:
            index.close()
        if directory >= 0:
            os.close(directory)

    def start_anew(self) -> None:
        """Put a damaged store aside, in the place of one put aside before."""
        self.close()
        self.put_aside += 1
        self._open_directory()
        index = names.SEGMENT_INDEX
        try:
            os.replace(index, f"{index}.damaged", src_dir_fd=self._dir, dst_dir_fd=self._dir)
        except OSError:
            unlink_quietly(index, self._dir)
        for left in (f"{index}-wal", f"{index}-shm", f"{index}-journal"):
            unlink_quietly(left, self._dir)
        self._remove_files(except_for=set())

    def index(self) -> SegmentIndex:
        """The index, opened at first use."""
        if self._index is None:
            try:
                self._index = self._open()
            except StoreDamagedError:
                self.start_anew()
                self._index = self._open()
        return self._index

    def _open(self) -> SegmentIndex:
        self._open_directory()
        path = names.child_path(self._path, names.SEGMENT_INDEX)
        return SegmentIndex(path, self._node, self._keyring, durable=self._durable)

    def _open_directory(self) -> None:
        if self._dir < 0:
            try:
                ensure_directory(self._path)
                if self._durable:
                    sync_directory(os.path.dirname(self._path))
                self._dir = open_directory(self._path)
            except (OSError, RootError) as error:
                raise SegmentStoreError(f"the segment store cannot be opened: {error}") from error

    def _remove_files(self, except_for: set[str]) -> None:
        for entry in list(names_in(self._dir, _MAX_FILES)):
            if names.is_shards(entry.name) and entry.name not in except_for:
                unlink_quietly(entry.name, self._dir)


class StoredShards:
    """The segments of one payload, by slot; for one thread. What is recovered is sealed and written behind them."""

    def __init__(self, fd: int, aead: Any, listed: Listed) -> None:
        self._fd, self._aead = fd, aead
        self._places = {place.slot: place for place in listed.places}
        self.data_count, self.parity_count = listed.data_count, listed.parity_count
        last = self.data_count - 1
        self.segment_size = next(
            (place.size for place in listed.places if place.slot != last), listed.places[0].size if listed.places else 0
        )
        self._opened: tuple[int, int, bytes] = (-1, -1, b"")

    def slots(self) -> set[int]:
        return set(self._places)

    def size_of(self, slot: int) -> int:
        return self._places[slot].size

    def read(self, slot: int, begin: int, end: int) -> bytes:
        """Bytes of one segment. SegmentStoreError if they are not what was written."""
        first, last = begin // BLOCK_BYTES, -(-end // BLOCK_BYTES)
        blocks = b"".join(self._blocks(self._places[slot], first, last)) if first < last else b""
        return blocks[begin - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def write(self, slot: int, begin: int, data: memoryview) -> None:
        """Put part of a recovered segment in place; ``begin`` is a multiple of the block."""
        place = self._places.get(slot)
        if place is None:
            offset = max((_end(other) for other in self._places.values()), default=0)
            place = self._places[slot] = StoredSegment(slot, self.segment_size, offset, 0.0)
        first = begin // BLOCK_BYTES
        try:
            os.pwrite(self._fd, b"".join(_sealed(self._aead, slot, first, data)), place.offset + first * _SEALED_BYTES)
        except OSError as error:
            raise SegmentStoreError(f"a recovered segment cannot be kept: {error.strerror}") from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _blocks(self, place: StoredSegment, first: int, last: int) -> Iterable[bytes]:
        for block in range(first, last):
            if self._opened[:2] != (place.slot, block):
                self._opened = (place.slot, block, self._block(place, block))
            yield self._opened[2]

    def _block(self, place: StoredSegment, block: int) -> bytes:
        size = min(BLOCK_BYTES, place.size - block * BLOCK_BYTES) + NONCE_BYTES + TAG_BYTES
        try:
            sealed = os.pread(self._fd, size, place.offset + block * _SEALED_BYTES)
            return bytes(self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _name(place.slot, block)))
        except Exception:
            raise SegmentStoreError("a segment that was kept is not authentic any more") from None


def _append(fd: int, aead: Any, slot: int, payload: memoryview) -> int:
    """Seal a segment at the end of a file; returns where it begins."""
    offset = os.lseek(fd, 0, os.SEEK_END)
    step = _BLOCKS_A_WRITE * BLOCK_BYTES
    for begin in range(0, len(payload), step):
        blocks = list(_sealed(aead, slot, begin // BLOCK_BYTES, payload[begin : begin + step]))
        written = os.writev(fd, blocks)
        rest = memoryview(b"".join(blocks))[written:] if written < sum(map(len, blocks)) else memoryview(b"")
        while rest:
            rest = rest[os.write(fd, rest) :]
    return offset


def _sealed(aead: Any, slot: int, first: int, data: memoryview) -> Iterable[bytes]:
    """Nonce and sealed bytes of each block in turn."""
    count = -(-len(data) // BLOCK_BYTES)
    nonces = os.urandom(count * NONCE_BYTES)
    for at in range(count):
        nonce = nonces[at * NONCE_BYTES : (at + 1) * NONCE_BYTES]
        yield nonce
        yield aead.encrypt(nonce, data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES], _name(slot, first + at))


def _name(slot: int, block: int) -> bytes:
    return bytes((slot,)) + block.to_bytes(4, "big")


def _end(place: StoredSegment) -> int:
    blocks = -(-place.size // BLOCK_BYTES)
    return place.offset + place.size + blocks * (NONCE_BYTES + TAG_BYTES)
