"""A disk that forgets what was not flushed: operations are played to it, then the power fails.

Stricter than any filesystem in use: the content of a file survives only by a flush of that file, its name only by a
flush of its directory. What was not flushed may survive all the same, by chance.
"""

from __future__ import annotations

import os
from random import Random
from typing import TypeAlias

from tests.torture.recording import Operation

Item: TypeAlias = "File | Directory"


class File:
    """``data`` is what processes see, ``kept`` what was flushed."""

    def __init__(self, data: bytes = b"", *, kept: bool = False) -> None:
        self.data = bytearray(data)
        self.kept = bytes(data) if kept else b""

    def flush(self) -> None:
        self.kept = bytes(self.data)

    def left(self, random: Random | None) -> bytes:
        """After a power cut; with ``random`` a part of what was appended since the flush."""
        if random is None or not self.data.startswith(self.kept):
            return self.kept
        return bytes(self.data[: random.randint(len(self.kept), len(self.data))])


class Directory:
    """``items`` by name as processes see them, ``kept`` those whose names were flushed."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.kept: dict[str, Item] = {}

    def flush(self) -> None:
        self.kept = dict(self.items)

    def left(self, random: Random | None) -> dict[str, Item]:
        return self.kept if random is None or random.random() < 0.5 else self.items


class Disk:
    """One tree below ``root``; ``flushes`` false is a disk that lies about them."""

    def __init__(self, root: str, *, flushes: bool = True) -> None:
        self.root, self.flushes = root, flushes
        self.top = Directory()

    def put(self, name: str, data: bytes) -> None:
        """A file at the top that was there before, and survives."""
        self.top.items[name] = self.top.kept[name] = File(data, kept=True)

    def play(self, operation: Operation) -> None:
        """What is not known (a pipe, a file that is gone) is left out."""
        getattr(self, f"_{operation.kind}")(operation)

    def _create(self, operation: Operation) -> None:
        directory, name = self._directory_of(operation.path)
        item = directory.items.get(name)
        if item is None or operation.number == 0:
            directory.items[name] = File()

    def _mkdir(self, operation: Operation) -> None:
        directory, name = self._directory_of(operation.path)
        directory.items.setdefault(name, Directory())

    def _write(self, operation: Operation) -> None:
        file = self._item(operation.path)
        if isinstance(file, File):
            start = len(file.data) if operation.number < 0 else operation.number
            file.data[start : start + len(operation.data)] = operation.data

    def _cut(self, operation: Operation) -> None:
        file = self._item(operation.path)
        if isinstance(file, File):
            del file.data[operation.number :]

    def _grow(self, operation: Operation) -> None:
        file = self._item(operation.path)
        if isinstance(file, File):
            file.data.extend(bytes(max(0, operation.number - len(file.data))))

    def _sync(self, operation: Operation) -> None:
        item = self._item(operation.path)
        if item is not None and self.flushes:
            item.flush()

    def _rename(self, operation: Operation) -> None:
        (source, old), (target, new) = self._directory_of(operation.path), self._directory_of(operation.other)
        if old in source.items:
            target.items[new] = source.items.pop(old)

    def _remove(self, operation: Operation) -> None:
        directory, name = self._directory_of(operation.path)
        directory.items.pop(name, None)

    def _say(self, operation: Operation) -> None:
        pass

    def _directory_of(self, path: str) -> tuple[Directory, str]:
        directory, name = os.path.split(path)
        item = self._item(directory)
        return (item if isinstance(item, Directory) else Directory()), name

    def _item(self, path: str) -> Item | None:
        item: Item | None = self.top
        for part in os.path.relpath(path, self.root).split("/"):
            if part != ".":
                item = item.items.get(part) if isinstance(item, Directory) else None
        return item

    def restore(self, path: str, random: Random | None) -> None:
        """Write to ``path`` what a power cut leaves now: nothing that was not flushed, or by chance some of it."""
        _write_tree(self.top, path, random)


def _write_tree(directory: Directory, path: str, random: Random | None) -> None:
    os.makedirs(path, 0o700, exist_ok=True)
    for name, item in directory.left(random).items():
        place = os.path.join(path, name)
        if isinstance(item, Directory):
            _write_tree(item, place, random)
        else:
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(item.left(random))
