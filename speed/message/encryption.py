"""A payload encrypted for its readers, bound to the message that carries it (M-20 to M-22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.errors import PayloadTooLargeError
from speed.message import kem
from speed.message.algorithms import IV_BYTES, MAX_RECIPIENTS, TAG_BYTES, Algorithm, algorithm_of
from speed.message.errors import EncryptionError, NoRecipientKeyError
from speed.message.keys import MessageKey
from speed.wire import lazily
from speed.wire.message import MessageView

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
    context = b"".join(map(kem.lp, parts)) + size.to_bytes(8, "big", signed=True)
    context += b"".join(map(kem.lp, (schema_hash.encode(), classification.encode(), aad)))
    context += len(key_ids).to_bytes(4, "big") + b"".join(kem.lp(key_id.encode()) for key_id in key_ids)
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
        encapsulated, wrapped = kem.wrap(key, data_key, iv, bound_to)
        metadata.recipients.add(key_id=key.id, encapsulated_key=encapsulated, wrapped_key=wrapped)
    return kem.cipher(algorithm.cipher, data_key).encrypt(iv, data, bound_to), metadata


def encrypt_directly(data: Any, key: MessageKey, described: Described) -> tuple[bytes, Any]:
    """RSA-OAEP of a small payload itself (M-22); PayloadTooLargeError above the key's bound."""
    if not key.algorithm.name.startswith("rsa-oaep"):
        raise EncryptionError(f"key {key.id!r} is of {key.algorithm.name}: only rsa-oaep encrypts a payload directly")
    most = key.algorithm.output - _OAEP_OVERHEAD
    if len(data) > most:
        raise PayloadTooLargeError(
            f"{len(data)} bytes are too many for {key.algorithm.name} itself, which takes {most}: leave `direct` out"
        )
    label = context_hash(key.algorithm, described, [key.id])
    metadata = _metadata(key.algorithm, described)
    metadata.key_id = key.id
    return key.loaded_public.encrypt(bytes(data), kem.oaep(label)), metadata


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
    wrapped = kem.Wrapped(recipient.encapsulated_key, recipient.wrapped_key)
    data_key = kem.unwrap(key, wrapped, metadata.iv, bound_to)
    try:
        return kem.cipher(algorithm.cipher, data_key).decrypt(metadata.iv, view.payload_bytes, bound_to), key
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
        return key.loaded_secret.decrypt(bytes(view.payload_bytes), kem.oaep(label)), key
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
    metadata = lazily.load("speed.wire.message.message_pb2").EncryptionMetadata(
        algorithm=algorithm.name, encryption_type=algorithm.type
    )
    if described.aad:
        metadata.aad = described.aad
    return metadata
