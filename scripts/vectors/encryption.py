"""Encrypted and compressed messages: what opens, and what must be refused (M-19 to M-25).

Encapsulation is random, and so are keys: those of ``encryption.json`` are made once and kept; what is derived from
them is made anew each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cramjam

from scripts.vectors.fixed_messages import META, SIGNER, Case, changed, flipped, message
from speed.message.algorithms import ALGORITHMS, algorithm_of
from speed.message.encryption import context_hash, describe
from speed.message.keys import MessageKey, generate_key, key_of_record
from speed.message.protect import Protection, open_view, protect_message
from speed.message.view import MessageView

FILE = Path(__file__).resolve().parents[2] / "registry_spec" / "vectors" / "encryption.json"
SCHEMA = {"schema_name": "OrderCreated", "schema_hash": "sha256:" + "ab" * 32}
SECOND_RECIPIENT = "x25519-chacha20-poly1305"


def encryption() -> dict[str, Any]:
    """Encrypted messages and the keys that open them."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    records = {one["algorithm"]: one for one in known.get("keys", ())}
    rows = [row for row in ALGORITHMS.values() if not row.is_signature]
    keys = {row.name: _kept_key(records, row.name) for row in rows}
    messages = {case["name"]: bytes.fromhex(case["hex"]) for case in known.get("valid", ())}
    return {
        "about": "Rules M-19 to M-25. `keys` are those of the reader; `context_sha256` is the hash of M-20.",
        "keys": [key.to_record() for key in keys.values()],
        "valid": list(_valid_payloads(keys, messages)),
        "invalid": list(_invalid_payloads(keys, messages)),
    }


def _kept_key(records: dict[str, Any], name: str) -> MessageKey:
    return key_of_record(records[name]) if name in records else generate_key(f"{name}-1", name)


def _valid_payloads(keys: dict[str, MessageKey], kept: dict[str, bytes]) -> Iterable[Case]:
    other = generate_key("other-1", SECOND_RECIPIENT)
    wide = {"compression": "gzip", "classification": "restricted", "aad": b"more", "contains_pii": True}
    made: dict[str, tuple[str, Callable[[], bytes]]] = {
        name: ("basic", lambda key=key: message(encrypt_to=(_given(key),)))  # type: ignore[misc]
        for name, key in keys.items()
    }
    xwing, shared, mine, rsa = keys["x-wing"], keys["aes-256-gcm"], keys[SECOND_RECIPIENT], keys["rsa-oaep-4096"]
    many = (_given(other), _given(mine))
    sealed: dict[str, Any] = {"encrypt_to": (shared,)}
    made |= {
        "second of two recipients": ("the first recipient taken for the reader", lambda: message(encrypt_to=many)),
        "everything bound": ("a field of the context left out", lambda: _everything(xwing, **wide)),
        "empty payload": ("a payload of only a tag refused", lambda: message(b"", encrypt_to=(shared,))),
        "direct RSA": ("label left out", lambda: message(encrypt_to=(_given(rsa),), direct=True)),
        "text by zstd": ("encrypted first", lambda: message("abc" * 99, **sealed, compression="zstd")),
        "bytes by lz4": ("a length in front of the block", lambda: message(b"abc" * 99, **sealed, compression="lz4")),
        "bytes by snappy": ("framed, not raw", lambda: message(b"abc" * 99, **sealed, compression="snappy")),
        "clear, by gzip": ("decompressed only when encrypted", lambda: message(b"abc" * 99, compression="gzip")),
        "clear, by zstd": ("decompressed only when encrypted", lambda: message(b"abc" * 99, compression="zstd")),
    }  # fmt: skip
    for name, (bug, make) in made.items():
        data = kept.setdefault(name, b"") or make()
        kept[name] = data
        yield {"name": name, "bug": bug, **_opened(data, keys), "hex": data.hex()}
    alias = {"ml-kem-768": "kyber768", "ml-kem-1024": "kyber1024", "x25519-ml-kem-1024": "x25519-kyber1024"}
    for name, other_name in alias.items():
        data = changed(kept[name], lambda e, n=other_name: setattr(e.security.encryption, "algorithm", n))  # type: ignore[misc]
        bug = "the alias stands in the context"
        yield {"name": f"{name} called {other_name}", "bug": bug, **_opened(data, keys), "hex": data.hex()}


