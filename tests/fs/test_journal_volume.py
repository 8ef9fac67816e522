"""Walking the blocks of one volume, and what a record is (J-4 to J-7, J-10)."""

from __future__ import annotations

import contextlib
import os
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speed.errors import WireError
from speed.journal import files as volume_module
from speed.journal.files import CHUNK_BYTES, Block, Call, End, Record, Volume, call_bytes, read_call
from speed.wire.journal import FLAG_REDELIVERED, BlockEntry, BlockHeader, VolumeKeys, record_sizes
from speed.wire.seal import Keyring

Opened = Callable[[bytes], Volume]
KEYS = VolumeKeys(Keyring((bytes(32),)), bytes(16), 0)


def block(first: int, message: bytes = b"x") -> bytes:
    return KEYS.seal(first, [BlockEntry(1, 2, 0, message)], first.to_bytes(12, "big"))


def opens(header: BlockHeader, data: bytes) -> bool:
    try:
        KEYS.open(header, data)
    except WireError:
        return False
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "volume"


@pytest.fixture
def opened(path: Path) -> Iterator[Opened]:
    """Opens a volume with these bytes, and closes it after the test."""
    with contextlib.ExitStack() as closings:

        def opened(data: bytes) -> Volume:
            path.write_bytes(data)
            volume = Volume(os.open(path, os.O_RDONLY), 0)
            closings.callback(volume.close)
            return volume

        yield opened


def firsts(volume: Volume, *, bodies: bool = False) -> list[int]:
    return [header.first for header, _ in volume.headers(bodies=bodies)]


def test_a_block_of_another_offset_than_the_next_is_damage(opened: Opened) -> None:
    """J-6: records may be missing between."""
    volume = opened(block(0) + block(2))
    assert firsts(volume) == [0]
    assert (volume.ended, volume.offset) == (End.DAMAGED, 1)


def test_a_block_that_is_cut_while_it_is_read_is_torn(
    opened: Opened, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-6: a writer cuts off what its predecessor left."""
    volume = opened(block(0, bytes(CHUNK_BYTES + 1)))
    real = os.pread

    def cut(fd: int, count: int, position: int) -> bytes:
        data = real(fd, count, position)
        os.truncate(path, CHUNK_BYTES)
        return data[:count] if count == CHUNK_BYTES else data[:CHUNK_BYTES]

    monkeypatch.setattr(os, "pread", cut)
    monkeypatch.setattr(Volume, "size", lambda self: 2 * CHUNK_BYTES)
    assert firsts(volume, bodies=True) == []
    assert volume.ended is End.TORN


def test_reads_that_bring_less_than_was_asked_are_continued(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = opened(block(0, bytes(5000)) + block(1, bytes(5000)))
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, position: real(fd, min(count, 999), position))
    assert firsts(volume, bodies=True) == [0, 1]
    assert volume.ended is End.CLEAN
    volume.close()
    volume.close()


def test_behind_damage_the_next_block_that_opens_is_found(opened: Opened) -> None:
    """J-7: neither the word that begins a block, nor a forged header, nor an older block is one."""
    forged = bytearray(block(3))
    forged[-1] ^= 1
    volume = opened(block(0) + b"rubbish SPJB SPJB" + b"\0" * 100 + forged + block(0) + block(5) + b"? SPJB")
    assert firsts(volume) == [0]
    assert volume.ended is End.DAMAGED
    assert volume.search(opens)
    assert volume.offset == 5
    assert firsts(volume) == [5]
    assert not volume.search(opens)


def test_a_search_among_forged_blocks_is_bounded(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-7: each costs an attempt to open it."""
    forged = bytearray(block(3, bytes(1000)))
    forged[-1] ^= 1
    volume = opened(b"rubbish" + bytes(forged) * 50 + block(7))
    monkeypatch.setattr(volume_module, "TRIED_BYTES", 10_000)
    tried: list[int] = []
    assert not volume.search(lambda header, data: bool(tried.append(header.first)))
    assert len(tried) < 12
    monkeypatch.setattr(volume_module, "TRIED_BYTES", 1 << 20)
    assert volume.search(opens)
    assert volume.offset == 7


def record(message: bytes, flags: int = 0) -> Record:
    return Record(41, 1_700_000_000_000, "billing", 7, flags, message)


def test_a_record_shows_where_it_stands_and_never_what_it_says() -> None:
    """No payload in a log."""
    shown = record(b"secret", FLAG_REDELIVERED)
    assert repr(shown) == "<Record 41 from billing sequence=0x7 6 bytes>"
    assert shown.redelivered


def test_a_call_is_read_back_and_what_is_none_is_refused() -> None:
    """J-10."""
    assert read_call(record(call_bytes("analytics", 70, "OK")), "tax") == Call(
        1_700_000_000_000, "tax", "analytics", 70, "OK"
    )
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert read_call(record(call_bytes("analytics", 70, "OK", trace)), "tax").traceparent == trace
    for message in (b"\x80", b"\x01"):
        with pytest.raises(WireError, match="is no call"):
            read_call(record(message), "tax")


def test_of_a_block_those_until_a_time_are_its_first() -> None:
    """J-4: times do not decrease."""
    entries = [BlockEntry(number, 1000 + number // 2, 0, bytes([number]) * number) for number in range(10)]
    table = b"".join(
        b"%b%b%b%b"
        % (
            entry.sequence.to_bytes(8, "big"),
            entry.recorded_at_ms.to_bytes(8, "big"),
            len(entry.message).to_bytes(4, "big"),
            bytes(4),
        )
        for entry in entries
    )
    block = Block(100, table, b"".join(entry.message for entry in entries))
    assert block.until(1004) is block
    for ms in range(998, 1004):
        wanted = [entry.message for entry in entries if entry.recorded_at_ms <= ms]
        assert [record.message for record in block.until(ms).records("billing")] == wanted


def test_sizes_are_read_alike_on_machines_of_either_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """J-5."""
    numbers = array("I", [0, 0, 0, 0, 7, 0])
    other = "big" if sys.byteorder == "little" else "little"
    monkeypatch.setattr(sys, "byteorder", other)
    as_there = numbers.tobytes()
    assert list(record_sizes(as_there)) == ([7] if other == "big" else [7 << 24])
