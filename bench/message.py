"""Figures of messages: ``bench/run --only message``, or this file. One process, no lane and no node.

Each figure is processor time of the one thread that works, of the quietest round of many; a target stands beside it
where one is promised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from targets import Target

from speed.message import encryption
from speed.message.encryption import Described, decrypt, encrypt
from speed.message.errors import UntrustedError
from speed.message.keys import generate_key
from speed.message.message_pb2 import MessageMetadata  # type: ignore[attr-defined]
from speed.message.protect import Protection, TrustedKeys, open_view, protect_message, sign, verify
from speed.message.view import MessageView, parse_records
from speed.message.writing import encode_message
from speed.wire.value import CONTENT_ENCODINGS, CONTENT_TYPES

MIB = 1 << 20
ID = "018bcfe5-687b-7001-8203-0405060708ff"
BASE: dict[str, Any] = {
    "topic": "orders.created", "namespace": "default", "message_id": ID, "published_at_ms": 1_700_000_000_000,
}  # fmt: skip
IDS = tuple(f"018bcfe5-687b-7001-8203-{number:012x}" for number in range(64))
WHY_NOT = {
    "metadata_ratio": "the library parses 1 MiB by one copy: how long that takes depends on what other programs do",
    "encode_validate_us": "msgpack, its check, and the frame of Python around them",
    "sign_verify_us": "nearly all of it is OpenSSL's",
    "aes_gb_s": "all of it is OpenSSL's",
}
"""What takes the time where a target is not reached."""
TARGETS = [
    Target("metadata of a message of 1 MiB: times quicker than a full parse", ">=", 13.0, "metadata_ratio"),
    Target("metadata of a message of 1 MiB: allocated, MB", "<=", 0.15, "metadata_mb"),
    Target("verdict on 10 MiB of who is not trusted, ms", "<=", 1.0, "verdict_ms"),
    Target("bytes of a typical message beside its payload", "<=", 150, "overhead_bytes"),
    Target("encode and validate, µs", "<=", 8.0, "encode_validate_us"),
    Target("content type as an enum: times smaller than its text", ">=", 10.0, "enum_ratio"),
    Target("sign and verify 1 KiB, Ed25519, µs", "<=", 250.0, "sign_verify_us"),
    Target("encrypt and decrypt 1 MiB, AES-256-GCM, GB/s through the cipher", ">=", 2.0, "aes_gb_s"),
    Target("wrap and unwrap a data key, ML-KEM-1024, µs", "<=", 300.0, "mlkem_us"),
]
UNPROMISED = {
    "metadata_us": "metadata of a message of 1 MiB, µs",
    "metadata_alone_us": "the same where none like it came before, µs",
    "encode_validate_alone_us": "encode and validate where none like it came before, µs",
    "full_us": "full parse of a message of 1 MiB by the protobuf library, µs",
    "xwing_us": "wrap and unwrap a data key, X-Wing, µs",
    "hybrid_us": "wrap and unwrap a data key, X25519 and ML-KEM-1024, µs",
    "shared_us": "wrap and unwrap a data key, shared key, µs",
    "protect_us": "1 KiB signed and encrypted by X-Wing, as a message, µs",
    "open_us": "the same verified, decrypted, µs",
    "whole_gb_s": "1 MiB as a message, encrypted and opened, GB/s",
}


def quietest(function: Callable[[], object], count: int, rounds: int = 40) -> float:
    """Seconds of processor time of one call: the mean of the best round."""
    function()
    best = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(count):
            function()
        best = min(best, (time.thread_time() - began) / count)
    return best


def metadata_figures() -> dict[str, float]:
    """Reading the head of a large message, as a router or a guard does, and all of it, as the protobuf library does.

    One like it came before, with another id; how long it takes where none did, a message with a correlation id tells.
    """
    MessageView(encode_message(b"", **{**BASE, "message_id": IDS[0]})).validate()
    large, unlike = encode_message(bytes(MIB), **BASE), encode_message(bytes(MIB), **BASE, correlation_id=ID)
    lazy = quietest(lambda: MessageView(large).validate().topic, 250)
    alone = quietest(lambda: MessageView(unlike).validate().topic, 250)
    full = quietest(lambda: parse_records(large).metadata.topic, 50)
    tracemalloc.start()
    MessageView(unlike).validate()
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    figures = {"metadata_us": lazy * 1e6, "metadata_alone_us": alone * 1e6, "full_us": full * 1e6}
    return {"metadata_ratio": full / lazy, "metadata_mb": allocated / 1e6, **figures}


def verdict_figure() -> float:
    """Milliseconds until a message of 10 MiB by an unknown key is refused."""
    stranger = generate_key("stranger", "ed25519", publishers=("x",))
    huge = protect_message(bytes(10 * MIB), Protection(sign_with=stranger), publisher_id="x", **BASE)
    nobody = TrustedKeys({})

    def refuse() -> None:
        try:
            verify(MessageView(huge).validate(), nobody, "require")
        except UntrustedError:
            return
        raise AssertionError("a stranger was believed")

    return quietest(refuse, 50) * 1e3


def size_figures() -> dict[str, float]:
    payload = {"order": 1, "amount": 1000}
    message = encode_message(payload, **BASE, publisher_id="billing")
    around = len(message) - len(MessageView(message).payload_bytes)
    _, text, enum = sizes()[0]
    return {"overhead_bytes": around, "enum_ratio": text / enum}


def encode_figures() -> dict[str, float]:
    """Microseconds to encode a message and to validate it; each has an id and a time of its own."""
    payload = {"order": 1, "amount": 1000}

    def round_trip(**said: Any) -> Callable[[], None]:
        def encode_and_validate() -> None:
            for time_ms, message_id in enumerate(IDS, BASE["published_at_ms"]):
                data = encode_message(
                    payload,
                    topic="orders.created",
                    namespace="default",
                    message_id=message_id,
                    published_at_ms=time_ms,
                    publisher_id="billing",
                    **said,
                )
                MessageView(data).validate()

        return encode_and_validate

    usual, unlike = round_trip(), round_trip(correlation_id=ID)
    return {
        "encode_validate_us": quietest(usual, 5) / len(IDS) * 1e6,
        "encode_validate_alone_us": quietest(unlike, 5) / len(IDS) * 1e6,
    }


def sizes() -> list[tuple[str, int, int]]:
    """What fields take on the wire, in bytes: as text or Timestamp, and as they are written (M-8, M-9)."""
    rows = []
    for number, text in CONTENT_TYPES.items():
        fields = MessageMetadata(content_type_custom=text), MessageMetadata(content_type=number)
        rows.append((f"content type {text}", *(field.ByteSize() for field in fields)))
    for number in (1, 2, 3):
        text = CONTENT_ENCODINGS[number]
        coded = MessageMetadata(content_encoding_custom=text), MessageMetadata(content_encoding=number)
        rows.append((f"content encoding {text}", *(field.ByteSize() for field in coded)))
    seconds, milliseconds = divmod(BASE["published_at_ms"] + 123, 1000)
    stamp = Timestamp(seconds=seconds, nanos=milliseconds * 1_000_000).ByteSize() + 2
    rows.append(("time of publishing", stamp, MessageMetadata(published_at_ms=BASE["published_at_ms"]).ByteSize()))
    return rows


def signature_figure() -> float:
    signer = generate_key("billing.1", "ed25519", publishers=("billing",))
    trusted = TrustedKeys({signer.id: signer.public_part()})
    signed = protect_message(bytes(1024), Protection(sign_with=signer), publisher_id="billing", **BASE)
    view = MessageView(signed).validate()
    return (quietest(lambda: sign(signed, signer), 50) + quietest(lambda: verify(view, trusted, "require"), 50)) * 1e6


def cipher_figures() -> dict[str, float]:
    shared = generate_key("shared.1", "aes-256-gcm")
    plain, iv = bytes(MIB), bytes(12)
    described = Described(ID, "orders", "default", "application/octet-stream", "", "none", 0, "", "", b"")
    sealed = protect_message(plain, Protection(encrypt_to=(shared,)), **BASE)
    view = MessageView(sealed).validate()
    keys = {shared.id: shared}
    there = quietest(lambda: encrypt(plain, (shared,), described, iv), 20)
    back = quietest(lambda: decrypt(view, keys.get), 20)
    whole = quietest(
        lambda: open_view(MessageView(protect_message(plain, Protection(encrypt_to=(shared,)), **BASE)), keys.get), 20
    )
    return {"aes_gb_s": 2 * MIB / (there + back) / 1e9, "whole_gb_s": 2 * MIB / whole / 1e9}


def wrap_figure(algorithm: str) -> float:
    """Microseconds to give a data key to one recipient, and to take it."""
    key = generate_key("k", algorithm)
    wrapped = encryption.wrap(key, bytes(32), bytes(12), bytes(32))
    wrap = quietest(lambda: encryption.wrap(key, bytes(32), bytes(12), bytes(32)), 50)
    return (wrap + quietest(lambda: encryption.unwrap(key, wrapped, bytes(12), bytes(32)), 50)) * 1e6


def whole_figures() -> dict[str, float]:
    """A small message with all that there is."""
    signer, reader = generate_key("billing.1", "ed25519", publishers=("billing",)), generate_key("r.1", "x-wing")
    trusted, keys = TrustedKeys({signer.id: signer.public_part()}), {reader.id: reader}
    asked = Protection(sign_with=signer, encrypt_to=(reader.public_part(),))

    def protect() -> bytes:
        return protect_message(bytes(1024), asked, publisher_id="billing", **BASE)

    data = protect()

    def open_it() -> None:
        view = MessageView(data).validate()
        verify(view, trusted, "require")
        open_view(view, keys.get)

    return {"protect_us": quietest(protect, 50) * 1e6, "open_us": quietest(open_it, 50) * 1e6}


def measure() -> dict[str, float]:
    """All figures; names are those of the targets."""
    return {
        **metadata_figures(),
        "verdict_ms": verdict_figure(),
        **size_figures(),
        **encode_figures(),
        "sign_verify_us": signature_figure(),
        **cipher_figures(),
        "mlkem_us": wrap_figure("ml-kem-1024"),
        "xwing_us": wrap_figure("x-wing"),
        "hybrid_us": wrap_figure("x25519-ml-kem-1024"),
        "shared_us": wrap_figure("aes-256-gcm"),
        **whole_figures(),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/run --only message", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(arguments)
    figures = measure()
    verdicts = {target.figure: target.verdict(figures[target.figure]) for target in TARGETS}
    if asked.json:
        print(json.dumps({"figures": figures, "verdicts": verdicts, "sizes": sizes()}))
    else:
        for target in TARGETS:
            bound = f"{target.direction} {target.bound:g}"
            why = f" ({WHY_NOT.get(target.figure)})" if verdicts[target.figure] != "PASS" else ""
            print(f"{target.what:<68} {figures[target.figure]:>9.3g}  {bound:>8}  {verdicts[target.figure]}{why}")
        for name, what in UNPROMISED.items():
            print(f"{what:<68} {figures[name]:>9.3g}")
        print(f"\n{'bytes on the wire':<68} {'as text':>9} {'written':>9}")
        for what, text, written in sizes():
            print(f"{what:<68} {text:>9} {written:>9}")
    return 0 if set(verdicts.values()) == {"PASS"} else 1


if __name__ == "__main__":
    sys.exit(main())
