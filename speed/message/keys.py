"""A key of messages: what it is, what it may be used for, and how it is written down (M-26).

``cryptography`` has ML-KEM from version 48 on, where its OpenSSL has it.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import shake_256
from typing import Any, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.message.algorithms import MAX_KEY_ID_BYTES, MIN_RSA_BITS, Algorithm, algorithm_of
from speed.message.errors import KeyRefusedError, NotAvailableError, WeakAlgorithmError
from speed.wire import lazily
from speed.wire.names import matches

# Keys of each algorithm as the library has them: loaded, generated, made public (M-26).

_X_BYTES = 32
_XWING_MLKEM_BYTES = 1184


class HybridPublic(NamedTuple):
    """X25519's and ML-KEM's public keys."""

    x25519: Any
    mlkem: Any


class HybridSecret(NamedTuple):
    """X25519's and ML-KEM's private keys."""

    x25519: Any
    mlkem: Any

    def public(self) -> HybridPublic:
        return HybridPublic(self.x25519.public_key(), self.mlkem.public_key())


def load_secret(algorithm: Algorithm, data: bytes) -> Any:
    """The private key in ``data``; ValueError if it is none, NotAvailableError, WeakAlgorithmError."""
    return _FAMILIES[_family(algorithm)].secret(algorithm, data)


def load_public(algorithm: Algorithm, data: bytes) -> Any:
    """The public key in ``data``; raises as ``load_secret``."""
    return _FAMILIES[_family(algorithm)].public(algorithm, data)


def public_bytes(algorithm: Algorithm, secret: Any) -> bytes:
    """The public bytes of a loaded private key."""
    family = _family(algorithm)
    if family == "rsa":
        der, spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return bytes(secret.public_key().public_bytes(der, spki))
    if family in ("hybrid", "x-wing"):
        x25519_bytes, mlkem_bytes = (key.public_bytes_raw() for key in secret.public())
        return bytes(mlkem_bytes + x25519_bytes if family == "x-wing" else x25519_bytes + mlkem_bytes)
    return bytes(secret.public_key().public_bytes_raw())


def generate_secret(algorithm: Algorithm) -> bytes:
    """New secret bytes, from OpenSSL's generator."""
    if _family(algorithm) != "rsa":
        size = algorithm.secret or 32
        return b"".join([AESGCM.generate_key(256) for _ in range(size // 32)])
    key = rsa.generate_private_key(65537, algorithm.output * 8)
    der, pkcs8 = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    return key.private_bytes(der, pkcs8, serialization.NoEncryption())


def _family(algorithm: Algorithm) -> str:
    name = algorithm.name
    if name in ("ed25519", "x-wing"):
        return name
    if name == "x25519-ml-kem-1024":
        return "hybrid"
    return name.rpartition("-")[0] if name.startswith("ml-kem") else name.partition("-")[0]


def mlkem_class(name: str, kind: str) -> Any:
    """``MLKEM768PrivateKey`` and the like; NotAvailableError where the library has none."""
    try:
        with lazily.guard:
            from cryptography.hazmat.primitives.asymmetric import mlkem
    except ImportError:
        raise NotAvailableError(f"{name} needs cryptography 48 or newer: install speed-ipc[messages]") from None
    return getattr(mlkem, f"MLKEM{name.rpartition('-')[2]}{kind}")


def load_mlkem_secret(name: str, seed: bytes) -> Any:
    try:
        return mlkem_class(name, "PrivateKey").from_seed_bytes(seed)
    except UnsupportedAlgorithm:
        raise NotAvailableError(f"{name} is not in the OpenSSL that cryptography uses here") from None


def load_mlkem_public(name: str, data: bytes) -> Any:
    try:
        return mlkem_class(name, "PublicKey").from_public_bytes(data)
    except UnsupportedAlgorithm:
        raise NotAvailableError(f"{name} is not in the OpenSSL that cryptography uses here") from None


def _rsa_secret(algorithm: Algorithm, data: bytes) -> Any:
    key = serialization.load_der_private_key(data, None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError
    return _checked_rsa(algorithm, key)


def _rsa_public(algorithm: Algorithm, data: bytes) -> Any:
    key = serialization.load_der_public_key(data)
    if not isinstance(key, rsa.RSAPublicKey):
        raise ValueError
    return _checked_rsa(algorithm, key)


def _checked_rsa(algorithm: Algorithm, key: Any) -> Any:
    if key.key_size < MIN_RSA_BITS:
        raise WeakAlgorithmError(f"an RSA key of {key.key_size} bits is too short: use {MIN_RSA_BITS} or more")
    if key.key_size != algorithm.output * 8:
        raise ValueError
    return key


_FIELD = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})


def is_of_small_order(point: bytes) -> bool:
    """Whether 32 bytes are the encoding of such a point of Ed25519, the odd ones included."""
    return (int.from_bytes(point, "little") & (1 << 255) - 1) % _FIELD in _SMALL_ORDER


def _ed25519_public(_: Algorithm, data: bytes) -> Any:
    if is_of_small_order(data):
        raise ValueError
    return ed25519.Ed25519PublicKey.from_public_bytes(data)


def _x25519_secret(_: Algorithm, data: bytes) -> Any:
    return x25519.X25519PrivateKey.from_private_bytes(data)


def _x25519_public(_: Algorithm, data: bytes) -> Any:
    return x25519.X25519PublicKey.from_public_bytes(data)


def _hybrid_secret(algorithm: Algorithm, data: bytes) -> HybridSecret:
    return HybridSecret(_x25519_secret(algorithm, data[:_X_BYTES]), load_mlkem_secret("ml-kem-1024", data[_X_BYTES:]))


def _hybrid_public(algorithm: Algorithm, data: bytes) -> HybridPublic:
    return HybridPublic(_x25519_public(algorithm, data[:_X_BYTES]), load_mlkem_public("ml-kem-1024", data[_X_BYTES:]))


def _xwing_secret(algorithm: Algorithm, seed: bytes) -> HybridSecret:
    expanded = shake_256(seed).digest(96)
    return HybridSecret(_x25519_secret(algorithm, expanded[64:]), load_mlkem_secret("ml-kem-768", expanded[:64]))


def _xwing_public(algorithm: Algorithm, data: bytes) -> HybridPublic:
    mlkem, x_bytes = data[:_XWING_MLKEM_BYTES], data[_XWING_MLKEM_BYTES:]
    return HybridPublic(_x25519_public(algorithm, x_bytes), load_mlkem_public("ml-kem-768", mlkem))


class _Family(NamedTuple):
    secret: Callable[[Algorithm, bytes], Any]
    public: Callable[[Algorithm, bytes], Any]


_FAMILIES = {
    "ed25519": _Family(
        lambda _, data: ed25519.Ed25519PrivateKey.from_private_bytes(data),
        _ed25519_public,
    ),
    "rsa": _Family(_rsa_secret, _rsa_public),
    "x25519": _Family(_x25519_secret, _x25519_public),
    "ml-kem": _Family(
        lambda row, data: load_mlkem_secret(row.name, data), lambda row, data: load_mlkem_public(row.name, data)
    ),
    "hybrid": _Family(_hybrid_secret, _hybrid_public),
    "x-wing": _Family(_xwing_secret, _xwing_public),
}
"""How the bytes of M-26 become keys of the library."""


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
            object.__setattr__(self, "public", public_bytes(self.algorithm, self.loaded_secret))
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
        return self._load(load_secret, self.secret)

    @cached_property
    def loaded_public(self) -> Any:
        """The library's public key."""
        assert self.public is not None
        return self._load(load_public, self.public)

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
    return MessageKey(key_id, row, generate_secret(row), **bounds)


def _base64(key_id: str, name: str, text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise KeyRefusedError(f"key {key_id!r}: {name} is not Base64") from None


def _texts(key_id: str, name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise KeyRefusedError(f"key {key_id!r}: {name} is not a list of texts")
    return value
