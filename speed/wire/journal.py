"""The bytes of a journal: a lane's description, its end, the blocks of its volumes (J-2 to J-6, J-12, J-14, J-15).

block:   0 "SPJB"  4 version  5 offsets left out(3)  8 key id  16 first offset  24 first ms  32 last ms  40 records
        44 bytes N  48 nonce  60 CRC-32 of bytes 0-59  |  64 ciphertext (N)  tag(16)
plain:   for each record: sequence(8) recorded ms(8) bytes(4) offsets left out before it(3) flags(1);
        then the messages, one after the other
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from hmac import compare_digest
from itertools import accumulate, pairwise
from struct import Struct, error
from typing import Any, Final, NamedTuple
from zlib import crc32

from speed.errors import WireError
from speed.wire import names
from speed.wire.limits import JOURNAL_BLOCK_RECORDS, KEY_ID_BYTES, MAX_JOURNAL_BLOCK_BYTES, NONCE_BYTES, TAG_BYTES
from speed.wire.seal import Keyring
from speed.wire.value import pack, unpack

_CHECKS: Final[dict[str, Callable[[str], str]]] = {
    "topic": names.check_topic,
    "inbox": names.check_node_name,
    "calls": names.check_service_name,
}
KINDS: Final = tuple(_CHECKS)
FLAG_REDELIVERED: Final = 1
BLOCK_HEADER_BYTES: Final = 64
BLOCK_OVERHEAD: Final = BLOCK_HEADER_BYTES + TAG_BYTES
RECORD_BYTES: Final = 24
MAX_DESCRIPTION_BYTES: Final = 1024
LANE_ID_BYTES: Final = 16
MAX_REMOVED: Final = 16384
"""Removed lanes that are remembered."""
MAX_OFFSET: Final = (1 << 63) - 1
RECORDED: Final = 1
REWRITTEN: Final = 3
"""Versions of a block: as it was recorded, or of what is kept of some (J-15)."""
_ANEW: Final = {RECORDED: 2, 2: 2, REWRITTEN: 4, 4: 4}
"""What each version becomes when it is sealed anew (J-16)."""
_KEY_OF: Final = {RECORDED: b"", 2: b" anew", REWRITTEN: b" kept", 4: b" anew"}
"""A key seals blocks of one origin: with a nonce that somebody chose for another block it would give that one away."""
MAX_LEFT_OUT: Final = (1 << 24) - 1
"""Offsets that one block leaves out at most."""

_HEADER = Struct(">4sB3s8sQQQII12sI")
_RECORD = Struct(">QQII")
_DESCRIPTION = Struct(">4sB3x8s12s")
_END = Struct(">4sB3x8sQ")
_REMOVED = Struct(">4sB3x8s")
_REMOVED_LANE = Struct(">16sQ")
_CHECKED = BLOCK_HEADER_BYTES - 4
_SIZE_AT = 4
"""The place of a message's size among the numbers of 4 bytes that describe its record."""
_FLAGS_AT = 5
_FLAG_BITS, _FLAGS = 8, 0xFF
"""Above them in their number: how many offsets are left out before the record."""
MAC_BYTES: Final = 16
END_BYTES: Final = _END.size + MAC_BYTES
MAX_REMOVED_BYTES: Final = _REMOVED.size + MAX_REMOVED * _REMOVED_LANE.size + MAC_BYTES
assert _HEADER.size == BLOCK_HEADER_BYTES
assert _RECORD.size == RECORD_BYTES
assert array("I").itemsize == 4


class Subject(NamedTuple):
    """What a lane records: ``kind`` of KINDS; a topic, inbox or service; and the node that it came from."""

    kind: str
    subject: str
    source: str


class Description(NamedTuple):
    """What a lane says of itself. ``after`` is the id of the cut lane that it goes on for; old ones have no end."""

    subject: Subject
    after: bytes = b""
    has_end: bool = True


class BlockHeader(NamedTuple):
    """What a block says about itself before it is opened; times are Unix ms.

    ``is_rewritten``: it is of version 2, and ``left_out`` of the offsets that it covers have no record.
    """

    key_id: bytes
    first: int
    first_ms: int
    last_ms: int
    records: int
    size: int
    nonce: bytes
    left_out: int = 0
    version: int = RECORDED

    @property
    def is_rewritten(self) -> bool:
        """Whether it holds what is kept of others."""
        return self.version >= REWRITTEN

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self.first + self.records + self.left_out

    @property
    def whole_bytes(self) -> int:
        """Header, ciphertext and tag."""
        return self.size + BLOCK_OVERHEAD


