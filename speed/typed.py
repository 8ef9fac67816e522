"""Payloads as objects of a program's own types, for typed subscriptions."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from speed.core.hints import compile_hint, describe, type_name
from speed.errors import ConfigurationError, WireError
from speed.runtime.message import Message

Handler = Callable[[Message], object]
Convert = Callable[[Any, str], Any]
"""A value, and where in the payload it stands, to what the program wants; raises WireError(BAD_MESSAGE)."""


class TypedMessage(Message):
    """A message whose payload was turned into an object once, before its handler was called."""

    __slots__ = ("_value",)
    _value: Any

    @property
    def payload(self) -> Any:
        """The object."""
        return self._value


def typed(kind: Any, handler: Handler) -> Handler:
    """``handler`` for messages with a payload of ``kind``; WireError(BAD_MESSAGE) for others, before it is called.

    Raises ConfigurationError for a type that payloads cannot become, or a field whose hint nobody can check.
    """
    convert = _converter(kind)

    def handle(message: Message) -> object:
        return handler(_converted(message, kind, convert))

    return handle


def _converted(message: Message, kind: Any, convert: Convert) -> TypedMessage:
    try:
        value = convert(message.payload, "payload")
    except WireError:
        raise
    except Exception as error:  # what a program's own class raises for values that it does not take
        raise WireError("BAD_MESSAGE", f"payload: is no {describe(kind)} ({type(error).__name__})") from None
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


def _converter(kind: Any) -> Convert:
    if hasattr(kind, "DESCRIPTOR"):
        return lambda payload, _: _protobuf(kind, payload)
    validate: Callable[[Any], Any] | None = getattr(kind, "model_validate", None)
    if validate is not None:
        return lambda payload, _: validate(payload)
    try:
        return _value(kind, "a typed subscription", {})
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; a payload may also be a protobuf class, or one with model_validate"
        ) from None


def _protobuf(kind: type, payload: Any) -> Any:
    """The message, also where its type is not linked into this process under its name and came as Any."""
    if isinstance(payload, kind):
        return payload
    if payload.DESCRIPTOR.full_name == "google.protobuf.Any":
        wanted: Any = kind
        if payload.type_url.rpartition("/")[2] == wanted.DESCRIPTOR.full_name:
            return wanted.FromString(payload.value)
    raise TypeError


def _value(hint: Any, what: str, begun: dict[Any, Convert]) -> Convert:
    """The conversion of a value with this hint: dataclasses are made, also in lists, all else is checked.

    ``begun`` are dataclasses that are being looked at: one may hold others of its kind.
    """
    if isinstance(hint, type) and is_dataclass(hint):
        return begun.get(hint) or _object(hint, begun)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    present = [part for part in arguments if part is not type(None)]
    if len(present) == 1 and _holds_object(present[0]):
        if origin is typing.Union or origin is types.UnionType:
            convert = _value(present[0], what, begun)
            return lambda value, where: None if value is None else convert(value, where)
        if origin in (list, Sequence):
            return _list_of(_value(present[0], what, begun))
    check = compile_hint(hint, what)

    def checked(value: Any, where: str) -> Any:
        misfit = check.misfit(value)
        if misfit is not None:
            raise _unfit(where + misfit.where, f"must be {misfit.expected}, not {misfit.given}")
        return value

    return checked


def _holds_object(hint: Any) -> bool:
    return is_dataclass(hint) or any(map(_holds_object, typing.get_args(hint)))


def _list_of(convert: Convert) -> Convert:
    def convert_all(values: Any, where: str) -> Any:
        if not isinstance(values, list):
            raise _unfit(where, f"must be a list, not {type_name(values)}")
        return [convert(value, f"{where}[{place}]") for place, value in enumerate(values)]

    return convert_all


def _object(kind: Any, begun: dict[Any, Convert]) -> Convert:
    """The conversion of a map to a dataclass. Members that it has no field for are ignored, like unknown fields."""
    converts: dict[str, Convert] = {}
    wanted = [one for one in fields(kind) if one.init]
    required = [one.name for one in wanted if _is_required(one)]

    def make(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _unfit(where, f"must be a map, not {type_name(value)}")
        missing = [name for name in required if name not in value]
        if missing:
            raise _unfit(where, f"has no {missing[0]!r}")
        made = {name: convert(value[name], f"{where}.{name}") for name, convert in converts.items() if name in value}
        return kind(**made)

    begun[kind] = make
    hints = _hints_of(kind)
    converts.update({one.name: _value(hints[one.name], f"{kind.__name__}.{one.name}", begun) for one in wanted})
    return make


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _hints_of(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception as error:  # annotations run the user's code: any exception may come out of it
        raise ConfigurationError(f"the type hints of {kind.__name__} cannot be read ({error})") from None


def _unfit(where: str, why: str) -> WireError:
    return WireError("BAD_MESSAGE", f"{where} {why}")
