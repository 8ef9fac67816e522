"""Keys of each algorithm as the library has them: loaded, generated, made public (M-26).

``cryptography`` has ML-KEM from version 48 on, where its OpenSSL has it.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import shake_256
from typing import Any, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.message.algorithms import MIN_RSA_BITS, Algorithm
from speed.message.errors import NotAvailableError, WeakAlgorithmError

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
