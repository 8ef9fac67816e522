"""A function's signature compiled into argument checks that cost about a microsecond per call (rule S-9)."""

from __future__ import annotations

import collections.abc
import datetime
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from speed.errors import ConfigurationError, InvalidArgumentsError
from speed.wire.column import Column

_SIMPLE: dict[Any, frozenset[type]] = {
    int: frozenset({int}),
    float: frozenset({float, int}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    bytes: frozenset({bytes}),
    list: frozenset({list, tuple}),
    tuple: frozenset({list, tuple}),
    dict: frozenset({dict}),
    type(None): frozenset({type(None)}),
    datetime.datetime: frozenset({datetime.datetime}),
    Column: frozenset({Column}),
    collections.abc.Sequence: frozenset({list, tuple}),
    collections.abc.Iterable: frozenset({list, tuple}),
    collections.abc.Mapping: frozenset({dict}),
}


class Parameters(NamedTuple):
    """The compiled checks of one function."""

    service: str
    accepted: Mapping[str, frozenset[type] | None]
    """Types accepted by each parameter; None: anything."""
    labels: Mapping[str, str]
    required: frozenset[str]
    open_ended: bool
    """True when the function takes ``**kwargs``."""
    request_parameter: str | None
    """The parameter that wants the request itself, if any."""
    signature: str

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentsError naming the first wrong, unknown or missing argument."""
        accepted = self.accepted
        for name, value in arguments.items():
            try:
                kinds = accepted[name]
            except KeyError:
                if self.open_ended and name != self.request_parameter:
                    continue
                raise self._unknown(name) from None
            if kinds is not None and type(value) not in kinds:
                raise self._wrong(name, value)
        if not self.required <= arguments.keys():
            missing = sorted(self.required - arguments.keys())
            listed = ", ".join(map(repr, missing))
            raise InvalidArgumentsError(
                f"{self.service}: missing argument {listed}; expected {self.signature}", {"argument": missing[0]}
            )

    def _unknown(self, name: str) -> InvalidArgumentsError:
        return InvalidArgumentsError(
            f"{self.service}: unknown argument {name!r}; expected {self.signature}", {"argument": name}
        )

    def _wrong(self, name: str, value: object) -> InvalidArgumentsError:
        return InvalidArgumentsError(
            f"{self.service}: argument {name!r} must be {self.labels[name]}, not {type_name(value)}",
            {"argument": name, "expected": self.labels[name], "given": type_name(value)},
        )


def compile_parameters(service: str, function: Callable[..., Any], request_type: type) -> Parameters:
    """Read the signature once. Raises ConfigurationError for positional-only parameters: arguments travel by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Parameters(service, {}, {}, frozenset(), True, None, "(**kwargs)")
    hints = _hints(function)
    wanted: str | None = None
    accepted: dict[str, frozenset[type] | None] = {}
    labels: dict[str, str] = {}
    required: set[str] = set()
    open_ended = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigurationError(f"service {service!r}: parameter {name!r} is positional-only; remove the '/'")
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            hint = hints.get(name, Any)
            if hint is request_type:
                wanted = name
                continue
            accepted[name], labels[name] = _accepted(hint), describe(hint)
            if parameter.default is parameter.empty:
                required.add(name)
    return Parameters(service, accepted, labels, frozenset(required), open_ended, wanted, str(signature))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved annotations, NoneType for None and without Annotated; none at all when one cannot be resolved (then
    nothing is checked).
    """
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target)
    except Exception:  # annotations run the user's code: any exception may come out of it
        return {}


def _accepted(hint: Any) -> frozenset[type] | None:
    """Exact types of values that fit ``hint``, as ``_hints`` gave it; None when it is not one of the simple types."""
    origin = typing.get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        parts = [_accepted(part) for part in typing.get_args(hint)]
        if any(part is None for part in parts):
            return None
        return frozenset().union(*(part for part in parts if part is not None))
    try:
        return _SIMPLE.get(origin or hint)
    except TypeError:  # an unhashable annotation
        return None


def describe(hint: Any) -> str:
    """A type for people: ``int``, ``list[int]``, ``int or None``."""
    if isinstance(hint, tuple):
        return " or ".join(describe(part) for part in hint)
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(hint))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")


def type_name(value: object) -> str:
    """The type of a value for people, never its content."""
    return "None" if value is None else type(value).__name__
