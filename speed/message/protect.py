"""A whole message with what protects it: compressed, encrypted, then signed, and opened again (M-16, M-17, M-25)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from speed.errors import ConfigurationError, WireError
from speed.message.algorithms import HMAC, IV_BYTES, algorithm_of, check_level, check_sensitivity
from speed.message.compression import compress, decompress, is_read
from speed.message.encryption import Described, FindKey, decrypt, encrypt, encrypt_directly, lp
from speed.message.errors import KeyRefusedError, NotAvailableError, SignatureError, UnsignedError, UntrustedError
from speed.message.keys import MessageKey, is_of_small_order
from speed.message.view import MessageView
from speed.message.writing import SignedParts, encode_message, signed_parts, with_signature
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.names import matches
from speed.wire.value import Content, content_type_text, encode_content

# Signatures over the exact bytes of a message (M-16, M-17).

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
            declared = security.signature_algorithm[:32]
            raise UntrustedError(f"signature_algorithm: is {declared!r}, and key {key.id!r} is of {key.algorithm.name}")
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
    security = lazily.load("speed.message.message_pb2").SecurityContext()
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


class OpenedView(MessageView):
    """The view of a message that was looked at, its payload opened where it was closed; all else is as it was received.

    ``is_personal``: its schema marks personal data, whatever the publisher says.
    """

    __slots__ = ("_encoding", "_opener", "_plain", "_signer", "is_personal")

    def __init__(self, data: bytes | memoryview, plain: bytes | bytearray | memoryview, encoding: str) -> None:
        super().__init__(data)
        self._plain = memoryview(plain)
        self._encoding = encoding
        self._signer: str | None = None
        self._opener: str | None = None
        self.is_personal = False

    def with_keys(self, *, signed_by: str | None = None, opened_by: str | None = None) -> OpenedView:
        """Note ids of keys; returns self."""
        self._signer, self._opener = signed_by or self._signer, opened_by or self._opener
        return self

    @property
    def signed_by(self) -> str | None:
        return self._signer

    @property
    def opened_by(self) -> str | None:
        return self._opener

    @property
    def payload_encoding(self) -> str:
        return self._encoding

    @property
    def security(self) -> Any:
        """The SecurityContext as it was received; ``contains_pii`` is true where the schema says so."""
        context = super().security
        if self.is_personal and not context.contains_pii:
            context = type(context).FromString(context.SerializeToString())
            context.contains_pii = True
        return context

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as the publisher had it, before compression and encryption."""
        return self._plain

    @property
    def plain_bytes(self) -> memoryview:
        """The same, if its encoding was one that is read here."""
        if self._encoding != "none":
            raise WireError("BAD_MESSAGE", f"content_encoding: is {self._encoding}; read payload_bytes")
        return self._plain


def whole(view: MessageView) -> MessageView:
    """A message whose payload lies in the store, in memory; NotAvailableError if no envelope holds it."""
    if view.size == len(view.data):
        return view
    if view.size > MAX_PAYLOAD_BYTES:
        raise NotAvailableError("what no envelope holds is neither signed nor encrypted: send it in parts")
    return MessageView(view.to_bytes())


def as_opened(view: MessageView) -> OpenedView:
    """A view of nothing that was closed, which can be told more of."""
    return view if isinstance(view, OpenedView) else OpenedView(view.data, view.payload_bytes, view.payload_encoding)


def open_view(view: MessageView, find: FindKey, fips_mode: str = "off") -> OpenedView:
    """``view`` with its payload opened; raises MessageError for what is not as M-20 to M-23 say.

    A payload in an encoding that is not read here stays as it is, and its ``payload`` raises as ever (M-9).
    """
    plain: bytes | bytearray | memoryview = view.payload_bytes
    key: MessageKey | None = None
    if view.is_encrypted:
        plain, key = decrypt(view, find, fips_mode)
    encoding = view.content_encoding
    if is_read(encoding):
        plain = decompress(encoding, plain, view.uncompressed_bytes)
        encoding = "none"
    return OpenedView(view.data, plain, encoding).with_keys(opened_by=None if key is None else key.id)
