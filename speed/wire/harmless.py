"""Text of others as a terminal or a log may have it: what would act there is shown by its number (W-19)."""

from __future__ import annotations

import re

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
    shown = _ACTS.sub(_escape, text[:max_chars])
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
