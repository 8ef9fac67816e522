"""``speed root backup``: a copy of a root, made while its nodes run."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import click

from speed.cli.options import Settings, common_options, echo, print_rows, print_value
from speed.errors import ConfigurationError, StorageError
from speed.fs.lane_files import MAX_SEGMENT_BYTES
from speed.observe import bytes_text
from speed.wire import names
from speed.wire.cursor import FENCE_BYTES, MAX_CURSOR_BYTES, MAX_DELIVERIES_BYTES

MAX_ATTEMPTS = 100
"""So often a lane is copied anew because files of it went meanwhile, and a file read that is being written."""
MAX_SMALL_BYTES = max(MAX_CURSOR_BYTES, MAX_DELIVERIES_BYTES, FENCE_BYTES)
_LACKS = "entries and bells of running nodes, payloads in segments that are under way, quarantined files"


@click.command("backup")
@click.argument("destination", metavar="DEST", type=click.Path())
@click.option("--with-key", is_flag=True, help="Copy the key as well; whoever has the copy can then read it.")
@common_options
def backup_command(settings: Settings, destination: str, with_key: bool) -> None:
    """Copy the root to DEST, which must not exist, while nodes run.

    The copy is a root: it holds the messages that wait in each lane, dead letters, journals in the root, and which
    generations of names were used. What was handled while it was copied may be handled once more there. It lacks the
    key, unless asked for; entries and bells of running nodes, so that none of them counts as its own; payloads in
    segments that are under way; quarantined files.
    """
    settings.registry()  # says clearly what is missing
    path = os.path.abspath(destination)
    if os.path.lexists(path):
        raise ConfigurationError(f"{path} is there already: name a directory that is not")
    _check_outside(settings.root, path)
    partial = f"{path}.partial"
    try:
        os.mkdir(partial, 0o700)
        copied = Copying(settings.root, partial).run()
        if with_key:
            _copy(settings.key, names.child_path(partial, "speed.key"))
        os.rename(partial, path)
    except OSError as error:
        raise StorageError(f"{error.filename or path}: {error.strerror}; {partial} can be removed") from error
    _tell(settings, path, copied, with_key)


def _check_outside(root: str, path: str) -> None:
    """A copy within the root would be copied with it the next time."""
    inside = os.path.realpath(root)
    if os.path.commonpath([inside, os.path.realpath(os.path.dirname(path))]) == inside:
        raise ConfigurationError(f"{path} lies in the root {root}: name a directory outside of it")


def _tell(settings: Settings, path: str, copied: Counter[str], with_key: bool) -> None:
    lacks = f"{_LACKS}{'' if with_key else ', the key'}"
    if settings.as_json:
        print_value({"copy": path, "lacks": lacks, **copied}, True)
        return
    size = copied.pop("bytes")
    print_rows(("what", "number"), sorted(copied.items()), title=path)
    echo(f"{bytes_text(size)} copied. Left out: {lacks}.")


class Copying:
    """One copy of ``root`` in the empty directory ``copy``."""

    def __init__(self, root: str, copy: str) -> None:
        self._root, self._copy = root, copy
        self._copied: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Copy everything; returns how much of each kind. OSError."""
        self._copied.update({"claims": 0, "nodes": 0, "lanes": 0, "dead letters": 0, "journals": 0, "bytes": 0})
        self._claims()
        statements = names.statements_dir(self._root)
        if os.path.isdir(statements):
            self._flat(statements, names.statements_dir(self._copy), "")
        for name in _directories(self._root):
            if names.JOURNAL_LOCK in os.listdir(names.child_path(self._root, name)):
                self._journal(name)
            elif names.is_node_name(name):
                self._node(name)
        return self._copied

    def _claims(self) -> None:
        """The newest of each name, read-only as of a node that left: generations go on, and no name is held."""
        for directory in (names.registry_dir(self._copy), names.claims_dir(self._copy)):
            os.mkdir(directory, 0o700)
        for name, generation in _newest(os.listdir(names.claims_dir(self._root))).items():
            path = names.claim_path(self._copy, name, generation)
            if self._file(names.claim_path(self._root, name, generation), path):
                os.chmod(path, 0o400)
                self._copied["claims"] += 1
        # Last: it covers those whose claims have just gone.
        self._file(names.floor_path(self._root), names.floor_path(self._copy))

    def _node(self, name: str) -> None:
        self._copied["nodes"] += 1
        os.mkdir(names.node_dir(self._copy, name), 0o700)
        inbox = names.inbox_dir(self._root, name)
        if os.path.isdir(inbox):
            os.mkdir(names.inbox_dir(self._copy, name), 0o700)
            for sender in filter(names.is_node_name, _directories(inbox)):
                self._lane(names.lane_dir(self._root, name, sender), names.lane_dir(self._copy, name, sender))
        letters = names.dead_letters_dir(self._root, name)
        if os.path.isdir(letters):
            self._flat(letters, names.dead_letters_dir(self._copy, name), "dead letters")

    def _lane(self, lane: str, copy: str) -> None:
        """Cursors before lane files, so that no cursor is ahead; anew if a file went, which a cursor may name."""
        for _ in range(MAX_ATTEMPTS):
            size = self._copied["bytes"]
            os.mkdir(copy, 0o700)
            if self._is_lane_copied(lane, copy):
                self._copied["lanes"] += 1
                return
            self._copied["bytes"] = size
            shutil.rmtree(copy)
        raise StorageError(f"{lane} changes faster than it can be copied: try again when less is sent")

    def _is_lane_copied(self, lane: str, copy: str) -> bool:
        before = set(_lane_files(lane))
        for filename in filter(_is_written_in_place, _files(lane)):
            self._rewritten(names.child_path(lane, filename), names.child_path(copy, filename))
        for filename in _lane_files(lane):
            self._file(names.child_path(lane, filename), names.child_path(copy, filename))
        return before <= set(_lane_files(lane))

    def _rewritten(self, path: str, copy: str) -> None:
        """A small file that its owner writes in place: copied as it stood for two looks."""
        with contextlib.suppress(FileNotFoundError):
            seen = _read(path)
            for _ in range(MAX_ATTEMPTS):
                data = _read(path)
                if data == seen:
                    break
                seen = data
            self._copied["bytes"] += _write(copy, io.BytesIO(seen))  # one that is torn fails its MAC there

    def _journal(self, name: str) -> None:
        """The last volume grows at its end, and readers pass a block that is not whole; removed lanes come last."""
        self._copied["journals"] += 1
        journal, copy = names.child_path(self._root, name), names.child_path(self._copy, name)
        os.mkdir(copy, 0o700)
        for lane in _directories(journal):
            self._journal_lane(names.child_path(journal, lane), names.child_path(copy, lane))
        self._contents(journal, copy, "")

    def _journal_lane(self, lane: str, copy: str) -> None:
        """How far it was written before what was written: a copy that grew meanwhile was not cut.

        Then files from the last one to the first: retention takes the first ones, a volume that others are put into
        lies before them, and how far a topic is compacted is said only once it is.
        """
        os.mkdir(copy, 0o700)
        self._rewritten(names.child_path(lane, names.JOURNAL_END), names.child_path(copy, names.JOURNAL_END))
        self._contents(lane, copy, "", without=names.JOURNAL_END)

    def _flat(self, directory: str, copy: str, kind: str) -> None:
        os.mkdir(copy, 0o700)
        self._contents(directory, copy, kind)

    def _contents(self, directory: str, copy: str, kind: str, *, without: str = "") -> None:
        for filename in sorted((name for name in _files(directory) if name != without), reverse=True):
            is_there = self._file(names.child_path(directory, filename), names.child_path(copy, filename))
            if kind:
                self._copied[kind] += is_there

    def _file(self, path: str, copy: str) -> bool:
        """Copy one file; False if it is gone."""
        try:
            self._copied["bytes"] += _copy(path, copy)
        except FileNotFoundError:
            return False
        return True


