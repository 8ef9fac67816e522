"""A key of messages: what it is, what it may be used for, and how it is written down (M-26)."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from speed.message import primitives
from speed.message.algorithms import MAX_KEY_ID_BYTES, Algorithm, algorithm_of
from speed.message.errors import KeyRefusedError
from speed.wire.names import matches

MAX_SET_KEYS = 64
_KEY_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*").fullmatch
_LISTS = ("namespaces", "topics", "publishers")
_TIMES = ("not_before_ms", "not_after_ms")
_FIELDS = frozenset(["id", "algorithm", "secret", "public", *_LISTS, *_TIMES])


def check_key_id(key_id: str) -> str:
    """``key_id`` if it may become part of a file name; KeyRefusedError otherwise."""
    if not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID_BYTES or not _KEY_ID(key_id) or ".." in key_id:
        raise KeyRefusedError(f"{str(key_id)[:64]!r} is no key id: use 1 to {MAX_KEY_ID_BYTES} of [A-Za-z0-9._-]")
    return key_id


@dataclass(frozen=True, eq=False)
class MessageKey:
    """A key that signs or encrypts messages, and what it may be used for. ``generate_key`` makes one.

    Raises KeyRefusedError for an id or bytes that are none, WeakAlgorithmError for an RSA key below 3072 bits.

    Attributes:
        id: its name, which messages carry; 1 to 128 letters, digits, ``.``, ``_`` and ``-``.
        algorithm: what it is for.
        secret: its secret bytes; None for a public part. They are never shown.
        public: its public bytes; None for a shared key.
        namespaces, topics: where it may be used; ``*`` is everywhere.
        publishers: names of the nodes that may sign with it.
        not_before_ms, not_after_ms: from when until when, in Unix milliseconds.
    """

    id: str
    algorithm: Algorithm
    secret: bytes | None = field(default=None, repr=False)
    public: bytes | None = field(default=None, repr=False)
    namespaces: tuple[str, ...] = ("*",)
    topics: tuple[str, ...] = ("*",)
    publishers: tuple[str, ...] = ()
    not_before_ms: int = 0
    not_after_ms: int | None = None

    def __post_init__(self) -> None:
        check_key_id(self.id)
        rows = ((self.secret, self.algorithm.secret, "secret"), (self.public, self.algorithm.public, "public"))
        if self.secret is None and (self.public is None or self.algorithm.is_symmetric):
            raise KeyRefusedError(f"key {self.id!r} has no bytes: give its secret, or its public part")
        for value, size, what in rows:
            if value is not None and size is not None and len(value) != size:
                raise KeyRefusedError(f"key {self.id!r}: its {what} part has {len(value)} bytes and needs {size}")
        if self.secret is not None and self.public is None and not self.algorithm.is_symmetric:
            object.__setattr__(self, "public", primitives.public_bytes(self.algorithm, self.loaded_secret))
        self.check_loads()

    def check_loads(self) -> None:
        """Have the library look at the bytes now, and not at the first message."""
        if not self.algorithm.is_symmetric:
            _ = self.loaded_secret if self.secret is not None else self.loaded_public

    @cached_property
    def loaded_secret(self) -> Any:
        """The library's private key."""
        if self.secret is None:
            raise KeyRefusedError(f"key {self.id!r} is only a public part: the secret one is needed here")
        return self._load(primitives.load_secret, self.secret)

    @cached_property
    def loaded_public(self) -> Any:
        """The library's public key."""
        assert self.public is not None
        return self._load(primitives.load_public, self.public)

    def _load(self, load: Any, data: bytes) -> Any:
        try:
            return load(self.algorithm, data)
        except (ValueError, TypeError):
            raise KeyRefusedError(f"key {self.id!r} holds no {self.algorithm.name} key: make it anew") from None

    def check_use(self, namespace: str, topic: str, at_ms: int) -> None:
        """Refuse a use outside the key's bounds (KeyRefusedError)."""
        if not any(pattern in ("*", namespace) for pattern in self.namespaces):
            raise KeyRefusedError(f"key {self.id!r} is not for namespace {namespace!r}")
        if not any(matches(pattern, topic) for pattern in self.topics):
            raise KeyRefusedError(f"key {self.id!r} is not for topic {topic!r}")
        if at_ms < self.not_before_ms or (self.not_after_ms is not None and at_ms > self.not_after_ms):
            raise KeyRefusedError(f"key {self.id!r} is not valid at that time: rotate it, or wait until it begins")

    def public_part(self) -> MessageKey:
        """The same key without its secret, to be given away."""
        if self.algorithm.is_symmetric:
            raise KeyRefusedError(f"key {self.id!r} is shared: it has no public part")
        return replace(self, secret=None)

    def to_record(self) -> dict[str, Any]:
        """What a provider keeps. It holds the secret, if this does."""
        parts = {"secret": self.secret, "public": None if self.secret is not None else self.public}
        record: dict[str, Any] = {"id": self.id, "algorithm": self.algorithm.name}
        record.update({name: b64encode(value).decode() for name, value in parts.items() if value is not None})
        bounds = {"namespaces": ("*",), "topics": ("*",), "publishers": (), "not_before_ms": 0, "not_after_ms": None}
        for name, default in bounds.items():
            value = getattr(self, name)
            if value != default:
                record[name] = list(value) if isinstance(value, tuple) else value
        return record


def key_of_record(record: Mapping[str, Any]) -> MessageKey:
    """The key that ``to_record`` wrote. Raises KeyRefusedError, and AlgorithmError for its algorithm."""
    unknown = record.keys() - _FIELDS
    if unknown:
        raise KeyRefusedError(f"a key has no field {min(map(str, unknown))!r}")
    key_id = check_key_id(record.get("id", ""))
    values: dict[str, Any] = {name: tuple(_texts(key_id, name, record[name])) for name in _LISTS if name in record}
    for name in _TIMES:
        if type(record.get(name, 0)) is not int:
            raise KeyRefusedError(f"key {key_id!r}: {name} is not a number of milliseconds")
        if name in record:
            values[name] = record[name]
    for name in ("secret", "public"):
        if name in record:
            values[name] = _base64(key_id, name, record[name])
    return MessageKey(key_id, algorithm_of(str(record.get("algorithm", ""))), **values)


def generate_key(key_id: str, algorithm: str, **bounds: Any) -> MessageKey:
    """Make a new key.

    Args:
        key_id: its name.
        algorithm: ``ed25519`` or ``hmac-sha256`` to sign; ``x-wing`` (recommended) and others to encrypt: `speed
            message-key algorithms` lists them.
        bounds: further attributes of MessageKey, as ``publishers`` and ``topics``.

    Raises UnknownAlgorithmError, NotAvailableError, KeyRefusedError.
    """
    row = algorithm_of(algorithm)
    return MessageKey(key_id, row, primitives.generate_secret(row), **bounds)


def _base64(key_id: str, name: str, text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise KeyRefusedError(f"key {key_id!r}: {name} is not Base64") from None


def _texts(key_id: str, name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise KeyRefusedError(f"key {key_id!r}: {name} is not a list of texts")
    return value