class BlockEntry(NamedTuple):
    """One record in a block; its offset follows from its place."""

    sequence: int
    recorded_at_ms: int
    flags: int
    message: bytes


# --- descriptions ---


def seal_description(description: Description, lane: bytes, keyring: Keyring, nonce: bytes) -> bytes:
    """The file that says what the lane of id ``lane`` records (J-2)."""
    header = _DESCRIPTION.pack(b"SPJD", 2 if description.has_end else 1, keyring.key_id, nonce)
    aead = keyring.journal_aead(keyring.key_id, lane)
    after = {"after": description.after} if description.after else {}
    sealed: bytes = aead.encrypt(nonce, pack({**description.subject._asdict(), **after}), header)
    return header + sealed


def open_description(data: bytes, lane: bytes, keyring: Keyring) -> Description:
    """What ``data`` says; WireError BAD_JOURNAL or UNKNOWN_KEY."""
    try:
        magic, version, key_id, nonce = _DESCRIPTION.unpack_from(data)
    except error:
        raise WireError("BAD_JOURNAL", "the description is cut") from None
    if magic != b"SPJD" or version not in (1, 2) or data[5:8] != b"\0\0\0" or len(data) > MAX_DESCRIPTION_BYTES:
        raise WireError("BAD_JOURNAL", "no description of version 1 or 2")
    aead = keyring.journal_aead(key_id, lane)
    try:
        plain = aead.decrypt(nonce, data[_DESCRIPTION.size :], data[: _DESCRIPTION.size])
    except Exception:
        raise WireError("BAD_JOURNAL", "the description is not authentic") from None
    value = unpack(plain, "description")
    return Description(_checked_subject(value), _checked_after(value), version > 1)


def _checked_subject(value: Any) -> Subject:
    try:
        subject = Subject(value["kind"], value["subject"], value["source"])
        _CHECKS[subject.kind](subject.subject)
        names.check_node_name(subject.source)
    except (KeyError, TypeError, ValueError):
        raise WireError("BAD_JOURNAL", "the description names no topic, inbox or service") from None
    return subject


def _checked_after(value: Any) -> bytes:
    after = value.get("after", b"")
    if not isinstance(after, bytes) or len(after) not in (0, LANE_ID_BYTES):
        raise WireError("BAD_JOURNAL", "the description goes on for what is no lane")
    return after


# --- ends, and lanes that were removed ---


def seal_end(offset: int, lane: bytes, keyring: Keyring) -> bytes:
    """The file that says which offset comes next in a lane (J-12)."""
    return _proven(_END.pack(b"SPJE", 1, keyring.key_id, offset), b"end" + lane, keyring)


def open_end(data: bytes, lane: bytes, keyring: Keyring) -> int:
    """The offset in ``data``; WireError BAD_JOURNAL or UNKNOWN_KEY."""
    body = _checked_proof(data, b"SPJE", b"end" + lane, keyring)
    if len(body) != _END.size:
        raise WireError("BAD_JOURNAL", "an end of another length")
    offset: int = _END.unpack(body)[3]
    return offset


def seal_removed(lanes: Mapping[bytes, int], keyring: Keyring) -> bytes:
    """The file that names removed lanes, each with the offset that came next, the oldest first (J-14)."""
    listed = list(lanes.items())[-MAX_REMOVED:]
    body = _REMOVED.pack(b"SPJR", 1, keyring.key_id) + b"".join(_REMOVED_LANE.pack(*lane) for lane in listed)
    return _proven(body, b"removed", keyring)


def open_removed(data: bytes, keyring: Keyring) -> dict[bytes, int]:
    """The lanes in ``data``; WireError BAD_JOURNAL or UNKNOWN_KEY."""
    listed = _checked_proof(data, b"SPJR", b"removed", keyring)[_REMOVED.size :]
    if len(listed) % _REMOVED_LANE.size or len(data) > MAX_REMOVED_BYTES:
        raise WireError("BAD_JOURNAL", "a list of removed lanes of another length")
    return dict(_REMOVED_LANE.iter_unpack(listed))


