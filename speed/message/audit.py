"""Who encrypted, decrypted, signed, checked and refused what (M-31), and whose tokens came with it (M-27)."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, NamedTuple

from speed.core.hints import checked_seconds
from speed.errors import ConfigurationError, SpeedError, StorageError, WireError
from speed.fs.open import opened
from speed.message.errors import MessageError, TokenError
from speed.message.schemas.registry import SchemaRegistry
from speed.message.view import MessageView
from speed.message.writing import has_token, signed_parts, with_security, without_token
from speed.wire import lazily

# Who encrypted, decrypted, signed, checked and refused what: a JSON line each, no key, token or payload (M-31).

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
        fields = {
            "time": self._clock().isoformat(timespec="milliseconds"),
            "operation": operation,
            "outcome": outcome,
            "algorithm": algorithm[:64],
            "key_id": key_id[:128],
            "message_id": message_id[:128],
        }
        nodes = {name: node[:128] for name, node in (("source", source), ("reader", reader)) if node}
        line = json.dumps({**fields, **nodes, **about}).encode()
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
    fields: dict[str, Any] = {key: text[:_MAX_TEXT] for key, text in texts.items() if text}
    return {**fields, "contains_pii": True} if security.contains_pii else fields


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


MAX_TOKEN_BYTES = 16384
_FAR = 1 << 53
_ALGORITHMS = frozenset({"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"})


class TokenIdentity(NamedTuple):
    """Who a token speaks for."""

    publisher_id: str
    publisher_team: str


class TokenKey(NamedTuple):
    """A key of an issuer; the algorithm is the key's, whatever a token says of itself."""

    algorithm: str
    key: Any
    """PEM text or a public key of ``cryptography``; bytes for HS algorithms."""


class TokenVerifier:
    """Verifies JSON Web Tokens where messages enter, and puts an identity in their place.

    Args:
        keys: the key of each ``kid`` that tokens name.
        audience, issuer: what tokens must say.
        publisher_claim, team_claim: the claims that name the publisher and its team.
        leeway_seconds: difference of clocks that is forgiven.
        audit: is told what ``admit`` refuses.
        schemas: by which ``admit`` marks messages with personal data, whatever their publishers say.

    Raises ConfigurationError for algorithms that cannot be.
    """

    def __init__(
        self,
        keys: Mapping[str, TokenKey],
        *,
        audience: str,
        issuer: str,
        publisher_claim: str = "sub",
        team_claim: str = "team",
        leeway_seconds: float = 30.0,
        audit: AuditLog | None = None,
        schemas: SchemaRegistry | None = None,
    ) -> None:
        try:
            with lazily.guard:
                import jwt
        except ImportError:
            raise ConfigurationError("tokens need PyJWT: install speed-ipc[tokens]") from None
        wrong = {key.algorithm for key in keys.values()} - _ALGORITHMS
        if wrong:
            raise ConfigurationError(
                f"a token key has algorithm {min(wrong)!r}; use one of {', '.join(sorted(_ALGORITHMS))}"
            )
        self._jwt = jwt
        self._keys = dict(keys)
        self._audience, self._issuer = audience, issuer
        self._leeway = checked_seconds("leeway_seconds", leeway_seconds)
        self._claims = (publisher_claim, team_claim)
        self._audit, self._schemas = audit, schemas

    def verify(self, token: str) -> TokenIdentity:
        """The identity; TokenError for a token that is malformed, forged, expired or for others."""
        return self.verify_until(token)[0]

    def verify_until(self, token: str) -> tuple[TokenIdentity, float]:
        """As ``verify``, and when the token says that it expires (Unix seconds)."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenError(f"auth_token: is longer than {MAX_TOKEN_BYTES} bytes")
        try:
            kid = self._jwt.get_unverified_header(token).get("kid")
            known = self._keys.get(kid) if isinstance(kid, str) else None
            if known is None:
                raise TokenError("auth_token: names no key that is trusted here")
            required: Sequence[str] = ("exp", "aud", "iss", self._claims[0])
            claims = self._jwt.decode(
                token,
                known.key,
                algorithms=[known.algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": list(required), "enforce_minimum_key_length": True},
            )
        except (self._jwt.InvalidTokenError, self._jwt.InvalidKeyError, ValueError, TypeError) as error:
            raise TokenError(f"auth_token: is refused ({type(error).__name__})") from None
        publisher, team = (claims.get(name, "") for name in self._claims)
        if not isinstance(publisher, str) or not publisher or not isinstance(team, str):
            raise TokenError("auth_token: names no publisher")
        return TokenIdentity(publisher, team), float(min(int(claims["exp"]), _FAR))

    def admit(self, data: bytes) -> bytes:
        """A message as it may go on: its token verified and gone, its publisher the token's.

        A signed message keeps its bytes, and must name that publisher already. Raises TokenError, SchemaError,
        WireError, StorageError (audit).
        """
        try:
            return self._admitted(data)
        except (MessageError, WireError) as error:
            tell_refused(self._audit, "admit", data, error)
            raise

    def _admitted(self, data: bytes) -> bytes:
        view = MessageView(data).validate()
        identity = self.verify(view.auth_token)
        stripped = without_token(data)
        if signed_parts(data).signatures:
            if view.publisher_id != identity.publisher_id:
                raise TokenError("publisher_id: is signed, and is not the token's")
            return stripped
        context = lazily.load("speed.message.message_pb2").SecurityContext(publisher_id=identity.publisher_id)
        context.publisher_team = identity.publisher_team
        schema = None if self._schemas is None else self._schemas.check(view)
        if schema is not None and schema.contains_pii:
            context.contains_pii = True
        return with_security(stripped, context.SerializeToString())

    def __repr__(self) -> str:
        return f"<TokenVerifier of {self._issuer} for {self._audience}>"


def check_no_token(data: bytes) -> bytes:
    """``data`` if no token is in it; TokenError otherwise: tokens never reach a lane (M-14, M-27). WireError for what
    cannot be read, and may hide one."""
    if has_token(data):
        raise TokenError("auth_token: is in a message that is to be sent: have the gateway admit it first")
    return data
