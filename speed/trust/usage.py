"""Who still writes and reads deprecated fields and old versions of schemas, counted and kept in a file (M-37)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from speed.core.log import logger
from speed.errors import StorageError
from speed.fs.open import replace_private

log = logger("speed.trust")

MAX_ROWS: Final = 4096
MAX_FILE_BYTES: Final = 8 << 20
OTHERS: Final = "(others)"
WRITE_SECONDS: Final = 5.0
_MAX_TEXT = 128
_MAX_FIELDS = 64
_COUNTED = ("messages", "last_ms")


class Use(NamedTuple):
    """One use of something old: ``field`` is empty where the version itself is old."""

    publisher: str
    consumer: str
    schema: str
    version: str
    field: str


class SchemaUsage:
    """Counts uses of what is deprecated, in a file that `speed schema usage` lists. Thread-safe.

    The file is private to this user, is written anew at most every five seconds, and when the node is closed; what an
    earlier process counted is counted on. Each process needs a file of its own. Beyond 4,096 kinds of use the rest is
    counted as ``(others)``. Raises StorageError where an existing file cannot be read.

    Args:
        path: the file.
        clock_ms: gives the time in Unix milliseconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock_ms: Callable[[], int] | None = None) -> None:
        self._path = os.fspath(path)
        self._clock_ms = clock_ms or _unix_ms
        self._lock = threading.Lock()
        self._rows = dict(read_usage(self._path)) if os.path.lexists(self._path) else {}
        self._written = float("-inf")
        self._is_new = False

    def count(
        self, publisher: str, consumer: str, schema: str, version: str, fields: Iterable[str], *, is_old: bool
    ) -> None:
        """One message that uses ``fields``, which are deprecated, or a version that ``is_old``.

        ``publisher`` and ``consumer`` are nodes; of what is written, the consumer is empty.
        """
        names = [name[:_MAX_TEXT] for name in fields][:_MAX_FIELDS] + ([""] if is_old else [])
        if not names:
            return
        texts = (publisher[:_MAX_TEXT], consumer[:_MAX_TEXT], schema[:_MAX_TEXT], version[:_MAX_TEXT])
        with self._lock:
            for name in names:
                self._count(Use(*texts, name))
            self._is_new = True
            is_due = time.monotonic() - self._written >= WRITE_SECONDS
        if is_due:
            self.flush()

    def rows(self) -> dict[Use, tuple[int, int]]:
        """For each use, the number of messages and the time of the last one (Unix milliseconds)."""
        with self._lock:
            return dict(self._rows)

    def flush(self) -> None:
        """Write the file now. That it cannot be written is logged: what was counted stays, for the next time."""
        with self._lock:
            if not self._is_new:
                return
            text = _text(self._rows)
            self._written, self._is_new = time.monotonic(), False
            try:
                replace_private(self._path, text)
            except OSError as error:
                self._is_new = True
                log.warning("the uses of schemas cannot be written to %s: %s", self._path, error.strerror)

    def _count(self, use: Use) -> None:
        if use not in self._rows and len(self._rows) >= MAX_ROWS:
            use = Use(OTHERS, "", "", "", "")
        messages, _ = self._rows.get(use, (0, 0))
        self._rows[use] = messages + 1, self._clock_ms()

    def __repr__(self) -> str:
        return f"<SchemaUsage {self._path}>"


def read_usage(path: str) -> dict[Use, tuple[int, int]]:
    """What a file of a SchemaUsage holds; StorageError for one that cannot be read or is none."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        rows: list[Any] = json.loads(text)["uses"] if len(text) <= MAX_FILE_BYTES else [None]
        return {_use(row): (int(row["messages"]), int(row["last_ms"])) for row in rows}
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StorageError(f"{path}: does not hold uses of schemas: name the file of a SchemaUsage") from None


def _use(row: Any) -> Use:
    texts = [row[name] for name in Use._fields]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    return Use(*texts)


def _text(rows: dict[Use, tuple[int, int]]) -> bytes:
    listed = [{**use._asdict(), **dict(zip(_COUNTED, counted, strict=True))} for use, counted in rows.items()]
    return json.dumps({"uses": listed}).encode()


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
