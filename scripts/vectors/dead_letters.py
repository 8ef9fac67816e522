"""Dead letters of one node (S-18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scripts.vectors.fixed import ACCEPTED, FOREIGN, OLD, RING, SOURCE, TARGET, TIME, flipped
from speed.fs.dead_letters import DeadLetter, write_letter
from speed.wire.envelope import make_sequence
from speed.wire.names import node_id
from speed.wire.seal import Keyring

LETTER = DeadLetter(
    "MESSAGE", SOURCE, make_sequence(3, 9), TIME, 5, "EXECUTION_FAILED", "ValueError: naïve", TIME + 9, 5
)


def drawn() -> Callable[[int], bytes]:
    """Bytes in place of random ones: 1, 2, 3, …"""
    state = iter(range(1, 256))
    return lambda size: bytes(next(state) for _ in range(size))


def letter_bytes(letter: DeadLetter, payload: list[bytes], ring: Keyring = RING, node: str = TARGET) -> bytes:
    return b"".join(write_letter(letter, payload, ring, node_id(node), drawn()))


def dead_letters() -> dict[str, Any]:
    """Files of dead letters of the node billing."""

    def good(name: str, bug: str, letter: DeadLetter, payload: bytes = b"", ring: Keyring = RING) -> dict[str, Any]:
        data = letter_bytes(letter, [payload] if payload else [], ring)
        fields = {**letter._asdict(), "sequence": f"{letter.sequence:016x}"}
        return {"name": name, "bug": bug, "hex": data.hex(), "letter": fields, "payload_hex": payload.hex()}

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex()}

    whole = letter_bytes(LETTER, [b"hello"])
    in_two = letter_bytes(LETTER, [b"he", b"llo"])
    first = 24 + 4 + int.from_bytes(whole[24:28], "big")
    return {
        "about": "S-18 dead letters of the node billing. Writers cut payloads at 1 MiB; readers take any cut.",
        "node": TARGET,
        "accepted_keys": ACCEPTED,
        "valid": [
            good("message", "basic form", LETTER, b"hello"),
            good(
                "event without a payload",
                "a chunk that is not there expected",
                LETTER._replace(type="EVENT", payload_bytes=0),
            ),
            good("older key", "only the sealing key opens", LETTER, b"hello", Keyring((OLD,))),
            {**good("two chunks", "one chunk expected", LETTER, b"hello"), "hex": in_two.hex()},
        ],
        "invalid": [
            bad("empty", "length unchecked", b""),
            bad("header only", "a letter without a word", whole[:24]),
            bad("magic", "magic unchecked", b"SPDC" + whole[4:]),
            bad("version", "version unchecked", whole[:4] + b"\x02" + whole[5:]),
            bad("cut in a chunk", "a short read taken for a chunk", whole[:-1]),
            bad("last chunk gone", "the end of a letter is not told by its file", whole[:first]),
            bad(
                "chunks swapped",
                "chunks without a place",
                in_two[:first] + in_two[first + 34 :] + in_two[first : first + 34],
            ),
            bad("tag flipped", "tag unchecked", flipped(whole, len(whole) - 1)),
            bad("random part flipped", "chunks of two letters mixed", flipped(whole, 20)),
            bad("a chunk of 2 GiB", "allocates what a length claims", whole[:24] + b"\x80\0\0\0" + whole[28:]),
            bad("size of the payload", "a size believed", letter_bytes(LETTER._replace(payload_bytes=6), [b"hello"])),
            bad("unknown type", "type unchecked", letter_bytes(LETTER._replace(type="ACK"), [b"hello"])),
            bad("another node's", "one key for all nodes", letter_bytes(LETTER, [b"hello"], RING, SOURCE)),
        ],
        "unknown_key": [
            bad(
                "foreign key",
                "the first key used for every letter",
                letter_bytes(LETTER, [b"hello"], Keyring((FOREIGN,))),
            )
        ],
    }
