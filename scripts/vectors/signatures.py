"""Signed messages: what a receiver believes, and what it must refuse (M-16 to M-18)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha512
from typing import Any

from scripts.vectors.fixed_messages import SIGNER, Case, changed, flipped, message, pb, places
from scripts.vectors.messages import record
from speed.message.algorithms import algorithm_of
from speed.message.keys import MessageKey
from speed.message.protect import sign, signing_input
from speed.message.writing import signed_parts, with_security, with_signature, without_token
from speed.wire.records import varint, walk

STRANGER = MessageKey("ed-2", algorithm_of("ed25519"), bytes(range(1, 33)), publishers=("billing",))
_FIELD = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_ORDER = 2**252 + 27742317777372353535851937790883648493
_SMALL_ORDER = (0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8, _FIELD, _FIELD + 1)
SHARED = MessageKey("mac-1", algorithm_of("hmac-sha256"), bytes(range(64, 96)), publishers=("billing", "etl.*"))


def unsigned(signer: MessageKey, **fields: Any) -> bytes:
    """A message that names its signer, with further fields of its security context."""
    context = pb.SecurityContext(
        **{"signature_algorithm": signer.algorithm.name, "signature_key_id": signer.id, **fields}
    )
    return with_security(message(), context.SerializeToString())


def signatures() -> dict[str, Any]:
    """Signed messages, with the input that was signed."""
    keys = [SIGNER.public_part(), SHARED]
    return {
        "about": "Rules M-16, M-17, M-24; policy `require`, `trusted` are the keys. `input_hex` is what is signed. "
        "`refused_algorithms` are refused whatever the policy.",
        "trusted": [key.to_record() for key in keys],
        "valid": list(_valid_signatures()),
        "invalid": list(_invalid_signatures()),
        "refused_algorithms": list(_refused_algorithms()),
        "refused_keys": [
            {"id": "ed-3", "algorithm": "ed25519", "public": b64encode(point.to_bytes(32, "little")).decode()}
            for y in _SMALL_ORDER
            for point in (y, y | 1 << 255)
        ],
    }


def _valid_signatures() -> Iterable[Case]:
    plain, security = unsigned(SIGNER), {"publisher_team": "payments", "data_classification": "internal"}
    mac = unsigned(SHARED)
    with_token = with_security(plain, pb.SecurityContext(auth_token="a.b.c").SerializeToString())
    start, end = places(plain, 2)
    before = plain[: places_of_record(plain, 2)[0]]
    two_records = before + record(2, plain[start : start + 9]) + record(2, plain[start + 9 : end]) + plain[end:]
    unknown = with_security(plain, b"\xa2\x06\x03abc")
    labels = plain + record(
        3, record(6, record(1, b"b") + record(2, b"2")) + record(6, record(1, b"a") + record(2, b"1"))
    )
    cases = (
        ("ed25519", "basic", sign(plain, SIGNER), SIGNER),
        ("hmac", "basic", sign(mac, SHARED), SHARED),
        ("made by a writer", "names of key and algorithm not written", message(sign_with=SIGNER), SIGNER),
        ("team and classification", "security left out", sign(unsigned(SIGNER, **security), SIGNER), SIGNER),
        ("token present", "the token is covered", sign(with_token, SIGNER), SIGNER),
        ("token cut out", "the token is covered", without_token(sign(with_token, SIGNER)), SIGNER),
        ("two security records", "only one of them covered", signed_in_place(two_records, SIGNER), SIGNER),
        ("unknown field in security", "parsed and written again", sign(unknown, SIGNER), SIGNER),
        ("unknown field outside", "parsed and written again", sign(plain + record(50, b"later"), SIGNER), SIGNER),
        ("labels in another order", "maps sorted before signing", sign(labels, SIGNER), SIGNER),
        ("payload not last", "records sorted before signing", sign(plain + varint(51 << 3) + b"\x07", SIGNER), SIGNER),
    )  # fmt: skip
    for name, bug, data, key in cases:
        covered = signing_input(data, signed_parts(data))
        yield {"name": name, "bug": bug, "signed_by": key.id, "hex": data.hex(), "input_hex": covered.hex()}


def _weakly_signed(data: bytes) -> bytes:
    """A signature that only the key's holder can make, though the equation of RFC 8032 holds: R is neutral."""
    assert SIGNER.secret is not None
    assert SIGNER.public is not None
    clamped = int.from_bytes(sha512(SIGNER.secret).digest()[:32], "little") & ((1 << 254) - 8) | 1 << 254
    neutral = (1).to_bytes(32, "little")
    covered = signing_input(data, signed_parts(data))
    challenge = int.from_bytes(sha512(neutral + SIGNER.public + covered).digest(), "little")
    return neutral + (challenge * clamped % _ORDER).to_bytes(32, "little")


def places_of_record(data: bytes, wanted: int) -> tuple[int, int]:
    return next((start, end) for field, _, start, _, end in walk(data) if field == wanted)


def signed_in_place(data: bytes, key: MessageKey) -> bytes:
    """The message with its signature in a security record of its own, behind all others."""
    signed = sign(data, key)
    signature = signed_parts(signed).signatures[0]
    return data + record(2, record(4, signature))


