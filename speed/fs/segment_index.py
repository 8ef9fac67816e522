"""Which segments a node holds, of what, and which payloads are complete: a small SQLite file (G-14).

All that tells anything is sealed; names are made with the key. One process writes it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import SegmentStoreError, WireError
from speed.fs.open import open_or_make
from speed.segment.reassembly import Key
from speed.wire.limits import NONCE_BYTES
from speed.wire.seal import Keyring

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


class Place(NamedTuple):
    """Where a segment's bytes lie in the file of its payload; when it came (Unix seconds)."""

    slot: int
    size: int
    offset: int
    at: float


class Listed(NamedTuple):
    """A payload that is not complete; ``begun`` is in Unix seconds."""

    key: Key
    data_count: int
    parity_count: int
    begun: float
    places: list[Place]


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

    def id_of(self, key: Key) -> bytes:
        """The name of a payload in files and tables."""
        return self._keyring.segments_id(self.key_id, bytes((key.kind,)) + key.hash + key.sender.encode())

    def aead_of(self, payload_id: bytes) -> Any:
        """Seals the segments of one payload."""
        return self._keyring.segments_aead(self.key_id, self._node + payload_id)

    def add(self, key: Key, counts: tuple[int, int], begun: float, place: Place) -> None:
        """Note a segment whose bytes are in place; noting it again changes nothing."""
        payload = self.id_of(key)
        head = _PAYLOAD.pack(key.kind, *counts, begun, key.hash) + key.sender.encode()
        shard = self._keyring.segments_id(self.key_id, payload + bytes((place.slot,)))
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO payload VALUES (?, ?)", (payload, self._seal(head, payload)))
            sealed = self._seal(_SHARD.pack(*place), shard)
            db.execute("INSERT OR REPLACE INTO shard VALUES (?, ?, ?)", (shard, payload, sealed))

    def remove(self, key: Key) -> None:
        """Forget a payload that is not complete."""
        with self._writing() as db:
            self._remove(db, self.id_of(key))

    def complete(self, key: Key, at: float, forgotten: list[Key]) -> None:
        """Note that a payload was delivered, and forget others that were."""
        payload = self.id_of(key)
        head = self._seal(_COMPLETE.pack(key.kind, at, key.hash) + key.sender.encode(), payload)
        with self._writing() as db:
            self._remove(db, payload)
            db.execute("INSERT OR REPLACE INTO complete VALUES (?, ?)", (payload, head))
            self._forget(db, forgotten)

    def forget(self, keys: list[Key]) -> None:
        """Forget payloads that were delivered."""
        with self._writing() as db:
            self._forget(db, keys)

    def payloads(self) -> Iterator[Listed]:
        """All payloads that are not complete."""
        with _translated():
            for payload, head in self._db.execute("SELECT id, head FROM payload").fetchall():
                yield self._listed(payload, head)

    def payload(self, key: Key) -> Listed | None:
        """One payload that is not complete."""
        with _translated():
            payload = self.id_of(key)
            row = self._db.execute("SELECT head FROM payload WHERE id=?", (payload,)).fetchone()
            return None if row is None else self._listed(payload, row[0])

    def completions(self) -> Iterator[tuple[Key, float]]:
        """All payloads that were delivered, and when (Unix seconds)."""
        with _translated():
            for payload, head in self._db.execute("SELECT id, head FROM complete").fetchall():
                opened = self._open(head, payload)
                kind, at, digest = _COMPLETE.unpack_from(opened)
                yield Key(opened[_COMPLETE.size :].decode(), kind, digest), at

    def close(self) -> None:
        self._db.close()

    def _listed(self, payload: bytes, head: bytes) -> Listed:
        opened = self._open(head, payload)
        kind, data_count, parity_count, begun, digest = _PAYLOAD.unpack_from(opened)
        key = Key(opened[_PAYLOAD.size :].decode(), kind, digest)
        return Listed(key, data_count, parity_count, begun, self._places(payload))

    def _places(self, payload: bytes) -> list[Place]:
        rows = self._db.execute("SELECT id, head FROM shard WHERE payload=?", (payload,)).fetchall()
        return [Place(*_SHARD.unpack(self._open(head, shard))) for shard, head in rows]

    def _remove(self, db: sqlite3.Connection, payload: bytes) -> None:
        db.execute("DELETE FROM shard WHERE payload=?", (payload,))
        db.execute("DELETE FROM payload WHERE id=?", (payload,))

    def _forget(self, db: sqlite3.Connection, keys: list[Key]) -> None:
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
