"""A payload encrypted for its readers, bound to the message that carries it (M-20 to M-22).

Each algorithm gives (encapsulated key, secret) for a public key, and the secret again for the private one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from speed.errors import PayloadTooLargeError
from speed.message.algorithms import (
    AES,
    DATA_KEY_BYTES,
    IV_BYTES,
    MAX_RECIPIENTS,
    TAG_BYTES,
    WRAPPED_KEY_BYTES,
    Algorithm,
    algorithm_of,
)
from speed.message.errors import EncryptionError, NoRecipientKeyError, NotAvailableError
from speed.message.keys import MessageKey
from speed.message.view import MessageView
from speed.wire import lazily
from speed.wire.seal import hkdf

# How one recipient gets the data key: a secret for each algorithm, one way to wrap (M-21).

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
        with lazily.guard:
            from cryptography.hazmat.primitives import hpke

        return hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
    except (ImportError, AttributeError):
        raise NotAvailableError("x-wing needs cryptography 48 or newer: install speed-ipc[messages]") from None


def hpke_public(key: MessageKey) -> Any:
    with lazily.guard:
        from cryptography.hazmat.primitives import hpke

    return hpke.MLKEM768X25519PublicKey(key.loaded_public.mlkem, key.loaded_public.x25519)


def hpke_secret(key: MessageKey) -> Any:
    with lazily.guard:
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


_PAYLOAD_DOMAIN = b"speed/1 message payload"
_OAEP_OVERHEAD = 66

FindKey = Callable[[str], MessageKey | None]
"""The key of an id that this reader holds, or None."""


class Described(NamedTuple):
    """What of a message its encrypted payload is bound to (M-20)."""

    message_id: str
    topic: str
    namespace: str
    content_type: str
    type_url: str
    content_encoding: str
    uncompressed_bytes: int
    schema_hash: str
    data_classification: str
    aad: bytes


def describe(view: MessageView) -> Described:
    """What a received message says of itself."""
    security = view.security
    return Described(
        view.message_id,
        view.topic,
        view.namespace,
        view.content_type,
        view.type_url,
        view.content_encoding,
        view.uncompressed_bytes,
        view.schema.schema_hash,
        security.data_classification,
        security.encryption.aad,
    )


def context_hash(algorithm: Algorithm, described: Described, key_ids: Sequence[str]) -> bytes:
    """SHA-256 of the context: the associated data of the payload."""
    *texts, size, schema_hash, classification, aad = described
    parts = [_PAYLOAD_DOMAIN, algorithm.name.encode(), *(text.encode() for text in texts)]
    context = b"".join(map(lp, parts)) + size.to_bytes(8, "big", signed=True)
    context += b"".join(map(lp, (schema_hash.encode(), classification.encode(), aad)))
    context += len(key_ids).to_bytes(4, "big") + b"".join(lp(key_id.encode()) for key_id in key_ids)
    return sha256(context).digest()


def encrypt(data: Any, keys: Sequence[MessageKey], described: Described, iv: bytes) -> tuple[bytes, Any]:
    """The ciphertext of ``data`` for the holders of ``keys``, and its EncryptionMetadata.

    ``iv`` is random. Raises EncryptionError for keys that cannot be recipients of one message.
    """
    algorithm = _common_algorithm(keys)
    bound_to = context_hash(algorithm, described, [key.id for key in keys])
    data_key = AESGCM.generate_key(256)
    metadata = _metadata(algorithm, described)
    metadata.iv = iv
    for key in keys:
        encapsulated, wrapped = wrap(key, data_key, iv, bound_to)
        metadata.recipients.add(key_id=key.id, encapsulated_key=encapsulated, wrapped_key=wrapped)
    return cipher(algorithm.cipher, data_key).encrypt(iv, data, bound_to), metadata


def encrypt_directly(data: Any, key: MessageKey, described: Described) -> tuple[bytes, Any]:
    """RSA-OAEP of a small payload itself (M-22); PayloadTooLargeError above the key's bound."""
    if not key.algorithm.name.startswith("rsa-oaep"):
        raise EncryptionError(f"key {key.id!r} is of {key.algorithm.name}: only rsa-oaep encrypts a payload directly")
    limit = key.algorithm.output - _OAEP_OVERHEAD
    if len(data) > limit:
        raise PayloadTooLargeError(
            f"{len(data)} bytes are too many for {key.algorithm.name} itself, which takes {limit}: leave `direct` out"
        )
    label = context_hash(key.algorithm, described, [key.id])
    metadata = _metadata(key.algorithm, described)
    metadata.key_id = key.id
    return key.loaded_public.encrypt(bytes(data), oaep(label)), metadata


