"""Options that every command has, the two ways to a root, and what commands print.

No other module of the command line prints: names, texts and files of others act on no terminal (W-19).
"""

from __future__ import annotations

import base64
import datetime
import functools
import getpass
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from speed.errors import NameTakenError, SpeedError, WireError
from speed.message.errors import MessageError
from speed.message.view import MessageView
from speed.wire.text import MAX_SPAN_SECONDS, ascii_json, harmless, harmless_json, harmless_lines
from speed.wire.value import PROTOBUF_TYPE

if TYPE_CHECKING:
    from speed import MessageSecurity, Node
    from speed.core.signatures import Description
    from speed.fs.registry import Registry
    from speed.message.schemas.registry import SchemaRegistry


# What commands print: JSON for programs, tables for people. rich is imported for tables only.

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_json(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON. Bytes become Base64 text and times ISO text: JSON has neither.

    Floats that are no numbers are the texts ``NaN``, ``Infinity`` and ``-Infinity``. A map with two keys of one text,
    as 1 and "1", is a list of pairs.
    """
    text = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    return harmless_json(text)


def show_what_can_be_shown() -> None:
    """Output shows characters that its encoding has not by their numbers, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def answer_of(node: str) -> Iterator[None]:
    """Where an answer is taken apart. Raises WireError, which names ``node``, for one of another form."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise WireError(
            "BAD_PAYLOAD", f"{node} answered with what is no such answer ({type(error).__name__})"
        ) from error


def echo(text: str, *, error: bool = False) -> None:
    """One line for people, on stdout or stderr."""
    _write(harmless(text), error)


def echo_json(value: Any, *, error: bool = False) -> None:
    """One line for programs."""
    echo_json_text(as_json(value), error=error)


def echo_json_text(text: str, *, error: bool = False) -> None:
    """JSON that ``as_json`` made, with escapes of its own for what the encoding of the output has not."""
    encoding = getattr(sys.stderr if error else sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = ascii_json(text)
    _write(text, error)


def _write(text: str, error: bool = False) -> None:
    """To the stream by its name: click alone takes an output in ASCII for one in UTF-8."""
    click.echo(text, file=sys.stderr if error else sys.stdout)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {str(key): _plain(item) for key, item in value.items()}
        return plain if len(plain) == len(value) else [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, float) and not isfinite(value):
        return _NOT_FINITE[str(value)]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def print_value(value: Any, use_json: bool) -> None:
    """One value: compact JSON, or for people text with its lines and JSON with indents."""
    if use_json:
        echo_json(value)
    elif isinstance(value, str):
        _write(harmless_lines(value))
    else:
        echo_json_text(as_json(value, indent=2))


COLUMN_GAP = 3
TIGHT_GAP = 2
MAX_FOLDED = 24
"""A cell that is longer may take several lines of a terminal."""
LEAST_CELL = 8


def print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", empty: str = "", tight: bool = False
) -> None:
    """A table for people; ``empty`` instead of a table without rows. A ``tight`` one has more room for figures."""
    lines = [[str(cell) for cell in row] for row in rows]
    if not lines:
        echo(empty)
        return
    from rich.console import Console

    # Piped output must not be cut at the width of a terminal that is not there.
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 400))
    shown = columns_that_fit(columns, lines, console.width, tight=tight)
    cut = [line[:shown] for line in lines]
    console.print(table_of(columns[:shown], cut, title, width=console.width, tight=tight))
    if columns[shown:]:
        left_out = ", ".join(columns[shown:])
        echo(f"Not shown in {console.width} columns: {left_out}. A pipe and --json have all.", error=True)


def columns_that_fit(columns: Sequence[str], lines: Sequence[Sequence[str]], width: int, *, tight: bool = False) -> int:
    """How many columns a terminal has room for: the first is whole where it can be, long cells of others are folded.

    Of a ``tight`` table the first column is folded between its words.
    """
    left = width
    gap = TIGHT_GAP if tight else COLUMN_GAP
    for number, column in enumerate(columns):
        cells = [column, *(harmless(line[number]) for line in lines)]
        needed = _longest_word(cells) if tight and number == 0 else max(map(len, cells))
        left -= gap + (needed if number == 0 or tight else min(needed, MAX_FOLDED))
        if left + gap < 0 and number > 1:
            return number
    return len(columns)


def _longest_word(cells: Iterable[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def table_of(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    *,
    width: int | None = None,
    tight: bool = False,
) -> Any:
    """A rich Table, for a terminal of so many columns. No cell is cut: one without room for it has several lines."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    lines = [[harmless(cell) for cell in row] for row in rows]
    first = max((len(line[0]) for line in lines), default=0)
    is_whole = not tight and (width is None or first + COLUMN_GAP + LEAST_CELL <= width)
    table = Table(
        title=Text(harmless(title)) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=tight,
    )
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0 and is_whole, overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    return table


# What may be shown of a payload: personal data is masked, what cannot be read here is named (M-28).

schemas_option = click.option(
    "--schemas",
    type=click.Path(exists=True, file_okay=False),
    help="Directory of schemas: of messages with personal data it masks the fields that are, and not all.",
)


def registry_of(directory: str | None) -> SchemaRegistry | None:
    """The schemas that ``--schemas`` names."""
    if directory is None:
        return None
    from speed.message.schemas.registry import SchemaRegistry

    return SchemaRegistry(directory)


def shown_payload(view: MessageView, schemas: SchemaRegistry | None = None) -> Any:
    """The payload's value, masked as its sensitivity asks; a text in the place of what cannot be read here."""
    security = view.security
    if view.is_encrypted and view.opened_by is None:
        ids = ", ".join(one.key_id for one in security.encryption.recipients) or security.encryption.key_id
        return f"<{len(view.payload_bytes)} bytes, encrypted for {ids}>"
    if view.payload_encoding != "none":
        return f"<{len(view.payload_bytes)} bytes of {view.payload_encoding}>"
    try:
        return _seen(view, schemas) if security.contains_pii or schemas is not None else _value(view)
    except (MessageError, WireError) as error:
        return _named(view, f"cannot be shown: {getattr(error, 'reason', error.code)}")


def _seen(view: MessageView, schemas: SchemaRegistry | None) -> Any:
    """The value as its schema sees it, which knows what is personal, whatever the sender says."""
    from speed.message.schemas import MASK, masked

    schema = None if schemas is None else schemas.check(view)
    if schema is None:
        return MASK if view.security.contains_pii else _value(view)
    if not schema.reads(view.content_type):
        return _named(view, "is not what its schema describes")
    return masked(schema.see(view.content_type, view.payload_bytes), schema.schema.places)


def _value(view: MessageView) -> Any:
    """The value where it is one that can be printed."""
    if view.content_type == PROTOBUF_TYPE:
        return _named(view, "its schema is not here")
    return view.payload


def _named(view: MessageView, what: str) -> str:
    is_held = view.size == len(view.data)
    size = len(view.payload_bytes) if is_held else view.size  # what lies in the store is not read to be counted
    return f"<{size} bytes of {view.type_url if is_held and view.type_url else view.content_type}: {what}>"


def span(unit: str, least: float = -MAX_SPAN_SECONDS) -> Callable[[str], float]:
    """The type of an option that is a number of seconds, hours or days: click itself takes nan and inf."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = MAX_SPAN_SECONDS
        if not least <= number < MAX_SPAN_SECONDS:
            from_ = f"from {least:.0f} and " if least > -MAX_SPAN_SECONDS else ""
            raise click.BadParameter(f"{text!r} is no number of {unit} {from_}below {MAX_SPAN_SECONDS:.0f}")
        return number

    convert.__name__ = unit
    return convert


SECONDS = span("seconds")

Command = TypeVar("Command", bound=Callable[..., Any])
MAX_COMMANDS = 1000
"""So many commands of one user can be nodes at the same time."""


@dataclass(frozen=True)
class Settings:
    """Where the command works and how it answers."""

    root_option: str | None
    key_option: str | None
    as_json: bool
    name: str | None = None
    encryption: str | None = None
    """A TOML file with a table [encryption]."""

    @property
    def root(self) -> str:
        """The root as an absolute path."""
        from speed.fs.keyfile import default_root

        return os.path.abspath(self.root_option or default_root())

    @property
    def key(self) -> str:
        """The key file."""
        from speed.fs.keyfile import default_key

        return self.key_option or default_key(self.root)

    def registry(self) -> Registry:
        """The registry, for reading; no node is made. Raises KeyFileError, RootError."""
        from speed.errors import RootError
        from speed.fs.keyfile import load_key_file
        from speed.fs.registry import Registry

        if not os.path.isdir(self.root):
            raise RootError(f"there is no root {self.root}: make one with `speed root init --root {self.root}`")
        return Registry(self.root, load_key_file(self.key))

    @contextmanager
    def node(self, *allow: str) -> Iterator[Node]:
        """A node for the time of this command: ``cli.<user>.<number>``, unless --as names it."""
        node = self._open(self.name, allow) if self.name else self._open_numbered(allow)
        with node:
            yield node

    def _open(self, name: str, allow: tuple[str, ...], *, ephemeral: bool = False) -> Node:
        from speed import Node

        self.registry()  # says clearly what is missing before a root is made by accident
        return Node(
            name,
            root=self.root,
            key=self.key,
            workers=2,
            allow=allow,
            ephemeral=ephemeral,
            accept_namespaces=("*",),  # of whoever operates the root
            security=self._security(),
        )

    def _security(self) -> MessageSecurity | None:
        if self.encryption is None:
            return None
        from speed.message.declared import check_keys, read_declared, security_of

        declared = read_declared(self.encryption)
        check_keys(declared)
        return security_of(declared)

    def _open_numbered(self, allow: tuple[str, ...]) -> Node:
        """The first free number. Process ids would leave a claim behind for every command ever run."""
        registry, family = self.registry(), own_family()
        for number in range(1, MAX_COMMANDS):
            name = f"{family}.{number}"
            if registry.live(name, sure=True) is None:
                try:
                    return self._open(name, allow, ephemeral=True)
                except NameTakenError:
                    continue  # another command was quicker
        raise NameTakenError(f"{MAX_COMMANDS} commands of {family}.* are running; use --as NAME")


def own_family() -> str:
    """The names of this user's commands as nodes: one family, so that it can be granted as a whole."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without this user in its password file
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return f"cli.{re.sub(r'[^A-Za-z0-9_-]', '_', user)[:64]}"


def common_options(command: Command) -> Command:
    """--root, --key and --json; the command gets ``settings`` instead."""
    return _with_settings(command, named=False)


def node_options(command: Command) -> Command:
    """As ``common_options``, and --as for commands that take part as a node."""
    return _with_settings(command, named=True)


def _with_settings(command: Command, *, named: bool) -> Command:
    @functools.wraps(command)
    def run(*args: Any, root: str | None, key: str | None, as_json: bool, **kwargs: Any) -> Any:
        name, encryption = (kwargs.pop(key, None) for key in ("name", "encryption"))
        before = click.get_current_context().find_root().params
        settings = Settings(root or before.get("root"), key or before.get("key"), as_json, name, encryption)
        return command(*args, settings=settings, **kwargs)

    decorated: Any = run
    if named:
        decorated = click.option("--as", "name", metavar="NAME", help="Take part under this name.")(decorated)
    decorated = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(decorated)
    result: Command = place_options(decorated)
    return result


COMPLETION_SECONDS = 2.0
"""How long a shell waits for a node that is asked what it has."""


def _completing(ctx: click.Context) -> Settings:
    """Where a command line that is not complete looks: as the command will."""
    given = {**ctx.find_root().params, **{name: value for name, value in ctx.params.items() if value is not None}}
    return Settings(given.get("root"), given.get("key"), False, given.get("name"))


def complete_node(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Live nodes, from the registry."""
    try:
        live = _completing(ctx).registry().live_entries()
    except Exception:  # a shell shows nothing where there is no root
        return []
    return sorted(entry.name for entry in live if entry.name.startswith(incomplete))


def complete_service(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Services of the node that stands before, by asking it."""
    return [one.name for one in _described(ctx, None) if one.name.startswith(incomplete)]


def complete_argument(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of arguments, with the ``=`` behind them."""
    properties = [(one.parameters or {}).get("properties") for one in _described(ctx, ctx.params.get("service"))]
    given = {str(word).partition("=")[0] for word in ctx.params.get("arguments") or ()}
    names = [name for schemas in properties if isinstance(schemas, dict) for name in schemas if name not in given]
    return [f"{name}=" for name in names if name.startswith(incomplete)]


def _described(ctx: click.Context, service: str | None) -> list[Description]:
    try:
        with _completing(ctx).node() as own:
            return own.describe(str(ctx.params.get("node")), service, timeout=COMPLETION_SECONDS)
    except Exception:  # as above
        return []


def parse_arguments(words: Iterable[str]) -> dict[str, Any]:
    """``name=value`` words as arguments. Raises click.UsageError."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{word!r} is no argument; write name=value")
        if name in values:
            raise click.UsageError(f"argument {name!r} is given twice")
        values[name] = parse_value(text)
    return values


def parse_value(text: str) -> Any:
    """``text`` as JSON where it is JSON, else as it is."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON; a word like that is text


def declared_arguments(own: Node, node: str, service: str, words: Iterable[str], timeout: float) -> dict[str, Any]:
    """The arguments whose type the service declares, read as that; none where it cannot be asked."""
    texts = {name: text for name, _, text in (word.partition("=") for word in words)}
    if not texts:
        return {}
    try:
        (found,) = own.describe(node, service, timeout=timeout)
    except SpeedError:
        return {}  # the call itself says what is wrong
    properties = (found.parameters or {}).get("properties")
    schemas = properties if isinstance(properties, dict) else {}
    return {name: _read_as(schemas[name], text) for name, text in texts.items() if isinstance(schemas.get(name), dict)}


def _read_as(schema: Any, text: str) -> Any:
    """A word of the command line as what a schema asks for; as ever where it is no such thing."""
    parts = schema["anyOf"] if isinstance(schema.get("anyOf"), list) else [schema]
    kinds = [part for part in parts if isinstance(part, dict) and part.get("type") != "null"]
    if (len(kinds) < len(parts) and text == "null") or not kinds:
        return parse_value(text)
    if not all(part.get("type") == "string" for part in kinds):
        return parse_value(text)
    try:
        if all(part.get("contentEncoding") == "base64" for part in kinds):
            return base64.b64decode(text, validate=True)
        if all(part.get("format") == "date-time" for part in kinds):
            return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        pass
    quoted = parse_value(text)  # as it had to be written before services declared what they take
    return quoted if isinstance(quoted, str) else text


count_option = click.option("-n", "--count", type=click.IntRange(1), help="End after this many.")
for_option = click.option("--for", "seconds", type=SECONDS, help="End after this many seconds without one.")


def encryption_option(command: Command) -> Command:
    """--encryption, for commands that send or receive messages."""
    option = click.option(
        "--encryption",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="TOML file whose table [encryption] says how messages are encrypted, as in speedd's configuration.",
    )
    result: Command = option(command)
    return result


def place_options(command: Any) -> Any:
    """--root and --key; what a command is given goes before what stands before its name."""
    key = click.option("--key", metavar="FILE", help="Key file (default: $SPEED_KEY, <root>/speed.key).")
    root = click.option("--root", metavar="DIR", help="Communication directory (default: $SPEED_ROOT).")
    return root(key(command))
