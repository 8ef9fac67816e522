"""A data key wrapped for an elliptic-curve key as Pulsar's Java client does, with BouncyCastle's ECIES.

The wrapped key is V ‖ C ‖ T: the ephemeral public key as an uncompressed point, the data key XOR a key stream, and
HMAC-SHA1 over C and the length of an absent encoding. KDF2 with SHA-1 over V and the agreed secret makes the key of the
HMAC (128 bits) and, behind it, the key stream. SHA-1 is what the format asks for; neither use needs it to resist
collisions.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from speed.message.errors import EncryptionError

_MAC_KEY_BYTES = 16
_TAG_BYTES = 20
_ABSENT_ENCODING = bytes(8)


def wrap(public: ec.EllipticCurvePublicKey, data: bytes) -> bytes:
    """``data`` for the holder of the private key."""
    ephemeral = ec.generate_private_key(public.curve)
    point = ephemeral.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    mac_key, stream = _derived(point, ephemeral.exchange(ec.ECDH(), public), len(data))
    hidden = _xor(data, stream)
    return point + hidden + _tag(mac_key, hidden)


def unwrap(private: ec.EllipticCurvePrivateKey, wrapped: bytes) -> bytes:
    """What ``wrap`` was given. EncryptionError if it was for another key, or altered."""
    point_bytes = 1 + 2 * ((private.curve.key_size + 7) // 8)
    if len(wrapped) <= point_bytes + _TAG_BYTES:
        raise EncryptionError("the data key is too short for its elliptic curve")
    point, hidden, tag = wrapped[:point_bytes], wrapped[point_bytes:-_TAG_BYTES], wrapped[-_TAG_BYTES:]
    try:
        ephemeral = ec.EllipticCurvePublicKey.from_encoded_point(private.curve, point)
    except ValueError:
        raise EncryptionError("the data key begins with no point of its curve") from None
    mac_key, stream = _derived(point, private.exchange(ec.ECDH(), ephemeral), len(hidden))
    if not hmac.compare_digest(_tag(mac_key, hidden), tag):
        raise EncryptionError("the data key does not open with this key")
    return _xor(hidden, stream)


def _derived(point: bytes, secret: bytes, size: int) -> tuple[bytes, bytes]:
    """The key of the HMAC, and ``size`` bytes of key stream."""
    needed, made, counter = _MAC_KEY_BYTES + size, b"", 1
    while len(made) < needed:
        made += hashlib.sha1(point + secret + counter.to_bytes(4, "big")).digest()  # noqa: S324 - the format's
        counter += 1
    return made[:_MAC_KEY_BYTES], made[_MAC_KEY_BYTES:needed]


def _tag(mac_key: bytes, hidden: bytes) -> bytes:
    return hmac.digest(mac_key, hidden + _ABSENT_ENCODING, "sha1")


def _xor(data: bytes, stream: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(data, stream, strict=True))