def _invalid_signatures() -> Iterable[Case]:
    def case(name: str, error: str, bug: str, data: bytes) -> Case:
        return {"name": name, "error": error, "bug": bug, "hex": data.hex()}

    good = sign(unsigned(SIGNER, publisher_team="payments", contains_pii=True, data_classification="internal"), SIGNER)
    for path, what in (((1, 1), "message id"), ((1, 3), "namespace"), ((2, 1), "publisher"), ((2, 2), "team")):
        error = "UNTRUSTED" if what == "publisher" else "BAD_SIGNATURE"
        yield case(f"flipped bit in {what}", error, f"{what} not covered", flipped(good, places(good, *path)[0]))
    for path, what in (((2, 7), "PII flag"), ((2, 8), "classification"), ((99, 2), "payload"), ((2, 4), "signature")):
        yield case(
            f"flipped bit in {what}", "BAD_SIGNATURE", f"{what} not covered", flipped(good, places(good, *path)[0])
        )
    plain = unsigned(SIGNER)
    signature = signed_parts(good).signatures[0]
    signed_by_stranger = with_signature(plain, signed_parts(sign(plain, STRANGER)).signatures[0])
    confused = MessageKey(SIGNER.id, algorithm_of("hmac-sha256"), SIGNER.public)
    yield case("no signature", "UNSIGNED", "not required", plain)
    yield case("signed by another key", "BAD_SIGNATURE", "any key will do", signed_by_stranger)
    yield case("unknown key", "UNTRUSTED", "key taken from the message", sign(unsigned(STRANGER), STRANGER))
    yield case("no key id", "UNTRUSTED", "all keys tried", with_signature(message(), signature))
    yield case(
        "public key used as an HMAC key",
        "UNTRUSTED",
        "algorithm taken from the message",
        sign(unsigned(confused), confused),
    )
    yield case(
        "algorithm swapped beside a good signature",
        "UNTRUSTED",
        "algorithm not compared",
        sign(unsigned(SIGNER, signature_algorithm="hmac-sha256"), SIGNER),
    )
    other = sign(changed(plain, lambda e: setattr(e.security, "publisher_id", "analytics")), SIGNER)
    yield case("another publisher", "UNTRUSTED", "publisher not compared", other)
    nobody = sign(changed(plain, lambda e: e.security.ClearField("publisher_id")), SIGNER)
    yield case("no publisher", "UNTRUSTED", "absent publisher passes", nobody)
    elsewhere = sign(changed(plain, lambda e: setattr(e.metadata, "topic", "flights.created")), SIGNER)
    yield case("another topic", "UNTRUSTED", "topics of the key not looked at", elsewhere)
    twice = good + record(2, record(4, signature))
    yield case("two signatures", "BAD_SIGNATURE", "one of two taken", twice)
    yield case("short signature", "BAD_SIGNATURE", "length not checked", with_signature(plain, signature[:63]))
    yield case("empty signature", "BAD_SIGNATURE", "empty taken for absent", with_signature(plain, b""))
    yield case("R of small order", "BAD_SIGNATURE", "left to the library", with_signature(plain, _weakly_signed(plain)))
    yield case("field appended", "BAD_SIGNATURE", "unknown fields not covered", good + record(50, b"later"))
    yield case(
        "payload appended", "BAD_SIGNATURE", "first payload covered, last one read", good + record(99, record(2, b"x"))
    )
    yield case(
        "metadata appended", "BAD_SIGNATURE", "merged fields not covered", good + record(1, record(2, b"orders.x"))
    )
    yield case("security appended", "BAD_SIGNATURE", "merged fields not covered", good + record(2, record(2, b"ops")))
    mac = sign(unsigned(SHARED), SHARED)
    yield case("flipped bit in HMAC", "BAD_SIGNATURE", "prefix compared", flipped(mac, places(mac, 2, 4)[1] - 1))
    cut = with_signature(unsigned(SHARED), signed_parts(mac).signatures[0][:16])
    yield case("truncated HMAC", "BAD_SIGNATURE", "prefix compared", cut)


def _refused_algorithms() -> Iterable[Case]:
    """Messages that name an algorithm which nobody may use, to a reader that may look at no signature."""

    def case(name: str, error: str, **security: Any) -> Case:
        data = with_security(message(), pb.SecurityContext(**security).SerializeToString())
        bug = "name not looked at without a policy"
        return {"name": name, "algorithm": name, "error": error, "bug": bug, "hex": data.hex()}

    for name in ("hmac-md5", "HMAC-MD5", "hmac-sha1", "md5", "sha-1"):
        said = {"signature": bytes(16), "signature_algorithm": name, "signature_key_id": SIGNER.id}
        yield case(name, "WEAK_ALGORITHM", **said)
    yield case("hmac-later", "UNKNOWN_ALGORITHM", signature=b"", signature_algorithm="hmac-later")
    for name in ("3des", "3DES", "des", "rc4", "aes-128-gcm"):
        encryption = pb.EncryptionMetadata(key_id="own", encryption_type=1, algorithm=name, iv=bytes(12))
        yield case(name, "WEAK_ALGORITHM", encryption=encryption)
    encryption = pb.EncryptionMetadata(key_id="own", encryption_type=1, algorithm="aes-256-cbc", iv=bytes(16))
    yield case("aes-256-cbc", "UNKNOWN_ALGORITHM", encryption=encryption)
