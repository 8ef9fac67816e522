"""What a node does to its messages, and what it believes of others'."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speed.core.log import logger
from speed.errors import ConfigurationError, WireError
from speed.message.algorithms import (
    FUTURE_TOLERANCE_MS,
    check_clearance,
    check_fips_mode,
    check_level,
    check_sensitivity,
    check_signature_algorithm,
    is_restricted,
)
from speed.message.audit import AuditLog, Trail
from speed.message.errors import KeyUnavailableError, MessageError
from speed.message.keys import MessageKey
from speed.message.keystore import KeyStore
from speed.message.options import PublishOptions
from speed.message.protect import (
    POLICIES,
    OpenedView,
    Protection,
    TrustedKeys,
    as_opened,
    open_view,
    protect_message,
    verify,
    whole,
)
from speed.message.schemas.registry import (
    NamespaceSchemas,
    RegisteredSchema,
    SchemaRegistry,
    SchemasAwayError,
    SchemaUsage,
    Warn,
)
from speed.message.view import MessageView
from speed.wire.text import type_name
from speed.wire.value import Content, content_type_text, encode_content

log = logger("speed.trust")


def _warn(_kind: str, text: str, *arguments: object) -> None:
    log.warning(text, *arguments)


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class MessageSecurity:
    """How a node signs, encrypts and checks messages. Each setting has a use alone.

    Raises ConfigurationError for what cannot be.

    Attributes:
        keys: where keys come from.
        policy: of signatures on what arrives: ``off`` looks at none, ``verify`` refuses wrong ones, ``require`` also
            messages without one.
        trusted: names of the sets in ``keys`` whose signatures are believed.
        sign_with, encrypt_to, compression: for messages whose PublishOptions say nothing about it.
        clearance: the highest classification that this node may read; None is no limit.
        fips_mode: ``off``, ``rfc`` or ``strict``: which algorithms are refused.
        schemas: where schemas of payloads are found.
        namespaces: the schemas of single namespaces, which count before ``schemas``: what messages of theirs are
            described by, unless their PublishOptions say it.
        audit: where each use of a key is written down, and who was handed what is personal or restricted.
        usage: where uses of deprecated fields and old versions of schemas are counted.
        publisher_team: is written into the messages that this node sends.
        future_tolerance_ms: how far a sender's clock may be ahead.
        clock_ms: gives the time in Unix milliseconds.
    """

    keys: KeyStore = field(default_factory=lambda: KeyStore({}))
    policy: str = "off"
    trusted: tuple[str, ...] = ()
    sign_with: str | MessageKey | None = None
    encrypt_to: tuple[str | MessageKey, ...] = ()
    compression: str = "none"
    clearance: str | None = None
    fips_mode: str = "off"
    schemas: SchemaRegistry | None = None
    namespaces: Mapping[str, NamespaceSchemas] = field(default_factory=dict)
    audit: AuditLog | None = None
    usage: SchemaUsage | None = None
    publisher_team: str | None = None
    future_tolerance_ms: int = FUTURE_TOLERANCE_MS
    clock_ms: Callable[[], int] = _unix_ms

    def __post_init__(self) -> None:
        check_fips_mode(self.fips_mode)
        check_level(self.clearance, "clearance")
        if self.policy not in POLICIES:
            raise ConfigurationError(f"policy is {self.policy!r}; use one of {', '.join(POLICIES)}")
        if self.policy != "off" and not self.trusted:
            raise ConfigurationError(f"policy {self.policy!r} needs `trusted`: names of key sets of publishers")

    @property
    def protects(self) -> bool:
        """Whether it does something to each message that is sent."""
        writes = self.sign_with or self.encrypt_to or self.compression != "none" or self.publisher_team
        return bool(writes or self.namespaces)


def check_security(given: Any) -> None:
    """ConfigurationError for what is no MessageSecurity."""
    if not isinstance(given, MessageSecurity):
        raise ConfigurationError(f"security is {type_name(given)}; use speed.MessageSecurity")


class Guard:
    """Applies a MessageSecurity for the node called ``name``. Thread-safe.

    ``warn(kind, text, *arguments)`` writes a line unless one of its kind was written just before.
    """

    def __init__(self, security: MessageSecurity, name: str = "", warn: Warn = _warn) -> None:
        self.security = security
        self._name, self._warn = name, warn

    # --- sending ---

    def write(self, payload: Any, options: PublishOptions, **metadata: Any) -> bytes:
        """One message as its options and the settings ask; ``metadata`` as of ``encode_message``.

        Raises MessageError, WireError, UnserialisableError, ConfigurationError, StorageError (audit).
        """
        trail = self._trail_of(options, metadata)
        content = payload if type(payload) is Content else encode_content(payload, options.content_type)
        try:
            schema, described = self._schema(options, content, metadata)
            protection = self._protection(options, schema, metadata)
            _begin_writing(trail, protection)
            data = protect_message(content, protection, fips_mode=self.security.fips_mode, schema=described, **metadata)
        except MessageError as error:
            trail.refused(error)
            raise
        _tell_written(trail, protection)
        if described is not None:
            self._count_use(
                metadata.get("publisher_id") or "", "", described, described.get("deprecated_fields_used", ())
            )
        return data

    def _trail_of(self, options: PublishOptions, metadata: Mapping[str, Any]) -> Trail:
        trail = Trail(self.security.audit, "send", metadata["message_id"], metadata.get("publisher_id") or "")
        trail.says(topic=metadata["topic"], namespace=metadata["namespace"], classification=options.classification)
        return trail

    def tell_not_written(self, error: MessageError, options: PublishOptions, metadata: Mapping[str, Any]) -> None:
        """For the audit: a message that is refused before anything of it is looked at. StorageError."""
        self._trail_of(options, metadata).refused(error)

    def _protection(
        self, options: PublishOptions, schema: RegisteredSchema | None, metadata: dict[str, Any]
    ) -> Protection:
        security = self.security
        recipients = security.encrypt_to if options.encrypt_to is None else options.encrypt_to
        names = recipients if isinstance(recipients, tuple) else (recipients,)
        signer = security.sign_with if options.sign_with is None else options.sign_with
        return Protection(
            encrypt_to=tuple(self._key(name, metadata) for name in names),
            direct=options.direct,
            sign_with=None if signer is None else self._key(signer, metadata),
            compression=options.compression or security.compression,
            classification=options.classification,
            contains_pii=bool(options.contains_pii or (schema and schema.contains_pii)),
            publisher_team=security.publisher_team,
            aad=options.aad,
        )

    def _key(self, given: str | MessageKey, metadata: dict[str, Any]) -> MessageKey:
        if isinstance(given, MessageKey):
            return self.security.keys.counted(given)
        return self.security.keys.current(given, metadata["namespace"], metadata["topic"], metadata["published_at_ms"])

    def _schema(
        self, options: PublishOptions, content: Content, metadata: Mapping[str, Any]
    ) -> tuple[RegisteredSchema | None, dict[str, Any] | None]:
        """The schema asked for, or that of its namespace, and what the message says of it; SchemaError if the payload
        does not fit."""
        found = self._schema_for(options, metadata)
        if found is None:
            return None, None
        kind = content_type_text(content.number, content.custom or "")
        seen = found.see(kind, memoryview(content.data))
        return found, found.describe(seen)

    def _schema_for(self, options: PublishOptions, metadata: Mapping[str, Any]) -> RegisteredSchema | None:
        of_namespace = self.security.namespaces.get(metadata["namespace"])
        if options.schema is None:
            return None if of_namespace is None else of_namespace.of_topic(metadata["topic"])
        schemas = self.security.schemas if of_namespace is None else of_namespace.registry
        if schemas is None:
            raise ConfigurationError("a schema was asked for, and this node has no SchemaRegistry: give `schemas`")
        given = options.schema
        name, version = given if isinstance(given, tuple) else (given, schemas.latest(given))
        return schemas.get(name, version)

    # --- receiving ---

    def open(self, view: MessageView, source: str = "") -> MessageView:
        """The message as a handler may have it, checked in the contract's order.

        Raises MessageError, WireError, StorageError (audit); nothing is decrypted for who is not trusted.
        """
        trail = Trail(self.security.audit, "receive", view.message_id, source, self._name)
        trail.about(view)
        try:
            return self._open(view, trail, source)
        except (KeyUnavailableError, SchemasAwayError):  # not refused: it is judged later
            raise
        except (MessageError, WireError) as error:
            trail.refused(error)
            raise

    def _open(self, received: MessageView, trail: Trail, source: str) -> MessageView:
        view = self._whole(received)
        signed_by = self._verified(view, trail)
        schema = self._admitted(view)
        if view.is_encrypted or view.content_encoding != "none":
            view = self._opened(view, trail)
        if signed_by is not None:
            view = as_opened(view).with_keys(signed_by=signed_by)
        if schema is not None:
            view = self._seen(view, schema, source)
        elif view.schema.deprecated_fields_used:
            declared = {"schema_name": view.schema.schema_name, "schema_version": view.schema.schema_version}
            self._count_use(source, self._name, declared, view.schema.deprecated_fields_used)
        if view.security.contains_pii or is_restricted(view):
            trail.about(view)
            trail.accessed()
        return view

    def _seen(self, view: MessageView, schema: RegisteredSchema, source: str) -> MessageView:
        """The message, held to its schema: what that says of personal data counts, whatever the publisher says."""
        described = schema.describe(schema.see(view.content_type, view.payload_bytes))
        self._count_use(source, self._name, described, described.get("deprecated_fields_used", ()))
        if not schema.contains_pii or view.security.contains_pii:
            return view
        view = as_opened(view)
        view.is_personal = True
        return view

    def _count_use(
        self, publisher: str, consumer: str, described: Mapping[str, Any], deprecated: Iterable[str]
    ) -> None:
        usage = self.security.usage
        if usage is not None:
            name, version = described.get("schema_name", ""), described.get("schema_version", "")
            usage.count(publisher, consumer, name, version, deprecated, is_old=self._is_old(name, version))

    def _is_old(self, name: str, version: str) -> bool:
        """Whether another version of a schema is the newest, or the one that its namespace expects."""
        for of_namespace in self.security.namespaces.values():
            expected = of_namespace.expected(name)
            if expected is not None:
                return version != expected
        newest = None if self.security.schemas is None else self.security.schemas.newest(name)
        return newest is not None and version != newest

    def _admitted(self, view: MessageView) -> RegisteredSchema | None:
        """Its schema, if it is here, once time, sensitivity and schema hash are as they must be."""
        security = self.security
        if security.policy != "off" and view.published_at_ms > security.clock_ms() + security.future_tolerance_ms:
            raise WireError("BAD_MESSAGE", "published_at_ms: is ahead of this node's clock")
        check_sensitivity(view.security.data_classification, view.is_encrypted)
        check_clearance(view, security.clearance)
        of_namespace = security.namespaces.get(view.namespace)
        if of_namespace is not None:
            return of_namespace.check(view, self._warn)
        return None if security.schemas is None else security.schemas.check(view)

    def _whole(self, view: MessageView) -> MessageView:
        """A message whose payload lies in the store, in memory: what is signed or encrypted is all of it."""
        claims = bool(view.security.signature) or view.is_encrypted or view.content_encoding != "none"
        return whole(view) if claims or self.security.policy == "require" else view

    def _verified(self, view: MessageView, trail: Trail) -> str | None:
        security, claims = self.security, view.security
        trail.begins("verify", claims.signature_algorithm, claims.signature_key_id)
        check_signature_algorithm(claims, security.fips_mode)
        key = None
        if security.policy != "off":
            key = verify(view, self._trusted(claims), security.policy, security.fips_mode)
        if key is None:
            trail.ends()
            return None
        trail.done("verify", key.algorithm.name, key.id)
        return key.id

    def _opened(self, view: MessageView, trail: Trail) -> OpenedView:
        encryption = view.security.encryption
        trail.begins(
            "decrypt", encryption.algorithm, ",".join(one.key_id for one in encryption.recipients) or encryption.key_id
        )
        opened = open_view(view, self.security.keys.find, self.security.fips_mode)
        if opened.opened_by is not None:
            trail.done("decrypt", encryption.algorithm, opened.opened_by)
        trail.ends()
        return opened

    def _trusted(self, claims: Any) -> TrustedKeys:
        """The key that a message says it is signed with, if a set of publishers has it."""
        security = self.security
        key = security.keys.find(claims.signature_key_id, security.trusted) if claims.HasField("signature") else None
        return TrustedKeys({} if key is None else {key.id: key})

    def __repr__(self) -> str:
        return f"<Guard policy={self.security.policy}>"


def _begin_writing(trail: Trail, protection: Protection) -> None:
    """What a refusal to write tells of: the keys that were to be used."""
    keys = (*protection.encrypt_to, *([protection.sign_with] if protection.sign_with else ()))
    names = dict.fromkeys(key.algorithm.name for key in keys)
    trail.begins("send", ",".join(names), ",".join(key.id for key in keys))


def _tell_written(trail: Trail, protection: Protection) -> None:
    if protection.encrypt_to:
        ids = ",".join(key.id for key in protection.encrypt_to)
        trail.done("encrypt", protection.encrypt_to[0].algorithm.name, ids)
    if protection.sign_with is not None:
        trail.done("sign", protection.sign_with.algorithm.name, protection.sign_with.id)
