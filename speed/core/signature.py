"""A function's signature compiled into argument checks that cost about a microsecond per call (rule S-9)."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from speed.core.hints import ANYTHING, Hint, Misfit, compile_hint, type_name
from speed.errors import ConfigurationError, InvalidArgumentsError
from speed.wire.column import Column

_NO_TYPES: Mapping[Any, frozenset[type]] = types.MappingProxyType({})


class Parameters(NamedTuple):
    """The compiled checks of one function."""

    service: str
    hints: Mapping[str, Hint]
    """The check of each parameter."""
    required: frozenset[str]
    rest: Hint | None
    """The check of what ``**kwargs`` takes; None for a function without it."""
    request_parameter: str | None
    """The parameter that wants the request itself, if any."""
    signature: str
    makes: bool
    """Whether a parameter asks for what is made of its argument."""
    viewed: tuple[str, ...]
    """The parameters that ask for a view of bytes."""

    def taken(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function gets for ``arguments``.

        Raises InvalidArgumentsError naming the first wrong, unknown or missing argument.
        """
        self._check(arguments)
        if not self.makes:
            return arguments
        return {name: self._made(name, value) for name, value in arguments.items()}

    def _made(self, name: str, value: Any) -> Any:
        hint = self.hints.get(name) or self._of_rest(name)
        if hint.make is None:
            return value
        try:
            return hint.make(value)
        except Exception as error:  # what a dataclass of the program raises for values that it does not take
            raise InvalidArgumentsError(
                f"{self.service}: argument {name!r} is no {hint.label} ({type(error).__name__})", {"argument": name}
            ) from None

    def _check(self, arguments: Mapping[str, Any]) -> None:
        hints = self.hints
        for name, value in arguments.items():
            hint = hints.get(name) or self._of_rest(name)
            if (hint.kinds is not None and type(value) not in hint.kinds) or hint.inside is not None:
                misfit = hint.misfit(value)
                if misfit is not None:
                    raise self._misfit(name, misfit)
        if not self.required <= arguments.keys():
            missing = sorted(self.required - arguments.keys())
            listed = ", ".join(map(repr, missing))
            raise InvalidArgumentsError(
                f"{self.service}: missing argument {listed}; expected {self.signature}", {"argument": missing[0]}
            )

    def _of_rest(self, name: str) -> Hint:
        if self.rest is None or name == self.request_parameter:
            raise InvalidArgumentsError(
                f"{self.service}: unknown argument {name!r}; expected {self.signature}", {"argument": name}
            )
        return self.rest

    def _misfit(self, name: str, misfit: Misfit) -> InvalidArgumentsError:
        told = f"argument {name!r}{misfit.where} must be {misfit.expected}, not {misfit.given}"
        if misfit.given == Column.__name__:
            told = f"argument {name!r} is a column, which this function does not take: use {_FOR_COLUMNS}"
        return InvalidArgumentsError(
            f"{self.service}: {told}", {"argument": name, "expected": misfit.expected, "given": misfit.given}
        )


def compile_parameters(
    service: str, function: Callable[..., Any], request_type: type, also: Mapping[Any, frozenset[type]] = _NO_TYPES
) -> Parameters:
    """Read the signature once; ``also`` are types of arguments beside those of the wire.

    Raises ConfigurationError for positional-only parameters, since arguments travel by name, and for type hints that
    cannot be checked.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Parameters(service, {}, frozenset(), ANYTHING, None, "(**kwargs)", False, ())
    names = _globals(function)
    wanted: str | None = None
    rest: Hint | None = None
    hints: dict[str, Hint] = {}
    required: set[str] = set()
    for name, parameter in signature.parameters.items():
        what = f"service {service!r}: parameter {name!r}"
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigurationError(f"{what} is positional-only; remove the '/'")
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        written = _written(parameter, names, what)
        if written is request_type:
            wanted = name
            continue
        hint = _UNHINTED if written is parameter.empty else compile_hint(written, what, also)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = hint
            continue
        hints[name] = hint
        if parameter.default is parameter.empty:
            required.add(name)
    makes = any(hint.make is not None for hint in (*hints.values(), rest or ANYTHING))
    viewed = tuple(name for name, hint in hints.items() if memoryview in (hint.kinds or ()))
    return Parameters(service, hints, frozenset(required), rest, wanted, str(signature), makes, viewed)


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that the annotations of ``function`` may use."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return getattr(inspect.unwrap(function), "__globals__", {})


def _written(parameter: inspect.Parameter, names: dict[str, Any], what: str) -> Any:
    """The type hint of a parameter, resolved and without ``Annotated``; ``Parameter.empty`` where there is none."""
    if parameter.annotation is parameter.empty:
        return parameter.empty
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, names)[parameter.name]
    except Exception as error:  # annotations run the user's code: any exception may come out of it
        raise ConfigurationError(
            f"{what} has the type hint {parameter.annotation!r}, which cannot be read ({error}): "
            "import what it names, where the function is defined"
        ) from None


def _no_column(value: Any) -> Misfit | None:
    return Misfit("", "a value of one call", type_name(value)) if type(value) is Column else None


_UNHINTED = Hint("Any", None, _no_column)
"""Whoever wants a column says so: a function of plain values would fail at it, and not say why."""
_FOR_COLUMNS = "@by_row or @by_array of speed.column_services, or declare the parameter as speed.Column"
