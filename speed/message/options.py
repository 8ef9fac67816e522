"""What a program says of one message beside its payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speed.message.keys import MessageKey

_METADATA = (
    *("topic", "correlation_id", "causality_parent", "priority", "ttl_seconds", "traceparent"),
    *("labels", "baggage", "extensions"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of ``send`` and ``publish``; None leaves to the node what it does by default.

    Metadata: topic, priority, labels and so on; ``trace_context`` is an OpenTelemetry context in place of a
    ``traceparent``.
    ``encrypt_to`` and ``sign_with`` are keys, or names of sets of the node's KeyStore; ``compression`` is gzip, zstd,
    lz4 or snappy; ``schema`` is a name, or name and version, of the node's SchemaRegistry; one that marks personal data
    makes ``contains_pii`` true, also if it is given as false; ``direct`` encrypts a
    small payload with the recipient's RSA key itself.
    """

    topic: str | None = None
    correlation_id: str | None = None
    causality_parent: str | None = None
    priority: int | None = None
    ttl_seconds: int | None = None
    traceparent: str | None = None
    trace_context: Any = None
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
        found = {name: getattr(self, name) for name in _METADATA}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_plain(self) -> bool:
        """Whether nothing but metadata is asked for."""
        asked = (self.content_type, self.schema, self.encrypt_to, self.sign_with, self.compression, self.trace_context)
        return not any((*asked, self.classification, self.contains_pii, self.direct, self.aad))
