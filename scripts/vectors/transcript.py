"""One call in bytes, from two claims to two cursors: every file that two nodes write for it, in order.

``transcript()`` is registry_spec/vectors/transcript.json; ``page()`` is the same for people, transcript.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from scripts.vectors.claims import MAKER
from scripts.vectors.files import ENTRY
from scripts.vectors.fixed import KEY, NONCE, RING, SOURCE, TARGET, TIME
from speed.fs.claim import Claimant, encode_claim
from speed.fs.identity import Identity
from speed.wire import names
from speed.wire.cursor import MAX_CURSOR_BYTES, Cursor, encode_cursor
from speed.wire.entry import Entry, encode_entry
from speed.wire.envelope import FLAG_REPLY, EnvelopeType, make_sequence
from speed.wire.seal import LinkSealer, format_key_file, hkdf, key_id_of, link_key
from speed.wire.spc import encode_request, encode_success

ROOT = "root"
"""Stands for the path of the root, which paths in the transcript do not have."""
ASKS, ANSWERS = names.node_id(SOURCE), names.node_id(TARGET)
MADE = Claimant(
    Identity(*(MAKER[name] for name in ("pid", "pid_start", "pid_namespace", "host", "boot_id"))),
    MAKER["lease"],
    MAKER["made_monotonic_ms"],
    above=0,
)
REQUEST = encode_request("1.1", "double", {"x": 21}, SOURCE, 1, TIME + 30_000)
RESPONSE = encode_success("1.1", 42)
FIRST = make_sequence(1, 1)


class Step(NamedTuple):
    """One thing that is written: ``path`` from the root on, ``said`` for people. ``padded``: spaces up to this size."""

    name: str
    by: str
    path: str
    content: bytes
    said: str
    padded: int = 0


def path(absolute: str) -> str:
    return absolute.removeprefix(f"{ROOT}/")


def envelope(source: bytes, target: bytes, type_: int, flags: int, payload: bytes) -> bytes:
    return LinkSealer(RING, source, target, 1).seal(type_, flags, 1, TIME, payload, NONCE)


ASKED = envelope(ASKS, ANSWERS, EnvelopeType.SPC_REQUEST, 0, REQUEST)
ANSWERED = envelope(ANSWERS, ASKS, EnvelopeType.SPC_RESPONSE, FLAG_REPLY, RESPONSE)


def entry_of(name: str, allow: tuple[str, ...]) -> Entry:
    return replace(ENTRY, name=name, generation=1, allow=allow, fabrics=(), subscriptions=(), features=())


def steps() -> list[Step]:
    """Everything that is written, in order."""
    answering, asking = entry_of(TARGET, (SOURCE,)), entry_of(SOURCE, ())
    read = {source: RING.lane_key(*ids) for source, ids in ((SOURCE, (ASKS, ANSWERS)), (TARGET, (ANSWERS, ASKS)))}
    return [
        Step("key", "setup", "speed.key", format_key_file((KEY,)), "The key file: mode 0600."),
        claim_step(TARGET),
        entry_step(answering, "It allows analytics: that is all that analytics needs to call it."),
        claim_step(SOURCE),
        entry_step(asking, "It allows nobody: an answer needs no grant."),
        Step(
            "request",
            SOURCE,
            path(f"{names.lane_dir(ROOT, TARGET, SOURCE)}/{names.lane_file_name(1, 1)}"),
            ASKED,
            "The request, in the first file of the lane. analytics has read the entry of billing, found itself "
            "allowed, and made the lane directory.",
        ),
        bell_step(SOURCE, TARGET, ASKS),
        cursor_step(
            TARGET, SOURCE, len(ASKED), read[SOURCE], "billing commits the request, and then begins the service."
        ),
        Step(
            "response",
            TARGET,
            path(f"{names.lane_dir(ROOT, SOURCE, TARGET)}/{names.lane_file_name(1, 1)}"),
            ANSWERED,
            "The response, in a lane of its own: a link has one direction.",
        ),
        bell_step(TARGET, SOURCE, ANSWERS),
        cursor_step(
            SOURCE, TARGET, len(ANSWERED), read[TARGET], "analytics commits the response, now or with its next scan."
        ),
    ]


def claim_step(name: str) -> Step:
    where = path(names.claim_path(ROOT, name, 1))
    return Step(
        f"claim of {name}", name, where, encode_claim(MADE, RING.registry_key), "Created with O_CREAT and O_EXCL."
    )


def entry_step(entry: Entry, said: str) -> Step:
    whole = encode_entry(entry, RING.registry_key)
    where = path(names.entry_path(ROOT, entry.name))
    text = f"Written beside and renamed, once the inbox and the bell are there. {said}"
    return Step(f"entry of {entry.name}", entry.name, where, whole.rstrip(b" "), text, len(whole))


def bell_step(by: str, to: str, node: bytes) -> Step:
    where = path(names.bell_path(ROOT, to))
    return Step(f"bell of {to}", by, where, node, f"{by} rings: its node id, into the FIFO.")


def cursor_step(by: str, source: str, end: int, key: bytes, said: str) -> Step:
    where = path(f"{names.lane_dir(ROOT, by, source)}/{names.cursor_name(1)}")
    said = f"{said} The file has {MAX_CURSOR_BYTES} bytes; what follows these is zero or old (L-15)."
    return Step(f"cursor of {by}", by, where, encode_cursor(Cursor(1, 1, 1, end, FIRST, sealed=True), key), said)


def computed() -> dict[str, str]:
    """What both nodes compute from the key and the two names."""
    return {
        "key": KEY.hex(),
        "key id": key_id_of(KEY).hex(),
        f"node id of {SOURCE}": ASKS.hex(),
        f"node id of {TARGET}": ANSWERS.hex(),
        "registry key": hkdf(KEY, b"speed/1 registry").hex(),
        "link key of the request": link_key(KEY, ASKS, ANSWERS, 1).hex(),
        "link key of the response": link_key(KEY, ANSWERS, ASKS, 1).hex(),
        f"lane key of {SOURCE} to {TARGET}": RING.lane_key(ASKS, ANSWERS).hex(),
        f"lane key of {TARGET} to {SOURCE}": RING.lane_key(ANSWERS, ASKS).hex(),
        "plaintext of the request": REQUEST.hex(),
        "plaintext of the response": RESPONSE.hex(),
    }


def transcript() -> dict[str, Any]:
    """All bytes."""
    return {
        "about": "One call, analytics to billing, as transcript.md tells it. `computed` is what both compute, `steps` "
        "are written in this order; `hex` is without the padding of an entry: add spaces up to `bytes`.",
        "nonce": NONCE.hex(),
        "timestamp": TIME,
        "computed": computed(),
        "steps": [
            {
                "name": step.name,
                "by": step.by,
                "path": step.path,
                "bytes": step.padded or len(step.content),
                "hex": step.content.hex(),
            }
            for step in steps()
        ],
    }


# --- for people ---

_INTRODUCTION = """\
# A call in bytes

