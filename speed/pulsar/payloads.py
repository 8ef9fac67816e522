"""Payloads as Pulsar's Java client makes them: batched, compressed, encrypted; and opened again.

The wrapped key is V ‖ C ‖ T: the ephemeral public key as an uncompressed point, the data key XOR a key stream, and
HMAC-SHA1 over C and the length of an absent encoding. KDF2 with SHA-1 over V and the agreed secret makes the key of the
HMAC (128 bits) and, behind it, the key stream. SHA-1 is what the format asks for; neither use needs it to resist
collisions.

Nothing here opens a file or a socket or reads a clock.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import zlib
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from speed.errors import ConfigurationError, WireError
from speed.message import compression
from speed.message.errors import BatchError, CompressionError, EncryptionError, KeyRefusedError, NoRecipientKeyError
from speed.message.keys import MessageKey
from speed.pulsar.frames import EncryptionContext, ServerDelivery
from speed.wire.records import LENGTH_DELIMITED, VARINT, read_varint, walk

# A data key wrapped for an elliptic-curve key as Pulsar's Java client does, with BouncyCastle's ECIES.

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


# Payloads encrypted as Pulsar's Java client does: AES-256-GCM under a data key, which is wrapped for each recipient.

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
    return wrap(public, data_key)


def _unwrap(private: Any, value: bytes) -> bytes:
    try:
        opened = private.decrypt(value, _oaep()) if isinstance(private, rsa.RSAPrivateKey) else unwrap(private, value)
    except ValueError:
        raise EncryptionError("the data key does not open with this key") from None
    if len(opened) not in DATA_KEY_BYTES:
        raise EncryptionError("what opens with this key is no key of AES")
    return opened


# The compressions of Pulsar: LZ4 as one raw block, ZLIB, ZSTD, SNAPPY as raw block.

NONE = "NONE"
_CODECS = {"LZ4": "lz4", "ZSTD": "zstd", "SNAPPY": "snappy"}
KINDS = frozenset({NONE, "ZLIB", *_CODECS})


def check_kind(kind: str) -> str:
    """``kind`` if Pulsar knows it; ConfigurationError otherwise."""
    if kind not in KINDS:
        raise ConfigurationError(f"compression is {kind!r}: use one of {', '.join(sorted(KINDS))}")
    return kind


def compress(kind: str, payload: bytes) -> bytes:
    """``payload`` compressed, or as it is with ``NONE``."""
    if kind == NONE:
        return payload
    return zlib.compress(payload) if kind == "ZLIB" else compression.compress(_CODECS[kind], payload)


def uncompress(kind: str, payload: bytes, size: int, limit: int) -> bytes:
    """The ``size`` bytes in ``payload``. CompressionError for anything else, and above ``limit`` bytes."""
    if kind == NONE:
        size = len(payload)
    if not 0 <= size <= limit:
        raise CompressionError(f"the message says that it has {size} bytes; {limit} are allowed: see max_payload_bytes")
    if kind == NONE:
        return payload
    if kind not in KINDS:
        raise CompressionError(f"the message is compressed with {kind[:64]!r}, which cannot be read here")
    if size == 0:
        return b""
    return _inflate(payload, size) if kind == "ZLIB" else bytes(compression.decompress(_CODECS[kind], payload, size))


def _inflate(payload: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(payload, size + 1)
    except zlib.error:
        raise CompressionError("the payload is not ZLIB") from None
    if len(plain) != size or inflater.unused_data:  # Pulsar's Java client flushes its streams and does not end them
        raise CompressionError(f"the payload does not uncompress to the {size} bytes that it says")
    return plain


# Pulsar's batches: for each message four bytes of length, its SingleMessageMetadata (protobuf), and its payload.

MAX_MESSAGES = 65_536
_PROPERTY, _KEY, _SIZE, _COMPACTED, _TIME, _KEY_IS_BASE64, _NULL = 1, 2, 3, 4, 5, 6, 9
_VARINT_BYTES = 10


@dataclass
class Single:
    """One message of a batch; ``payload`` is None for a null value."""

    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    payload: bytes | None = b""
    is_compacted_out: bool = False


def split(data: bytes, count: int) -> list[Single]:
    """The ``count`` messages in ``data``; those that were compacted out are left out. BatchError for anything else."""
    if not 0 < count <= MAX_MESSAGES:
        raise BatchError(f"the batch says that it has {count} messages; 1 to {MAX_MESSAGES} are read")
    position, found = 0, []
    for _ in range(count):
        single, position = _single(data, position)
        if not single.is_compacted_out:
            found.append(single)
    if position != len(data):
        raise BatchError(f"the batch has {len(data) - position} bytes behind its last message")
    return found


def _single(data: bytes, position: int) -> tuple[Single, int]:
    begin = position + 4
    end = begin + int.from_bytes(data[position:begin], "big")
    if begin > len(data) or end > len(data):
        raise BatchError("the batch ends within the head of a message")
    try:
        single, size = _read(data[begin:end])
    except (WireError, ValueError):
        raise BatchError("the head of a message in the batch cannot be read") from None
    if size > len(data) - end:
        raise BatchError("the batch ends within a message")
    if single.payload is not None:
        single.payload = data[end : end + size]
    return single, end + size


def _read(head: bytes) -> tuple[Single, int]:
    texts, numbers, properties = _fields(head)
    single = Single(texts.get(_KEY), properties, numbers.get(_TIME, 0))
    if single.key is not None and numbers.get(_KEY_IS_BASE64):
        single.key = b64decode(single.key).decode("utf-8", "replace")
    if numbers.get(_NULL):
        single.payload = None
    single.is_compacted_out = bool(numbers.get(_COMPACTED))
    return single, numbers.get(_SIZE, 0)


def _fields(head: bytes) -> tuple[dict[int, str], dict[int, int], dict[str, str]]:
    texts: dict[int, str] = {}
    numbers: dict[int, int] = {}
    properties: dict[str, str] = {}
    for number, kind, _, begin, end in walk(head):
        if kind == VARINT:
            numbers[number] = read_varint(head, begin, _VARINT_BYTES)[0]
        elif number == _PROPERTY and kind == LENGTH_DELIMITED:
            pair = dict(_pair(head[begin:end]))
            properties[pair.get(1, "")] = pair.get(2, "")
        elif number == _KEY and kind == LENGTH_DELIMITED:
            texts[number] = head[begin:end].decode()
    return texts, numbers, properties


def _pair(record: bytes) -> Iterator[tuple[int, str]]:
    for number, kind, _, begin, end in walk(record):
        if kind == LENGTH_DELIMITED:
            yield number, record[begin:end].decode()


@dataclass(frozen=True, eq=False)
class PulsarMessage:
    """A message of a topic.

    Attributes:
        message_id: what the server calls it; messages of one batch share it.
        payload: its bytes; None for a null value in a batch.
        key, properties, event_time_ms: what its publisher wrote; 0 without a time.
        publish_time: when the server took it, in ISO 8601.
        redelivery_count: how often it was delivered before.
        batch_index: its place in an encrypted batch; None outside one.
        encryption: set if the payload is still encrypted.
    """

    message_id: str
    payload: bytes | None = field(repr=False)
    key: str | None
    properties: dict[str, str]
    event_time_ms: int
    publish_time: str
    redelivery_count: int
    batch_index: int | None = None
    encryption: EncryptionContext | None = None
    unfinished: set[int] = field(default_factory=set, repr=False)

    def finish(self) -> bool:
        """Whether with this one the whole delivery is acknowledged."""
        self.unfinished.discard(self.batch_index or 0)
        return not self.unfinished


def closed(delivery: ServerDelivery) -> PulsarMessage:
    """The message as it came."""
    return PulsarMessage(
        delivery.message_id,
        delivery.payload,
        delivery.key,
        delivery.properties,
        delivery.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
        encryption=delivery.encryption,
    )


def opened(
    delivery: ServerDelivery, decryptor: Decryptor | None, limit: int, encryption_reported: bool = True
) -> list[PulsarMessage]:
    """The messages in a delivery: one, or those of a batch. Raises MessageErrors for what cannot be opened.

    ``encryption_reported`` is whether the server tells of each payload if it is encrypted.
    """
    context = delivery.encryption
    if context is None:
        if decryptor is not None and not encryption_reported:
            raise EncryptionError(
                "the server does not say whether this is encrypted: use a consumer instead of a reader"
            )
        return [closed(delivery)]
    if decryptor is None:
        raise NoRecipientKeyError("the payload is encrypted: give this consumer private_keys")
    compressed = decryptor.decrypt(delivery.payload, context.keys, context.iv)
    plain = uncompress(context.compression, compressed, context.uncompressed_bytes, limit)
    if context.batch_size is None:
        return [_message(delivery, plain)]
    singles = split(plain, context.batch_size)
    unfinished = set(range(len(singles)))
    return [_of_batch(delivery, single, index, unfinished) for index, single in enumerate(singles)]


def _message(delivery: ServerDelivery, payload: bytes) -> PulsarMessage:
    return PulsarMessage(
        delivery.message_id,
        payload,
        delivery.key,
        delivery.properties,
        delivery.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
    )


def _of_batch(delivery: ServerDelivery, single: Single, index: int, unfinished: set[int]) -> PulsarMessage:
    return PulsarMessage(
        delivery.message_id,
        single.payload,
        single.key,
        single.properties,
        single.event_time_ms,
        delivery.publish_time,
        delivery.redelivery_count,
        index,
        None,
        unfinished,
    )