def decrypt(view: MessageView, find: FindKey, fips_mode: str = "off") -> tuple[bytes, MessageKey]:
    """The payload as it was before encryption, and the key that opened it.

    Raises EncryptionError, NoRecipientKeyError, AlgorithmError, KeyRefusedError for a key that is not for that message.
    """
    metadata = view.security.encryption
    algorithm = algorithm_of(metadata.algorithm, fips_mode)
    if algorithm.is_signature or metadata.encryption_type != algorithm.type:
        raise EncryptionError(f"encryption_type: {metadata.encryption_type} is not that of {algorithm.name}")
    if not metadata.recipients and algorithm.name.startswith("rsa-oaep"):
        return _decrypt_directly(view, algorithm, find)
    key_ids = _checked_recipients(metadata)
    if len(metadata.iv) != IV_BYTES:
        raise EncryptionError(f"iv: has {len(metadata.iv)} bytes and needs {IV_BYTES}")
    if len(view.payload_bytes) < TAG_BYTES:
        raise EncryptionError(f"payload: has {len(view.payload_bytes)} bytes, less than a tag")
    place, key = _first_held(key_ids, algorithm, find)
    key.check_use(view.namespace, view.topic, view.published_at_ms)
    bound_to = context_hash(algorithm, describe(view), key_ids)
    recipient = metadata.recipients[place]
    wrapped = Wrapped(recipient.encapsulated_key, recipient.wrapped_key)
    data_key = unwrap(key, wrapped, metadata.iv, bound_to)
    try:
        return cipher(algorithm.cipher, data_key).decrypt(metadata.iv, view.payload_bytes, bound_to), key
    except (InvalidTag, ValueError):
        raise EncryptionError("the payload does not open: it or what describes it was altered") from None


def _decrypt_directly(view: MessageView, algorithm: Algorithm, find: FindKey) -> tuple[bytes, MessageKey]:
    metadata = view.security.encryption
    if len(view.payload_bytes) != algorithm.output or metadata.iv:
        raise EncryptionError(f"payload: {algorithm.name} itself makes {algorithm.output} bytes and has no iv")
    _, key = _first_held([metadata.key_id], algorithm, find)
    key.check_use(view.namespace, view.topic, view.published_at_ms)
    label = context_hash(algorithm, describe(view), [metadata.key_id])
    try:
        return key.loaded_secret.decrypt(bytes(view.payload_bytes), oaep(label)), key
    except ValueError:
        raise EncryptionError(f"the payload does not open with key {key.id!r}") from None


def _common_algorithm(keys: Sequence[MessageKey]) -> Algorithm:
    if not 0 < len(keys) <= MAX_RECIPIENTS:
        raise EncryptionError(f"recipients: are {len(keys)}, allowed are 1 to {MAX_RECIPIENTS}")
    names = sorted({key.algorithm.name for key in keys})
    if len(names) > 1 or keys[0].algorithm.is_signature:
        raise EncryptionError(f"recipients: have keys of {', '.join(names)}; one message has one encryption algorithm")
    if len({key.id for key in keys}) != len(keys):
        raise EncryptionError("recipients: a key id stands there twice")
    return keys[0].algorithm


def _checked_recipients(metadata: Any) -> list[str]:
    if not 0 < len(metadata.recipients) <= MAX_RECIPIENTS:
        raise EncryptionError(f"recipients: are {len(metadata.recipients)}, allowed are 1 to {MAX_RECIPIENTS}")
    key_ids = [recipient.key_id for recipient in metadata.recipients]
    if len(set(key_ids)) != len(key_ids):
        raise EncryptionError("recipients: a key id stands there twice")
    return key_ids


def _first_held(key_ids: Sequence[str], algorithm: Algorithm, find: FindKey) -> tuple[int, MessageKey]:
    for place, key_id in enumerate(key_ids):
        key = find(key_id)
        if key is not None and key.secret is not None:
            if key.algorithm is not algorithm:
                raise EncryptionError(f"algorithm: is {algorithm.name}, and key {key.id!r} is of {key.algorithm.name}")
            return place, key
    shown = ", ".join(key_id[:40] for key_id in key_ids[:3])
    raise NoRecipientKeyError(f"the payload is for holders of {shown!r}, and none of their keys is here")


def _metadata(algorithm: Algorithm, described: Described) -> Any:
    metadata = lazily.load("speed.message.message_pb2").EncryptionMetadata(
        algorithm=algorithm.name, encryption_type=algorithm.type
    )
    if described.aad:
        metadata.aad = described.aad
    return metadata
