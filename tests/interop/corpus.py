"""The corpus that the fuzzers of all languages share: files whose first byte names a decoder, the rest is its input.

``python -m tests.interop.corpus DIRECTORY`` writes the vectors as such files. The order of the kinds is that of
``bindings/cpp/fuzz/decoders.hpp`` and of the Java ``speed.fuzz.Decoder``.
"""

from __future__ import annotations

import hmac
import sys
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from speed.wire.limits import AAD_BYTES, HEADER_BYTES
from tests.interop.bounds import more_seeds
from tests.interop.decoding import LANE_KEYS, RING, SOURCE, TARGET
from tests.interop.mutations import MAC_BYTES, seeds

KINDS = (
    "lane",  # bytes of a segment as they are
    "envelope",  # both headers, then a plaintext: sealed first, or nothing behind the tag is reached
    "entry",  # line 1 of an entry; its MAC is made
    "cursor",  # a cursor without its MAC, which is made
    "fence",  # likewise
    "value",
    "request",
    "response",
    "control",
    "message",
    "content",  # a media type, a NUL, then the bytes of a payload
    "keyfile",
    "name",  # a name, grant, topic or file name
    "segment",
    "segments",  # several, each behind its length in two bytes, as they arrive
    "front",  # a message whose payload lies in a store
    "protected",  # a message that is signed, encrypted or compressed, opened by a node of the vectors' keys
    "topic",  # a message of a durable topic
)
AGENTS_READ = frozenset(KINDS) - {"content", "name", "segments", "front"}


def parsed(data: bytes) -> tuple[str, bytes]:
    """Kind and input of one file of the corpus, which is not empty."""
    return KINDS[data[0] % len(KINDS)], data[1:]


def on_the_wire(kind: str, data: bytes) -> tuple[str, bytes]:
    """Kind and bytes as the agents decode them: sealed, or with a MAC, where a key is needed to get that far."""
    if kind == "lane":
        return "envelope", data
    if kind == "envelope":
        return kind, _sealed(data)
    if kind == "entry":
        line = data.split(b"\n")[0]
        return kind, line + b"\n" + b64encode(hmac.digest(RING.registry_key, line, "sha256")) + b"\n"
    if kind in ("cursor", "fence"):
        return kind, data + hmac.digest(LANE_KEYS[0], data, "sha256")[:MAC_BYTES]
    return kind, data


def _sealed(data: bytes) -> bytes:
    if len(data) < AAD_BYTES:
        return data
    header = data[:HEADER_BYTES] + RING.key_id + data[HEADER_BYTES + len(RING.key_id) : AAD_BYTES]
    aead = RING.sealing_aead(SOURCE, TARGET, int.from_bytes(header[8:11], "big"))
    return header + bytes(aead.encrypt(header[76:88], data[AAD_BYTES:], header))


def read(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The inputs in a directory, in order of their names."""
    for path in sorted(directory.iterdir()):
        if data := path.read_bytes():
            yield parsed(data)


def from_vectors() -> Iterator[bytes]:
    """The vectors as files of the corpus."""
    for kind, inputs in (seeds() | more_seeds()).items():
        for data in inputs:
            if kind == "envelope":
                yield _file("lane", data)
                yield _file("envelope", data[:-MAC_BYTES])
            elif kind == "entry":
                yield _file(kind, data.split(b"\n")[0])
            else:
                yield _file(kind, data[:-MAC_BYTES] if kind in ("cursor", "fence") else data)


def _file(kind: str, data: bytes) -> bytes:
    return bytes([KINDS.index(kind)]) + data


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for data in from_vectors():
        (directory / sha256(data).hexdigest()[:40]).write_bytes(data)
    print(f"fuzz: {len(list(directory.iterdir()))} inputs from the vectors")


if __name__ == "__main__":
    main()
