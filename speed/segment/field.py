"""The two fields of the parity, with the tables that everything else is made from (G-7, G-8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

BYTE_BITS, WIDE_BITS = 8, 16

_POLYNOMIALS = {BYTE_BITS: 0x11D, WIDE_BITS: 0x1002D}
_BASES = {
    BYTE_BITS: (1, 214, 152, 146, 86, 200, 88, 230),
    WIDE_BITS: (
        *(0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012),
        *(0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E),
    ),
}


@dataclass(frozen=True)
class Field:
    """Logarithms and skews of the field of ``2 ** bits`` elements; ``order`` is the logarithm that stands for 0."""

    bits: int
    order: int
    log: tuple[int, ...]
    exp: tuple[int, ...]
    skew: tuple[int, ...]

    def multiply(self, element: int, logarithm: int) -> int:
        """``element`` times the one with this logarithm."""
        return self.exp[_added(self.log[element], logarithm, self.bits)] if element else 0

    def inverse(self, element: int) -> int:
        """The logarithm of 1 / ``element``, which is not 0."""
        return (self.order - self.log[element]) % self.order


@lru_cache(maxsize=2)
def field_of(bits: int) -> Field:
    """The field of 8 or of 16 bits; made at its first use."""
    log, exp = _logarithms(bits)
    order = (1 << bits) - 1
    bare = Field(bits, order, log, exp, ())
    return Field(bits, order, log, exp, _skews(bare))


def field_bits(data_count: int, parity_count: int) -> int:
    """Bits of the field in which the parity of this shape is made (G-6)."""
    return BYTE_BITS if run_of(parity_count) + data_count <= 1 << BYTE_BITS else WIDE_BITS


def run_of(parity_count: int) -> int:
    """Shards that are transformed together: the least power of two that holds the parity."""
    return 1 << (parity_count - 1).bit_length()


def _logarithms(bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size = 1 << bits
    power, state = [0] * size, 1
    for exponent in range(size - 1):
        power[state] = exponent
        state <<= 1
        if state >= size:
            state ^= _POLYNOMIALS[bits]
    power[0] = size - 1
    cantor = [0]
    for vector in _BASES[bits]:
        cantor += [element ^ vector for element in cantor]
    log = tuple(power[element] for element in cantor)
    exp = [0] * size
    for element, exponent in enumerate(log):
        exp[exponent] = element
    exp[size - 1] = exp[0]
    return log, tuple(exp)


def _skews(field: Field) -> tuple[int, ...]:
    bits, log = field.bits, field.log
    skew = [0] * (1 << bits)
    factor = [1 << place for place in range(1, bits)]
    for level in range(bits - 1):
        skew[(1 << level) - 1] = 0
        for place in range(level, bits - 1):
            width = 1 << (place + 1)
            for at in range((1 << level) - 1, width, 1 << (level + 1)):
                skew[at + width] = skew[at] ^ factor[place]
        factor[level] = field.order - log[field.multiply(factor[level], log[factor[level] ^ 1])]
        for place in range(level + 1, bits - 1):
            factor[place] = field.multiply(factor[place], _added(log[factor[place] ^ 1], factor[level], bits))
    return tuple(log[element] for element in skew)


def _added(left: int, right: int, bits: int) -> int:
    """The sum of two logarithms, of which one may stand for 0."""
    total = left + right
    return (total + (total >> bits)) & ((1 << bits) - 1)
