"""The page of speedd's configuration: keys, types and defaults from the settings, limits from the check itself."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from scripts.generating.options import of_node
from scripts.reference.cells import cell
from speed.bridges import BridgeSettings
from speed.console import ConsoleSettings
from speed.daemon.config import (
    Config,
    DaemonNodeSettings,
    JournalSettings,
    LogSettings,
    MetricsSettings,
    ProcessSettings,
    ServiceSettings,
    TopicSettings,
    TopicsSettings,
)
from speed.daemon.config_check import check_text
from speed.gateway.settings import GatewaySettings, TokenKeySettings
from speed.hosts import HostGrantSettings, HostSettings, HostsSettings
from speed.message.declared import EncryptionSettings, RotationSettings

ROOT = Path(__file__).resolve().parents[2]
TABLES: dict[str, type] = {
    "[node]": DaemonNodeSettings,
    "[log]": LogSettings,
    "[journal]": JournalSettings,
    "[topics]": TopicsSettings,
    "[[topic]]": TopicSettings,
    "[gateway]": GatewaySettings,
    "[[token_key]]": TokenKeySettings,
    "[console]": ConsoleSettings,
    "[[bridge]]": BridgeSettings,
    "[metrics]": MetricsSettings,
    "[encryption]": EncryptionSettings,
    "[hosts]": HostsSettings,
    "[[host]]": HostSettings,
    "[[host_grant]]": HostGrantSettings,
    "[[service]]": ServiceSettings,
    "[[process]]": ProcessSettings,
}
WORDS: dict[Any, str] = {
    Path: "path",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    RotationSettings: "table",
}
INTRODUCTION = """# Configuration of speedd

`speedd run -c speedd.toml` reads one TOML file. `speedd check -c speedd.toml` lists every mistake in it with its line.
Relative paths are relative to the directory of the file. `SIGHUP` makes speedd read the file again:
[deploying](../howto/deploy.md) tells what a reload takes over. The column *allowed* holds
what the check says of a wrong value.
"""


def page() -> str:
    """The whole page in Markdown."""
    parts = [INTRODUCTION, *(part for name, settings in TABLES.items() for part in _table(name, settings))]
    return "\n".join([*parts, *_python()])


def _table(name: str, settings: type) -> Iterator[str]:
    said, hints = {**said_of_options(), **said_of(settings)}, typing.get_type_hints(settings)
    rows = [
        f"| `{one.name}` | {_type(hints[one.name])} | {_default(one)} | {cell(allowed(name, one.name))} "
        f"| {cell(said[one.name])} |"
        for one in fields(settings)
    ]
    yield _section(name, inspect.getdoc(settings) or "", rows)


def _python() -> Iterator[str]:
    hint = typing.get_type_hints(Config)["python_path"]
    about = cell(said_of(Config)["python_path"])
    row = f"| `path` | {_type(hint)} | none | {cell(allowed('[python]', 'path'))} | {about} |"
    yield _section("[python]", "``[python]``: where Python code is found.", [row])


def _section(name: str, about: str, rows: list[str]) -> str:
    _, _, says = about.partition(": ")
    text = (says[:1].upper() + says[1:]).replace("``", "`")
    head = ["| key | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    return "\n".join([f"## `{name}`\n", f"{text}\n", *head, *rows, ""])


def said_of(settings: type) -> dict[str, str]:
    """The text under each field of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    assert isinstance(body, ast.ClassDef)
    said: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            said[field.target.id] = " ".join(str(text.value.value).split()).replace("``", "`")
    return said


def said_of_options() -> dict[str, str]:
    """The texts of the options that every node has."""
    rows = of_node(ROOT, json.loads((ROOT / "registry_spec" / "limits.json").read_text()))
    texts = ((row["python"], "; ".join(filter(None, (row["text"], row["check"])))) for row in rows if "python" in row)
    return {name: f"{text[0].upper()}{text[1:]}." for name, text in texts}


def allowed(table: str, key: str) -> str:
    """What the check tells to do about a value that is right nowhere."""
    _, mistakes = check_text(f"{table}\n{key} = 1979-05-27T07:32:00\n", Path("speedd.toml"))
    return next(one.todo for one in mistakes if one.line == 2)


def _type(hint: Any) -> str:
    if isinstance(hint, types.UnionType):
        return " or ".join(_type(one) for one in typing.get_args(hint) if one is not type(None))
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return f"list of {_type(inside[0])}s"
    return "table of texts" if origin in (dict, Mapping) else WORDS[hint]


def _default(one: Field[Any]) -> str:
    if one.default is MISSING:
        return "none" if one.default_factory is not MISSING else "required"
    if one.default is None or one.default == () or is_dataclass(one.default):
        return "none"
    return f"`{str(one.default).lower()}`" if isinstance(one.default, bool) else f"`{one.default}`"
