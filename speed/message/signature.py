"""Signatures over the exact bytes of a message (M-16, M-17)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature

from speed.message.algorithms import HMAC, algorithm_of
from speed.message.encryption import lp
from speed.message.errors import KeyRefusedError, SignatureError, UnsignedError, UntrustedError
from speed.message.keys import MessageKey, is_of_small_order
from speed.message.view import MessageView
from speed.message.writing import SignedParts, signed_parts, with_signature
from speed.wire.names import matches

_DOMAIN: Final = lp(b"speed/1 message signature")
_POINT_BYTES: Final = 32
POLICIES: Final = ("off", "verify", "require")


def signing_input(data: bytes | memoryview, parts: SignedParts) -> bytes:
    """The bytes that are signed (M-16): one copy of the message."""
    size = sum(end - start for start, end in parts.spans)
    rest = [data[start:end] for start, end in parts.spans]
    return b"".join((_DOMAIN, size.to_bytes(8, "big"), *rest, lp(parts.security)))


def sign(data: bytes, key: MessageKey) -> bytes:
    """The message with a signature by ``key``; its security context already names key and algorithm.

    Raises KeyRefusedError for a key without its secret, or for encryption.
    """
    if not key.algorithm.is_signature or key.secret is None:
        raise KeyRefusedError(f"key {key.id!r} cannot sign: use a secret ed25519 or hmac-sha256 key")
    covered = signing_input(data, signed_parts(data))
    if key.algorithm.name == HMAC:
        return with_signature(data, hmac.digest(key.secret, covered, sha256))
    signature: bytes = key.loaded_secret.sign(covered)
    return with_signature(data, signature)


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys whose signatures a receiver believes, by id; each says its publishers (M-17)."""

    keys: Mapping[str, MessageKey]

    def verify(self, view: MessageView, fips_mode: str = "off") -> MessageKey | None:
        """The key that signed; None for a message without a signature. Who is not trusted costs no look at the payload.

        Raises SignatureError, UntrustedError, WeakAlgorithmError.
        """
        parts = signed_parts(view.data)
        if not parts.signatures:
            return None
        if len(parts.signatures) > 1:
            raise SignatureError("signature: stands there more than once")
        key = self._trusted(view)
        algorithm_of(key.algorithm.name, fips_mode)
        if not holds(key, parts.signatures[0], signing_input(view.data, parts)):
            raise SignatureError(f"the signature of {view.message_id[:64]!r} does not hold under key {key.id!r}")
        return key

    def _trusted(self, view: MessageView) -> MessageKey:
        security = view.security
        key = self.keys.get(security.signature_key_id)
        if key is None or not key.algorithm.is_signature:
            raise UntrustedError(f"signature_key_id: {security.signature_key_id[:64]!r} is not trusted here")
        if not any(matches(pattern, security.publisher_id) for pattern in key.publishers if security.publisher_id):
            raise UntrustedError(f"publisher_id: key {key.id!r} does not speak for {security.publisher_id[:64]!r}")
        if security.signature_algorithm != key.algorithm.name:
            said = security.signature_algorithm[:32]
            raise UntrustedError(f"signature_algorithm: is {said!r}, and key {key.id!r} is of {key.algorithm.name}")
        try:
            key.check_use(view.namespace, view.topic, view.published_at_ms)
        except KeyRefusedError as error:
            raise UntrustedError(str(error)) from None
        return key


def verify(view: MessageView, trusted: TrustedKeys, policy: str, fips_mode: str = "off") -> MessageKey | None:
    """Hold a message to a policy of M-18; the key that signed it, if any was looked at."""
    if policy == "off":
        return None
    key = trusted.verify(view, fips_mode)
    if key is None and policy == "require":
        raise UnsignedError(f"message {view.message_id[:64]!r} is not signed, and this node requires it")
    return key


def holds(key: MessageKey, signature: bytes, covered: bytes) -> bool:
    """Whether the signature of ``covered`` verifies under the key; lengths that cannot be do not."""
    if key.algorithm.name == HMAC:
        assert key.secret is not None
        return hmac.compare_digest(hmac.digest(key.secret, covered, sha256), signature)
    if is_of_small_order(signature[:_POINT_BYTES]):  # which OpenSSL takes
        return False
    try:
        key.loaded_public.verify(signature, covered)
    except InvalidSignature:
        return False
    return True


__all__ = ["POLICIES", "TrustedKeys", "holds", "sign", "signing_input", "verify"]
