"""How a message is encrypted, by its client (PIP-290) or by the gateway, and what its readers need. Pure."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any

import msgspec

from speed.gateway.limits import MAX_OPENED_BYTES, MAX_RECIPIENTS
from speed.gateway.refusal import RefusedError
from speed.message.errors import EncryptionError
from speed.pulsar.compression import uncompress
from speed.pulsar.crypto import DataKey, Decryptor

PROPERTY = "pulsar.encryption"
"""The property in which a message keeps its context."""
COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
BOTH_OR_NEITHER = "the params compressionType and uncompressedMessageSize should both empty or both non-empty"
MAX_SIZE = (1 << 31) - 1


class Key(msgspec.Struct, rename="camel"):
    """The data key, encrypted for one recipient."""

    key_value: str = ""
    metadata: dict[str, str] | None = None


Keys = dict[str, Key]


class Context(msgspec.Struct, rename="camel"):
    """What a reader needs to decrypt a message; ``batch_size`` is None for one that is no batch."""

    keys: Keys
    param: str
    compression_type: str = "NONE"
    uncompressed_message_size: int = 0
    batch_size: int | None = None


_keys = msgspec.json.Decoder(Keys)
_context = msgspec.json.Decoder(Context)


def read_keys(text: str) -> Keys | tuple[str, ...] | None:
    """What ``encryptionKeys`` says; None without it. Raises RefusedError 400.

    Data keys are of a client that encrypts by itself. Names, with commas between them, ask the gateway to encrypt.
    """
    if not text:
        return None
    data = _json(text.replace(" ", "+"))  # a plus that was not encoded
    keys = tuple(dict.fromkeys(text.split(","))) if data is None else _data_keys(data)
    if len(keys) > MAX_RECIPIENTS:
        raise RefusedError(400, f"encryptionKeys are for {len(keys)} recipients: at most {MAX_RECIPIENTS}")
    return keys


def _json(text: str) -> bytes | None:
    """The JSON that is in Base64 here; None for text that is something else."""
    try:
        data = decoded(text)
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return data


def _data_keys(data: bytes) -> Keys:
    try:
        keys = _keys.decode(data)
    except ValueError:
        keys = {}
    if not keys or not next(iter(keys.values())).key_value:
        raise RefusedError(400, "encryptionKeys are no keys: give names, or Base64 of a JSON object of data keys")
    for name, key in keys.items():
        _check_key(name, key)
    return keys


def _check_key(name: str, key: Key) -> None:
    try:
        is_sound = bool(name and decoded(key.key_value))
    except ValueError:
        is_sound = False
    if not is_sound:
        raise RefusedError(400, "encryptionKeys: each key needs a name, and a keyValue in Base64")
    key.metadata = key.metadata or {}


class ByClient:
    """Payloads of a client that encrypts by itself; ``keys`` are its data key, encrypted for each recipient."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, payload: bytes, param: str | None, kind: str | None, size: int | None) -> tuple[bytes, Context]:
        """The payload as it is, and its context. Raises ValueError with what is wrong."""
        return payload, new_context(self._keys, param, kind, size)


class ByGateway:
    """Payloads that the gateway encrypts with a data key."""

    def __init__(self, data_key: DataKey) -> None:
        self._data_key = data_key
        self._keys = {name: Key(_text(value), {}) for name, value in data_key.wrapped.items()}

    def seal(self, payload: bytes, *_: object) -> tuple[bytes, Context]:
        """The encrypted payload, and its context; what a client says of its own encryption is passed over."""
        sealed, iv = self._data_key.encrypt(payload)
        return sealed, Context(self._keys, _text(iv))


Sealing = ByClient | ByGateway


def opened(context: Context, payload: bytes, decryptor: Decryptor) -> bytes:
    """The payload as it was before its client or the gateway encrypted it. Raises MessageError."""
    try:
        wrapped = {name: decoded(key.key_value) for name, key in context.keys.items()}
        iv = decoded(context.param)
    except ValueError:
        raise EncryptionError("the encryption context is not Base64") from None
    if context.batch_size is not None:
        raise EncryptionError("an encrypted batch is split by its readers only")
    packed = decryptor.decrypt(payload, wrapped, iv)
    return uncompress(context.compression_type, packed, context.uncompressed_message_size, MAX_OPENED_BYTES)


def new_context(keys: Keys, param: str | None, compression: str | None, size: int | None) -> Context:
    """The context of one message. Raises ValueError with what is wrong."""
    if not param:
        raise ValueError("encryptionParam is missing: without it nobody can decrypt the message")
    decoded(param)
    if (compression is None) != (size is None) or (compression is not None and compression not in COMPRESSIONS):
        raise ValueError(BOTH_OR_NEITHER)
    if size is not None and not 0 <= size <= MAX_SIZE:
        raise ValueError(f"uncompressedMessageSize must be from 0 to {MAX_SIZE}")
    return Context(keys, param, compression or "NONE", size or 0)


def written(context: Context) -> str:
    """As a message keeps it."""
    return msgspec.json.encode(context).decode()


def kept(text: Any) -> Context | None:
    """What ``written`` wrote; None for what others put there."""
    try:
        return _context.decode(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def decoded(text: str) -> bytes:
    """Base64, with or without its padding; ValueError for anything else."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not Base64") from None
