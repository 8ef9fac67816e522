"""What is put aside: dead letters, kept sealed until somebody decides (S-18), and what was refused (L-20)."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import StorageError, WireError
from speed.fs.open import (
    create_file,
    ensure_directory,
    names_in,
    open_directory,
    open_regular,
    owners_of,
    put_in_place,
    unlink_quietly,
    write_all,
)
from speed.wire.limits import (
    DEAD_LETTER_CHUNK_BYTES,
    KEY_ID_BYTES,
    MAX_DEAD_BYTES,
    MAX_DEAD_LETTERS,
    MAX_QUARANTINE_BYTES,
    MAX_QUARANTINE_FILES,
    MAX_SEGMENTED_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
)
from speed.wire.names import (
    child_path,
    dead_letters_dir,
    letter_name,
    node_id,
    parse_letter,
    quarantine_dir,
    temporary_name,
)
from speed.wire.seal import Keyring
from speed.wire.value import pack, unpack_map

# A dead letter as bytes: what is known of a message that could not be handled, and its payload, sealed (S-18).

CHUNK_BYTES = DEAD_LETTER_CHUNK_BYTES
"""Of the payload in one chunk."""
_HEADER = Struct(">4sB3x8s8s")
_PLACE = Struct(">IB")
_LENGTH = Struct(">I")
_MAX_SEALED_BYTES = CHUNK_BYTES + NONCE_BYTES + TAG_BYTES
_KINDS = ("MESSAGE", "EVENT")

Draw = Callable[[int], bytes]
Read = Callable[[int], bytes]
"""Reads so many bytes of a file, fewer only at its end."""


class DeadLetter(NamedTuple):
    """What is known of it. ``timestamp_ms`` is the envelope's, ``died_at_ms`` when it was given up, both Unix ms."""

    type: str
    source: str
    sequence: int
    timestamp_ms: int
    deliveries: int
    error_code: str
    error_message: str
    died_at_ms: int
    payload_bytes: int


_NAMES = (
    "type",
    "source",
    "sequence",
    "timestamp",
    "deliveries",
    "errorCode",
    "errorMessage",
    "diedAt",
    "payloadBytes",
)


def write_letter(
    letter: DeadLetter, payload: Iterable[bytes], keyring: Keyring, node_id: bytes, draw: Draw
) -> Iterator[bytes]:
    """The bytes of its file, piece by piece; ``payload`` comes in pieces of ``CHUNK_BYTES``, the last one shorter."""
    key_id = keyring.key_id
    header = _HEADER.pack(b"SPDL", 1, key_id, draw(8))
    aead = keyring.dead_letters_aead(key_id, node_id)
    yield header
    chunk, number = pack(dict(zip(_NAMES, letter, strict=True)), "dead letter"), 0
    for piece in payload:
        yield _sealed(aead, header, number, False, chunk, draw)
        chunk, number = piece, number + 1
    yield _sealed(aead, header, number, True, chunk, draw)


def _sealed(aead: Any, header: bytes, number: int, is_last: bool, chunk: bytes, draw: Draw) -> bytes:
    nonce = draw(NONCE_BYTES)
    sealed = nonce + aead.encrypt(nonce, chunk, header + _PLACE.pack(number, is_last))
    return _LENGTH.pack(len(sealed)) + bytes(sealed)


def read_letter(read: Read, keyring: Keyring, node_id: bytes) -> tuple[DeadLetter, Iterator[bytes]]:
    """What is known of a letter, and its payload piece by piece.

    WireError, also from the pieces: BAD_PAYLOAD for what is no letter or was altered or cut, UNKNOWN_KEY.
    """
    header = read(_HEADER.size)
    if len(header) != _HEADER.size or header[:8] != b"SPDL\x01\0\0\0":
        raise WireError("BAD_PAYLOAD", "no dead letter of version 1")
    aead = keyring.dead_letters_aead(header[8 : 8 + KEY_ID_BYTES], node_id)
    sealed = _next_sealed(read)
    following = _next_sealed(read)
    letter = _letter_of(_opened(aead, header, 0, following is None, sealed))
    return letter, _pieces(read, aead, header, following, letter.payload_bytes)


def _pieces(read: Read, aead: Any, header: bytes, sealed: bytes | None, payload_bytes: int) -> Iterator[bytes]:
    number, left = 1, payload_bytes
    while sealed is not None:
        following = _next_sealed(read)
        piece = _opened(aead, header, number, following is None, sealed)
        number, left, sealed = number + 1, left - len(piece), following
        yield piece
    if left:
        raise WireError("BAD_PAYLOAD", "a dead letter whose payload has another size than it says")


def _next_sealed(read: Read) -> bytes | None:
    length = read(_LENGTH.size)
    if not length:
        return None
    size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
    sealed = read(size) if NONCE_BYTES + TAG_BYTES <= size <= _MAX_SEALED_BYTES else b""
    if not sealed or len(sealed) != size:
        raise WireError("BAD_PAYLOAD", "a dead letter that is cut, or no chunk where one should be")
    return sealed


