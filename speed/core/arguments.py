"""What a program passes to a node's verbs: a wrong type is refused where it is passed, with what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from speed.core.hints import type_name
from speed.errors import ConfigurationError, InvalidNameError


def text(what: str, name: Any) -> str:
    """``name`` if it is text; InvalidNameError for anything else."""
    if isinstance(name, str):
        return name
    raise InvalidNameError(f"the name of a {what} must be a str, not {type_name(name)}")


def texts(what: str, values: Any) -> tuple[str, ...]:
    """Several names or labels as a tuple; ConfigurationError for one str alone, or for anything else."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        listed = tuple(values)
        if all(isinstance(value, str) for value in listed):
            return listed
    given = f"one str: write {what}=[{values!r}]" if isinstance(values, str) else type_name(values)
    raise ConfigurationError(f"{what} must be a list or set of str, not {given}")


def each(verb: str, patterns: tuple[Any, ...]) -> tuple[str, ...]:
    """Names that are passed one by one; ConfigurationError for a list of them."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ConfigurationError(
                f"{verb} takes names one by one, {verb}('billing', 'etl.*') or {verb}(*names), not {type_name(pattern)}"
            )
    return patterns


def several(what: str, values: Any) -> Any:
    """What is gone through; ConfigurationError for what cannot be."""
    if isinstance(values, Iterable):
        return values
    raise ConfigurationError(f"{what} must be a list, or something else that is gone through, not {type_name(values)}")


def by_name(arguments: Any) -> dict[str, Any]:
    """The arguments of a call; ConfigurationError unless they are a dict, or None for none."""
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return arguments
    raise ConfigurationError(
        f"the arguments of a call must be a dict such as {{'amount': 5}}, not {type_name(arguments)}: they have names"
    )


def function(what: str, given: Any) -> Callable[..., Any]:
    """What is to be called; ConfigurationError for what cannot be."""
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise ConfigurationError(f"{what} must be a function, not {type_name(given)}")


def number(what: str, value: Any) -> Any:
    """A number; ConfigurationError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ConfigurationError(f"{what} must be a number, not {type_name(value)}")