The node `analytics` calls the service `double` of `billing` with `x` = 21, and gets 42. This is all that they write, in
order. `python -m scripts.vectors` makes this page and `vectors/transcript.json`; a test holds both against the product.
Key, times, process and nonce are fixed here. Never use a fixed nonce, nor one twice, in a node.

## What both compute

"""


def page() -> str:
    """registry_spec/transcript.md."""
    return _INTRODUCTION + "\n".join([*_table(), "", "## What they write", "", *_written()])


def _table() -> Iterator[str]:
    yield "| what | hexadecimal |"
    yield "|---|---|"
    for name, value in computed().items():
        yield f"| {name} | `{value}` |"


def _written() -> Iterator[str]:
    for number, step in enumerate(steps(), start=1):
        size = f"{step.padded} bytes with its padding" if step.padded else f"{len(step.content)} bytes"
        yield f"### {number}. {step.name[0].upper()}{step.name[1:]}"
        yield ""
        yield from textwrap.wrap(f"`{step.path}`, {size}, by {step.by}. {step.said}", 120, break_on_hyphens=False)
        yield ""
        yield "```"
        yield from _shown(step)
        yield "```"
        yield ""


def _shown(step: Step) -> Iterator[str]:
    """Text as text; envelopes and cursors field by field."""
    if step.name in ("request", "response"):
        yield from _fields(step.content, _ENVELOPE)
    elif step.name.startswith("cursor"):
        yield from _fields(step.content, _CURSOR)
    elif step.name.startswith("bell"):
        yield step.content.hex()
    else:
        yield from step.content.decode("ascii").splitlines()


_ENVELOPE = {
    "version": 1,
    "type": 1,
    "flags": 2,
    "header length": 4,
    "sequence": 8,
    "timestamp": 8,
    "payload size": 8,
    "source node id": 16,
    "target node id": 16,
    "key id": 8,
    "zero": 4,
    "nonce": 12,
    "ciphertext": -16,
    "tag": 16,
}
_CURSOR = {
    "SPDC": 4,
    "version": 1,
    "flags": 1,
    "unfinished": 2,
    "receiver generation": 4,
    "zero": 4,
    "sender generation": 4,
    "segment": 4,
    "offset": 8,
    "last sequence": 8,
    "zeros": 24,
    "MAC": 16,
}


def _fields(content: bytes, sizes: dict[str, int]) -> Iterator[str]:
    """One line a field; a size below zero is all but that many bytes."""
    at = 0
    for name, size in sizes.items():
        end = at + size if size > 0 else len(content) + size
        lines = textwrap.wrap(content[at:end].hex(), 64)
        for number, line in enumerate(lines):
            yield f"{at if not number else '':>4}  {name if not number else '':<20}  {line}".rstrip()
        at = end