def _opened(aead: Any, header: bytes, number: int, is_last: bool, sealed: bytes | None) -> bytes:
    if sealed is None:
        raise WireError("BAD_PAYLOAD", "a dead letter without a word")
    try:
        opened: bytes = aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], header + _PLACE.pack(number, is_last))
    except Exception:
        raise WireError("BAD_PAYLOAD", "a chunk of a dead letter was altered, moved or cut off") from None
    return opened


def _letter_of(data: bytes) -> DeadLetter:
    values = unpack_map(data, "dead letter")
    letter = DeadLetter(*(values.get(name) for name in _NAMES))  # type: ignore[arg-type]
    texts = (letter.type, letter.source, letter.error_code, letter.error_message)
    numbers = (letter.sequence, letter.timestamp_ms, letter.deliveries, letter.died_at_ms, letter.payload_bytes)
    is_text = all(type(text) is str for text in texts) and letter.type in _KINDS
    if not is_text or not all(type(number) is int and 0 <= number < 1 << 64 for number in numbers):
        raise WireError("BAD_PAYLOAD", "a dead letter lacks a field, or one has a wrong type")
    if letter.payload_bytes > MAX_SEGMENTED_BYTES:
        raise WireError("BAD_PAYLOAD", "a dead letter says that its payload is larger than any")
    return letter


_LISTED = 65536


class LetterFile(NamedTuple):
    """One file: its number, ``letter``, ``retry`` or ``trying``, and its size in bytes."""

    number: int
    state: str
    size: int


class DeadLetters:
    """The dead letters of one node. Not thread-safe in one process; a node and an operator may use it side by side.

    Every method may raise StorageError where the filesystem fails.
    """

    def __init__(self, root: str, name: str, keyring: Keyring) -> None:
        self._path = dead_letters_dir(root, name)
        self._node = node_id(name)
        self._keyring = keyring

    def kept(self) -> list[LetterFile]:
        """All letters by number; empty if there never was one."""
        try:
            fd = open_directory(self._path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed(error) from None
        try:
            return sorted(_kept_in(fd))
        finally:
            os.close(fd)

    def add(self, letter: DeadLetter, payload: Iterable[bytes], size: int, *, durable: bool = False) -> int | None:
        """Keep a letter of about ``size`` bytes; returns its number, or None where there is no room.

        With ``durable`` it survives a power cut once this returns.
        """
        kept = self.kept()
        if len(kept) >= MAX_DEAD_LETTERS or sum(one.size for one in kept) + size > MAX_DEAD_BYTES:
            return None
        number = max((one.number for one in kept), default=0) + 1
        try:
            ensure_directory(self._path)
            fd = open_directory(self._path)
            try:
                self._write(fd, number, letter, payload, durable)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failed(error) from None
        return number

    def _write(self, dir_fd: int, number: int, letter: DeadLetter, payload: Iterable[bytes], durable: bool) -> None:
        temporary = temporary_name(letter_name(number))
        unlink_quietly(temporary, dir_fd)
        fd = create_file(temporary, dir_fd, append=False)
        try:
            for piece in write_letter(letter, payload, self._keyring, self._node, os.urandom):
                write_all(fd, piece)
            if durable:
                os.fsync(fd)
            put_in_place(temporary, letter_name(number), dir_fd)
            if durable:
                os.fsync(dir_fd)
        except BaseException:
            unlink_quietly(temporary, dir_fd)
            raise
        finally:
            os.close(fd)

    def read(self, number: int) -> tuple[DeadLetter, Iterator[bytes]]:
        """What is known of a letter, and its payload piece by piece. WireError if it is damaged or of another key.

        The file is open until the last piece was taken or the iterator is dropped.
        """
        pieces = self._read(number)
        head = next(pieces)
        assert isinstance(head, DeadLetter)
        return head, pieces  # type: ignore[return-value]

    def _read(self, number: int) -> Iterator[DeadLetter | bytes]:
        try:
            dir_fd = open_directory(self._path)
            try:
                fd = open_regular(self._name_of(number), dir_fd, owners_of(dir_fd))
            finally:
                os.close(dir_fd)
        except OSError as error:
            raise self._failed(error) from None
        with open(fd, "rb") as file:
            letter, pieces = read_letter(file.read, self._keyring, self._node)
            yield letter
            yield from pieces

    def _name_of(self, number: int) -> str:
        for one in self.kept():
            if one.number == number:
                return letter_name(number, one.state)
        raise FileNotFoundError(2, f"no dead letter {number}")

    def move(self, number: int, before: str, after: str) -> bool:
        """Give a letter another state; False if it is not there in the state ``before``."""
        old, new = (child_path(self._path, letter_name(number, state)) for state in (before, after))
        try:
            os.rename(old, new)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(error) from None
        return True

    def drop(self, number: int) -> bool:
        """Remove a letter for ever, whatever its state; False if there is none."""
        removed = False
        for one in self.kept():
            if one.number == number:
                removed = unlink_quietly(child_path(self._path, letter_name(number, one.state))) or removed
        return removed

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"the dead letters in {self._path} cannot be used: {error.strerror}: see `speed root doctor`"
        )


