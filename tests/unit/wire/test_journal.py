"""The bytes of a journal against its vectors, and its bounds (J-2 to J-6)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import WireError
from speed.journal.files import Block, End, Volume
from speed.wire import names
from speed.wire.journal import (
    BLOCK_HEADER_BYTES,
    MAC_BYTES,
    MAX_REMOVED,
    BlockEntry,
    Description,
    Subject,
    VolumeKeys,
    open_description,
    open_end,
    open_removed,
    parse_block_header,
    seal_end,
    seal_removed,
)
from speed.wire.limits import JOURNAL_BLOCK_RECORDS, MAX_JOURNAL_BLOCK_BYTES
from speed.wire.seal import Keyring
from tests.thorough import examples
from tests.vectors import case_name, load

VECTORS = load("journal")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
LANE = bytes.fromhex(VECTORS["lane"])
SUBJECT = Subject(**VECTORS["subject"])


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_description_says_what_the_lane_records(case: dict[str, Any]) -> None:
    """J-2."""
    found = open_description(bytes.fromhex(case["hex"]), LANE, RING)
    assert found == Description(SUBJECT, bytes.fromhex(case["after"]), case["has_end"])


@pytest.mark.parametrize("case", VECTORS["ends_valid"], ids=case_name)
def test_an_end_says_which_offset_comes_next(case: dict[str, Any]) -> None:
    """J-12."""
    assert open_end(bytes.fromhex(case["hex"]), LANE, RING) == case["offset"]


@pytest.mark.parametrize("case", VECTORS["ends_invalid"], ids=case_name)
def test_a_bad_end_is_refused(case: dict[str, Any]) -> None:
    """J-12."""
    with pytest.raises(WireError, match="BAD_JOURNAL"):
        open_end(bytes.fromhex(case["hex"]), LANE, RING)


@pytest.mark.parametrize("case", VECTORS["removed_valid"], ids=case_name)
def test_removed_lanes_are_listed_with_their_ends_the_oldest_first(case: dict[str, Any]) -> None:
    """J-14."""
    found = open_removed(bytes.fromhex(case["hex"]), RING)
    assert [[lane.hex(), offset] for lane, offset in found.items()] == case["lanes"]


@pytest.mark.parametrize("case", VECTORS["removed_invalid"], ids=case_name)
def test_a_bad_list_of_removed_lanes_is_refused(case: dict[str, Any]) -> None:
    """J-14."""
    with pytest.raises(WireError, match="BAD_JOURNAL"):
        open_removed(bytes.fromhex(case["hex"]), RING)


def test_the_oldest_of_too_many_removed_lanes_is_forgotten() -> None:
    """J-14."""
    lanes = {number.to_bytes(16, "big"): number for number in range(MAX_REMOVED + 1)}
    assert list(open_removed(seal_removed(lanes, RING), RING)) == list(lanes)[1:]


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_a_bad_description_is_refused(case: dict[str, Any]) -> None:
    """J-2."""
    with pytest.raises(WireError) as caught:
        open_description(bytes.fromhex(case["hex"]), LANE, RING)
    assert caught.value.reason == "BAD_JOURNAL"


@pytest.fixture
def segment_file(tmp_path: Path) -> Path:
    return tmp_path / "segment"


@pytest.mark.parametrize("case", VECTORS["segments"], ids=case_name)
def test_a_segment_is_read_up_to_its_end_and_the_end_is_called_by_its_name(
    segment_file: Path, case: dict[str, Any]
) -> None:
    """J-4 to J-6."""
    segment_file.write_bytes(bytes.fromhex(case["hex"]))
    segment = Volume(os.open(segment_file, os.O_RDONLY), VECTORS["first"])
    keys = VolumeKeys(RING, LANE, VECTORS["first"])
    found, ended = [], ""
    for header, block in segment.headers(bodies=True):
        try:
            opened = Block(header.first, *keys.decrypt(header, block), header.left_out)
        except WireError as error:
            ended = {"BAD_TAG": "damaged", "UNKNOWN_KEY": "unknown key"}[error.reason]
            break
        for one in opened.records("analytics"):
            fields = {"offset": one.offset, "sequence": f"{one.sequence:016x}", "ms": one.recorded_at_ms}
            found.append({**fields, "flags": one.flags, "message": one.message.hex()})
    assert (found, ended or segment.ended.value) == (case["records"], case["ended"])
    assert segment.offset == case["end"]
    segment.close()


@pytest.mark.parametrize("case", VECTORS["anew"], ids=case_name)
def test_a_block_that_is_sealed_anew_keeps_all_but_version_key_and_what_follows_from_them(case: dict[str, Any]) -> None:
    """J-16; that of a block that was rewritten (J-15) says both."""
    block = bytes.fromhex(case["hex"])
    header = parse_block_header(block)
    anew = VolumeKeys(RING, LANE, VECTORS["first"]).seal_anew(header, block)
    assert anew.hex() == case["anew"]
    assert parse_block_header(anew) == header._replace(version=2 if header.version < 3 else 4, key_id=RING.key_id)


def test_a_damaged_block_is_not_sealed_anew_and_can_only_be_named_anew() -> None:
    """J-16."""
    ring = Keyring(tuple(reversed(RING.now.keys)))
    keys = VolumeKeys(ring, LANE, 0)
    block = flipped(VolumeKeys(RING, LANE, 0).seal(5, [BlockEntry(1, 2, 0, b"x")], bytes(12)))
    header = parse_block_header(block)
    with pytest.raises(WireError, match="BAD_TAG"):
        keys.seal_anew(header, block)
    named = keys.name_anew(header)
    assert parse_block_header(named) == header._replace(key_id=ring.key_id)
    assert not keys.opens(parse_block_header(named), named + block[BLOCK_HEADER_BYTES:])


def flipped(block: bytes) -> bytes:
    """One bit of the tag."""
    return block[:-1] + bytes([block[-1] ^ 1])


def header_of(data: bytes, at: int, value: bytes) -> bytes:
    """The header with one field replaced, and a CRC that fits."""
    changed = data[:at] + value + data[at + len(value) : 60]
    return changed + crc32(changed).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"SPJD"),
        (4, b"\x00"),
        (4, b"\x05"),
        (7, b"\x01"),
        (16, b"\xff" * 8),
        (16, ((1 << 63) - 1).to_bytes(8, "big")),
        (24, b"\xff" * 8),
        (40, bytes(4)),
        (40, (JOURNAL_BLOCK_RECORDS + 1).to_bytes(4, "big")),
        (44, (23).to_bytes(4, "big")),
        (44, (MAX_JOURNAL_BLOCK_BYTES + 1).to_bytes(4, "big")),
    ],
)
def test_a_header_that_cannot_be_is_refused_before_anything_is_read_for_it(at: int, value: bytes) -> None:
    """J-4: also one whose CRC fits."""
    block = VolumeKeys(RING, LANE, 0).seal(5, [BlockEntry(1, 2, 0, b"x")], bytes(12))
    with pytest.raises(WireError, match="BAD_JOURNAL"):
        parse_block_header(header_of(block, at, value))


entries = st.builds(BlockEntry, st.integers(0, (1 << 64) - 1), st.just(7), st.integers(0, 1), st.binary(max_size=300))


@given(st.lists(entries, min_size=1, max_size=40), st.integers(0, 1 << 62))
@settings(max_examples=examples(200))
def test_what_is_sealed_is_what_is_opened(written: list[BlockEntry], first: int) -> None:
    """J-5."""
    keys = VolumeKeys(RING, LANE, 0)
    block = keys.seal(first, written, bytes(12))
    header = parse_block_header(block)
    assert (header.first, header.end, header.whole_bytes) == (first, first + len(written), len(block))
    assert [
        BlockEntry(sequence, ms, flags, message) for sequence, ms, flags, message in keys.open(header, block)
    ] == written


@given(st.dictionaries(st.integers(0, 300), entries, min_size=1), st.integers(0, 1 << 62), st.data())
@settings(max_examples=200)
def test_any_part_of_a_rewritten_block_has_its_records_under_their_offsets(
    written: dict[int, BlockEntry], first: int, data: st.DataObject
) -> None:
    """J-15."""
    kept = {first + offset: entry for offset, entry in sorted(written.items())}
    keys = VolumeKeys(RING, LANE, 0)
    block = keys.seal_kept(first, list(kept), list(kept.values()), bytes(12))
    header = parse_block_header(block)
    opened = Block(header.first, *keys.decrypt(header, block), header.left_out)
    assert header.end == opened.end == max(kept) + 1
    for _ in range(2):  # a part of a part
        start, end = data.draw(st.integers(first, opened.end + 1)), data.draw(st.integers(first, opened.end + 1))
        kept = {offset: entry for offset, entry in kept.items() if start <= offset < end}
        begin, stop = max(start, opened.offset), min(end, opened.end)
        opened = opened.between(start, end)
        assert {one.offset: one.message for one in opened.records("p")} == {at: one.message for at, one in kept.items()}
        assert (opened.offset, opened.end) == (begin, max(begin, stop))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_named_error_or_a_header(data: bytes) -> None:
    """J-4: garbage gives one error and nothing else."""
    padded = data.ljust(BLOCK_HEADER_BYTES, b"\0")
    with pytest.raises(WireError):
        parse_block_header(padded)
    with pytest.raises(WireError):
        open_description(data, LANE, RING)
    with pytest.raises(WireError):
        open_end(data, LANE, RING)
    with pytest.raises(WireError):
        open_removed(data, RING)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("000000000000.segment", 0),
        ("000000000041.segment", 41),
        ("1234567890123.segment", 1234567890123),
        ("9223372036854775807.segment", (1 << 63) - 1),
        ("9223372036854775808.segment", None),
        ("0000000000041.segment", None),
        ("41.segment", None),
        ("000000000041.lane", None),
        ("00000000004\N{ARABIC-INDIC DIGIT ONE}.segment", None),
    ],
)
def test_the_name_of_a_segment_is_spelled_in_one_way(name: str, first: int | None) -> None:
    """J-1, L-1."""
    assert names.parse_volume(name) == first
    if first is not None:
        assert names.volume_name(first) == name


def test_ends_have_the_names_of_the_contract() -> None:
    """J-6."""
    assert {case["ended"] for case in VECTORS["segments"]} == {end.value for end in End} | {"unknown key"}


def test_lengths_that_do_not_fill_their_block_are_refused_even_if_they_are_authentic() -> None:
    """J-5: whoever has the key may still have a defect."""
    keys = VolumeKeys(RING, LANE, 0)
    block = bytearray(keys.seal(5, [BlockEntry(1, 2, 0, b"xyz")], bytes(12)))
    header = parse_block_header(bytes(block))
    aead = RING.journal_aead(header.key_id, LANE + bytes(8))
    plain = bytearray(aead.decrypt(header.nonce, bytes(block[BLOCK_HEADER_BYTES:]), bytes(block[:BLOCK_HEADER_BYTES])))
    at = plain.index((3).to_bytes(4, "big"))
    plain[at : at + 4] = (4).to_bytes(4, "big")
    block[BLOCK_HEADER_BYTES:] = aead.encrypt(header.nonce, bytes(plain), bytes(block[:BLOCK_HEADER_BYTES]))
    with pytest.raises(WireError, match="do not fill"):
        keys.open(header, bytes(block))


def test_offsets_that_do_not_fill_their_block_are_refused_even_if_they_are_authentic() -> None:
    """J-15."""
    keys = VolumeKeys(RING, LANE, 0)
    block = bytearray(keys.seal_kept(5, [9], [BlockEntry(1, 2, 0, b"")], bytes(12)))
    aead = RING.journal_aead(RING.key_id, b" kept" + LANE + bytes(8))
    plain = aead.decrypt(bytes(12), bytes(block[BLOCK_HEADER_BYTES:]), bytes(block[:BLOCK_HEADER_BYTES]))
    header = header_of(bytes(block), 5, (3).to_bytes(3, "big"))
    with pytest.raises(WireError, match="do not fill"):
        keys.open(parse_block_header(header), header + aead.encrypt(bytes(12), plain, header))


def test_an_end_and_a_list_of_another_length_are_refused_whatever_their_mac() -> None:
    ring = Keyring((b"\x07" * 32,))
    lane = b"\x01" * 16
    longer = seal_end(5, lane, ring)[:-MAC_BYTES] + b"x"
    with pytest.raises(WireError, match="another length"):
        open_end(longer + ring.journal_mac(ring.key_id, b"end" + lane, longer), lane, ring)
    odd = seal_removed({lane: 5}, ring)[:-MAC_BYTES] + b"x"
    with pytest.raises(WireError, match="another length"):
        open_removed(odd + ring.journal_mac(ring.key_id, b"removed", odd), ring)
