"""Messages between engine and program: what is refused reaches no handler, and no lane (M-18, M-24 to M-28)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from speed.core.hints import compile_hint
from speed.core.log import logger
from speed.core.readers import Hint, Misfit
from speed.engine import Engine
from speed.engine.message import Message
from speed.engine.tracing import LogLimiter
from speed.errors import ConfigurationError, SpeedError, WireError
from speed.message.errors import AwayError, MessageError
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.text import describe
from speed.wire.value import BATCH_TYPE

if TYPE_CHECKING:
    from speed.engine.message import BatchHandler
    from speed.message.view import MessageView


# Payloads as objects of a program's own types, for typed subscriptions.

TypedHandler = Callable[[Message], object]
Convert = Callable[[Any], Any]
"""A payload to what the program wants; raises WireError(BAD_MESSAGE)."""


class TypedMessage(Message):
    """A message whose payload was turned into an object once, before its handler was called."""

    __slots__ = ("_value",)
    _value: Any

    @property
    def payload(self) -> Any:
        """The object."""
        return self._value

    @property
    def payloads(self) -> list[Any]:
        """The same in a list: a batch is handed out one payload at a time."""
        return [self._value]


def typed(kind: Any, handler: TypedHandler) -> TypedHandler:
    """``handler`` for messages with a payload of ``kind``; WireError(BAD_MESSAGE) for others, before it is called.

    Of a batch it is called for each payload, in their order, once all of them are of ``kind``. Raises
    ConfigurationError for a type that payloads cannot become, or a field whose hint nobody can check.
    """
    convert = _converter(kind)

    def handle(message: Message) -> object:
        if message.metadata.content_type != BATCH_TYPE:
            return handler(_made(message, _converted(message.payload, kind, convert), message.done))
        return _handled_each(handler, _parts(message, kind, convert))

    return handle


def _handled_each(handler: TypedHandler, parts: Sequence[TypedMessage]) -> object:
    """Call ``handler`` for one after the other; what it returns to be awaited is awaited before the next."""
    for number, part in enumerate(parts, 1):
        result = handler(part)
        if type(result) is CoroutineType:
            return _awaited_each(result, handler, parts[number:])
    return None


async def _awaited_each(first: Any, handler: Any, rest: Sequence[TypedMessage]) -> None:
    await first
    for part in rest:
        await handler(part)


def _parts(message: Message, kind: Any, convert: Convert) -> list[TypedMessage]:
    """A message for each payload of a batch; the last one finishes it."""
    try:
        values = [_converted(payload, kind, convert) for payload in message.payloads]
    except MessageError as error:
        raise WireError(error.code, str(error)) from None
    parts = [_made(message, value, _finish_nothing) for value in values[:-1]]
    return [*parts, *(_made(message, value, message.done) for value in values[-1:])]


def _finish_nothing() -> None:
    """There are payloads behind it."""


def _converted(payload: Any, kind: Any, convert: Convert) -> Any:
    try:
        return convert(payload)
    except WireError:
        raise
    except Exception as error:  # what a program's own class raises for values that it does not take
        raise WireError("BAD_MESSAGE", f"payload: is no {describe(kind)} ({type(error).__name__})") from None


def _made(message: Message, value: Any, finish: Callable[[], None]) -> TypedMessage:
    made = TypedMessage(
        message.metadata,
        source=message.source,
        sequence=message.sequence,
        timestamp_ms=message.timestamp_ms,
        redelivered=message.redelivered,
        finish=finish,
        deliveries=message.deliveries,
        sender_identity=message.sender_identity,
    )
    made._value = value
    return made


def _converter(kind: Any) -> Convert:
    if hasattr(kind, "DESCRIPTOR"):
        return lambda payload: _protobuf(kind, payload)
    validate: Callable[[Any], Any] | None = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate
    try:
        hint = compile_hint(kind, "a typed subscription")
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; a payload may also be a protobuf class, or one with model_validate"
        ) from None
    return lambda payload: _fitting(hint, payload)


def _fitting(hint: Hint, payload: Any) -> Any:
    try:
        return hint.take(payload)
    except Misfit as misfit:
        raise WireError("BAD_MESSAGE", misfit.text("payload")) from None


def _protobuf(kind: type, payload: Any) -> Any:
    """The message, also where its type is not linked into this process under its name and came as Any."""
    if isinstance(payload, kind):
        return payload
    if payload.DESCRIPTOR.full_name == "google.protobuf.Any":
        wanted: Any = kind
        if payload.type_url.rpartition("/")[2] == wanted.DESCRIPTOR.full_name:
            return wanted.FromString(payload.value)
    raise TypeError


log = logger("speed.messages")

Handler = Callable[["Message"], object]
_AWAY_SECONDS = 0.1
"""Pause before a message that could not be judged is looked at again."""


class Opening:
    """Looks at each message before the program does. By itself, it asks what every node asks. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limiter = LogLimiter()
        self._held: dict[int, Message] = {}
        """What a thread received and cannot be judged now."""

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
            if not refused:
                return answered
            of_batch = dict(enumerate(places))  # a place that is none stays none
            return refused | {of_batch.get(place, len(messages)): error for place, error in answered.items()}

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
            view = self._look(message)
        except AwayError:
            raise
        except MessageError as error:
            text = "a message of %s was refused: %s: %s"
            self._limiter.warn(log, error.code, text, message.source, error.code, error)
            raise WireError(error.code, str(error)) from None
        except WireError as error:
            self._limiter.warn(log, error.reason, "a message of %s was refused: %s", message.source, error)
            raise
        return message if view is message.metadata else message.with_view(view)

    def check_forwarded(self, messages: Iterable[bytes]) -> None:
        """TokenError for a message with a token, WireError for one in which a token could hide (M-27)."""
        with lazily.guard:
            from speed.message.audit import check_no_token

        for data in messages:
            try:
                check_no_token(data)
            except (MessageError, WireError) as error:
                self._tell_not_forwarded(data, error)
                raise

    def _tell_not_forwarded(self, data: bytes, error: SpeedError) -> None:
        """For an audit, where there is one."""

    def _look(self, message: Message) -> MessageView:
        """What the program is handed; MessageError, WireError."""
        return opened_unguarded(message.metadata)


def opened_unguarded(view: MessageView) -> MessageView:
    """What a program gets without settings for security: no key is used, and what is compressed alone is read (M-9).

    MessageError for what every reader refuses.
    """
    if not view.has_publisher_only:  # most messages do
        check_unopened(view)
    return view if view.content_encoding == "none" else _decompressed(view)


def _decompressed(view: MessageView) -> MessageView:
    with lazily.guard:
        from speed.message.compression import is_read
        from speed.message.protect import open_view, whole

    if view.is_encrypted or view.size > MAX_PAYLOAD_BYTES or not is_read(view.content_encoding):
        return view  # its payload raises, and says why
    return open_view(whole(view), _no_key)


def _no_key(_: str) -> None:
    """Nothing is decrypted."""


def check_unopened(view: MessageView) -> None:
    """What a node asks that verifies and decrypts nothing. AlgorithmError, NotEncryptedError."""
    with lazily.guard:
        from speed.message.algorithms import algorithm_of, check_sensitivity, check_signature_algorithm

    security = view.security
    check_signature_algorithm(security)
    check_sensitivity(security.data_classification, view.is_encrypted)
    if view.is_encrypted:
        algorithm_of(security.encryption.algorithm)
