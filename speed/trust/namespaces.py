"""The schemas of one namespace: which one a message gets, and which ones a reader expects (M-37)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from speed.errors import ConfigurationError
from speed.message.errors import SchemaError
from speed.trust.schemas import RegisteredSchema, SchemaRegistry
from speed.wire.message import MessageView

Warn = Callable[..., None]
"""``warn(kind, text, *arguments)`` writes one line of a kind in a minute."""


@dataclass(frozen=True, slots=True)
class NamespaceSchemas:
    """The schemas of a namespace: that of a topic has the topic's name. Raises ConfigurationError.

    ``MessageSecurity(namespaces={"orders": NamespaceSchemas(SchemaRegistry("schemas"), version="v2", required=True)})``

    Attributes:
        registry: where they are.
        version: what is written, and expected of others; without it the newest one, which a directory alone can tell.
        required: whether a message without a schema that is here is refused, by the writer and by the reader.
    """

    registry: SchemaRegistry
    version: str | None = None
    required: bool = False

    def __post_init__(self) -> None:
        if self.version is None and self.registry.is_remote:
            raise ConfigurationError(
                "a namespace whose schemas are remote needs `version`: its newest is not known here"
            )

    def of_topic(self, topic: str) -> RegisteredSchema | None:
        """What a message of that topic is described by; SchemaError if it must have one and there is none."""
        version = self.version or self.registry.newest(topic)
        found = None if version is None else self.registry.find(topic, version)
        if found is None and self.required:
            raise SchemaError(f"schema_name: there is no schema for topic {topic!r}, and its namespace requires one")
        return found

    def expected(self, name: str) -> str | None:
        """The version of a schema that messages should have; None if there is none of that name."""
        return self.version or self.registry.newest(name)

    def check(self, view: MessageView, warn: Warn) -> RegisteredSchema | None:
        """The schema of a received message. SchemaError for an unknown name, another hash, or none where one must be.

        Another version than the expected one is warned about; one that is not here is refused where it must be.
        """
        said = view.schema
        if not said.schema_name:
            if self.required:
                raise SchemaError(f"schema_name: is absent, and namespace {view.namespace!r} requires a schema")
            return None
        found = self.registry.check(view)
        if found is None and not self._knows(said.schema_name):
            raise SchemaError(f"schema_name: {said.schema_name[:64]!r} is unknown in namespace {view.namespace!r}")
        if found is None and self.required:
            raise SchemaError(f"schema_version: {said.schema_version[:64]!r} of {said.schema_name!r} is not here")
        if said.schema_version != self.expected(said.schema_name):
            self._warn(view, said, warn)
        return found

    def _knows(self, name: str) -> bool:
        expected = self.expected(name)
        return expected is not None and self.registry.find(name, expected) is not None

    def _warn(self, view: MessageView, said: Any, warn: Warn) -> None:
        warn(
            f"schema {said.schema_name}",
            "a message of %s has version %r of schema %s, and %r is expected",
            view.publisher_id,
            said.schema_version[:64],
            said.schema_name,
            self.expected(said.schema_name),
        )
