"""Keys as Pulsar's clients have them: a file with one RSA or EC key in PEM."""

from __future__ import annotations

import os
from hashlib import sha256

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from speed.message.algorithms import AES, ASYMMETRIC, Algorithm
from speed.message.errors import KeyRefusedError
from speed.message.keys import MessageKey
from speed.pulsar.crypto import load_private, load_public
from speed.trust.providers import read_file

ALGORITHM = Algorithm("pem", ASYMMETRIC, AES, 0, None, None, strict=False)
"""In no table: messages of SPEED are not encrypted with such a key."""


class PemKey(MessageKey):
    """``secret`` and ``public`` are PEM; a key that is public alone has no ``secret``."""

    def check_loads(self) -> None:
        """It was looked at when it was read."""


class PemFile:
    """Provides the key in a file of this user or root, which nobody else may write, nor read if the key is private."""

    def __init__(self, path: str) -> None:
        self._path = path

    def fetch(self) -> tuple[MessageKey, ...]:
        """Raises KeyUnavailableError, KeyRefusedError."""
        text, mode = read_file(self._path, os.O_NOFOLLOW)
        key = _key(text, self._path)
        if mode & 0o022 or (mode & 0o077 and key.secret is not None):
            raise KeyRefusedError(f"key {self._path}: others may read or write it: chmod 600 {self._path}")
        return (key,)


def _key(text: bytes, path: str) -> PemKey:
    is_private = b"PRIVATE KEY-----" in text
    public = load_private(path, text).public_key() if is_private else load_public(path, text)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return PemKey(sha256(pem).hexdigest()[:32], ALGORITHM, text if is_private else None, pem)
