"""Payloads as objects of a program's own types, for typed subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from speed.errors import ConfigurationError, WireError
from speed.runtime.message import Message

Handler = Callable[[Message], object]


class TypedMessage(Message):
    """A message whose payload was turned into an object once, before its handler was called."""

    __slots__ = ("_value",)
    _value: Any

    @property
    def payload(self) -> Any:
        """The object."""
        return self._value


def typed(kind: type, handler: Handler) -> Handler:
    """``handler`` for messages with a payload of ``kind``; WireError(BAD_MESSAGE) for others, before it is called.

    Raises ConfigurationError for a type that payloads cannot become.
    """
    convert = _converter(kind)

    def handle(message: Message) -> object:
        return handler(_converted(message, kind, convert))

    return handle


def _converted(message: Message, kind: type, convert: Callable[[Any], Any]) -> TypedMessage:
    try:
        value = convert(message.payload)
    except WireError:
        raise
    except Exception as error:  # what a program's own class raises for values that it does not take
        raise WireError("BAD_MESSAGE", f"payload: is no {kind.__name__} ({type(error).__name__})") from None
    made = TypedMessage(
        message.metadata,
        source=message.source,
        sequence=message.sequence,
        timestamp_ms=message.timestamp_ms,
        redelivered=message.redelivered,
        finish=message.done,
        deliveries=message.deliveries,
    )
    made._value = value
    return made


def _converter(kind: type) -> Callable[[Any], Any]:
    if hasattr(kind, "DESCRIPTOR"):
        return lambda payload: _protobuf(kind, payload)
    if is_dataclass(kind):
        return lambda payload: _dataclass(kind, payload)
    validate: Callable[[Any], Any] | None = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate
    if kind in (dict, list, str, bytes, int, float, bool):
        return lambda payload: _plain(kind, payload)
    raise ConfigurationError(
        f"{kind.__name__} is no type of payloads: use a dataclass, a protobuf class or a plain type"
    )


def _protobuf(kind: type, payload: Any) -> Any:
    """The message, also where its type is not linked into this process under its name and came as Any."""
    if isinstance(payload, kind):
        return payload
    if payload.DESCRIPTOR.full_name == "google.protobuf.Any":
        wanted: Any = kind
        if payload.type_url.rpartition("/")[2] == wanted.DESCRIPTOR.full_name:
            return wanted.FromString(payload.value)
    raise TypeError


def _dataclass(kind: Any, payload: Any) -> Any:
    """An object of the fields; nested dataclasses too. Unknown members are ignored, as unknown fields are (M-12)."""
    hints = get_type_hints(kind)
    values = {}
    for one in fields(kind):
        if one.init and one.name in payload:
            value, hint = payload[one.name], hints[one.name]
            if isinstance(hint, type) and is_dataclass(hint):
                value = _dataclass(hint, value)
            elif isinstance(hint, type) and not _fits(hint, value):
                raise TypeError
            values[one.name] = value
    return kind(**values)


def _fits(hint: type, value: Any) -> bool:
    """Whether a value is of a plain type; an int is a float, a bool is no int."""
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint not in (str, bytes, bool, dict, list) or isinstance(value, hint)


def _plain(kind: type, payload: Any) -> Any:
    if not _fits(kind, payload):
        raise TypeError
    return payload