def _copy(path: str, copy: str) -> int:
    """Bytes copied, and flushed: a copy outlives the machine."""
    with _open(path) as file:
        return _write(copy, file)


def _open(path: str) -> BinaryIO:
    return open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _read(path: str) -> bytes:
    with _open(path) as file:
        return file.read(MAX_SMALL_BYTES)


def _write(copy: str, source: BinaryIO) -> int:
    fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as out:
        shutil.copyfileobj(source, out)
        out.flush()
        os.fsync(fd)
        return out.tell()


def _newest(files: Iterable[str]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for name, generation in filter(None, map(names.parse_claim, files)):
        newest[name] = max(generation, newest.get(name, 0))
    return newest


def _directories(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name != names.REGISTRY)


def _files(directory: str) -> Iterator[str]:
    """Regular files, without those that are being written beside."""
    with os.scandir(directory) as entries:
        found = [one.name for one in entries if one.is_file(follow_symlinks=False)]
    return (name for name in sorted(found) if not name.startswith(names.TEMPORARY_PREFIX))


def _lane_files(lane: str) -> list[str]:
    """What a receiver would read: a larger file under such a name is none of a lane.

    Slots come last: what an envelope in the copy says of them was written by then, or is under way. So do openings.
    """
    files = list(_files(lane))
    parsers: tuple[Callable[[str], object], ...] = (names.parse_lane_file, names.parse_slot, names.parse_opening)
    found = [name for parse in parsers for name in files if parse(name) is not None]
    return [name for name in found if _size(names.child_path(lane, name)) <= MAX_SEGMENT_BYTES]


def _size(path: str) -> int:
    """0 if it is gone."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _is_written_in_place(filename: str) -> bool:
    """Cursors, first cursors, counts of deliveries and fences; whatever else lies in a lane is nobody's."""
    parsers = (names.parse_cursor, names.parse_start, names.parse_deliveries, names.parse_fence)
    return any(parse(filename) is not None for parse in parsers)
