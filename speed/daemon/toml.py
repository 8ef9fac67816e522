"""TOML for people: where each key of a text stands, and what a value becomes, one function for each kind.

The scan relies on the document being valid TOML (tomllib parsed it before), so it needs only enough of
the grammar to tell keys from the inside of multi-line values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from speed.backends.address import parse_address
from speed.backends.backend import START
from speed.bridges import KEEPS, end_of
from speed.errors import ConfigurationError, InvalidNameError
from speed.gateway.settings import MAX_HELD_KEYS
from speed.message.algorithms import FIPS_MODES, algorithm_of
from speed.message.declared import TYPES, rotation_of
from speed.message.errors import MessageError
from speed.observe.metrics import split_listen
from speed.wire import names
from speed.wire.names import check_host_name, check_remote_pattern, local_grant
from speed.wire.text import harmless

# Where each key of a TOML text stands: tomllib says what a document means, not where.

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(.*)$""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_STRING = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*')
_SYNTAX_LINE = re.compile(r"\(at line (\d+)")
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")
_DIGITS = re.compile(r"\d[\d_]*")


class TomlSyntaxError(ValueError):
    """The text is not TOML; ``line`` is where reading stopped."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The document and the line (from 1) of every key and table header in it.

    Tables of an array are numbered: ``("process", 0, "name")``. Raises TomlSyntaxError.
    """
    if long := _LONG_KEY.search(text):  # tomllib takes the square of its parts in memory
        raise TomlSyntaxError("a key has too many parts", 1 + text.count("\n", 0, long.start()))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _SYNTAX_LINE.search(message)
        line = int(found.group(1)) if found else max(1, len(text.splitlines()))
        raise TomlSyntaxError(message, line) from None
    except RecursionError:
        raise TomlSyntaxError("lists or tables are nested too deep", _deepest_line(text)) from None
    except ValueError:  # Python makes no number of so many digits
        raise TomlSyntaxError("a number has too many digits", _longest_number_line(text)) from None
    return document, key_lines(text)


def _deepest_line(text: str) -> int:
    return _first_line(text, lambda line: line.count("[") + line.count("{"))


def _longest_number_line(text: str) -> int:
    return _first_line(text, lambda line: max(map(len, _DIGITS.findall(line)), default=0))


def _first_line(text: str, limit: Callable[[str], int]) -> int:
    """Number of the first line that has the most of something."""
    lines = text.splitlines()
    return 1 + max(range(len(lines)), key=lambda number: limit(lines[number]))


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line number of every key path and table header of a valid TOML ``text``."""
    lines: dict[KeyPath, int] = {}
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    value = _OpenValue()
    for number, line in enumerate(text.splitlines(), 1):
        if value.continues(line):
            continue
        if header := _HEADER.match(line):
            table = _table_path(_parts(header.group(2)), header.group(1) == "[[", arrays)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _parts(key.group(1)), number)
            value.begins(key.group(2))
    return lines


