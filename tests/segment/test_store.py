"""What was received in segments survives the process, tells nothing, and never does harm (G-14)."""

from __future__ import annotations

import os
import random
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed.engine.large_payload import LargePayload, StoredSource, read_shards
from speed.errors import SegmentStoreError
from speed.fs.segment_store import BLOCK_BYTES, SegmentStore
from speed.segment import Segment, Splitter
from speed.segment.reassembly import PayloadKey, Reconstruction, rebuild
from speed.wire.names import segments_dir
from speed.wire.seal import Keyring

KEYRING = Keyring((bytes(range(32)),))
SIZE = 3 * BLOCK_BYTES + 64
PAYLOAD = random.Random(3).randbytes(7 * SIZE - 1000) + bytes(500)
SEGMENTS = list(Splitter(SIZE, 0.25).split(PAYLOAD))
KEY = PayloadKey("analytics", 1, SEGMENTS[0].hash)
ONE = Reconstruction(KEY, SEGMENTS[0].data_count, SEGMENTS[0].parity_count, 100.0, 100.0)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "billing").mkdir(mode=0o700)
    return str(tmp_path)


@pytest.fixture
def store(root: str) -> Iterator[SegmentStore]:
    one = SegmentStore(root, "billing", KEYRING)
    yield one
    one.close()


def again(store: SegmentStore, root: str, keyring: Keyring = KEYRING) -> SegmentStore:
    """The store as the next process opens it."""
    store.close()
    return SegmentStore(root, "billing", keyring)


def kept(store: SegmentStore, segments: list[Segment]) -> None:
    for segment in segments:
        store.put(ONE, segment, 101.0)


def test_a_payload_is_put_together_by_the_next_process_from_any_segments(store: SegmentStore, root: str) -> None:
    for lost in ((), (0,), (6,), (2, 6), (0, 1)):
        kept(store, [segment for segment in reversed(SEGMENTS) if segment.slot not in lost])
        store = again(store, root)
        (listed,), _ = store.load()
        shards = store.shards(listed)
        assert rebuild(shards, KEY.hash) == len(PAYLOAD)
        assert read_shards(shards, 0, len(PAYLOAD)) == PAYLOAD
        shards.close()
        store.remove([KEY])
    store.close()


def test_saving_a_segment_twice_changes_nothing(store: SegmentStore, root: str) -> None:
    kept(store, [SEGMENTS[1], SEGMENTS[1]])
    (listed,), _ = again(store, root).load()
    assert [place.slot for place in listed.places] == [1]
    assert (listed.begun, listed.places[0].at) == (100.0, 101.0)


def test_a_delivery_is_remembered_and_its_segments_are_gone(store: SegmentStore, root: str) -> None:
    kept(store, SEGMENTS)
    store.complete(KEY, 102.0, [])
    store = again(store, root)
    assert store.load() == ([], [(KEY, 102.0)])
    assert not [name for name in os.listdir(segments_dir(root, "billing")) if name.endswith(".shards")]
    store.forget([KEY])
    assert again(store, root).load() == ([], [])


def test_neither_hash_nor_sender_nor_bytes_lie_on_the_disk(store: SegmentStore, root: str) -> None:
    """W-7 holds for the store too; names are made with the key."""
    kept(store, SEGMENTS)
    store.complete(PayloadKey("somebody", 1, bytes(range(32))), 5.0, [])
    store.close()
    for name in os.listdir(segments_dir(root, "billing")):
        path = Path(segments_dir(root, "billing"), name)
        data = path.read_bytes() + name.encode()
        for told in (
            KEY.hash,
            KEY.hash.hex().encode(),
            b"analytics",
            b"somebody",
            PAYLOAD[:16],
            PAYLOAD[SIZE : SIZE + 16],
        ):
            assert told not in data
        assert path.stat().st_mode & 0o077 == 0


def test_a_segment_that_was_changed_is_not_believed(store: SegmentStore, root: str) -> None:
    kept(store, SEGMENTS[:7])
    (listed,), _ = store.load()
    (name,) = [name for name in os.listdir(segments_dir(root, "billing")) if name.endswith(".shards")]
    with open(Path(segments_dir(root, "billing"), name), "r+b") as file:
        file.seek(100)
        file.write(b"\0\1")
    shards = store.shards(listed)
    with pytest.raises(SegmentStoreError, match="not authentic"):
        rebuild(shards, KEY.hash)
    shards.close()


