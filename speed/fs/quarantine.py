"""What failed, kept aside with its reason, bounded in count and bytes (L-20)."""

from __future__ import annotations

import json
import os
import shutil
from itertools import count

from speed.wire import names
from speed.wire.limits import MAX_QUARANTINE_BYTES, MAX_QUARANTINE_FILES

MAX_SAMPLE_BYTES = 1 << 20


class Quarantine:
    """The quarantine directory of one node. Beyond its bounds, what fails is deleted, and counted as dropped."""

    def __init__(self, root: str, name: str) -> None:
        self._dir = names.quarantine_dir(root, name)
        self._numbers = count(1)
        self._tag = os.urandom(4).hex()
        self.dropped = 0

    def keep(self, data: bytes, reason: str, origin: str) -> None:
        """Keep a sample of damaged bytes."""
        if not self._has_room(min(len(data), MAX_SAMPLE_BYTES)):
            self.dropped += 1
            return
        path = self._next_path()
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            self.dropped += 1
            return
        with os.fdopen(fd, "wb") as file:
            file.write(data[:MAX_SAMPLE_BYTES])
        self._explain(path, reason, origin, len(data))

    def move(self, path: str, reason: str) -> None:
        """Move a foreign file or directory here; where that is not possible, delete it."""
        kept = self._next_path()
        if self._has_room(_size_of(path)):
            try:
                os.rename(path, kept)
            except OSError:
                pass
            else:
                self._explain(kept, reason, path, 0)
                return
        self.dropped += 1
        _remove(path)

    def _next_path(self) -> str:
        return names.child_path(self._dir, f"{self._tag}-{next(self._numbers):06d}")

    def _has_room(self, data_bytes: int) -> bool:
        held = files = 0
        try:
            with os.scandir(self._dir) as entries:
                for entry in entries:
                    files += 1
                    held += entry.stat(follow_symlinks=False).st_size
                    if files + 2 > MAX_QUARANTINE_FILES or held + data_bytes > MAX_QUARANTINE_BYTES:
                        return False
        except OSError:
            return False
        return True

    def _explain(self, path: str, reason: str, origin: str, data_bytes: int) -> None:
        text = json.dumps({"reason": reason, "origin": origin, "bytes": data_bytes})
        try:
            fd = os.open(f"{path}.reason", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text + "\n")


def _size_of(path: str) -> int:
    """Bytes of a file; a sparse giant counts as it claims, a directory as little."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _remove(path: str) -> None:
    """Delete without following links."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
