"""Payloads of JSON (M-10)."""

from __future__ import annotations


def json_payloads() -> dict[str, list[dict[str, str]]]:
    """JSON that every reader decodes, and what none takes for JSON (M-10)."""

    def case(name: str, bug: str, data: bytes) -> dict[str, str]:
        return {"name": name, "bug": bug, "hex": data.hex()}

    def deep(depth: int) -> bytes:
        return b'{"a":[' * (depth // 2) + b'"]}"' + b"]}" * (depth // 2)

    return {
        "valid": [
            case("64 deep", "limit off by one", deep(64)),
            case("brackets in text", "counted as containers", b'["' + b"[{" * 40 + b'\\\\", "\\"' + b"[" * 80 + b'"]'),
            case("a surrogate pair", "refused as two halves", b'"\\ud83d\\ude00"'),
            case("a backslash before u", "taken for an escape", b'"\\\\ud800"'),
            case("the largest double", "taken for infinite", b"[1.7976931348623157e308, -0, 1e-999]"),
            case("a key twice", "refused", b'{"a": 1, "a": 2}'),
        ],
        "invalid": [
            case("65 deep", "limit off by one", b"[" + deep(64) + b"]"),
            case(
                "deep in what is replaced",
                "only what remains is counted",
                b'{"a":' + b"[" * 64 + b"]" * 64 + b',"a":1}',
            ),
            case("NaN", "an extension of the library", b"[NaN]"),
            case("infinity", "an extension of the library", b"-Infinity"),
            case("1e999", "becomes infinite", b'{"a": 1e999}'),
            case("a whole number beyond a double", "becomes infinite", b"1" + b"0" * 309),
            case("half of a pair", "text that is no UTF-8", b'"\\ud800"'),
            case("the other half of a pair", "text that is no UTF-8", b'{"\\uDC00": 1}'),
            case("halves with a backslash between", "taken for a pair", b'"\\ud83d\\\\\\ude00"'),
            case("half of a pair in what is replaced", "not looked at", b'{"a": "\\ud800", "a": 1}'),
            case("byte order mark", "skipped", b"\xef\xbb\xbf{}"),
            case("UTF-16", "guessed", '{"a": 1}'.encode("utf-16")),
            case("UTF-16 without a mark", "guessed", '{"a": 1}'.encode("utf-16-le")),
            case("not UTF-8", "replaced", b'"\xff"'),
            case("two values", "rest ignored", b"{} {}"),
            case("nothing", "taken for nil", b""),
        ],
    }
