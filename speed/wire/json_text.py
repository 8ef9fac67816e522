"""Strict JSON: RFC 8259 and no more, in bounded depth (R-2, M-10)."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

_SURELY_FINITE_DIGITS = 300
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_ALL_OTHERS = bytes(set(range(256)) - set(b'"[]{}'))
_TEXT = re.compile(rb'"[^"]*"')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


class WrittenFloat(float):
    """A float that knows its ``text``: a decimal is made of that, for digits that a float has no place for."""

    text: str

    @classmethod
    def of(cls, text: str) -> WrittenFloat:
        """ValueError for one beyond a double."""
        number = cls(_finite(text))
        number.text = text
        return number


def read_json(data: bytes, depth: int, *, written: bool = False) -> Any:
    """The value in ``data``, with at most ``depth`` containers inside each other; ValueError for anything else.

    With ``written`` its floats are WrittenFloat.

    json.loads alone takes UTF-16, NaN, numbers that become infinite and halves of surrogate pairs.
    """
    if _SURROGATE.search(data) and _HALF_PAIR.search(data.replace(rb"\\", b"--")):
        raise ValueError("text holds half of a surrogate pair")
    if data.count(b"[") + data.count(b"{") > depth and _is_deeper(data, depth):
        raise ValueError("nested too deep")
    return (_decode_written if written else _decode)(data.decode())


def _is_deeper(data: bytes, depth: int) -> bool:
    """Told from the text: also of what a later key of the same name replaces, and before anything is built."""
    bare = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_BRACKETS, _ALL_OTHERS)
    left = _TEXT.sub(b"", bare.replace(b'""', b""))
    for _ in range(depth):
        left = left.replace(b"[]", b"")
    return bool(left)


def _no_json(_: str) -> Any:
    raise ValueError("a number is none, or beyond a double")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_json(text)


def _whole(text: str) -> int:
    if len(text) > _SURELY_FINITE_DIGITS:
        _finite(text)
    return int(text)


_decode = json.JSONDecoder(parse_constant=_no_json, parse_float=_finite, parse_int=_whole).decode
_decode_written = json.JSONDecoder(parse_constant=_no_json, parse_float=WrittenFloat.of, parse_int=_whole).decode