def _parts(dotted: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _table_path(parts: KeyPath, is_array: bool, arrays: dict[KeyPath, int]) -> KeyPath:
    """Path of a table header with the index of each array of tables that it passes."""
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path += (part,)
        if is_array and position == len(parts) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path += (arrays[path],)
    return path


class _OpenValue:
    """Follows a value over its lines: open brackets and open multi-line strings."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""

    def begins(self, text: str) -> None:
        self._feed(text)

    def continues(self, line: str) -> bool:
        """Whether ``line`` belongs to the value that an earlier line began."""
        if not self._depth and not self._quote:
            return False
        self._feed(line)
        return True

    def _feed(self, text: str) -> None:
        while True:
            if self._quote:
                end = text.find(self._quote)
                if end < 0:
                    return
                text, self._quote = text[end + 3 :], ""
            token = _STRING.search(text)
            self._count(text[: token.start()] if token else text)
            if token is None or token.group().startswith("#"):
                return
            if token.group() in ('"""', "'''"):
                self._quote = token.group()
            text = text[token.end() :]

    def _count(self, plain: str) -> None:
        self._depth += plain.count("[") + plain.count("{") - plain.count("]") - plain.count("}")


MAX_SHOWN = 200
"""Characters of a wrong value that a mistake shows."""

Convert = Callable[[Any], Any]
"""Makes a setting from a TOML value; raises ValueRefusedError (what is wrong, what to do)."""


class ValueRefusedError(Exception):
    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.what, self.todo = what, todo


def found_value(value: Any) -> str:
    """A value of the file as it is shown to people: some cannot be written out, and some have no end."""
    try:
        return harmless(repr(value), MAX_SHOWN)
    except (ValueError, RecursionError):
        return "what is too large to show"


def as_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueRefusedError(f"expected text, found {found_value(value)}", 'write it in quotes: "…"')
    if "\0" in value:
        raise ValueRefusedError(f"{found_value(value)} has a zero byte", "remove it")
    return value


def as_name(check: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> str:
        text = as_text(value)
        try:
            check(text)
        except InvalidNameError as error:
            raise ValueRefusedError(str(error), "use letters, digits, '_', '-' and '.'") from None
        return text

    return convert


def as_grant(value: Any) -> str:
    """As nodes know it: one for a node of another host is about its stand-in."""
    return local_grant(as_name(lambda text: names.check_grant(local_grant(text)))(value))


def as_namespace(value: Any) -> str:
    text = as_text(value)
    if len(parts := text.split("/")) != 2 or not all(parts):
        raise ValueRefusedError(f"{found_value(value)} is no tenant and namespace", 'write "public/default"')
    return text


def as_tenant_namespace(value: Any) -> str:
    """One that can stand in an address."""
    text = as_namespace(value)
    if not re.fullmatch(r"[\w.=:-]+/[\w.=:-]+", text, re.ASCII):
        raise ValueRefusedError(f"{found_value(value)} has characters that no namespace has", 'write "public/default"')
    return text


def as_url(*schemes: str) -> Convert:
    """An address with a host, and no more than that and its port."""

    def convert(value: Any) -> str:
        text, choices = as_text(value), "|".join(map(re.escape, schemes))
        host = r"[\w.-]+|\[[0-9A-Fa-f:]+\]"
        if not re.fullmatch(rf"({choices})://({host})(:\d{{1,5}})?(,({host})(:\d{{1,5}})?)*/?", text, re.ASCII):
            raise ValueRefusedError(f"{found_value(value)} is no address", f'write "{schemes[0]}://host:port"')
        return text.rstrip("/")

    return convert


def as_nats_address(value: Any) -> str:
    text = as_text(value)
    try:
        address = parse_address(text)
    except ConfigurationError as error:  # it has no credentials in its text
        raise ValueRefusedError(str(error), 'write "nats://host:4222"') from None
    if address.backend != "nats":
        raise ValueRefusedError(f"hosts do not meet over {address.backend}", 'write "nats://host:4222"')
    return text


def as_listen(value: Any) -> str:
    text = as_text(value)
    try:
        split_listen(text)
    except ValueError as error:
        todo = 'write "127.0.0.1:9464", "[::1]:9464" or "unix:/path"'
        raise ValueRefusedError(f"{found_value(value)}: {error}", todo) from None
    return text


def as_list_of(convert: Convert) -> Convert:
    def convert_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueRefusedError(f"expected a list, found {found_value(value)}", 'write it in brackets: ["…"]')
        return tuple(convert(item) for item in value)

    return convert_all


def as_whole(least: int, limit: int) -> Convert:
    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= limit:
            raise ValueRefusedError(f"expected a whole number, found {found_value(value)}", f"use {least} to {limit}")
        return value

    return convert


def as_seconds(value: Any) -> float:
    # 'not 0 < value' also refuses nan, which TOML can write.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= 86_400:
        raise ValueRefusedError(f"expected seconds, found {found_value(value)}", "use a number above 0, at most 86400")
    return float(value)


def as_patience(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not (value == 0 or 1 <= value <= 86_400):
        raise ValueRefusedError(f"expected seconds, found {found_value(value)}", "use 0, or a number from 1 to 86400")
    return float(value)


def as_age(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1 <= value <= 3_155_760_000:
        todo = "use a number from 1 to 3155760000, a hundred years"
        raise ValueRefusedError(f"expected seconds, found {found_value(value)}", todo)
    return float(value)


def as_yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueRefusedError(f"expected true or false, found {found_value(value)}", "write it without quotes")
    return value


def as_one_of(choices: tuple[str, ...]) -> Convert:
    def convert(value: Any) -> str:
        if value not in choices:
            raise ValueRefusedError(f"{found_value(value)} is not possible", f"use one of {', '.join(choices)}")
        return str(value)

    return convert


def as_entry(value: Any) -> str:
    module, colon, attribute = as_text(value).partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueRefusedError(f"{found_value(value)} is not an entry point", 'write it as "package.module:name"')
    return str(value)


def as_command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise ValueRefusedError(
            f"expected a list of texts, found {found_value(value)}", 'write ["program", "argument"]'
        )
    if not value[0]:
        raise ValueRefusedError("the program's name is empty", 'write ["program", "argument"]')
    if any("\0" in part for part in value):
        raise ValueRefusedError("an argument has a zero byte", "remove it")
    return tuple(value)


def as_key_sources(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueRefusedError(f"expected a table, found {found_value(value)}", 'write {NAME = "file:///…"}')
    if len(value) > MAX_HELD_KEYS:
        raise ValueRefusedError(f"{len(value)} keys are too many", f"use at most {MAX_HELD_KEYS}")
    return {as_name(names.check_node_name)(name): as_text(source) for name, source in value.items()}


def as_algorithm(value: Any) -> str:
    text = as_text(value)
    try:
        algorithm_of(text)
    except MessageError as error:
        what, todo = re.split("[:;] ", str(error), maxsplit=1)
        raise ValueRefusedError(what, todo) from None
    return text


def as_texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) and text for text in value.values()):
        raise ValueRefusedError(f"expected a table of texts, found {found_value(value)}", 'write {name = "value"}')
    return dict(value)


def as_rotation(value: Any) -> dict[str, Any]:
    try:
        return dict(vars(rotation_of(value)))
    except ConfigurationError as error:
        raise ValueRefusedError(
            str(error), 'write {enabled = true, rotation_period = "90d", overlap_period = "7d"}'
        ) from None


ENCRYPTION: dict[str, Convert] = {
    "enabled": as_yes_or_no,
    "type": as_one_of(tuple(TYPES)),
    "algorithm": as_algorithm,
    "key_ref": as_text,
    "public_key_ref": as_text,
    "kubernetes_secret": as_texts,
    "vault": as_texts,
    "aws_kms": as_texts,
    "fips_mode": as_one_of(FIPS_MODES),
    "key_rotation": as_rotation,
}


def as_end(value: Any) -> str:
    """An end of a bridge. What is written there is not shown: it may have a password."""
    if not isinstance(value, str):
        raise ValueRefusedError("expected text", 'write "topics", "events", or an address in quotes')
    try:
        return end_of(value)
    except ConfigurationError as error:
        what, _, todo = str(error).partition(": ")
        raise ValueRefusedError(what, todo or 'write "topics", "events", or an address') from None


def as_wanted(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueRefusedError(f"expected a table, found {found_value(value)}", 'write {publisher = ["shop.*"]}')
    texts = as_list_of(as_text)
    return {name: texts(found if isinstance(found, list) else [found]) for name, found in value.items()}


BRIDGE: dict[str, Convert] = {
    "name": as_name(names.check_node_name),
    "source": as_end,
    "target": as_end,
    "topics": as_name(names.check_topic_pattern),
    "rename": as_name(names.check_topic_pattern),
    "filter": as_wanted,
    "start": as_one_of(START),
    "group": as_name(names.check_node_name),
    "keep": as_one_of(KEEPS),
    "make_topics": as_yes_or_no,
    "dead_letter": as_name(names.check_topic),
    "give_up_seconds": as_age,
    "max_message_bytes": as_whole(1024, 64 << 20),
}


HOSTS: dict[str, dict[str, Convert]] = {
    "hosts": {
        "name": as_name(check_host_name),
        "address": as_nats_address,
        "allow": as_list_of(as_grant),
        "max_calls": as_whole(1, 256),
    },
    "host_grant": {
        "callers": as_list_of(as_name(check_remote_pattern)),
        "nodes": as_list_of(as_name(check_remote_pattern)),
        "services": as_list_of(as_name(names.check_service_name)),
    },
}


def as_environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueRefusedError(f"expected a table, found {found_value(value)}", 'write {NAME = "value"}')
    for key, text in value.items():
        if not isinstance(text, str) or "\0" in text or not key or "=" in key or "\0" in key:
            raise ValueRefusedError(f"{found_value(key)} must have a text value", 'write {NAME = "value"}')
    return dict(value)
