"""W3C Trace Context: the ``traceparent`` text, made and parsed strictly (rule M-11)."""

from __future__ import annotations

from typing import NamedTuple

from speed.errors import WireError

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
        raise _invalid("is not a traceparent of at least 55 characters")
    version, trace_id, span_id, flags = text[:2], text[3:35], text[36:52], text[53:55]
    if not (_is_hex(version) and text[2] == text[35] == text[52] == "-" and _is_hex(flags)):
        raise _invalid("is not of the form 00-<32 hex>-<16 hex>-<2 hex>, in lower case")
    if version == "ff" or (len(text) > _LENGTH and (version == "00" or text[_LENGTH] != "-")):
        raise _invalid("has a forbidden version or text after the flags")
    if not are_trace_ids(trace_id, span_id):
        raise _invalid("has an id that is not lower-case hex or is all zero")
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


def _invalid(why: str) -> WireError:
    return WireError("BAD_MESSAGE", f"traceparent: {why}")
