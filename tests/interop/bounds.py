"""The Python decoders held to their bounds: whatever comes, each case ends in a verdict within a second of processor
time, and none asks for twice the largest payload. Also reads what only a program of its own can: payloads and names.
"""

from __future__ import annotations

import faulthandler
import importlib
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speed.engine.large_payload import Front
from speed.errors import ConfigurationError, WireError
from speed.message.view import MessageView
from speed.segment import Assembler, keccak256, read_segment
from speed.wire import names
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.value import BATCH_TYPE, decode_content
from tests.interop import decoding
from tests.interop.findings import SHOWN, Findings
from tests.interop.mutations import JSON_PIECES, Mutations
from tests.vectors import load

CASE_SECONDS = 1.0
BATCH = 200
HANG_SECONDS = 60.0
"""For a batch: then the program ends and shows where it was."""


def run(seconds: float, seed: int) -> Findings:
    """Decode mutants until the time is over. Limits the memory of this process."""
    print(f"fuzz: python; seed {seed}", flush=True)
    importlib.import_module("numpy")  # its buffers of tens of megabytes are there once, and no answer to a case (G-10)
    limit_memory()
    mutations, findings = Mutations(seed, more_seeds()), Findings()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(findings.problems) < SHOWN:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        for _ in range(BATCH):
            kind, data = mutations.case()
            findings.note(kind, data, {"python": bounded_verdict(kind, data)})
    faulthandler.cancel_dump_traceback_later()
    return findings


def limit_memory() -> None:
    """Beyond what this process has now: once the largest payload for the case itself, once for what is made of it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2 * MAX_PAYLOAD_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def bounded_verdict(kind: str, data: bytes) -> str:
    """``OK`` or a wire code; anything else is a finding."""
    begin = time.thread_time()
    try:
        verdict = _verdict(kind, data)
    except Exception as error:  # anything but a refusal is a defect
        return f"failed with {type(error).__name__}: {error}"
    spent = time.thread_time() - begin
    return verdict if spent < CASE_SECONDS else f"took {spent:.1f} s"


def _verdict(kind: str, data: bytes) -> str:
    if kind not in _MORE:
        verdict = decoding.verdict(kind, data)
        if kind == "message" and verdict == "OK":
            return _verdict("view", data)
        return verdict
    try:
        _MORE[kind](data)
    except WireError as refusal:
        return refusal.reason
    except ConfigurationError:  # a name that breaks its rule
        return "OK"
    return "OK"


def _view(data: bytes) -> None:
    message = MessageView(data)
    _ = message.labels, message.baggage, message.extensions, message.traceparent, message.payload


def _content(data: bytes) -> None:
    media_type, _, content = data.partition(b"\0")
    decode_content(media_type.decode("latin-1"), "", memoryview(content))


def _name(data: bytes) -> None:
    """L-1, R-4: a file name that is taken is the one its meaning is written as."""
    name = data.decode("latin-1")
    for parse, write in _FILE_NAMES:
        meaning = parse(name)
        if meaning is not None:
            parts = meaning if isinstance(meaning, tuple) else (meaning,)
            assert write(*parts) == name, name
    names.check_node_name(name)
    assert "/" not in name and "\0" not in name and not name.startswith("."), name
    names.check_grant(name)


def _segments(data: bytes) -> None:
    """G-12, G-13: each of several is taken or refused by name; a payload that is delivered has its hash."""
    assembler = Assembler()
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        one, data = data[2 : 2 + size], data[2 + size :]
        try:
            payload = assembler.receive("analytics", one, 0.0).payload
        except WireError:
            continue
        assert payload is None or keccak256(payload) == read_segment(one).hash


def _front(data: bytes) -> None:
    """G-18: the value begins within the message."""
    assert Front(data, len(data)).start <= len(data)


_FILE_NAMES: tuple[tuple[Callable[[str], Any], Callable[..., str]], ...] = (
    (names.parse_lane_file, names.lane_file_name),
    (names.parse_cursor, names.cursor_name),
    (names.parse_fence, names.fence_name),
    (names.parse_claim, names.claim_name),
    (names.parse_entry_file, names.entry_name),
)
_MORE: dict[str, Callable[[bytes], None]] = {
    "view": _view,
    "content": _content,
    "name": _name,
    "segments": _segments,
    "front": _front,
}


def more_seeds() -> dict[str, list[bytes]]:
    published = load("names")
    values = [bytes.fromhex(case["hex"]) for case in load("values")["valid"]]
    batches = [bytes.fromhex(case["hex"]) for part in ("written", "read", "refused") for case in load("batches")[part]]
    segments = [bytes.fromhex(case["hex"]) for case in load("segments")["also_read"] + load("segments")["invalid"]]
    told = [case["name"] for case in published["valid_names"] + published["invalid_names"]]
    told += [case["file"] for case in published["files"]]
    return {
        "content": [b"application/json\0" + piece for piece in JSON_PIECES]
        + [b"application/msgpack\0" + value for value in values]
        + [b"text/plain\0some text"]
        + [BATCH_TYPE.encode() + b"\0" + batch for batch in batches],
        "name": [name.encode("utf-8", "surrogatepass") for name in told],
        "segments": [b"".join(len(one).to_bytes(2, "big") + one for one in segments)],
        "front": [bytes.fromhex(case["hex"]) for case in load("messages")["valid"]],
    }
