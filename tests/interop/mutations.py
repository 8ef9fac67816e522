"""Bytes that nearly keep the rules: vectors, altered at random, and sealed again where a key would notice.

A mutant of an authenticated kind would nearly always end at its MAC. So envelopes, entries, cursors and fences
are altered first and authenticated afterwards as well, which leads behind that check.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from random import Random
from struct import pack
from typing import Any

from speed.wire.limits import AAD_BYTES
from tests.interop.decoding import LANE_KEYS, RING, SOURCE, TARGET
from tests.vectors import load

MAC_BYTES = 16
ENTRY_BYTES = 2048
EDGES = (0, 1, 0x7F, 0x80, 0xC1, 0xFF)
NUMBERS = (0, 1, 63, 64, 65, 2**16, 2**24, 2**26 + 1, 2**31, 2**32 - 1, 2**40, 2**53 + 1, 2**63, 2**64 - 1)
JSON_PIECES = (
    *(b"null", b"true", b"0", b"-0", b"-1", b"1.0", b"1e3", b"30000.0", b"01", b"1e400", b"NaN", b"Infinity"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551616"),
    *(b'""', b'"a"', b'"\\ud800"', b'"\\u0000"', b'"\\x"', b'"\xff"', b'"\xed\xa0\x80"', b'"online"', b'"leaving"'),
    *(b"[]", b"{}", b"[1]", b'["etl.*"]', b'["*"]', b'[""]', b'"x":' + b"[" * 200 + b"]" * 200 + b","),
    *(b" ", b"\t", b"\r", b"\x00", b"\xef\xbb\xbf", b",", b"//", b'"name":"billing",', b'"pid":1,'),
)


def seeds() -> dict[str, list[bytes]]:
    """The bytes of all vectors, valid or not, by kind."""
    cursors, payloads, values, columns = load("cursors"), load("payloads"), load("values"), load("columns")
    protected = load("signatures"), load("encryption")

    def hex_of(cases: list[dict[str, Any]]) -> list[bytes]:
        return [bytes.fromhex(case["hex"]) for case in cases]

    by_kind = {
        kind: [bytes.fromhex(case["hex"]) for case in payloads["valid"] + payloads["invalid"] if case["kind"] == kind]
        for kind in ("request", "response", "control")
    }
    return by_kind | {
        "envelope": [
            bytes.fromhex(case["envelope"]) for part in ("valid", "invalid") for case in load("envelopes")[part]
        ],
        "entry": [
            bytes.fromhex(case["content"]).ljust(case["bytes"], b" ")
            for part in ("valid", "invalid")
            for case in load("entries")[part]
        ],
        "cursor": hex_of(cursors["cursors_valid"] + cursors["cursors_invalid"]),
        "fence": hex_of(cursors["fences_valid"] + cursors["fences_invalid"]),
        "value": hex_of(
            [
                case
                for vectors in (values, columns)
                for part in ("valid", "also_read", "invalid")
                for case in vectors[part]
            ]
        ),
        "message": hex_of(load("messages")["valid"] + load("messages")["invalid"]),
        "protected": hex_of([case for vectors in protected for part in ("valid", "invalid") for case in vectors[part]]),
        "keyfile": [case["text"].encode() for part in ("valid", "invalid") for case in load("keys")[part]],
        "topic": hex_of(load("topics")["records_valid"] + load("topics")["records_invalid"]),
        "segment": hex_of(load("segments")["also_read"] + load("segments")["invalid"]),
    }


class Mutations:
    """An endless run of cases; the same seed gives the same run. ``more``: further kinds and their seeds."""

    def __init__(self, seed: int, more: Mapping[str, list[bytes]] | None = None) -> None:
        self._random = Random(seed)
        self._seeds = seeds() | dict(more or {})
        self._kinds = sorted(self._seeds)
        self._resealed: dict[str, Callable[[bytes], bytes]] = {
            "envelope": self._seal_envelope,
            "entry": self._seal_entry,
            "cursor": self._seal_lane_file,
            "fence": self._seal_lane_file,
        }

    def case(self) -> tuple[str, bytes]:
        """A kind and bytes to decode as that kind."""
        kind = self._random.choice(self._kinds)
        reseal = self._resealed.get(kind)
        if reseal is not None and self._random.random() < 0.8:
            return kind, reseal(self._random.choice(self._seeds[kind]))
        return kind, self._mutated(self._random.choice(self._seeds[kind]), self._seeds[kind])

    def _mutated(self, data: bytes, others: list[bytes]) -> bytes:
        for _ in range(self._random.choice((1, 1, 1, 2, 3, 5))):
            data = self._random.choice(_MUTATIONS)(self._random, data, others)
        return data

    def _seal_envelope(self, envelope: bytes) -> bytes:
        """Alter header or payload, then seal as if it had been meant so (length and sequence as the header says)."""
        header, payload = bytearray(envelope[:AAD_BYTES].ljust(AAD_BYTES, b"\0")), envelope[AAD_BYTES:-MAC_BYTES]
        for _ in range(self._random.choice((0, 1, 1, 2))):
            position = self._random.randrange(AAD_BYTES)
            header[position] = self._random.choice((*EDGES, self._random.randrange(256)))
        if self._random.random() < 0.7:
            header[24:32] = pack(">Q", len(payload))
        generation = int.from_bytes(header[8:11], "big")
        header[64:72] = RING.key_id
        sealer = RING.sealing_aead(SOURCE, TARGET, generation)
        return bytes(header) + bytes(sealer.encrypt(bytes(header[76:88]), payload, bytes(header)))

    def _seal_entry(self, file: bytes) -> bytes:
        """Alter line 1, make its MAC anew."""
        line = file.split(b"\n")[0]
        if self._random.random() < 0.6:
            line = self._with_other_json(line)
        else:
            line = self._mutated(line, [other.split(b"\n")[0] for other in self._seeds["entry"]])
        mac = b64encode(hmac.digest(RING.registry_key, line, "sha256"))
        return (line + b"\n" + mac + b"\n").ljust(ENTRY_BYTES, b" ")

    def _seal_lane_file(self, file: bytes) -> bytes:
        """Alter a cursor or a fence, make its MAC anew."""
        body = self._mutated(file[:-MAC_BYTES], [file])
        return body + hmac.digest(self._random.choice(LANE_KEYS), body, "sha256")[:MAC_BYTES]

    def _with_other_json(self, line: bytes) -> bytes:
        """Put a piece of JSON, sound or not, in the place of a value or between two tokens."""
        piece = self._random.choice(JSON_PIECES)
        ends = [position + 1 for position, byte in enumerate(line) if byte in b":,[{"]
        if not ends:
            return piece
        begin = self._random.choice(ends)
        if self._random.random() < 0.3:
            return line[:begin] + piece + line[begin:]
        stops = [position for position in range(begin, len(line)) if line[position] in b",}]"]
        return line[:begin] + piece + line[stops[0] if stops else begin :]


def _flip(random: Random, data: bytes, _: list[bytes]) -> bytes:
    if not data:
        return bytes([random.randrange(256)])
    position = random.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << random.randrange(8))]) + data[position + 1 :]


def _edge(random: Random, data: bytes, _: list[bytes]) -> bytes:
    position = random.randrange(len(data) + 1)
    return data[:position] + bytes([random.choice(EDGES)]) + data[position + 1 :]


def _number(random: Random, data: bytes, _: list[bytes]) -> bytes:
    """A number of 1, 2, 4 or 8 bytes in the place of others."""
    size = random.choice((1, 2, 4, 8))
    position = random.randrange(len(data) + 1)
    return data[:position] + (random.choice(NUMBERS) % 256**size).to_bytes(size, "big") + data[position + size :]


def _cut(random: Random, data: bytes, _: list[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _drop(random: Random, data: bytes, _: list[bytes]) -> bytes:
    begin = random.randrange(len(data) + 1)
    return data[:begin] + data[begin + random.randrange(1, 9) :]


def _insert(random: Random, data: bytes, _: list[bytes]) -> bytes:
    position = random.randrange(len(data) + 1)
    return data[:position] + random.randbytes(random.randrange(1, 9)) + data[position:]


def _repeat(random: Random, data: bytes, _: list[bytes]) -> bytes:
    begin = random.randrange(len(data) + 1)
    end = begin + random.randrange(1, 40)
    return data[:end] + data[begin:end] + data[end:]


def _splice(random: Random, data: bytes, others: list[bytes]) -> bytes:
    other = random.choice(others)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


_MUTATIONS = (_flip, _flip, _edge, _number, _cut, _drop, _insert, _repeat, _splice)
