"""Dead letters on disk: what a node could not handle, kept sealed until somebody decides (S-18)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from speed.errors import StorageError
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
from speed.wire.dead_letter import DeadLetter, read_letter, write_letter
from speed.wire.limits import MAX_DEAD_BYTES, MAX_DEAD_LETTERS
from speed.wire.names import child_path, dead_letters_dir, letter_name, node_id, parse_letter, temporary_name
from speed.wire.seal import Keyring

_LISTED = 65536


class Kept(NamedTuple):
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

    def kept(self) -> list[Kept]:
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
        return StorageError(f"the dead letters in {self._path} cannot be used: {error.strerror}: see `speed doctor`")


def _kept_in(fd: int) -> Iterator[Kept]:
    for entry in names_in(fd, _LISTED):
        parsed = parse_letter(entry.name)
        if parsed is not None:
            try:
                yield Kept(*parsed, entry.stat(follow_symlinks=False).st_size)
            except FileNotFoundError:
                continue
