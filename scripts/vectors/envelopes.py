"""Whole envelopes of one lane (W-4 to W-12)."""

from __future__ import annotations

from struct import pack
from typing import Any

from scripts.vectors.fixed import (
    ACCEPTED,
    FOREIGN,
    KEY,
    NONCE,
    OLD,
    OTHER,
    RING,
    SOURCE,
    TARGET,
    TIME,
    flipped,
    patched,
)
from speed.wire.envelope import make_sequence
from speed.wire.names import node_id
from speed.wire.seal import Keyring, LinkSealer, key_id_of


def seal(type_: int, flags: int, payload: bytes, *, key: bytes = KEY, generation: int = 7, counter: int = 1) -> bytes:
    sealer = LinkSealer(Keyring((key,)), node_id(SOURCE), node_id(TARGET), generation)
    return sealer.seal(type_, flags, counter, TIME, payload, NONCE)


def envelopes() -> dict[str, Any]:
    """Whole envelopes of the link analytics -> billing."""
    base = seal(1, 0, b"hello")

    def good(name: str, bug: str, type_: int, flags: int, payload: bytes, **how: Any) -> dict[str, Any]:
        generation, counter = how.get("generation", 7), how.get("counter", 1)
        return {
            "name": name,
            "bug": bug,
            "type": type_,
            "flags": flags,
            "sequence": f"{make_sequence(generation, counter):016x}",
            "timestamp_ms": TIME,
            "key": how.get("key", KEY).hex(),
            "nonce": NONCE.hex(),
            "payload": payload.hex(),
            "envelope": seal(type_, flags, payload, **how).hex(),
        }

    def bad(name: str, bug: str, error: str, envelope: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "error": error, "envelope": envelope.hex()}

    elsewhere = LinkSealer(RING, node_id(SOURCE), node_id(OTHER), 7).seal(1, 0, 1, TIME, b"hello", NONCE)
    forged = LinkSealer(RING, node_id(OTHER), node_id(TARGET), 7).seal(1, 0, 1, TIME, b"hello", NONCE)
    return {
        "about": "W-4 to W-13. Every envelope was written to the lane analytics -> billing; `error` is the wire code.",
        "source": SOURCE,
        "target": TARGET,
        "accepted_keys": ACCEPTED,
        "valid": [
            good("message", "basic form", 1, 0, b"hello"),
            good("empty payload", "N = 0 refused", 1, 0, b""),
            good("ack requested", "flag bit order", 1, 1, b"hello"),
            good("segment", "flag bit order", 4, 2, b"hello"),
            good("response", "flag bit order", 3, 4, b"hello"),
            *(good(f"type {t}", "a type left out", t, 0, b"x") for t in range(2, 10)),
            good("last counter", "counter and generation overlap", 1, 0, b"x", counter=2**40 - 1),
            good("last generation", "signed 64-bit sequence", 1, 0, b"x", generation=2**24 - 1),
            good("older key", "only the sealing key opens", 1, 0, b"x", key=OLD),
            good("two blocks", "one ChaCha20 block only", 1, 0, bytes(range(130))),
        ],
        "invalid": [
            bad("cut header", "reads past the end", "TRUNCATED", base[:87]),
            bad("nothing", "reads past the end", "TRUNCATED", b""),
            bad("cut payload", "short read accepted", "TRUNCATED", base[:-1]),
            bad("version 0", "version unchecked", "BAD_VERSION", patched(base, 0, b"\x00")),
            bad("version 2", "version unchecked", "BAD_VERSION", patched(base, 0, b"\x02")),
            bad("type 0", "type unchecked", "BAD_TYPE", patched(base, 1, b"\x00")),
            bad("type 10", "type unchecked", "BAD_TYPE", patched(base, 1, b"\x0a")),
            bad("unknown flag", "flags ignored", "BAD_FLAGS", patched(base, 2, b"\x00\x10")),
            bad("high flag", "flags read as one byte", "BAD_FLAGS", patched(base, 2, b"\x80\x00")),
            bad("slotted acknowledgement", "any flag on any type", "BAD_FLAGS", seal(8, 12, b"x")),
            bad("reply message", "REPLY on a MESSAGE passes without a grant", "BAD_FLAGS", seal(1, 4, b"x")),
            bad("reply request", "REPLY on a request passes without a grant", "BAD_FLAGS", seal(2, 4, b"x")),
            bad("header length 88", "header length unchecked", "BAD_HEADER_LENGTH", patched(base, 4, pack(">I", 88))),
            bad("little endian", "byte order", "BAD_HEADER_LENGTH", patched(base, 4, pack("<I", 64))),
            bad("reserved", "reserved bytes ignored", "BAD_RESERVED", patched(base, 75, b"\x01")),
            bad("generation 0", "generations start at 1", "BAD_SEQUENCE", patched(base, 8, pack(">Q", 1))),
            bad("counter 0", "counters start at 1", "BAD_SEQUENCE", patched(base, 8, pack(">Q", 7 << 40))),
            bad("64 MiB + 1", "allocates before it checks", "TOO_LARGE", patched(base, 24, pack(">Q", (1 << 26) + 1))),
            bad("2^63", "signed length", "TOO_LARGE", patched(base, 24, pack(">Q", 1 << 63))),
            bad("other source", "lane and header disagree", "WRONG_SOURCE", forged),
            bad("other target", "moved to another inbox", "WRONG_TARGET", elsewhere),
            bad("unknown key", "keys tried one after the other", "UNKNOWN_KEY", seal(1, 0, b"x", key=FOREIGN)),
            bad("key id of another", "key id not authenticated", "BAD_TAG", patched(base, 64, key_id_of(OLD))),
            bad("type changed", "header not authenticated", "BAD_TAG", patched(base, 1, b"\x04")),
            bad("flag changed", "header not authenticated", "BAD_TAG", patched(base, 2, b"\x00\x01")),
            bad("counter changed", "replay under a fresh sequence", "BAD_TAG", patched(base, 15, b"\x03")),
            bad("generation changed", "replay after a restart", "BAD_TAG", flipped(base, 10)),
            bad("time changed", "header not authenticated", "BAD_TAG", flipped(base, 23)),
            bad("nonce changed", "nonce not used", "BAD_TAG", flipped(base, 76)),
            bad("payload changed", "tag unchecked", "BAD_TAG", flipped(base, 88)),
            bad("tag changed", "tag unchecked", "BAD_TAG", flipped(base, len(base) - 1)),
        ],
    }