def _everything(key: MessageKey, **protection: Any) -> bytes:
    sealed = Protection(encrypt_to=(_given(key),), sign_with=SIGNER, **protection)
    return protect_message({"amount": 1000, "card": "4111"}, sealed, schema=SCHEMA, **META)


def _given(key: MessageKey) -> MessageKey:
    return key if key.algorithm.is_symmetric else key.public_part()


def _opened(data: bytes, keys: dict[str, MessageKey]) -> Case:
    view = MessageView(data).validate()
    opened = open_view(view, {key.id: key for key in keys.values()}.get)
    found: Case = {"opened_by": opened.opened_by, "payload_hex": bytes(opened.payload_bytes).hex()}
    if view.is_encrypted:
        metadata = view.security.encryption
        ids = [one.key_id for one in metadata.recipients] or [metadata.key_id]
        found["context_sha256"] = context_hash(algorithm_of(metadata.algorithm), describe(view), ids).hex()
    return found


def _invalid_payloads(keys: dict[str, MessageKey], kept: dict[str, bytes]) -> Iterable[Case]:
    def case(name: str, error: str, bug: str, base: str, change: Callable[[Any], None]) -> Case:
        data = changed(kept[base], change)
        return {"name": name, "error": error, "bug": bug, "hex": data.hex()}

    def of(e: Any) -> Any:
        return e.security.encryption

    def set_(name: str, value: Any, where: Callable[[Any], Any] = of) -> Callable[[Any], None]:
        return lambda e: setattr(where(e), name, value)

    def cut(name: str, where: Callable[[Any], Any]) -> Callable[[Any], None]:
        return lambda e: setattr(where(e), name, getattr(where(e), name)[:-1])

    def flip(name: str, where: Callable[[Any], Any]) -> Callable[[Any], None]:
        return lambda e: setattr(where(e), name, flipped(getattr(where(e), name), 0))

    def recipient(e: Any) -> Any:
        return of(e).recipients[0]

    def payload(e: Any) -> Any:
        return e.payload

    for name in keys:
        yield case(
            f"{name}: short encapsulated key",
            "BAD_ENCRYPTION",
            "length not checked",
            name,
            cut("encapsulated_key", recipient),
        )
        yield case(
            f"{name}: other encapsulated key", "BAD_ENCRYPTION", "not bound", name, flip("encapsulated_key", recipient)
        )
    for name in ("aes-256-gcm", "x-wing"):
        yield case(
            f"{name}: short wrapped key", "BAD_ENCRYPTION", "length not checked", name, cut("wrapped_key", recipient)
        )
        yield case(
            f"{name}: other wrapped key", "BAD_ENCRYPTION", "not authenticated", name, flip("wrapped_key", recipient)
        )
        yield case(f"{name}: short iv", "BAD_ENCRYPTION", "length not checked", name, cut("iv", of))
        yield case(f"{name}: other iv", "BAD_ENCRYPTION", "not authenticated", name, flip("iv", of))
        yield case(f"{name}: flipped payload", "BAD_ENCRYPTION", "not authenticated", name, flip("value", payload))
        yield case(
            f"{name}: payload shorter than a tag",
            "BAD_ENCRYPTION",
            "read past its end",
            name,
            set_("value", b"x" * 15, payload),
        )
    bound = {
        "message id": lambda e: setattr(e.metadata, "message_id", "another"),
        "topic": lambda e: setattr(e.metadata, "topic", "orders.deleted"),
        "namespace": lambda e: setattr(e.metadata, "namespace", "test"),
        "content type": lambda e: setattr(e.metadata, "content_type", 2),
        "content encoding": lambda e: setattr(e.metadata, "content_encoding", 3),
        "size before compression": lambda e: setattr(e.metadata, "uncompressed_bytes", 7),
        "schema hash": lambda e: setattr(e.schema, "schema_hash", "sha256:" + "00" * 32),
        "classification": lambda e: setattr(e.security, "data_classification", "confidential"),
        "aad": lambda e: setattr(e.security.encryption, "aad", b"less"),
        "type url": lambda e: setattr(e.payload, "type_url", "type.googleapis.com/x.Y"),
    }
    for what, change in bound.items():
        yield case(f"another {what}", "BAD_ENCRYPTION", f"{what} not in the context", "everything bound", change)
    below = _size(-7)
    yield case("size below zero", "BAD_ENCRYPTION", "taken for a number without a sign", "everything bound", below)
    yield case("no algorithm", "UNKNOWN_ALGORITHM", "a default", "x-wing", set_("algorithm", ""))
    yield case("later algorithm", "UNKNOWN_ALGORITHM", "taken for another", "x-wing", set_("algorithm", "x-wing-2"))
    for weak in ("aes-128-gcm", "rsa-oaep-2048", "RC4"):
        yield case(f"{weak}", "WEAK_ALGORITHM", "deprecated algorithm read", "x-wing", set_("algorithm", weak))
    kelvin = set_("algorithm", "\u212ayber768")
    yield case("a letter that is no k", "UNKNOWN_ALGORITHM", "case of all letters folded", "ml-kem-768", kelvin)
    swapped = set_("algorithm", "chacha20-poly1305")
    yield case("algorithm swapped", "BAD_ENCRYPTION", "algorithm taken from the message", "aes-256-gcm", swapped)
    yield case(
        "signature algorithm", "BAD_ENCRYPTION", "table shared with signatures", "x-wing", set_("algorithm", "ed25519")
    )
    yield case("type of another algorithm", "BAD_ENCRYPTION", "type not compared", "x-wing", set_("encryption_type", 1))
    yield case("no type", "BAD_ENCRYPTION", "type not required", "x-wing", set_("encryption_type", 0))
    yield case("no recipients", "BAD_ENCRYPTION", "first of none", "x-wing", lambda e: of(e).ClearField("recipients"))
    yield case("key nobody here has", "NO_RECIPIENT_KEY", "any key tried", "x-wing", set_("key_id", "other", recipient))
    yield case(
        "key id that climbs", "NO_RECIPIENT_KEY", "used as a path", "x-wing", set_("key_id", "../x-wing-1", recipient)
    )
    twice = lambda e: of(e).recipients.add().CopyFrom(recipient(e))  # noqa: E731
    yield case("a recipient twice", "BAD_ENCRYPTION", "the first taken", "x-wing", twice)
    yield case("65 recipients", "BAD_ENCRYPTION", "unbounded", "aes-256-gcm", lambda e: _crowd(of(e), 65))
    yield case("recipient added", "BAD_ENCRYPTION", "key ids not bound", "aes-256-gcm", lambda e: _crowd(of(e), 2))
    zero = set_("encapsulated_key", bytes(32), recipient)
    yield case("all-zero X25519 result", "BAD_ENCRYPTION", "a secret of zeros", SECOND_RECIPIENT, zero)
    zero_half = lambda e: setattr(recipient(e), "encapsulated_key", bytes(32) + recipient(e).encapsulated_key[32:])  # noqa: E731
    yield case("all-zero X25519 in the hybrid", "BAD_ENCRYPTION", "a secret of zeros", "x25519-ml-kem-1024", zero_half)
    yield case("direct RSA with an iv", "BAD_ENCRYPTION", "ignored", "direct RSA", set_("iv", bytes(12)))
    yield case(
        "direct RSA of another length",
        "BAD_ENCRYPTION",
        "library error",
        "direct RSA",
        set_("value", b"x" * 511, payload),
    )
    yield case("direct RSA under another topic", "BAD_ENCRYPTION", "no label", "direct RSA", bound["topic"])
    bad = "BAD_COMPRESSION"
    yield case("no size", bad, "unbounded", "clear, by gzip", lambda e: e.metadata.ClearField("uncompressed_bytes"))
    yield case("size above the bound", bad, "allocated first", "clear, by gzip", _size((64 << 20) + 1))
    yield case("negative size", bad, "taken as unsigned", "clear, by gzip", _size(-1))
    yield case("longer than it says", bad, "decompression bomb", "clear, by gzip", _size(296))
    yield case("shorter than it says", bad, "rest left as zeros", "clear, by gzip", _size(298))
    yield case("not gzip", bad, "library error", "clear, by gzip", set_("value", b"not gzip at all", payload))
    more = lambda e: setattr(e.payload, "value", e.payload.value + e.payload.value)  # noqa: E731
    yield case("two members", bad, "the second ignored", "clear, by gzip", more)
    yield from _frames(kept["clear, by zstd"])
    yield from _bounds_of_frames(kept["clear, by zstd"])