def _kept_in(fd: int) -> Iterator[LetterFile]:
    for entry in names_in(fd, _LISTED):
        parsed = parse_letter(entry.name)
        if parsed is not None:
            try:
                yield LetterFile(*parsed, entry.stat(follow_symlinks=False).st_size)
            except FileNotFoundError:
                continue


_WALK_LIMIT = 4096
_LISTED_REFUSED = 4 * 65536


class Quarantine:
    """A node's quarantine directory. What does not fit is deleted and counted in ``dropped``.

    Not thread-safe: the thread that reads the lanes owns it.
    """

    def __init__(
        self,
        root: str,
        name: str,
        max_files: int = MAX_QUARANTINE_FILES,
        max_bytes: int = MAX_QUARANTINE_BYTES,
    ) -> None:
        self._fd = open_directory(quarantine_dir(root, name))
        self._max_files = max_files
        self._max_bytes = max_bytes
        self.taken = 0
        self.dropped = 0
        try:
            self.files, self.bytes, self._next = self._survey()
        except BaseException:
            os.close(self._fd)
            raise

    def _survey(self) -> tuple[int, int, int]:
        """Number and bytes of what earlier runs left, and the next free number."""
        files = size = highest = 0
        for entry in names_in(self._fd, _LISTED_REFUSED):
            number, _, kind = entry.name.partition(".")
            if number.isdigit():
                highest = max(highest, int(number[:18]))
            if kind != "reason":
                files += 1
                size += _tree_bytes(self._fd, entry.name)
        return files, size, highest + 1

    def take(self, dir_fd: int, name: str, reason: str, detail: str = "") -> bool:
        """Move an entry of another directory here, unopened; delete it when the bounds are reached (L-20).

        False when it could be neither moved nor deleted.
        """
        size = _tree_bytes(dir_fd, name)
        if not self._fits(size):
            self.dropped += 1
            return remove_tree(dir_fd, name)
        number = self._number()
        try:
            os.rename(name, number, src_dir_fd=dir_fd, dst_dir_fd=self._fd)
        except OSError:
            self.dropped += 1
            return remove_tree(dir_fd, name)
        self._note(number, size, {"name": name, "reason": reason, "detail": detail})
        return True

    def put(self, data: bytes, origin: str, reason: str, offset: int = 0) -> None:
        """Keep damaged bytes that begin at ``offset`` of the lane file ``origin`` (L-20)."""
        if not self._fits(len(data)):
            self.dropped += 1
            return
        number = self._number()
        try:
            self._write(number, data)
        except OSError:
            self.dropped += 1
            return
        self._note(number, len(data), {"name": origin, "reason": reason, "offset": offset})

    def _fits(self, size: int) -> bool:
        return self.files < self._max_files and self.bytes + size <= self._max_bytes

    def _number(self) -> str:
        number = f"{self._next:08d}"
        self._next += 1
        return number

    def _note(self, number: str, size: int, reason: dict[str, str | int]) -> None:
        """Write the reason file beside; without space for it the quarantined thing stays all the same."""
        self.taken += 1
        self.files += 1
        self.bytes += size
        text = json.dumps({**reason, "bytes": size, "timestamp": int(time.time() * 1000)}) + "\n"
        try:
            self._write(f"{number}.reason", text.encode())
        except OSError:
            unlink_quietly(f"{number}.reason", self._fd)

    def _write(self, name: str, data: bytes) -> None:
        fd = create_file(name, self._fd, append=False)
        try:
            write_all(fd, data)
        except OSError:
            unlink_quietly(name, self._fd)
            raise
        finally:
            os.close(fd)

    def close(self) -> None:
        """Release the directory."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _tree_bytes(dir_fd: int, name: str) -> int:
    """Apparent bytes of a file, or of a directory's direct entries (bounded)."""
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size
        inner = open_directory(name, dir_fd)
    except OSError:
        return 0
    try:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in names_in(inner, _WALK_LIMIT))
    except OSError:
        return 0
    finally:
        os.close(inner)


def remove_tree(dir_fd: int, name: str, budget: int = _WALK_LIMIT) -> bool:
    """Delete a file or directory tree without following links; at most ``budget`` entries of a directory.

    False when something is left; the next scan goes on.
    """
    if unlink_quietly(name, dir_fd):
        return True
    try:
        inner = open_directory(name, dir_fd)
    except OSError:
        return False
    try:
        for entry in list(names_in(inner, budget)):
            if not unlink_quietly(entry.name, inner) and budget > 1:
                remove_tree(inner, entry.name, budget // 16)
    finally:
        os.close(inner)
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True
