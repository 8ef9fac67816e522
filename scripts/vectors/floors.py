"""The floor of generations (R-24) and the files of claims (R-4)."""

from __future__ import annotations

import hmac
import json
from typing import Any

from scripts.vectors.fixed import ACCEPTED, FOREIGN, OLD, RING, flipped, patched
from speed.fs.claim import Claimant, encode_claim
from speed.fs.identity import Identity
from speed.wire.cursor import NO_FLOOR, encode_floors
from speed.wire.names import node_id
from speed.wire.seal import Keyring

MAKER = Identity(4242, 123456, "pid:[4026531836]", "host-1", "0f0e0d0c-0b0a-4908-8706-050403020100")
NAMES = ("billing", "etl.app.1", "analytics")


def floors() -> dict[str, Any]:
    """Files of the floor, and of claims."""
    return {
        "about": "R-24 floors and R-4 claims. `floors` are the numbers that are not 0, by the first byte of a node id.",
        "accepted_keys": ACCEPTED,
        "buckets": [{"name": name, "first_byte": node_id(name)[0]} for name in NAMES],
        **_floors(),
        "claims": _claims(),
    }


def _floors() -> dict[str, Any]:
    some = [0] * 256
    some[0], some[7], some[255] = 1, 70_000, (1 << 24) - 1
    data = encode_floors(some, RING.registry_key)

    def good(name: str, bug: str, content: bytes, numbers: list[int]) -> dict[str, Any]:
        told = {str(index): number for index, number in enumerate(numbers) if number}
        return {"name": name, "bug": bug, "hex": content.hex(), "floors": told}

    def bad(name: str, bug: str, content: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": content.hex()}

    return {
        "floors_valid": [
            good("none", "zeros refused", encode_floors(NO_FLOOR, RING.registry_key), [0] * 256),
            good("some", "order of bytes, or first and last forgotten", data, some),
            good("older key", "only the first key verifies", encode_floors(some, Keyring((OLD,)).registry_key), some),
        ],
        "floors_invalid": [
            bad("empty", "length unchecked", b""),
            bad("cut", "MAC optional", data[:-1]),
            bad("longer", "length unchecked", data + b"\x00"),
            bad("magic", "magic unchecked", patched(data, 0, b"SPDF")),
            bad("version", "version unchecked", patched(data, 4, b"\x02")),
            bad("not zero", "reserved bytes unchecked", encode_reserved(some)),
            bad("number flipped", "MAC unchecked", flipped(data, 8)),
            bad("foreign key", "MAC unchecked", encode_floors(some, Keyring((FOREIGN,)).registry_key)),
        ],
    }


def encode_reserved(some: list[int]) -> bytes:
    """A floor whose MAC is right and whose reserved bytes are not zero."""
    body = patched(encode_floors(some, RING.registry_key), 5, b"\x01")[:-16]
    return body + hmac.digest(RING.registry_key, body, "sha256")[:16]


def _claims() -> list[dict[str, Any]]:
    """What each file tells; ``claim`` is nil where it tells nothing."""
    full = Claimant(MAKER, 30_000, 987_654, above=6, ephemeral=True, sweeps=True)
    data = encode_claim(full, RING.registry_key)
    line = data.split(b"\n")[0]

    def case(name: str, bug: str, content: bytes, claimant: Claimant | None) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": content.hex(), "claim": claimant and _told(claimant)}

    def plain(**told: Any) -> Claimant:
        return Claimant(MAKER, 30_000, 987_654, **told)

    foreign = encode_claim(full, Keyring((FOREIGN,)).registry_key)
    older = encode_claim(full, Keyring((OLD,)).registry_key)
    unknown = json.dumps({**json.loads(line), "colour": "red"}).encode()
    return [
        case("plain", "defaults", encode_claim(plain(), RING.registry_key), plain()),
        case("above 0", "0 taken for not told", encode_claim(plain(above=0), RING.registry_key), plain(above=0)),
        case("everything", "fields swapped", data, full),
        case("older key", "only the first key verifies", older, full),
        case("foreign key", "what has no MAC believed", foreign, plain(sweeps=True)),
        case("one line", "a claim without a MAC not respected", line, plain(sweeps=True)),
        case("altered", "MAC unchecked", data.replace(b'"above": 6', b'"above": 5'), plain(sweeps=True)),
        case("unknown field", "new fields refused", unknown + b"\n", plain(sweeps=True)),
        case("empty", "crash", b"", None),
        case("array", "any JSON taken for an object", b"[]\n", None),
        case("lease missing", "a default invented", line.replace(b'"lease"', b'"lesse"') + b"\n", None),
    ]


def _told(claimant: Claimant) -> dict[str, Any]:
    return {
        "pid": claimant.identity.pid,
        "boot_id": claimant.identity.boot_id,
        "lease": claimant.lease_ms,
        "made_monotonic_ms": claimant.made_ms,
        "above": claimant.above,
        "ephemeral": claimant.ephemeral,
        "sweeps": claimant.sweeps,
    }
