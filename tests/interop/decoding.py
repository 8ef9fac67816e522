"""What the Python node makes of bytes: ``OK``, or the code under which it refuses them.

Keys and lane are the fixed ones of ``registry_spec/vectors``: the lane analytics -> billing, two accepted keys.
Protected messages are opened with those keys of their vectors which every build has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from speed.errors import KeyFileError, WireError
from speed.message.errors import MessageError
from speed.message.keys import key_of_record
from speed.message.keystore import KeyStore
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from speed.segment import read_segment
from speed.wire import spc, topic
from speed.wire.cursor import decode_cursor, decode_fence
from speed.wire.entry import decode_entry
from speed.wire.envelope import ENVELOPE_OVERHEAD, parse_header
from speed.wire.names import node_id
from speed.wire.seal import Keyring, LinkOpener, parse_key_file
from speed.wire.value import unpack
from tests.vectors import load

SOURCE, TARGET = node_id("analytics"), node_id("billing")
RING = Keyring((bytes(range(32)), bytes(range(32, 64))))
LANE_KEYS = RING.lane_keys(SOURCE, TARGET)
OPENS = ("aes-256-gcm", "chacha20-poly1305", "x25519-chacha20-poly1305")
"""Algorithms of the keys that it has; other builds may lack others (M-24)."""
CLOCK_MS = 1_800_000_000_000
CLEARANCE = "confidential"


def verdict(kind: str, data: bytes) -> str:
    """``OK``, or a wire or message code of ``codes.json``; any other exception is a defect and passes through."""
    try:
        _DECODERS[kind](data)
    except WireError as refusal:
        return refusal.reason
    except KeyFileError:
        return "BAD_KEY_FILE"
    except MessageError as refusal:
        return refusal.code
    return "OK"


def _open_envelope(data: bytes) -> None:
    """As a receiver of the lane does: header, ids, length, tag (W-5, W-12)."""
    header = parse_header(data)
    if header.source != SOURCE:
        raise WireError("WRONG_SOURCE", "not the lane's sender")
    if header.target != TARGET:
        raise WireError("WRONG_TARGET", "not this inbox")
    whole = header.payload_bytes + ENVELOPE_OVERHEAD
    if len(data) < whole:
        raise WireError("TRUNCATED", "more bytes to come")
    LinkOpener(RING, SOURCE, TARGET).open(header, data[:whole])


@cache
def _guard() -> Guard:
    trusted = {record["id"]: key_of_record(record) for record in load("signatures")["trusted"]}
    keys = [key_of_record(record) for record in load("encryption")["keys"] if record["algorithm"] in OPENS]
    return Guard(
        MessageSecurity(
            keys=KeyStore(trusted | {key.id: key for key in keys}),
            policy="verify",
            trusted=tuple(trusted),
            clearance=CLEARANCE,
            clock_ms=lambda: CLOCK_MS,
        )
    )


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "envelope": _open_envelope,
    "entry": lambda data: decode_entry(data, RING.registry_keys),
    "cursor": lambda data: decode_cursor(data, LANE_KEYS),
    "fence": lambda data: decode_fence(data, LANE_KEYS),
    "value": unpack,
    "request": spc.decode_request,
    "response": spc.decode_response,
    "control": spc.decode,
    "message": lambda data: MessageView(data).validate(),
    "keyfile": parse_key_file,
    "segment": read_segment,
    "topic": topic.decode,
    "protected": lambda data: _guard().open(MessageView(data).validate()),
}
KINDS = tuple(_DECODERS)
