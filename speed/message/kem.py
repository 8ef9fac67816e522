"""How one recipient gets the data key: a secret for each algorithm, one way to wrap (M-21).

Each algorithm gives (encapsulated key, secret) for a public key, and the secret again for the private one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from speed.message.algorithms import AES, DATA_KEY_BYTES, WRAPPED_KEY_BYTES
from speed.message.errors import EncryptionError, NotAvailableError
from speed.message.keys import MessageKey
from speed.wire.seal import hkdf

_X_BYTES = 32
_KEY_DOMAIN = b"speed/1 message key"


class Wrapped(NamedTuple):
    """A data key for one recipient (``EncryptionRecipient`` without the key id)."""

    encapsulated_key: bytes
    wrapped_key: bytes


def lp(data: bytes) -> bytes:
    """``data`` behind its length as 8 bytes."""
    return len(data).to_bytes(8, "big") + data


def cipher(name: str, key: bytes) -> AESGCM | ChaCha20Poly1305:
    """The AEAD called ``name``."""
    return AESGCM(key) if name == AES else ChaCha20Poly1305(key)


def wrap(key: MessageKey, data_key: bytes, iv: bytes, context_hash: bytes) -> Wrapped:
    """The data key for the holder of ``key``'s secret."""
    if key.algorithm.name == "x-wing":
        suite, info = hpke_suite(), key_info(key, b"", context_hash)
        sealed = suite.encrypt(data_key, hpke_public(key), info)
        return Wrapped(sealed[: key.algorithm.output], sealed[key.algorithm.output :])
    encapsulated, secret = _KEMS[_kem(key)].encapsulate(key)
    wrapping = wrapping_key(key, secret, encapsulated, context_hash)
    return Wrapped(encapsulated, cipher(key.algorithm.cipher, wrapping).encrypt(iv, data_key, None))


def unwrap(key: MessageKey, wrapped: Wrapped, iv: bytes, context_hash: bytes) -> bytes:
    """The data key. EncryptionError without a reason for all that does not open (M-21)."""
    encapsulated, sealed = wrapped
    if len(encapsulated) != key.algorithm.output:
        raise EncryptionError(
            f"encapsulated_key: has {len(encapsulated)} bytes, {key.algorithm.name} has another length"
        )
    if len(sealed) != WRAPPED_KEY_BYTES:
        raise EncryptionError(f"wrapped_key: has {len(sealed)} bytes and needs {WRAPPED_KEY_BYTES}")
    try:
        if key.algorithm.name == "x-wing":
            info = key_info(key, b"", context_hash)
            return bytes(hpke_suite().decrypt(encapsulated + sealed, hpke_secret(key), info))
        secret = _KEMS[_kem(key)].decapsulate(key, encapsulated)
        wrapping = wrapping_key(key, secret, encapsulated, context_hash)
        return cipher(key.algorithm.cipher, wrapping).decrypt(iv, sealed, None)
    except (InvalidTag, ValueError):
        raise EncryptionError(f"the data key does not open with key {key.id!r}") from None


def wrapping_key(key: MessageKey, secret: bytes, encapsulated: bytes, context_hash: bytes) -> bytes:
    """HKDF-SHA256 of the secret, bound to all that led to it."""
    return hkdf(secret, key_info(key, encapsulated, context_hash))


def key_info(key: MessageKey, encapsulated: bytes, context_hash: bytes) -> bytes:
    parts = (_KEY_DOMAIN, key.algorithm.name.encode(), encapsulated, key.public or b"", key.id.encode())
    return b"".join(map(lp, parts)) + context_hash


@cache
def hpke_suite() -> Any:
    """HPKE with X-Wing, HKDF-SHA256 and AES-256-GCM; NotAvailableError where the library has none."""
    try:
        from cryptography.hazmat.primitives import hpke

        return hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
    except (ImportError, AttributeError):
        raise NotAvailableError("x-wing needs cryptography 48 or newer: install speed-ipc[messages]") from None


