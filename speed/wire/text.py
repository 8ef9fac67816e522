"""Text: strict JSON, what a terminal may show, W3C Trace Context, and types for people."""

from __future__ import annotations

import re
import types
import typing
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.errors import WireError
from speed.wire import lazily

if TYPE_CHECKING:
    from json import JSONDecoder

MAX_SPAN_SECONDS = 1e9
"""No time-out and no delay is as long."""

# Text of others as a terminal or a log may have it: what would act there is shown by its number (W-19).

_ACTING = (
    "\\x00-\\x1f\\x7f-\\x9f\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u180e\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\ud800-\\udfff\\ufdd0-\\ufdef\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a"
    "\\U0001fffe\\U0001ffff\\U0002fffe\\U0002ffff\\U0003fffe-\\U0010ffff"
)
_ACTS = re.compile(f"[{_ACTING}]")
_ACTS_IN_JSON = re.compile(f"(?!\\n)[{_ACTING}]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def harmless(text: str, max_chars: int | None = None) -> str:
    """``text`` with escapes such as ``\\x1b`` and ``\\u202e`` for what acts, on one line; cut behind ``max_chars``."""
    cut = max_chars is not None and len(text) > max_chars
    shown = text[:max_chars]
    if not (shown.isascii() and shown.isprintable()):  # most are, and searching takes longer
        shown = _ACTS.sub(_escape, shown)
    return f"{shown}…" if cut else shown


def harmless_lines(text: str) -> str:
    """The same for text of several lines, which are kept."""
    return "\n".join(harmless(line) for line in text.split("\n"))


def harmless_json(text: str) -> str:
    """JSON of the same value, in which nothing acts."""
    return _ACTS_IN_JSON.sub(_json_escape, text)


def ascii_json(text: str) -> str:
    """JSON of the same value in ASCII: its characters stand in texts alone."""
    return _NOT_ASCII.sub(_json_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return _SHORT.get(found[0]) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


# Strict JSON: RFC 8259 and no more, in bounded depth (R-2, M-10).

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
    return _decoder(written).decode(data.decode())


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


@cache
def _decoder(written: bool) -> JSONDecoder:
    with lazily.guard:
        import json  # who reads none does without

    return json.JSONDecoder(
        parse_constant=_no_json, parse_float=WrittenFloat.of if written else _finite, parse_int=_whole
    )


# W3C Trace Context: the ``traceparent`` text, made and parsed strictly (rule M-11).

_HEX = frozenset("0123456789abcdef")
_LENGTH = 55  # of version 00: 2 + 1 + 32 + 1 + 16 + 1 + 2
_ZERO_TRACE = "0" * 32
_ZERO_SPAN = "0" * 16


class TraceParent(NamedTuple):
    """The parts of a traceparent: lower-case hex ids and the flags byte (bit 0: sampled)."""

    trace_id: str
    span_id: str
    flags: int

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parse_traceparent(text: str) -> TraceParent:
    """The parts of ``text``; later versions (01..fe) are read by their first 55 characters.

    Raises WireError(BAD_MESSAGE) for anything the W3C recommendation calls invalid.
    """
    if not isinstance(text, str) or len(text) < _LENGTH:
        raise _no_traceparent()
    version, trace_id, span_id, flags = text[:2], text[3:35], text[36:52], text[53:55]
    if not (_is_hex(version) and text[2] == text[35] == text[52] == "-" and _is_hex(flags)):
        raise _no_traceparent()
    if version == "ff" or (len(text) > _LENGTH and (version == "00" or text[_LENGTH] != "-")):
        raise _no_traceparent()
    if not are_trace_ids(trace_id, span_id):
        raise _no_traceparent()
    return TraceParent(trace_id, span_id, int(flags, 16))


def are_trace_ids(trace_id: str, span_id: str) -> bool:
    """True when both ids have W3C form: 32 and 16 lower-case hex digits, not all zero."""
    return (
        len(trace_id) == 32
        and len(span_id) == 16
        and _is_hex(trace_id)
        and _is_hex(span_id)
        and trace_id != _ZERO_TRACE
        and span_id != _ZERO_SPAN
    )


def _is_hex(text: str) -> bool:
    return _HEX.issuperset(text)


def _no_traceparent() -> WireError:
    return WireError("BAD_MESSAGE", "traceparent: is not 00-<32 hex>-<16 hex>-<2 hex> in lower case")


_MODULES = re.compile(r"(?<!['<\w.])(?:\w+\.)+(?=\w)")
"""What stands before names in the text of a hint, but for the texts in it."""


def describe(hint: Any) -> str:
    """A type for people: ``int``, ``list[int]``, ``int or None``."""
    if isinstance(hint, tuple):
        return " or ".join(describe(part) for part in hint)
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(hint))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return _MODULES.sub("", str(hint))


def type_name(value: object) -> str:
    """The type of a value for people, never its content."""
    return "None" if value is None else type(value).__name__
