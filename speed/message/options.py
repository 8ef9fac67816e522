"""What a program says of one message beside its payload. It imports little: many who send say only a priority."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from speed.errors import ConfigurationError

if TYPE_CHECKING:
    from speed.message.keys import MessageKey

METADATA = (
    *("topic", "correlation_id", "causality_parent", "priority", "ttl_seconds", "traceparent", "parent_span_id"),
    *("labels", "baggage", "extensions"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of ``send`` and ``publish``. None leaves to the node what it does by default.

    Attributes:
        topic: of a message that is sent to one node.
        correlation_id, causality_parent: what it belongs to, and the id of the message that led to it.
        priority: from 0, the least urgent, to 10; 5 if nothing is said.
        ttl_seconds: after so many seconds it is not handled any more.
        traceparent, trace_context: the trace it belongs to, as W3C text, or as a span, span context or context of
            OpenTelemetry; without them the active span is continued, or the trace of what is being handled.
        parent_span_id: the span above that of ``traceparent``, as 16 hexadecimal digits.
        labels, baggage, extensions: further values by name; those of extensions are bytes.
        content_type: of bytes or text that is in a format of its own.
        schema: name, or name and version, of a schema in the node's SchemaRegistry. The payload must fit it.
        encrypt_to, sign_with: keys, or names of key sets in the node's KeyStore.
        compression: ``gzip``, ``zstd``, ``lz4`` or ``snappy``.
        classification: ``public``, ``internal``, ``confidential`` or ``restricted``.
        contains_pii: whether there is personal data in it; always true if its schema marks some.
        direct: encrypt the payload itself by RSA, instead of a data key; for short payloads and one recipient.
        aad: bytes that the encryption covers, and that the reader must know.
    """

    topic: str | None = None
    correlation_id: str | None = None
    causality_parent: str | None = None
    priority: int | None = None
    ttl_seconds: int | None = None
    traceparent: str | None = None
    trace_context: Any = None
    parent_span_id: str | None = None
    labels: Mapping[str, str] | None = None
    baggage: Mapping[str, str] | None = None
    extensions: Mapping[str, bytes] | None = None
    content_type: str | None = None
    schema: str | tuple[str, str] | None = None
    encrypt_to: str | MessageKey | tuple[str | MessageKey, ...] | None = None
    sign_with: str | MessageKey | None = None
    compression: str | None = None
    classification: str | None = None
    contains_pii: bool | None = None
    direct: bool = False
    aad: bytes = b""

    def metadata(self) -> dict[str, Any]:
        """The metadata that is set, as ``encode_message`` takes it."""
        return {name: value for name in METADATA if (value := getattr(self, name)) is not None}

    @property
    def is_plain(self) -> bool:
        """Whether nothing but metadata is asked for."""
        asked = (self.content_type, self.schema, self.encrypt_to, self.sign_with, self.compression)
        return not any((*asked, self.classification, self.contains_pii, self.direct, self.aad))


def with_keywords(options: PublishOptions | None, keywords: Mapping[str, Any]) -> PublishOptions | None:
    """``options``, and over them the metadata that came as keywords of their own, as they may until the next release.

    Raises ConfigurationError for a keyword that is none of these.
    """
    if not keywords:
        return options
    unknown = keywords.keys() - {*METADATA, "trace_context"}
    if unknown:
        raise ConfigurationError(f"no such argument: {', '.join(sorted(unknown))}; see PublishOptions")
    said = ", ".join(f"{name}=…" for name in keywords)
    warnings.warn(f"give options=PublishOptions({said})", DeprecationWarning, stacklevel=_levels_to_caller())
    return replace(options or PublishOptions(), **keywords)


def _levels_to_caller() -> int:
    """How far above ``with_keywords`` the program is that the warning is about."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "speed":
        levels, frame = levels + 1, frame.f_back
    return levels
