"""Any k of the k + m segments give the payload back (G-6 to G-10)."""

from __future__ import annotations

import itertools
import os
import random
import sys

import numpy as np
import pytest

from speed.errors import ConfigurationError
from speed.segment.parity import Decoder, ParityEncoder, decode, encode, field_bits, field_of

PATTERNS = int(os.environ.get("SEGMENT_PATTERNS", "90"))
"""Random losses tried of large shapes; the figure of docs/howto/large-payloads.md needs 100000."""
SMALL = [(k, m) for k in range(1, 8) for m in range(1, 5)] + [(2, 253), (3, 250)]
LARGE = [(17, 3), (64, 8), (100, 13), (128, 16), (224, 28), (225, 29), (226, 28), (200, 55), (127, 128)]


def shards(count: int, size: int, seed: int) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(size) for _ in range(count)]


def recovers(data: list[bytes], every: list[bytes], kept: tuple[int, ...], parity_count: int) -> bool:
    found = decode({slot: every[slot] for slot in kept}, len(data), parity_count)
    return all(found.get(index, every[index]) == data[index] for index in range(len(data)))


@pytest.mark.parametrize(("k", "m"), SMALL)
def test_every_loss_of_a_small_shape_is_recovered(k: int, m: int) -> None:
    """G-10: all patterns; of the wide field's small shapes, all with the parity next to the data."""
    data = shards(k, 64, k * 1000 + m)
    every = data + encode(data, m)
    slots = range(k + min(m, 5))
    assert all(recovers(data, every, kept, m) for kept in itertools.combinations(slots, k))


@pytest.mark.parametrize(("k", "m"), LARGE)
def test_random_losses_of_a_large_shape_are_recovered(k: int, m: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, {PATTERNS} patterns")
    source = random.Random(seed)
    data = shards(k, 64, seed)
    every = data + encode(data, m)
    for _ in range(-(-PATTERNS // len(LARGE))):
        kept = tuple(source.sample(range(k + m), k))
        assert recovers(data, every, kept, m), sorted(kept)


@pytest.mark.parametrize(("k", "m"), [(10, 3), (226, 28)])
def test_parity_is_linear_and_its_matrix_is_the_encoding_of_units(k: int, m: int) -> None:
    """G-6, G-9: who likes matrices better gets the same bytes."""
    field = field_of(field_bits(k, m))
    matrix = ParityEncoder(k, m).matrix().tolist()
    words = [random.Random(7).randrange(1 << field.bits) for _ in range(k)]
    products = [
        [field.multiply(word, field.log[factor]) for word, factor in zip(words, row, strict=True)] for row in matrix
    ]
    told = [int(np.bitwise_xor.reduce(row)) for row in products]
    wide = field.bits == 16
    data = [bytes((w & 255,)) + bytes(31) + (bytes((w >> 8,)) if wide else b"\0") + bytes(31) for w in words]
    made = [shard[0] | (shard[32] << 8 if wide else 0) for shard in encode(data, m)]
    assert made == told


@pytest.mark.parametrize(("k", "m"), [(5, 3), (64, 8), (226, 28)])
def test_slices_of_columns_give_the_parity_of_the_whole(k: int, m: int) -> None:
    """So payloads of any size are encoded and decoded in bounded memory."""
    rows = np.frombuffer(random.Random(5).randbytes(k * 640), np.uint8).reshape(k, 640)
    whole = ParityEncoder(k, m).encode(rows)
    parts = [ParityEncoder(k, m).encode(rows[:, at : at + 64]) for at in range(0, 640, 64)]
    assert (np.concatenate(parts, axis=1) == whole).all()
    missing = list(range(1, m + 1))
    held = rows.copy()
    held[missing] = 0
    decoder = Decoder(k, m, missing, range(m))
    found = [decoder.decode(held[:, at : at + 128], whole[:, at : at + 128]) for at in range(0, 640, 128)]
    assert (np.concatenate(found, axis=1) == rows[missing]).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_the_tables_are_a_field(bits: int) -> None:
    """G-7: every element but 0 has an inverse; the product is commutative."""
    field = field_of(bits)
    source = random.Random(bits)
    for _ in range(500):
        left, right = source.randrange(1, 1 << bits), source.randrange(1, 1 << bits)
        assert field.multiply(left, field.inverse(left)) == 1
        assert field.multiply(left, field.log[right]) == field.multiply(right, field.log[left])


def test_the_skews_begin_as_written() -> None:
    """G-8."""
    assert field_of(8).skew[:16] == (255, 255, 85, 255, 17, 85, 34, 255, 153, 17, 102, 85, 51, 34, 187, 255)


def test_without_numpy_parity_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ConfigurationError, match="columns"):
        encode([bytes(64), bytes(64)], 1)