def _proven(body: bytes, info: bytes, keyring: Keyring) -> bytes:
    return body + keyring.journal_mac(keyring.key_id, info, body)


def _checked_proof(data: bytes, magic: bytes, info: bytes, keyring: Keyring) -> bytes:
    """What stands before the MAC, which fits it; it begins with magic, version and key id."""
    body, mac = data[:-MAC_BYTES], data[-MAC_BYTES:]
    if len(body) < _REMOVED.size or body[:8] != magic + b"\1\0\0\0":
        raise WireError("BAD_JOURNAL", f"no {magic.decode()} of version 1")
    if not compare_digest(mac, keyring.journal_mac(body[8:16], info, body)):
        raise WireError("BAD_JOURNAL", f"{magic.decode()} is not authentic")
    return body


# --- blocks ---


class VolumeKeys:
    """Seals and opens the blocks of one volume: keys of its own bound what one key seals (J-4)."""

    def __init__(self, keyring: Keyring, lane: bytes, volume: int) -> None:
        self._keyring = keyring
        self._info = lane + volume.to_bytes(8, "big")
        self._opened: dict[tuple[bytes, int], Any] = {}

    def _aead(self, key_id: bytes, version: int) -> Any:
        aead = self._opened.get((key_id, version))
        if aead is None:
            info = _KEY_OF[version] + self._info
            aead = self._opened[key_id, version] = self._keyring.journal_aead(key_id, info)
        return aead

    def seal(self, first: int, entries: Sequence[BlockEntry], nonce: bytes) -> bytes:
        """One whole block of at least one record."""
        return self._sealed(RECORDED, first, entries, [0] * len(entries), nonce)

    def seal_kept(self, first: int, offsets: Sequence[int], entries: Sequence[BlockEntry], nonce: bytes) -> bytes:
        """One block of what is kept of the offsets from ``first`` to the last of ``offsets``, those of the entries."""
        before = [first - 1, *offsets]
        gaps = [offset - one - 1 for one, offset in pairwise(before)]
        return self._sealed(REWRITTEN, first, entries, gaps, nonce)

    def _sealed(
        self, version: int, first: int, entries: Sequence[BlockEntry], gaps: Sequence[int], nonce: bytes
    ) -> bytes:
        plain = _pack(entries, gaps)
        times, sizes = (entries[0].recorded_at_ms, entries[-1].recorded_at_ms), (len(entries), len(plain))
        return self._under(BlockHeader(self._keyring.key_id, first, *times, *sizes, nonce, sum(gaps), version), plain)

    def seal_anew(self, header: BlockHeader, block: bytes | memoryview) -> bytes:
        """A whole block under the first key, with its nonce and in its size (J-16); WireError if it was altered."""
        table, messages = self.decrypt(header, block)
        anew = header._replace(key_id=self._keyring.key_id, version=_ANEW[header.version])
        return self._under(anew, table + messages)

    def name_anew(self, header: BlockHeader) -> bytes:
        """The header of a damaged block, naming the first key: it stays damaged when the other key is gone (J-16)."""
        return _packed(header._replace(key_id=self._keyring.key_id))

    def _under(self, header: BlockHeader, plain: bytes) -> bytes:
        front = _packed(header)
        sealed: bytes = self._aead(header.key_id, header.version).encrypt(header.nonce, plain, front)
        return front + sealed

    def open(self, header: BlockHeader, block: bytes | memoryview) -> list[tuple[int, int, int, bytes]]:
        """(sequence, recorded ms, flags, message) of each record of a whole block; WireError if it was altered."""
        return unpack_records(*self.decrypt(header, block))

    def decrypt(self, header: BlockHeader, block: bytes | memoryview) -> tuple[bytes, bytes]:
        """The table of a whole block's records, and their messages, which it fits; WireError if it was altered."""
        aead = self._aead(header.key_id, header.version)
        try:
            plain = aead.decrypt(header.nonce, block[BLOCK_HEADER_BYTES:], block[:BLOCK_HEADER_BYTES])
        except Exception:
            raise WireError("BAD_TAG", "the block is not authentic") from None
        end = header.records * RECORD_BYTES
        table, messages = plain[:end], plain[end:]
        if sum(record_sizes(table)) != len(messages):  # only who has the key can have written it, and yet
            raise WireError("BAD_JOURNAL", "the lengths of the records do not fill their block")
        if header.is_rewritten and sum(_gaps(table)) != header.left_out:
            raise WireError("BAD_JOURNAL", "the offsets of the records do not fill their block")
        return table, messages

    def opens(self, header: BlockHeader, block: bytes | memoryview) -> bool:
        """Whether a whole block is authentic, and its key is there."""
        try:
            self.decrypt(header, block)
        except WireError:
            return False
        return True