def hpke_public(key: MessageKey) -> Any:
    from cryptography.hazmat.primitives import hpke

    return hpke.MLKEM768X25519PublicKey(key.loaded_public.mlkem, key.loaded_public.x25519)


def hpke_secret(key: MessageKey) -> Any:
    from cryptography.hazmat.primitives import hpke

    return hpke.MLKEM768X25519PrivateKey(key.loaded_secret.mlkem, key.loaded_secret.x25519)


def oaep(label: bytes | None = None) -> padding.OAEP:
    """OAEP with SHA-256 throughout."""
    return padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label)


def _kem(key: MessageKey) -> str:
    return "symmetric" if key.algorithm.is_symmetric else key.algorithm.name.rpartition("-")[0]


def _shared_encapsulate(key: MessageKey) -> tuple[bytes, bytes]:
    assert key.secret is not None
    return AESGCM.generate_key(256), key.secret


def _shared_decapsulate(key: MessageKey, encapsulated: bytes) -> bytes:
    assert key.secret is not None
    return key.secret


def _rsa_encapsulate(key: MessageKey) -> tuple[bytes, bytes]:
    secret = AESGCM.generate_key(256)
    return key.loaded_public.encrypt(secret, oaep()), secret


def _rsa_decapsulate(key: MessageKey, encapsulated: bytes) -> bytes:
    secret: bytes = key.loaded_secret.decrypt(encapsulated, oaep())
    if len(secret) != DATA_KEY_BYTES:
        raise ValueError
    return secret


def _x25519_exchange(secret: Any, public: Any) -> bytes:
    """Raises ValueError for an all-zero result (OpenSSL refuses it)."""
    shared: bytes = secret.exchange(public)
    if not any(shared):
        raise ValueError
    return shared


def _x25519_encapsulate(public: Any) -> tuple[bytes, bytes]:
    ephemeral = x25519.X25519PrivateKey.generate()
    return ephemeral.public_key().public_bytes_raw(), _x25519_exchange(ephemeral, public)


def _x25519_decapsulate(secret: Any, encapsulated: bytes) -> bytes:
    return _x25519_exchange(secret, x25519.X25519PublicKey.from_public_bytes(encapsulated))


def _mlkem_encapsulate(key: MessageKey) -> tuple[bytes, bytes]:
    secret, encapsulated = key.loaded_public.encapsulate()
    return encapsulated, secret


def _hybrid_encapsulate(key: MessageKey) -> tuple[bytes, bytes]:
    ephemeral, classical = _x25519_encapsulate(key.loaded_public.x25519)
    secret, encapsulated = key.loaded_public.mlkem.encapsulate()
    return ephemeral + encapsulated, secret + classical


def _hybrid_decapsulate(key: MessageKey, encapsulated: bytes) -> bytes:
    classical = _x25519_decapsulate(key.loaded_secret.x25519, encapsulated[:_X_BYTES])
    secret: bytes = key.loaded_secret.mlkem.decapsulate(encapsulated[_X_BYTES:])
    return secret + classical


class _Kem(NamedTuple):
    encapsulate: Callable[[MessageKey], tuple[bytes, bytes]]
    decapsulate: Callable[[MessageKey, bytes], bytes]


_MLKEM = _Kem(_mlkem_encapsulate, lambda key, encapsulated: bytes(key.loaded_secret.decapsulate(encapsulated)))
_KEMS = {
    "symmetric": _Kem(_shared_encapsulate, _shared_decapsulate),
    "rsa-oaep": _Kem(_rsa_encapsulate, _rsa_decapsulate),
    "x25519-chacha20": _Kem(
        lambda key: _x25519_encapsulate(key.loaded_public),
        lambda key, encapsulated: _x25519_decapsulate(key.loaded_secret, encapsulated),
    ),
    "ml-kem": _MLKEM,
    "x25519-ml-kem": _Kem(_hybrid_encapsulate, _hybrid_decapsulate),
}
"""The column *encapsulation* of M-19; X-Wing is HPKE's own."""