def _frames(data: bytes) -> Iterable[Case]:
    """Zstandard's own functions read several frames, and pass over those to be skipped."""
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"extra"
    halves = cramjam.zstd.compress(b"abc" * 50), cramjam.zstd.compress(b"abc" * 49)
    changes: dict[str, Callable[[bytes], bytes]] = {
        "two frames": lambda frame: b"".join(map(bytes, halves)),
        "a frame to be skipped first": lambda frame: skipped + frame,
        "a frame to be skipped last": lambda frame: frame + skipped,
        "bytes behind the frame": lambda frame: frame + b"\0",
        "half a frame": lambda frame: frame[: len(frame) // 2],
        "another size stated": lambda frame: frame[:5] + bytes([frame[5] ^ 1]) + frame[6:],
        "a dictionary of number 0": lambda frame: frame[:4] + b"\x01\x29\0" + frame[7:],
        "a reserved bit of the descriptor": lambda frame: frame[:4] + bytes([frame[4] | 8]) + frame[5:],
        "a reserved bit of a block's modes": lambda frame: frame[:15] + bytes([frame[15] | 2]) + frame[16:],
        "a frame without a last block": lambda _: b"\x28\xb5\x2f\xfd\x20\x03" + bytes((3 << 3, 0, 0)) + b"abc",
    }
    for name, change in changes.items():
        made = changed(data, lambda e, c=change: setattr(e.payload, "value", c(e.payload.value)))  # type: ignore[misc]
        yield {
            "name": f"zstd, {name}",
            "error": "BAD_COMPRESSION",
            "bug": "left to the library",
            "hex": made.hex(),
        }


def _bounds_of_frames(data: bytes) -> Iterable[Case]:
    """Frames that decode to what they say, with a window or a block that is too large."""
    magic, plain = b"\x28\xb5\x2f\xfd", b"abc" * 99

    def block(kind: int, size: int, content: bytes) -> bytes:
        return (size << 3 | kind << 1 | 1).to_bytes(3, "little") + content

    literals = (len(plain) << 4 | 3 << 2).to_bytes(3, "little") + plain + b"\0"  # not packed, and no sequences
    run = (1 << 17) + 1
    frames = {
        "a window above the bound": (magic + b"\0\x69" + block(0, len(plain), plain), len(plain)),
        "a block larger than the window": (magic + b"\x60\x29\0" + block(2, len(literals), literals), len(plain)),
        "a block larger than 128 KiB": (magic + b"\0\x40" + block(1, run, b"a"), run),
    }
    for name, (frame, size) in frames.items():
        made = changed(data, lambda e, f=frame: setattr(e.payload, "value", f))  # type: ignore[misc]
        made = changed(made, _size(size))
        yield {"name": f"zstd, {name}", "error": "BAD_COMPRESSION", "bug": "left to the library", "hex": made.hex()}


def _size(size: int) -> Callable[[Any], None]:
    return lambda e: setattr(e.metadata, "uncompressed_bytes", size)


def _crowd(metadata: Any, count: int) -> None:
    for number in range(count - 1):
        metadata.recipients.add(key_id=f"other-{number}", encapsulated_key=bytes(32), wrapped_key=bytes(48))
