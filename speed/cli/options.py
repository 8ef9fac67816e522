"""Options that every command has, and the two ways to a root: as a reader, and as a node."""

from __future__ import annotations

import functools
import getpass
import os
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from speed.errors import NameTakenError
from speed.wire.seconds import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from speed import MessageSecurity, Node
    from speed.fs.registry import Registry


def span(unit: str, least: float = -MOST) -> Callable[[str], float]:
    """The type of an option that is a number of seconds, hours or days: click itself takes nan and inf."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = MOST
        if not least <= number < MOST:
            from_ = f"from {least:.0f} and " if least > -MOST else ""
            raise click.BadParameter(f"{text!r} is no number of {unit} {from_}below {MOST:.0f}")
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
            raise RootError(f"there is no root {self.root}: make one with `speed init --root {self.root}`")
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
        from speed.trust.declared import check_keys, read_declared, security_of

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
