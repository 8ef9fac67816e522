"""Payloads as objects of a program's own types, for typed subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any

from speed.core.hints import Hint, compile_hint, describe
from speed.errors import ConfigurationError, WireError
from speed.message.errors import MessageError
from speed.runtime.message import Message
from speed.wire.content import BATCH_TYPE

Handler = Callable[[Message], object]
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


def typed(kind: Any, handler: Handler) -> Handler:
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


def _handled_each(handler: Handler, parts: Sequence[TypedMessage]) -> object:
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
    misfit = hint.misfit(payload)
    if misfit is not None:
        told = f"payload{misfit.where} must be {misfit.expected}, not {misfit.given}"
        raise WireError("BAD_MESSAGE", told)
    return payload if hint.make is None else hint.make(payload)


def _protobuf(kind: type, payload: Any) -> Any:
    """The message, also where its type is not linked into this process under its name and came as Any."""
    if isinstance(payload, kind):
        return payload
    if payload.DESCRIPTOR.full_name == "google.protobuf.Any":
        wanted: Any = kind
        if payload.type_url.rpartition("/")[2] == wanted.DESCRIPTOR.full_name:
            return wanted.FromString(payload.value)
    raise TypeError
