"""Messages that clients encrypt themselves (PIP-290): the gateway hands on what readers need, and opens none. Pure."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

import msgspec

from speed.gateway.limits import MAX_RECIPIENTS
from speed.gateway.refusal import RefusedError

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


def read_keys(text: str) -> Keys | None:
    """The keys of ``encryptionKeys``; None without any. Raises RefusedError 400.

    Names of keys instead of keys ask the gateway to encrypt, which it does not.
    """
    if not text:
        return None
    try:
        keys = _keys.decode(decoded(text.replace(" ", "+")))  # a plus that was not encoded
    except (ValueError, RecursionError):
        keys = {}
    if not keys or not next(iter(keys.values())).key_value:
        raise RefusedError(400, "encryptionKeys are no keys: the gateway has none, clients encrypt themselves")
    if len(keys) > MAX_RECIPIENTS:
        raise RefusedError(400, f"encryptionKeys are for {len(keys)} recipients: at most {MAX_RECIPIENTS}")
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


def decoded(text: str) -> bytes:
    """Base64, with or without its padding; ValueError for anything else."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not Base64") from None
