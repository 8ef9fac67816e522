"""Signatures of functions: compiled into checks of arguments (S-9), and into what others are told of them (S-26)."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from speed.core.hints import Known, compile_hint
from speed.core.readers import ANYTHING, Hint, Misfit, Schema
from speed.errors import ConfigurationError, InvalidArgumentsError, ServiceNotFoundError, UnserialisableError
from speed.wire.column import Column
from speed.wire.limits import MAX_DESCRIPTION_BYTES, MAX_SUMMARY_CHARACTERS
from speed.wire.text import type_name
from speed.wire.value import pack

# A function's signature compiled into argument checks that cost about a microsecond per call (rule S-9).

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
    viewed: tuple[str, ...]
    """The parameters that ask for a view of bytes."""
    schema: Schema
    result: Schema
    items: ItemsParameter | None = None
    """The parameter that takes the items of a stream."""

    def taken(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function gets for ``arguments``.

        Raises InvalidArgumentsError naming the first wrong, unknown or missing argument.
        """
        hints, made = self.hints, None
        for name, value in arguments.items():
            hint = hints.get(name) or self._of_rest(name)
            try:
                if hint.kinds is not None and type(value) not in hint.kinds:
                    hint.take(value)
                taken = value if hint.read is None else hint.read(value)
            except Misfit as misfit:
                raise self._misfit(name, misfit) from None
            if taken is not value:
                made = dict(arguments) if made is None else made
                made[name] = taken
        if not self.required <= arguments.keys():
            missing = sorted(self.required - arguments.keys())
            listed = ", ".join(map(repr, missing))
            raise InvalidArgumentsError(
                f"{self.service}: missing argument {listed}; expected {self.signature}", {"argument": missing[0]}
            )
        return arguments if made is None else made

    def _of_rest(self, name: str) -> Hint:
        is_items = self.items is not None and name == self.items.name
        if self.rest is None or name == self.request_parameter or is_items:
            raise InvalidArgumentsError(
                f"{self.service}: unknown argument {name!r}; expected {self.signature}", {"argument": name}
            )
        return self.rest

    def _misfit(self, name: str, misfit: Misfit) -> InvalidArgumentsError:
        text = misfit.text(f"argument {name!r}")
        if misfit.given == Column.__name__:
            text = f"argument {name!r} is a column, which this function does not take: use {_FOR_COLUMNS}"
        details = {"argument": name, "expected": misfit.expected, "given": misfit.given}
        if misfit.where:
            details["path"] = f"{name}{misfit.where}"
        return InvalidArgumentsError(f"{self.service}: {text}", details)


class ItemsParameter(NamedTuple):
    """A parameter that takes what a caller sends, item by item: an ``Iterator``, or an ``AsyncIterator``."""

    name: str
    hint: Hint
    """Of each item."""
    is_awaited: bool


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
        return Parameters(service, {}, frozenset(), ANYTHING, None, "(**kwargs)", (), {"type": "object"}, {})
    names = _globals(function)
    wanted: str | None = None
    rest: Hint | None = None
    hints: dict[str, Hint] = {}
    required: set[str] = set()
    items: ItemsParameter | None = None
    known = Known(also)
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
        if (kind := _streamed(written, _TAKEN)) is not None:
            if items is not None:
                raise ConfigurationError(f"{what} takes items, as {items.name!r} does: one parameter can")
            item = ANYTHING if kind.item is None else compile_hint(kind.item, what, known=known)
            items = ItemsParameter(name, item, kind.is_awaited)
            continue
        hint = _UNHINTED if written is parameter.empty else compile_hint(written, what, known=known)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = hint
            continue
        hints[name] = hint
        if parameter.default is parameter.empty:
            required.add(name)
    viewed = tuple(name for name, hint in hints.items() if memoryview in (hint.kinds or ()))
    schema = _schema(hints, sorted(required), rest, known)
    result = _result_schema(signature, names)
    required_names = frozenset(required)
    return Parameters(service, hints, required_names, rest, wanted, str(signature), viewed, schema, result, items)


class _Streamed(NamedTuple):
    item: Any
    is_awaited: bool


_TAKEN = {abc.Iterator: False, abc.AsyncIterator: True}
_GIVEN = {**_TAKEN, abc.Iterable: False, abc.Generator: False, abc.AsyncIterable: True, abc.AsyncGenerator: True}
"""Hints of what travels item by item, and whether it is awaited."""
_CALLED: Mapping[Any, bool] = {abc.Iterator: False, abc.Generator: False}
"""Likewise, of methods of clients."""


def streamed_item(hint: Any) -> Any:
    """What each item is of a result or parameter that a method of a client streams; None for any other hint."""
    if (kind := _streamed(hint, _CALLED)) is None:
        return None
    return Any if kind.item is None else kind.item


def _streamed(hint: Any, kinds: Mapping[Any, bool]) -> _Streamed | None:
    """The item of a hint that stands for many; None for any other."""
    origin = typing.get_origin(hint) or hint
    try:
        is_awaited = kinds.get(origin)
    except TypeError:  # unhashable
        return None
    arguments = typing.get_args(hint)
    return None if is_awaited is None else _Streamed(arguments[0] if arguments else None, is_awaited)