def _packed(header: BlockHeader) -> bytes:
    """The 64 bytes of a header."""
    *fields, left_out, version = header
    front = _HEADER.pack(b"SPJB", version, left_out.to_bytes(3, "big"), *fields, 0)[:_CHECKED]
    return front + crc32(front).to_bytes(4, "big")


def parse_block_header(data: bytes | memoryview, at: int = 0) -> BlockHeader:
    """Check and read 64 bytes of header. WireError BAD_JOURNAL; every bound holds before anything is allocated."""
    magic, version, gaps, key_id, first, first_ms, last_ms, records, size, nonce, check = _HEADER.unpack_from(data, at)
    left_out = int.from_bytes(gaps, "big")
    if crc32(data[at : at + _CHECKED]) != check or magic != b"SPJB" or version not in _KEY_OF:
        raise WireError("BAD_JOURNAL", "no block begins here")
    if not 0 < records <= JOURNAL_BLOCK_RECORDS or not records * RECORD_BYTES <= size <= MAX_JOURNAL_BLOCK_BYTES:
        raise WireError("BAD_JOURNAL", f"a block of {records} records in {size} bytes")
    if first + records + left_out > MAX_OFFSET or first_ms > last_ms or (left_out and version < REWRITTEN):
        raise WireError("BAD_JOURNAL", "offsets or times that cannot be")
    return BlockHeader(key_id, first, first_ms, last_ms, records, size, nonce, left_out, version)


def _pack(entries: Iterable[BlockEntry], gaps: Iterable[int]) -> bytes:
    table, messages = [], []
    for (sequence, recorded_at_ms, flags, message), gap in zip(entries, gaps, strict=True):
        table.append(_RECORD.pack(sequence, recorded_at_ms, len(message), gap << _FLAG_BITS | flags))
        messages.append(message)
    return b"".join(table + messages)


def record_sizes(table: bytes) -> Sequence[int]:
    """The bytes of each message that a table tells of."""
    return _numbers(table)[_SIZE_AT :: RECORD_BYTES // 4]


def record_offsets(first: int, table: bytes) -> list[int]:
    """The offset of each record of a rewritten block that begins at ``first``."""
    return [offset + left_out for offset, left_out in enumerate(accumulate(_gaps(table)), first)]


def without_gap(table: bytes, gap: int) -> bytes:
    """A table before whose first record ``gap`` fewer offsets are left out."""
    *others, number = _RECORD.unpack_from(table)
    return _RECORD.pack(*others, number - (gap << _FLAG_BITS)) + table[RECORD_BYTES:]


def _gaps(table: bytes) -> list[int]:
    """How many offsets are left out before each record of a rewritten block."""
    return [number >> _FLAG_BITS for number in _numbers(table)[_FLAGS_AT :: RECORD_BYTES // 4]]


def _numbers(table: bytes) -> array[int]:
    numbers = array("I", table)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def record_time(table: bytes, number: int) -> int:
    """When one record was recorded, Unix ms."""
    return int.from_bytes(table[number * RECORD_BYTES + 8 : number * RECORD_BYTES + 16], "big")


def unpack_records(table: bytes, messages: bytes) -> list[tuple[int, int, int, bytes]]:
    """(sequence, recorded ms, flags, message) of each record."""
    at = 0
    found = []
    for sequence, recorded_at_ms, size, flags in _RECORD.iter_unpack(table):
        found.append((sequence, recorded_at_ms, flags & _FLAGS, messages[at : at + size]))
        at += size
    return found


assert KEY_ID_BYTES == 8
assert NONCE_BYTES == 12
