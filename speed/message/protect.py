"""A whole message written with what protects it: compressed, encrypted, then signed (M-25)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.errors import ConfigurationError
from speed.message.algorithms import IV_BYTES, algorithm_of
from speed.message.compression import compress
from speed.message.encryption import Described, encrypt, encrypt_directly
from speed.message.errors import NotAvailableError
from speed.message.keys import MessageKey
from speed.message.sensitivity import check_level, check_sensitivity
from speed.message.signature import sign
from speed.wire import lazily
from speed.wire.content import Content, content_type_text, encode_content
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.message import encode_message


@dataclass(frozen=True, slots=True)
class Protection:
    """What is done to one message. Nothing is done by default."""

    encrypt_to: tuple[MessageKey, ...] = ()
    direct: bool = False
    """RSA of the payload itself (M-22)."""
    sign_with: MessageKey | None = None
    compression: str = "none"
    classification: str | None = None
    contains_pii: bool = False
    publisher_team: str | None = None
    aad: bytes = b""


NOTHING = Protection()
_SIGNATURE_ROOM = 80
"""Of the longest signature's record, with what the lengths around it grow by."""


def protect_message(
    payload: Any,
    protection: Protection = NOTHING,
    *,
    fips_mode: str = "off",
    content_type: str | None = None,
    schema: dict[str, Any] | None = None,
    **metadata: Any,
) -> bytes:
    """The bytes of one message; ``metadata`` are the arguments of ``encode_message``.

    Raises WireError and UnserialisableError as that does, ConfigurationError, and MessageError for keys,
    algorithms and classification.
    """
    _check(protection, fips_mode)
    content = payload if type(payload) is Content else encode_content(payload, content_type)
    _check_size(len(content.data), protection)
    compressed, encoding, size = _compressed(content, protection.compression)
    security = _security(protection)
    if protection.encrypt_to:
        described = Described(
            metadata["message_id"],
            metadata["topic"],
            metadata["namespace"],
            content_type_text(content.number, content.custom or ""),
            content.type_url or "",
            encoding or "none",
            size or 0,
            (schema or {}).get("schema_hash", ""),
            protection.classification or "",
            protection.aad,
        )
        for key in protection.encrypt_to:
            key.check_use(described.namespace, described.topic, metadata["published_at_ms"])
        compressed = _encrypted(compressed, protection, described, security)
    data = encode_message(
        content._replace(data=compressed),
        security=security.SerializeToString(),
        schema=schema,
        content_encoding=encoding,
        uncompressed_bytes=size,
        **metadata,
    )
    _check_size(len(data) + _SIGNATURE_ROOM * (protection.sign_with is not None), protection)
    if protection.sign_with is None:
        return data
    protection.sign_with.check_use(metadata["namespace"], metadata["topic"], metadata["published_at_ms"])
    return sign(data, protection.sign_with)


def _check(protection: Protection, fips_mode: str) -> None:
    check_level(protection.classification)
    check_sensitivity(protection.classification or "", bool(protection.encrypt_to))
    for key in (*protection.encrypt_to, *([protection.sign_with] if protection.sign_with else ())):
        algorithm_of(key.algorithm.name, fips_mode)
    if protection.direct and len(protection.encrypt_to) != 1:
        raise ConfigurationError("direct RSA is for one recipient: give one key in `encrypt_to`")


def _check_size(size: int, protection: Protection) -> None:
    """Of a message, or its payload, that is to be signed or encrypted (M-16)."""
    if size > MAX_PAYLOAD_BYTES and (protection.sign_with is not None or protection.encrypt_to):
        raise NotAvailableError("what no envelope holds is neither signed nor encrypted: send it in parts")


def _compressed(content: Content, encoding: str) -> tuple[Any, str | None, int | None]:
    """Bytes, name and original size; a payload of nothing is left alone."""
    if encoding == "none" or not len(content.data):
        return content.data, None, None
    return compress(encoding, content.data), encoding, len(content.data)


def _encrypted(data: Any, protection: Protection, described: Described, security: Any) -> bytes:
    if protection.direct:
        ciphertext, metadata = encrypt_directly(data, protection.encrypt_to[0], described)
    else:
        iv = AESGCM.generate_key(128)[:IV_BYTES]
        ciphertext, metadata = encrypt(data, protection.encrypt_to, described, iv)
    security.encryption.CopyFrom(metadata)
    return ciphertext


def _security(protection: Protection) -> Any:
    """The SecurityContext, without publisher and signature."""
    security = lazily.load("speed.wire.message.message_pb2").SecurityContext()
    if protection.publisher_team:
        security.publisher_team = protection.publisher_team
    if protection.contains_pii:
        security.contains_pii = True
    if protection.classification:
        security.data_classification = protection.classification
    if protection.sign_with is not None:
        security.signature_algorithm = protection.sign_with.algorithm.name
        security.signature_key_id = protection.sign_with.id
    return security


__all__ = ["NOTHING", "Protection", "protect_message"]
