"""Keys as Pulsar's clients have them: a file with one RSA or EC key in PEM."""

from __future__ import annotations

from hashlib import sha256

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from speed.message.algorithms import AES, ASYMMETRIC, Algorithm
from speed.message.keys import MessageKey
from speed.pulsar.crypto import load_private, load_public

ALGORITHM = Algorithm("pem", ASYMMETRIC, AES, 0, None, None, strict=False)
"""In no table: messages of SPEED are not encrypted with such a key."""


class PemKey(MessageKey):
    """``secret`` and ``public`` are PEM; a key that is public alone has no ``secret``."""

    def check_loads(self) -> None:
        """It was looked at when it was read."""


def read_pem(text: bytes, path: str) -> tuple[PemKey]:
    """The one key in it. Raises KeyRefusedError."""
    is_private = b"PRIVATE KEY-----" in text
    public = load_private(path, text).public_key() if is_private else load_public(path, text)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return (PemKey(sha256(pem).hexdigest()[:32], ALGORITHM, text if is_private else None, pem),)
