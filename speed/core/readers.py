"""What reads a value as a hint asks (V-1, V-2): exact types that fit, and code that makes the rest of them.

A record's reader is compiled once, as dataclasses compile their constructors: most of what a call costs is here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from speed.wire.text import type_name

Schema = Mapping[str, Any]
"""JSON Schema of the form in which a value travels."""
ANY_SCHEMA: Schema = {}


class Misfit(Exception):
    """Why a value does not fit: where inside it (``[3].price``), what was expected there, and what came."""

    def __init__(self, where: str, expected: str, given: str, *, refused: bool = False) -> None:
        """``refused``: it has the right form, and the program's own type does not take it."""
        super().__init__(where, expected, given)
        self.where, self.expected, self.given, self.refused = where, expected, given, refused

    def below(self, step: str) -> Misfit:
        """The same, seen from what holds the value."""
        self.where = step + self.where
        return self

    def text(self, what: str) -> str:
        """For people; ``what`` names the value."""
        if self.refused:
            return f"{what}{self.where} is no {self.expected} ({self.given})"
        return f"{what}{self.where} must be {self.expected}, not {self.given}"


class Hint(NamedTuple):
    """The check of one hint: the exact types that fit (None: any), and what reads a value if that is not all.

    ``read`` gives what is asked for, which is often the value itself; it raises Misfit.
    """

    label: str
    kinds: frozenset[type] | None
    read: Callable[[Any], Any] | None = None
    schema: Schema = ANY_SCHEMA

    def take(self, value: Any) -> Any:
        """What the hint asks for. Raises Misfit."""
        if self.kinds is not None and type(value) not in self.kinds:
            raise Misfit("", self.label, type_name(value))
        return value if self.read is None else self.read(value)


ANYTHING = Hint("Any", None)


class RecordMember(NamedTuple):
    """A field of a record: its name in a program and on the wire, its hint, whether it must be."""

    name: str
    key: str
    hint: Hint
    is_required: bool


def built(label: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise unmade(label, error) from None


def unmade(label: str, error: Exception) -> Misfit:
    """What a type of the program raises for values that it does not take."""
    return Misfit("", label, type(error).__name__, refused=True)


def items_reader(item: Hint) -> Callable[[Any], Any]:
    """What reads a list: itself where the types of all items say that they fit.

    Each item is read once, so that what is wrong deep inside costs no more.
    """
    kinds, read, take = item.kinds, item.read, item.take

    def reading(values: Any) -> list[Any]:
        taken: list[Any] = []
        try:
            for one in values:
                fits = kinds is None or type(one) in kinds
                taken.append(read(one) if read and fits else take(one))
        except Misfit as misfit:
            raise misfit.below(f"[{len(taken)}]") from None
        return taken

    def fitting(values: Any) -> Any:
        return values if kinds is None or kinds.issuperset(map(type, values)) else reading(values)

    return fitting if read is None else reading


# Readers of records, compiled.


def record_reader(label: str, make: Callable[..., Any] | None, members: list[RecordMember]) -> Callable[[Any], Any]:
    """What makes a record of a map by ``make``, called by names; a dict of them without it.

    Keys that no member has are ignored, like unknown fields of a message.
    """
    names: dict[str, Any] = {"Misfit": Misfit, "type_name": type_name, "unmade": unmade, "label": label, "make": make}
    lines = ["def read(value):"]
    required = [(place, one) for place, one in enumerate(members) if one.is_required]
    if required:
        lines += [" try:", *(f"  v{place} = value[{one.key!r}]" for place, one in required)]
        lines += [" except KeyError as error:"]
        lines += ["  raise Misfit('', f'a map with {error.args[0]!r}', 'one without it') from None"]
    for place, one in required:
        lines += [f" {line}" for line in _checked(place, one, names)]
    given = _given(make, [(place, one.name) for place, one in required])
    if len(required) < len(members):
        lines.append(" more = {}")
        for place, one in enumerate(members):
            if not one.is_required:
                lines += [f" if {one.key!r} in value:", f"  v{place} = value[{one.key!r}]"]
                lines += [f"  {line}" for line in _checked(place, one, names)]
                lines.append(f"  more[{one.name!r}] = v{place}")
        given.append("**more")
    if make is None:
        lines.append(f" return {{{', '.join(given)}}}")
    else:
        lines += [" try:", f"  return make({', '.join(given)})"]
        lines += [" except Exception as error:", "  raise unmade(label, error) from None"]
    exec("\n".join(lines), names)  # noqa: S102 - of the program's own types: keys and names stand in it as quoted text
    reader: Callable[[Any], Any] = names["read"]
    return reader


def _given(make: Callable[..., Any] | None, members: list[tuple[int, str]]) -> list[str]:
    """What ``make`` is called with: by place where its parameters have the same order, which costs half as much."""
    if make is None:
        return [f"{name!r}: v{place}" for place, name in members]
    if _leading(make)[: len(members)] == [name for _, name in members]:
        return [f"v{place}" for place, _ in members]
    return [f"{name}=v{place}" for place, name in members]


def _leading(make: Callable[..., Any]) -> list[str]:
    """The names of what it takes by place, in order."""
    try:
        listed = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # it does not say
        return []
    return [one.name for one in listed if one.kind is one.POSITIONAL_OR_KEYWORD]


def _checked(place: int, one: RecordMember, names: dict[str, Any]) -> list[str]:
    """Lines that check one member, and read it."""
    kinds, read = one.hint.kinds, one.hint.read
    lines = []
    where = repr(f".{one.key}")
    if kinds is not None:
        names[f"k{place}"] = next(iter(kinds)) if len(kinds) == 1 else kinds
        names[f"l{place}"] = one.hint.label
        lines += [f"if type(v{place}) {'is not' if len(kinds) == 1 else 'not in'} k{place}:"]
        lines += [f" raise Misfit({where}, l{place}, type_name(v{place}))"]
    if read is not None:
        names[f"r{place}"] = read
        lines += ["try:", f" v{place} = r{place}(v{place})"]
        lines += ["except Misfit as misfit:", f" raise misfit.below({where}) from None"]
    return lines
