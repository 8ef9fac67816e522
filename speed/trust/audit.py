"""Who encrypted, decrypted, signed, checked and refused what: a JSON line each, no key, token or payload (M-31)."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

from speed.errors import SpeedError, StorageError, WireError
from speed.fs.open import opened
from speed.wire.message import MessageView

MAX_BYTES = 16 << 20
KEPT = 4
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NONE = -1


_MAX_TEXT = 128
NOTHING: Mapping[str, Any] = MappingProxyType({})


def _now() -> datetime:
    return datetime.now(timezone.utc)


class AuditLog:
    """A file with one JSON line for each encryption, decryption, signature and refusal; never a key or payload.

    It is private to this user. Beyond ``max_bytes`` it becomes ``path.1``, and so on up to ``kept``. Each process needs
    a file of its own. A line is written before the operation it tells of has an effect, in one write. Raises
    StorageError when it cannot be written: what must be audited does not happen unseen. Thread-safe.
    """

    def __init__(
        self, path: str, *, max_bytes: int = MAX_BYTES, kept: int = KEPT, clock: Callable[[], datetime] = _now
    ) -> None:
        self._path, self._max_bytes, self._kept, self._clock = os.fspath(path), max_bytes, kept, clock
        self._lock = threading.Lock()
        self._is_closed = self._is_cut = False
        self._fd = _NONE
        with self._telling():
            self._fd = self._open()

    def write(
        self,
        operation: str,
        outcome: str,
        *,
        algorithm: str = "",
        key_id: str = "",
        message_id: str,
        source: str = "",
        reader: str = "",
        about: Mapping[str, Any] = NOTHING,
    ) -> None:
        """One line; ``operation`` is encrypt, decrypt, sign, verify or access; of refusals also send, receive,
        forward, admit.

        ``source`` is the node that sent the message, ``reader`` the one that was handed it, where they are known;
        ``about`` is what ``about_message`` says. Times are UTC with milliseconds. Texts of others are cut, and escaped
        by JSON.
        """
        told = {
            "time": self._clock().isoformat(timespec="milliseconds"),
            "operation": operation,
            "outcome": outcome,
            "algorithm": algorithm[:64],
            "key_id": key_id[:128],
            "message_id": message_id[:128],
        }
        nodes = {name: node[:128] for name, node in (("source", source), ("reader", reader)) if node}
        line = json.dumps({**told, **nodes, **about}).encode()
        with self._lock, self._telling():
            self._append(line + b"\n")

    def close(self) -> None:
        """No line can be written after this. Again: nothing."""
        with self._lock:
            self._is_closed = True
            self._leave()

    def _append(self, line: bytes) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "it is closed")
        if self._fd == _NONE:  # the last rotation failed half way
            self._fd = self._open()
        if os.fstat(self._fd).st_size + len(line) > self._max_bytes:
            self._rotate()
        whole = b"\n" + line if self._is_cut else line  # what was cut off stands alone
        written = os.write(self._fd, whole)
        if written < len(whole):
            self._is_cut = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_cut = False

    def _leave(self) -> None:
        fd, self._fd = self._fd, _NONE
        if fd != _NONE:
            os.close(fd)

    def _rotate(self) -> None:
        self._leave()
        for number in range(self._kept - 1, 0, -1):
            if os.path.lexists(f"{self._path}.{number}"):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
        self._fd = self._open()

    def _open(self) -> int:
        fd = opened(self._path, _FLAGS, 0o600)
        status = os.fstat(fd)
        is_own = status.st_uid in (os.geteuid(), 0)
        if not stat.S_ISREG(status.st_mode) or not is_own or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is no regular file of this user, which nobody else may write")
        self._is_cut = False
        return fd

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"the audit log {self._path} cannot be written: {error.strerror}; nothing was done"
            raise StorageError(text) from None

    def __repr__(self) -> str:
        return f"<AuditLog {self._path}>"


def about_message(view: MessageView) -> dict[str, Any]:
    """What lines say of a message beside its id: where it belongs, who published it, and how sensitive it is."""
    security, schema = view.security, view.schema
    name = f"{schema.schema_name}/{schema.schema_version}" if schema.schema_name else ""
    texts = {
        "topic": view.topic,
        "namespace": view.namespace,
        "publisher": security.publisher_id,
        "classification": security.data_classification,
        "schema": name,
        "trace": view.traceparent or "",
    }
    told: dict[str, Any] = {key: text[:_MAX_TEXT] for key, text in texts.items() if text}
    return {**told, "contains_pii": True} if security.contains_pii else told


class Trail:
    """What is done to one message, told as it ends: each step that succeeds, and the refusal (M-31)."""

    def __init__(self, log: AuditLog | None, operation: str, message_id: str, source: str, reader: str = "") -> None:
        self._log, self._message_id, self._source, self._reader = log, message_id, source, reader
        self._about: Mapping[str, Any] = NOTHING
        self._operation = self._refuses = operation
        self._algorithm = self._key_id = ""

    def about(self, view: MessageView) -> None:
        """What the message says of itself, for all lines from here on."""
        if self._log is not None:
            self._about = about_message(view)

    def says(self, **texts: str | None) -> None:
        """The same of a message that is not written yet."""
        self._about = {name: text[:_MAX_TEXT] for name, text in texts.items() if text}

    def accessed(self) -> None:
        """The program is handed it."""
        self._write("access", "ok", "", "")

    def begins(self, operation: str, algorithm: str, key_id: str) -> None:
        """A step that uses a key, as far as that is known."""
        self._operation, self._algorithm, self._key_id = operation, algorithm, key_id

    def done(self, operation: str, algorithm: str, key_id: str) -> None:
        """That step succeeded."""
        self._write(operation, "ok", algorithm, key_id)
        self.ends()

    def ends(self) -> None:
        """No key is used from here on."""
        self._operation, self._algorithm, self._key_id = self._refuses, "", ""

    def refused(self, error: SpeedError) -> None:
        """The message is refused; of an error, its code is told."""
        self._write(self._operation, getattr(error, "reason", error.code), self._algorithm, self._key_id)

    def _write(self, operation: str, outcome: str, algorithm: str, key_id: str) -> None:
        if self._log is not None:
            self._log.write(
                operation,
                outcome,
                algorithm=algorithm,
                key_id=key_id,
                message_id=self._message_id,
                source=self._source,
                reader=self._reader,
                about=self._about,
            )


def tell_refused(log: AuditLog | None, operation: str, data: bytes, error: SpeedError, source: str = "") -> None:
    """A refusal of a message as bytes; its id is told if it can be read."""
    view = MessageView(data)
    trail = Trail(log, operation, "", source)
    with suppress(WireError):
        trail = Trail(log, operation, view.message_id, source)
        trail.about(view)
    trail.refused(error)
