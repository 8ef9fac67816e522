"""What bytes that are no message look like, for a log: which parts are there and how large, and the id (M-35)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from speed.errors import WireError
from speed.wire.harmless import harmless
from speed.wire.limits import MAX_MESSAGE_ID_BYTES
from speed.wire.records import LENGTH_DELIMITED, walk

_PARTS = {1: "metadata", 2: "security", 3: "observability", 4: "schema", 97: "extensions", 99: "payload"}
_METADATA, _MESSAGE_ID = 1, 1
_MAX_RECORDS = 64
"""Who writes more is not to be paid for with time."""


def outline(data: bytes | memoryview) -> str:
    """The size of each part in bytes, how many others there are, and the message's id; no other value of it.

    ``outline(b"\\x0a\\x00")`` is ``2 bytes: metadata 0, no security, …, no payload; no message_id``.
    """
    sizes: dict[int, int] = {}
    others, message_id, end, more = 0, "", 0, ""
    try:
        for number, (field, kind, _, value, stop) in enumerate(walk(data)):
            if number == _MAX_RECORDS:
                more = f", more from byte {end}"
                break
            end = stop
            if kind != LENGTH_DELIMITED or field not in _PARTS:
                others += 1
                continue
            sizes[field] = sizes.get(field, 0) + end - value
            if field == _METADATA:
                message_id = _message_id(data[value:end]) or message_id
    except WireError:
        more = f", nothing to be read from byte {end}"
    unknown = f", {others} unknown" if others else ""
    named = f"message_id '{message_id}'" if message_id else "no message_id"
    return f"{len(data)} bytes: {_shown(sizes)}{unknown}{more}; {named}"


def _shown(sizes: Mapping[int, int]) -> str:
    return ", ".join(f"{name} {sizes[field]}" if field in sizes else f"no {name}" for field, name in _PARTS.items())


def _message_id(metadata: bytes | memoryview) -> str:
    """What can be read of it, as a log may have it."""
    found = ""
    try:
        for field, kind, _, value, end in islice(walk(metadata), _MAX_RECORDS):
            if field == _MESSAGE_ID and kind == LENGTH_DELIMITED:
                found = str(metadata[value : min(end, value + MAX_MESSAGE_ID_BYTES)], "utf-8", "replace")
    except WireError:
        pass
    return harmless(found)
