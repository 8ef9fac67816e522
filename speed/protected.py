"""Messages of a node that are signed, encrypted or described: written before, and opened behind, its engine (M-25)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from speed.core.log import logger
from speed.engine import Engine
from speed.errors import ConfigurationError, SpeedError, StorageError, WireError
from speed.message.errors import AwayError, KeyUnavailableError, MessageError, NotAvailableError
from speed.message.options import PublishOptions
from speed.runtime.batches import BatchHandler
from speed.runtime.message import Message, is_large
from speed.runtime.options import MESSAGE_OPTIONS
from speed.runtime.published import Published
from speed.runtime.publishing import publish_to
from speed.runtime.tracing import current_traceparent, traceparent_of
from speed.trust.schemas import SchemasAwayError
from speed.trust.security import Guard, MessageSecurity
from speed.wire.message import new_message_id
from speed.wire.names import check_topic
from speed.wire.seal import random_bytes

log = logger("speed.messages")

Handler = Callable[[Message], object]
_NO_OPTIONS = PublishOptions()
_AWAY_SECONDS = 0.1
"""Pause before a message that could not be judged is looked at again."""


class Protected:
    """The way of protected messages through an engine that carries them as bytes. Thread-safe."""

    def __init__(self, engine: Engine, name: str, namespace: str, security: MessageSecurity | None) -> None:
        settings = MessageSecurity() if security is None else security
        self.protects = settings.protects
        self._engine = engine
        self._name = name
        self._namespace = namespace
        self._guard = Guard(settings)
        self._held: dict[int, Message] = {}
        """What a thread received and cannot be judged now."""

    # --- sending ---

    def encode(self, payload: Any, options: PublishOptions | None, metadata: Mapping[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message; what ``metadata`` says counts over ``options``."""
        if is_large(payload):
            raise NotAvailableError(
                "what no envelope holds is neither signed, encrypted nor described: send it in parts"
            )
        asked = options or _NO_OPTIONS
        unknown = metadata.keys() - MESSAGE_OPTIONS
        if unknown:
            raise ConfigurationError(f"no such message option: {', '.join(sorted(unknown))}; see PublishOptions")
        told: dict[str, Any] = {"topic": "message", **asked.metadata(), **metadata}
        if asked.trace_context is not None:
            told["traceparent"], baggage = traceparent_of(asked.trace_context)
            told["baggage"] = {**baggage, **told.get("baggage", {})}
        told.setdefault("traceparent", current_traceparent.get())
        now = time.time_ns() // 1_000_000
        message_id = new_message_id(now, random_bytes(16))
        data = self._guard.write(
            payload,
            asked,
            namespace=self._namespace,
            message_id=message_id,
            published_at_ms=now,
            publisher_id=self._name,
            **told,
        )
        return message_id, data

    def publish(self, topic: str, data: bytes, timeout: float, on_full: str) -> Published:
        """Send an encoded event to all who subscribe to it and allow this node."""
        check_topic(topic)

        def send(name: str, deadline: float) -> None:
            self._engine.forward(name, (data,), True, False, max(0.0, deadline - monotonic()))

        return publish_to(self._engine.nodes(), topic, self._name, send, timeout, waits=on_full == "wait")

    # --- receiving ---

    def opening(self, handler: Handler) -> Handler:
        """``handler`` behind the guard: what is refused does not reach it, and its sender is told the code."""

        def handle(message: Message) -> object:
            return handler(self.opened(message))

        return handle

    def opening_batches(self, handler: BatchHandler) -> BatchHandler:
        """The same for many at a time; places are those of the batch as it came."""

        def handle(messages: Sequence[Message]) -> Mapping[int, SpeedError] | None:
            opened: list[Message] = []
            places: list[int] = []
            refused: dict[int, SpeedError] = {}
            for place, message in enumerate(messages):
                try:
                    opened.append(self.opened(message))
                    places.append(place)
                except WireError as error:
                    refused[place] = error
            answered = (handler(opened) if opened else None) or {}
            refused.update({places[place]: error for place, error in answered.items()})
            return refused

        return handle

    def receive(self, timeout: float | None) -> Message | None:
        """The next message that is not refused; one that cannot be judged now is tried again, and comes first."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            message = self._held.pop(threading.get_ident(), None) or self._engine.receive(left)
            if message is None:
                return None
            try:
                return self.opened(message)
            except AwayError:
                self._held[threading.get_ident()] = message
                if left is not None and left <= 0:
                    return None
                time.sleep(_AWAY_SECONDS if left is None else min(left, _AWAY_SECONDS))
            except WireError:
                continue  # said in the log; the next `receive` finishes it

    def opened(self, message: Message) -> Message:
        """Raises WireError for what is refused, by the code of the refusal; AwayError for what cannot be judged now."""
        try:
            view = self._guard.open(message.metadata)
        except (KeyUnavailableError, SchemasAwayError, StorageError) as error:  # StorageError: of the audit log
            raise AwayError(f"{error.code}: {error}") from None
        except MessageError as error:
            log.warning("a message of %s was refused: %s: %s", message.source, error.code, error)
            raise WireError(error.code, str(error)) from None
        except WireError as error:
            log.warning("a message of %s was refused: %s", message.source, error)
            raise
        return message if view is message.metadata else message.with_view(view)