def _schema(hints: Mapping[str, Hint], required: list[str], rest: Hint | None, known: Known) -> Schema:
    """The arguments as one object of JSON Schema."""
    schema: dict[str, Any] = {"type": "object", "properties": {name: hint.schema for name, hint in hints.items()}}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False if rest is None else rest.schema
    if known.definitions:
        schema["$defs"] = known.definitions
    return schema


def _result_schema(signature: inspect.Signature, names: dict[str, Any]) -> Schema:
    """What a function says that it returns; nothing where it does not say, or says what has no form."""
    if signature.return_annotation is signature.empty:
        return {}
    known = Known()
    try:
        holder = types.SimpleNamespace(__annotations__={"return": signature.return_annotation})
        hint = typing.get_type_hints(holder, names)["return"]
        if (kind := _streamed(hint, _GIVEN)) is not None:
            hint = Any if kind.item is None else kind.item
        schema = compile_hint(hint, "the result", known=known).schema
    except Exception:  # annotations run the user's code; what a result is made of is not checked
        return {}
    return {**schema, "$defs": known.definitions} if known.definitions else schema


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


def _no_column(value: Any) -> Any:
    if type(value) is Column:
        raise Misfit("", "a value of one call", type_name(value))
    return value


_UNHINTED = Hint("Any", None, _no_column)
"""Whoever wants a column says so: a function of plain values would fail at it, and not say why."""
_FOR_COLUMNS = "@by_row, @by_array or @by_arrow of speed.column_services, or declare the parameter as speed.Column"


# What others are told of a service (S-26).


class Description(NamedTuple):
    """What a service takes and gives, as its node tells (S-26).

    Attributes:
        name: of the service.
        summary: one line, maybe empty.
        version: the service's own, maybe empty.
        parameters: JSON Schema of the arguments together; None where the service does not declare them.
        result: JSON Schema of the result; None where it is not declared.
        streaming: whether it gives many items or takes some: ``node.stream`` calls it, and ``result`` is of one item.
        idempotent: whether a call may run again after a crash.
        columns: whether it takes columns, one value for each row.
        items: of one that streams, whose items there are: ``"service"``, ``"caller"`` or ``"both"``; None where its
            node does not say.
    """

    name: str
    summary: str = ""
    version: str = ""
    parameters: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    streaming: bool = False
    idempotent: bool = False
    columns: bool = False
    items: str | None = None

    def travelling(self) -> dict[str, Any]:
        """As a node tells it."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def signature(self) -> str:
        """For people: ``(amount: number, rate: number = …) -> object``; ``(…)`` where parameters are not declared."""
        result = "" if not self.result else f" -> {_schema_name(self.result)}"
        if self.parameters is None:
            return f"(…){result}"
        properties, required = self.parameters.get("properties"), self.parameters.get("required")
        listed = [
            f"{name}: {_schema_name(schema)}" + ("" if isinstance(required, list) and name in required else " = …")
            for name, schema in (properties if isinstance(properties, dict) else {}).items()
        ]
        if self.parameters.get("additionalProperties") is not False:
            listed.append("**others")
        return f"({', '.join(listed)}){result}"


def _schema_name(schema: Any, depth: int = 4) -> str:
    """A schema in a word or two: what came from another node may be anything."""
    if type(schema) is not dict or not depth:
        return "any"
    if type(schema.get("$ref")) is str:
        return str(schema["$ref"]).rpartition("/")[2]
    if type(schema.get("anyOf")) is list:
        return " or ".join(_schema_name(one, depth - 1) for one in schema["anyOf"])
    if type(schema.get("enum")) is list:
        return " or ".join(map(repr, schema["enum"]))
    if schema.get("type") == "array" and "items" in schema:
        return f"[{_schema_name(schema['items'], depth - 1)}]"
    return str(schema.get("format") or schema.get("type") or "any")


def described(node: str, listed: Iterable[Mapping[str, Any]], service: str | None) -> list[Description]:
    """The descriptions in a node's checked answer; of ``service`` alone, ServiceNotFoundError if it is not there."""
    found = [Description._make(one.get(name) for name in Description._fields) for one in listed]
    if service is None:
        return found
    found = [one for one in found if one.name == service]
    if not found:
        raise ServiceNotFoundError(f"{node}: no service {service!r} there: `speed services` lists those you may call")
    return found


def summary_of(given: Any) -> str:
    """The first line of its docstring; empty for what has none of its own."""
    while isinstance(given, functools.partial):
        given = given.func
    text = getattr(given, "__doc__", None)
    return inspect.cleandoc(text).partition("\n")[0][:MAX_SUMMARY_CHARACTERS] if isinstance(text, str) else ""


def brief(description: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in description.items() if name not in ("parameters", "result")}


def travelling(described: Mapping[str, Any], parameters: Parameters | None) -> Mapping[str, Any]:
    """A description with its schemas, where it has some, and they are not too large."""
    if parameters is None:
        return described
    schemas = {"parameters": parameters.schema, **({"result": parameters.result} if parameters.result else {})}
    try:
        return described if len(pack(schemas)) > MAX_DESCRIPTION_BYTES else {**described, **schemas}
    except UnserialisableError:  # a schema of a program's own model may hold anything
        return described
