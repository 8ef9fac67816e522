"""Text of others as a terminal or a log may have it (W-19)."""

from __future__ import annotations

from typing import Any


def harmless() -> dict[str, Any]:
    """Texts and what is shown of them."""
    shown = [
        ("plain", "Größe 5 µm, 東京, 🚀", "Größe 5 µm, 東京, 🚀", "what is only foreign is escaped"),
        ("backslash", "C:\\x1b", "C:\\x1b", "a second time shows something else"),
        ("colour", "\x1b[31mred", "\\x1b[31mred", "ESC reaches the terminal"),
        ("zero and DEL", "a\x00b\x7f", "a\\x00b\\x7f", "only the codes below space, or a text that ends at its zero"),
        ("forged line", "x\n2026 INFO paid\r\n\t", "x\\n2026 INFO paid\\r\\n\\t", "a newline begins a line of a log"),
        ("C1", "\x80\x9b31m\x85\x9f", "\\x80\\x9b31m\\x85\\x9f", "one byte CSI and next line"),
        ("bidi", "a\u202eb\u2066c\u200f\u061c", "a\\u202eb\\u2066c\\u200f\\u061c", "text that turns its direction"),
        ("invisible", "a\u00ad\u200b\ufeff\u2060", "a\\xad\\u200b\\ufeff\\u2060", "two names that look alike"),
        ("separators", "a\u2028b\u2029", "a\\u2028b\\u2029", "lines of Unicode"),
        ("no character", "\ufdd0\uffff\U0001fffe", "\\ufdd0\\uffff\\U0001fffe", "noncharacters"),
        ("beyond", "\U000e0041\U0010ffff\U000f0000", "\\U000e0041\\U0010ffff\\U000f0000", "tags; halves for a pair"),
        (
            "edges",
            " ~\u00a0\u00ac\u00ae\u2027\u202f\U0003fffd",
            " ~\u00a0\u00ac\u00ae\u2027\u202f\U0003fffd",
            "one beside",
        ),
    ]
    cut = [
        ("whole", "abc", 3, "abc", "an ellipsis where nothing is missing"),
        ("cut", "abcd", 3, "abc…", "a cut that is not shown"),
        ("escape", "\x1b\x1b\x1b", 2, "\\x1b\\x1b…", "an escape cut in the middle"),
        ("pair", "🚀🚀🚀", 2, "🚀🚀…", "halves or bytes counted"),
    ]
    return {
        "about": "W-19: `text`, and what is `shown` of it; with `max_chars`, of so many characters.",
        "texts": [{"name": name, "bug": bug, "text": text, "shown": to} for name, text, to, bug in shown],
        "cut": [
            {"name": name, "bug": bug, "text": text, "max_chars": most, "shown": to}
            for name, text, most, to, bug in cut
        ],
    }
