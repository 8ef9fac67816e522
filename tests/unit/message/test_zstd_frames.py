"""What counts as a frame of zstd, whatever a decoder makes of it (M-23)."""

from __future__ import annotations

import random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.message.compression import compress, decompress, is_one_frame
from speed.wire.limits import MAX_PAYLOAD_BYTES, MAX_ZSTD_WINDOW_BYTES

TEXTS = st.builds(
    lambda words, repeat: b"".join(words) * repeat,
    st.lists(
        st.sampled_from([b"ether", b"net", b"frame ", b"\x00\xff", b"of", b"."]) | st.binary(max_size=300), max_size=60
    ),
    st.integers(1, 400),
)
RAW, RUN, PACKED = 0, 1, 2


def frame(block: bytes, *, descriptor: int = 0x00, stated: bytes = b"\x38") -> bytes:
    """One frame of one compressed block, by default with a window of 128 KiB and without its size."""
    header = (len(block) << 3 | PACKED << 1 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + stated + header + block


def literals(kind: int, form: int, size: int) -> bytes:
    """Their head, and as many bytes as it says."""
    shift, head_bytes = (_PACKED_HEADS if kind >= PACKED else _PLAIN_HEADS)[form]
    head = (size << shift | form << 2 | kind).to_bytes(head_bytes, "little")
    return head + b"L" * (1 if kind == RUN else size)


_PLAIN_HEADS = {0: (3, 1), 1: (4, 2), 3: (4, 3)}  # where the size begins, bytes; an odd one in a byte is form 2
_PACKED_HEADS = {0: (14, 3), 1: (14, 3), 2: (18, 4), 3: (22, 5)}
SHAPES = [(kind, form) for kind in (RAW, RUN) for form in _PLAIN_HEADS]
SHAPES += [(kind, form) for kind in (PACKED, PACKED + 1) for form in _PACKED_HEADS]


@given(TEXTS, st.integers(1, 19))
def test_what_a_compressor_writes_is_one_frame(text: bytes, level: int) -> None:
    written = bytes(cramjam.zstd.compress(text, level))
    assert is_one_frame(written, len(text))
    assert not is_one_frame(written + b"\0", len(text))
    assert not is_one_frame(written[:-1], len(text))


@given(
    st.sampled_from(SHAPES),
    st.integers(0, 31),
    st.sampled_from([b"\x01", b"\x7f", b"\x80\x01", b"\xfe\xff", b"\xff\x00\x00"]),
    st.integers(0, 255),
)
def test_reserved_bits_of_a_blocks_modes_are_found_behind_all_literals(
    shape: tuple[int, int], size: int, count: bytes, modes: int
) -> None:
    block = literals(*shape, size) + count + bytes([modes]) + b"more"
    assert is_one_frame(frame(block), 0) == (modes & 3 == 0)


def test_a_block_that_ends_before_its_modes_is_left_to_the_decoder() -> None:
    whole = literals(RAW, 0, 5) + b"\x01\x03"
    for end in range(len(whole)):
        assert is_one_frame(frame(whole[:end]), 0)
    assert not is_one_frame(frame(whole), 0)
    assert is_one_frame(frame(literals(RAW, 0, 5) + b"\x00\x03"), 0)  # no sequences, so no modes


def test_a_size_that_is_stated_must_be_the_one_that_is_said() -> None:
    for descriptor, stated, size in (
        (0x20, b"\x09", 9),
        (0x60, b"\x29\x00", 297),
        (0xA0, b"\x29\x01\x00\x00", 297),
        (0xE0, b"\x29\x01" + bytes(6), 297),
    ):
        assert is_one_frame(frame(b"", descriptor=descriptor, stated=stated), size)
        assert not is_one_frame(frame(b"", descriptor=descriptor, stated=stated), size + 1)
    assert is_one_frame(frame(b"", descriptor=0x00, stated=b"\x58"), 5)  # a window, and no size


@pytest.mark.parametrize("bit", [0x01, 0x02, 0x03, 0x08])
def test_a_dictionary_and_a_reserved_bit_are_refused(bit: int) -> None:
    assert is_one_frame(frame(b"", descriptor=0x20, stated=b"\x00"), 0)
    assert not is_one_frame(frame(b"", descriptor=0x20 | bit, stated=b"\x00"), 0)


def test_every_block_is_looked_at() -> None:
    plain, reserved = literals(RAW, 0, 5) + b"\x01\x00", literals(RAW, 0, 5) + b"\x01\x03"
    first = (len(plain) << 3 | PACKED << 1).to_bytes(3, "little") + plain  # and not the last one
    for last, holds in ((plain, True), (reserved, False)):
        whole = frame(last)
        assert is_one_frame(whole[:6] + first + whole[6:], 0) is holds
    assert not is_one_frame(frame(b"")[:6] + first, 0)  # no last one


@pytest.mark.parametrize(("window", "bytes_"), [(0x38, 1 << 17), (0x00, 1 << 10), (0x01, 1152), (0x68, 1 << 17)])
@pytest.mark.parametrize("kind", [RAW, RUN, PACKED])
def test_no_block_is_larger_than_the_window_or_128_kib(window: int, bytes_: int, kind: int) -> None:
    """M-23: of compressed ones their compressed size counts."""
    for size in (bytes_, bytes_ + 1):
        header = (size << 3 | kind << 1 | 1).to_bytes(3, "little")
        whole = b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + header + (b"x" if kind == RUN else bytes(size))
        assert is_one_frame(whole, size) is (size == bytes_)


def test_a_frame_without_a_window_has_one_of_its_size() -> None:
    """M-23; RFC 8878, 3.1.1.1.2."""
    for size in (5, 6):
        assert is_one_frame(frame(bytes(size), descriptor=0x20, stated=b"\x05"), 5) is (size == 5)


@pytest.mark.parametrize("size", [MAX_ZSTD_WINDOW_BYTES + 1, MAX_PAYLOAD_BYTES])
def test_a_frame_of_a_single_segment_may_hold_the_largest_payload(size: int) -> None:
    """M-23: it states no window, and what it holds is bounded as any payload."""
    whole, rest = divmod(size - 1, 1 << 17)
    run = lambda bytes_, last: (bytes_ << 3 | RUN << 1 | last).to_bytes(3, "little") + b"x"  # noqa: E731
    blocks = run(1 << 17, 0) * whole + run(rest + 1, 1)
    data = b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + blocks
    assert decompress("zstd", data, size) == b"x" * size


def test_a_run_of_more_than_128_kib_is_refused_where_the_size_is_stated() -> None:
    """M-23: libraries that see the whole frame at once take it."""
    size = (1 << 17) + 1
    data = (
        b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + (size << 3 | RUN << 1 | 1).to_bytes(3, "little") + b"x"
    )
    assert not is_one_frame(data, size)


@pytest.mark.parametrize(("window", "is_within"), [(0x68, True), (0x69, False), (0x70, False), (0xFF, False)])
def test_a_window_is_at_most_8_mib(window: int, is_within: bool) -> None:
    """M-23."""
    assert is_one_frame(frame(b"", stated=bytes([window])), 0) is is_within


@pytest.mark.parametrize("size", [(2 << 20) + 1, (8 << 20) + 1, MAX_PAYLOAD_BYTES])
def test_what_the_writer_makes_of_large_payloads_is_read(size: int) -> None:
    """M-23."""
    text = (random.Random(1).randbytes(size // 3) * 4)[:size]
    assert decompress("zstd", compress("zstd", text), size) == text
