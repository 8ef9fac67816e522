"""Payloads encrypted as Pulsar's Java client does: AES-256-GCM under a data key, which is wrapped for each recipient.

Nothing here opens a file or a socket or reads a clock.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.message.errors import EncryptionError, KeyRefusedError, NoRecipientKeyError
from speed.message.keys import MessageKey
from speed.pulsar import ecies

IV_BYTES = 12
TAG_BYTES = 16
DATA_KEY_BYTES = (16, 24, 32)
MIN_RSA_BITS = 2048
MAX_RECIPIENTS = 64
MAX_OPENED_KEYS = 256
"""Data keys that a reader remembers: to open one with RSA takes a millisecond."""

Key: TypeAlias = bytes | str | MessageKey
"""A key: its PEM, or a MessageKey of an RSA algorithm as key providers give it."""


def load_public(name: str, key: Key) -> Any:
    """The public key of a recipient. KeyRefusedError for what is none, or is too short."""
    if isinstance(key, MessageKey):
        return _checked(name, key.loaded_public, _PUBLIC)
    return _checked(name, _loaded(name, key, serialization.load_pem_public_key), _PUBLIC)


def load_private(name: str, key: Key) -> Any:
    """The private key of a reader; its PEM has no password. KeyRefusedError for what is none, or is too short."""
    if isinstance(key, MessageKey):
        return _checked(name, key.loaded_secret, _PRIVATE)
    return _checked(name, _loaded(name, key, _load_pem_private), _PRIVATE)


class DataKey:
    """One data key and its wrapped forms. At most 2³² payloads may be encrypted with it."""

    def __init__(self, recipients: Mapping[str, Any]) -> None:
        if not 0 < len(recipients) <= MAX_RECIPIENTS:
            raise KeyRefusedError(f"there are {len(recipients)} recipients: give 1 to {MAX_RECIPIENTS}")
        data_key = AESGCM.generate_key(256)
        self.wrapped = {name: _wrap(public, data_key) for name, public in recipients.items()}
        self._cipher = AESGCM(data_key)

    def encrypt(self, payload: bytes) -> tuple[bytes, bytes]:
        """The ciphertext with its tag, and the IV."""
        iv = secrets.token_bytes(IV_BYTES)
        return self._cipher.encrypt(iv, payload, None), iv


class Decryptor:
    """Opens payloads with any of the private keys it has, by the names that their senders gave the keys."""

    def __init__(self, private_keys: Mapping[str, Any]) -> None:
        self._keys = dict(private_keys)
        self._opened: OrderedDict[bytes, AESGCM] = OrderedDict()

    def decrypt(self, payload: bytes, wrapped: Mapping[str, bytes], iv: bytes) -> bytes:
        """The payload. Raises NoRecipientKeyError, EncryptionError."""
        if len(iv) != IV_BYTES or len(payload) < TAG_BYTES:
            raise EncryptionError("the payload is shorter than its tag, or its IV has another length")
        held = [name for name in wrapped if name in self._keys]
        if not held:
            raise NoRecipientKeyError("the payload is encrypted for keys of other names: give this consumer such a key")
        for name in held:
            try:
                return self._cipher(name, wrapped[name]).decrypt(iv, payload, None)
            except (EncryptionError, InvalidTag):
                continue
        raise EncryptionError("the payload does not open with the keys of its names: compare both sides' keys")

    def _cipher(self, name: str, value: bytes) -> AESGCM:
        known = self._opened.pop(value, None)
        cipher = known or AESGCM(_unwrap(self._keys[name], value))
        self._opened[value] = cipher
        if len(self._opened) > MAX_OPENED_KEYS:
            self._opened.popitem(last=False)
        return cipher


_PUBLIC = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey)
_PRIVATE = (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)


def _load_pem_private(pem: bytes) -> Any:
    return serialization.load_pem_private_key(pem, None)


def _loaded(name: str, key: bytes | str, load: Any) -> Any:
    try:
        return load(key.encode() if isinstance(key, str) else key)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyRefusedError(
            f"key {name!r} is no PEM of an RSA or EC key on a named curve, without password"
        ) from None


def _checked(name: str, key: Any, kinds: tuple[type, ...]) -> Any:
    if not isinstance(key, kinds):
        raise KeyRefusedError(f"key {name!r} is neither RSA nor EC: Pulsar's clients know no other")
    if isinstance(key, rsa.RSAPublicKey | rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        raise KeyRefusedError(f"key {name!r} has {key.key_size} bits: use {MIN_RSA_BITS} or more")
    return key


def _oaep() -> padding.OAEP:
    return padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303 - Pulsar's choice


def _wrap(public: Any, data_key: bytes) -> bytes:
    if isinstance(public, rsa.RSAPublicKey):
        return public.encrypt(data_key, _oaep())
    return ecies.wrap(public, data_key)


def _unwrap(private: Any, value: bytes) -> bytes:
    try:
        opened = (
            private.decrypt(value, _oaep()) if isinstance(private, rsa.RSAPrivateKey) else ecies.unwrap(private, value)
        )
    except ValueError:
        raise EncryptionError("the data key does not open with this key") from None
    if len(opened) not in DATA_KEY_BYTES:
        raise EncryptionError("what opens with this key is no key of AES")
    return opened
