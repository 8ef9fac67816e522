"""What the Python node makes of bytes: ``OK``, or the wire code under which it refuses them.

Keys and lane are the fixed ones of ``registry_spec/vectors``: the lane analytics -> billing, two accepted keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speed.errors import KeyFileError, WireError
from speed.segment import read_segment
from speed.wire import control, spc
from speed.wire.cursor import decode_cursor, decode_fence
from speed.wire.entry import decode_entry
from speed.wire.envelope import ENVELOPE_OVERHEAD, parse_header
from speed.wire.keyfile import parse_key_file
from speed.wire.message import MessageView
from speed.wire.names import node_id
from speed.wire.seal import Keyring, LinkOpener
from speed.wire.value import unpack

SOURCE, TARGET = node_id("analytics"), node_id("billing")
RING = Keyring((bytes(range(32)), bytes(range(32, 64))))
LANE_KEYS = RING.lane_keys(SOURCE, TARGET)


def verdict(kind: str, data: bytes) -> str:
    """``OK`` or a wire code of ``codes.json``; any other exception is a defect and passes through."""
    try:
        _DECODERS[kind](data)
    except WireError as refusal:
        return refusal.reason
    except KeyFileError:
        return "BAD_KEY_FILE"
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


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "envelope": _open_envelope,
    "entry": lambda data: decode_entry(data, RING.registry_keys),
    "cursor": lambda data: decode_cursor(data, LANE_KEYS),
    "fence": lambda data: decode_fence(data, LANE_KEYS),
    "value": unpack,
    "request": spc.decode_request,
    "response": spc.decode_response,
    "control": control.decode,
    "message": lambda data: MessageView(data).validate(),
    "keyfile": parse_key_file,
    "segment": read_segment,
}
KINDS = tuple(_DECODERS)
