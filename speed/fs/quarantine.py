"""Where refused files and damaged bytes go: bounded in number and bytes, each with a reason (L-20)."""

from __future__ import annotations

import json
import os
import stat
import time

from speed.fs.open import create_file, names_in, open_directory, unlink_quietly, write_all
from speed.wire.limits import MAX_QUARANTINE_BYTES, MAX_QUARANTINE_FILES
from speed.wire.names import quarantine_dir

_WALK_LIMIT = 4096
_LISTED = 4 * 65536


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
        for entry in names_in(self._fd, _LISTED):
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