@pytest.mark.parametrize("damage", ["garbage", "empty header", "version", "rows"])
def test_a_store_that_is_damaged_or_of_another_version_is_put_aside(
    store: SegmentStore, root: str, damage: str
) -> None:
    kept(store, SEGMENTS[:2])
    store.close()
    index = Path(segments_dir(root, "billing"), "index.sqlite")
    if damage in {"garbage", "empty header"}:
        index.write_bytes(os.urandom(5000) if damage == "garbage" else bytes(100))
    else:
        with sqlite3.connect(index) as db:
            db.execute("PRAGMA user_version=9" if damage == "version" else "UPDATE payload SET head=x'00'")
        db.close()
    store = SegmentStore(root, "billing", KEYRING)
    assert store.load() == ([], [])
    assert store.put_aside == 1
    kept(store, SEGMENTS[:2])
    assert len(again(store, root).load()[0]) == 1
    assert Path(f"{index}.damaged").exists()


def test_a_store_of_an_old_key_is_read_while_the_key_is_accepted_and_put_aside_after(
    store: SegmentStore, root: str
) -> None:
    """W-14: rotation."""
    kept(store, SEGMENTS[:2])
    new = bytes(range(1, 33))
    store = again(store, root, Keyring((new, bytes(range(32)))))
    assert len(store.load()[0]) == 1
    store = again(store, root, Keyring((new,)))
    assert store.load() == ([], [])
    assert store.put_aside == 1
    store.close()


def test_a_locked_store_is_a_named_error_and_works_again_afterwards(store: SegmentStore, root: str) -> None:
    other = SegmentStore(root, "billing", KEYRING)
    other.load()
    with pytest.raises(SegmentStoreError, match="cannot be used now"):
        store.put(ONE, SEGMENTS[0], 1.0)
    other.close()
    kept(store, SEGMENTS[:1])
    assert len(store.load()[0]) == 1


def test_a_store_without_room_is_a_named_error_and_works_again_afterwards(store: SegmentStore, root: str) -> None:
    """A limit of the file size stands for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept(store, SEGMENTS[:1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * BLOCK_BYTES, before[1]))
    try:
        with pytest.raises(SegmentStoreError, match="cannot be kept"):
            store.put(ONE, SEGMENTS[1], 101.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept(store, SEGMENTS[1:7])
    (listed,), _ = again(store, root).load()
    assert len(listed.places) == 7


def test_a_durable_store_holds_the_same(root: str) -> None:
    """L-7: flushed before a segment is finished."""
    store = SegmentStore(root, "billing", KEYRING, durable=True)
    kept(store, SEGMENTS[:3])
    (listed,), _ = again(store, root).load()
    assert sorted(place.slot for place in listed.places) == [0, 1, 2]


def test_a_link_in_the_place_of_the_store_is_not_followed(root: str, tmp_path: Path) -> None:
    """L-10."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    os.symlink(target, segments_dir(root, "billing"))
    with pytest.raises(SegmentStoreError, match="cannot be opened"):
        kept(SegmentStore(root, "billing", KEYRING), SEGMENTS[:1])
    assert list(target.iterdir()) == []


def test_a_received_payload_reads_like_a_file(store: SegmentStore) -> None:
    """G-18: seekable, in any steps."""
    kept(store, SEGMENTS[:7])
    (listed,), _ = store.load()
    shards = store.shards(listed)
    file = LargePayload(StoredSource(shards, 10, len(PAYLOAD)))
    assert (file.size, len(file)) == (len(PAYLOAD) - 10, len(PAYLOAD) - 10)
    assert file.read(5) == PAYLOAD[10:15]
    source, position = random.Random(9), 5
    for _ in range(50):
        size = source.randrange(1, 2 * SIZE)
        assert file.read(size) == PAYLOAD[10 + position : 10 + position + size]
        position = source.randrange(file.size)
        file.seek(position)
    file.seek(-4, os.SEEK_END)
    assert file.read() == PAYLOAD[-4:]
    assert file.read(1) == b""
    assert file.read_all() == PAYLOAD[10:]
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    shards.close()
