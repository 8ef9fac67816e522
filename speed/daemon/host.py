"""``python -m speed.daemon.host``: a process that is one node with services from a Python entry point.

It reads JSON lines from its standard input: first its settings, later changed grants. The end of that input
means that speedd is gone, so the process drains and ends, however speedd died.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from speed.errors import ConfigurationError, LeaseLostError, SpeedError, exit_status
from speed.wire.names import matches
from speed.wire.text import harmless

if TYPE_CHECKING:
    from speed import MessageSecurity, Node


# Lines from the bytes of a pipe, fit for a log.

MAX_LINE_CHARACTERS = 8192
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_CAUSES = ("Caused by: ", "Suppressed: ")
_FRAME = "\tat "
"""Where a Java program was, one line a method."""


class LineSplitter:
    """Turns the bytes of a pipe into lines; a line without an end is cut at a bound."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Complete lines in ``data`` together with what was left over before."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_CHARACTERS:
            lines.append(self._rest)
            self._rest = b""
        return [self._text(line) for line in lines if line.strip()]

    def end(self) -> list[str]:
        """The last line when the pipe closed."""
        return self.feed(b"\n")

    @staticmethod
    def _text(line: bytes) -> str:
        return harmless(line.decode("utf-8", "replace").rstrip("\r"), MAX_LINE_CHARACTERS - 1)


class Record(NamedTuple):
    """What a program printed at one go: a line with those that belong to it, as those of a traceback do."""

    text: str
    is_failure: bool
    """Whether it is a traceback, of Python or Java."""


class RecordJoiner:
    """Joins the lines of a traceback to one record. A line waits for the next one: take the ``rest`` after a pause."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._characters = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._lines)

    def feed(self, lines: Iterable[str]) -> list[Record]:
        """The records that are complete with these lines."""
        found: list[Record] = []
        for line in lines:
            if not self._belongs(line):
                found += self.rest()
            self._add(line)
        return found

    def rest(self) -> list[Record]:
        """What waits, where nothing came behind it."""
        if not self._lines:
            return []
        failed = self._lines[0] == _TRACEBACK or any(line.startswith(_FRAME) for line in self._lines)
        record = Record("\n".join(self._lines), failed)
        self._lines, self._characters = [], 0
        return [record]

    def _add(self, line: str) -> None:
        """A long traceback keeps its first lines, and the last one, which names the error."""
        if self._characters + len(line) >= MAX_LINE_CHARACTERS and len(self._lines) > 1:
            self._characters -= len(self._lines.pop()) + 1
        self._lines.append(line[: max(1, MAX_LINE_CHARACTERS - self._characters - 1)])
        self._characters += len(self._lines[-1]) + 1

    def _belongs(self, line: str) -> bool:
        if not self._lines:
            return True
        last = self._lines[-1]
        if line == _TRACEBACK:
            return last in _CHAINED
        is_python = self._lines[0] == _TRACEBACK
        return line[0].isspace() or line.startswith(_CAUSES) or (is_python and (last[0].isspace() or line in _CHAINED))


# Changing the grants of a running node to those of a reloaded configuration.


class _Granting(Protocol):
    def allow(self, *patterns: str) -> None: ...

    def deny(self, *patterns: str) -> None: ...


def change_grants(node: _Granting, old: Iterable[str], new: Iterable[str]) -> None:
    """Make ``new`` the grants of ``node`` where ``old`` were. Grants that stay are never missing in between."""
    wanted = tuple(new)
    # A name that a new family covers is not denied: an exact denial would outlive the family's grant.
    gone = [one for one in old if one not in wanted and not any(matches(grant, one) for grant in wanted)]
    if gone:
        node.deny(*gone)
    if wanted:
        node.allow(*wanted)


# Entry points ``module:attribute``: looked up without running anything, and loaded.


class EntryPointError(ConfigurationError):
    """An entry point names nothing that exists, or something of the wrong kind."""


def find_problem(entry: str, search_path: Sequence[str]) -> str | None:
    """Why ``entry`` cannot be loaded, or None. Reads source text; imports and runs nothing of it."""
    module, _, attribute = entry.partition(":")
    spec = _find_module(module, search_path)
    if isinstance(spec, str):
        return spec
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None  # a compiled module: only loading it can tell
    return _attribute_problem(Path(spec.origin), module, attribute.split(".")[0])


def _find_module(module: str, search_path: Sequence[str]) -> ModuleSpec | str:
    """The import spec of a dotted module name, found one package at a time; else what is missing."""
    where: Sequence[str] = search_path
    name, _, rest = module.partition(".")
    while True:
        spec = PathFinder.find_spec(name, list(where))
        if spec is None:
            return f"there is no module {name!r} in {', '.join(where)}"
        if not rest:
            return spec
        if spec.submodule_search_locations is None:
            return f"{name!r} is a module, not a package"
        where = list(spec.submodule_search_locations)
        part, _, rest = rest.partition(".")
        name = f"{name}.{part}"


def _attribute_problem(source: Path, module: str, attribute: str) -> str | None:
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except SyntaxError as error:
        return f"{source} does not compile: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:  # no text, or nested without end
        return f"{source} does not compile: {type(error).__name__}"
    except OSError as error:
        return f"{source} cannot be read: {error.strerror}"
    names = set().union(*map(_bound_names, ast.walk(tree)))
    if attribute in names or names & {"*", "__getattr__"}:
        return None
    return f"module {module!r} does not define {attribute!r}"


def _bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return set()


def load(entry: str) -> Any:
    """Import the module and return the attribute. Raises EntryPointError with the cause."""
    module, _, attribute = entry.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a service module may raise anything while it is imported
        raise EntryPointError(f"entry point {entry!r}: {type(error).__name__}: {error}") from error
    return found


def load_service(entry: str) -> Any:
    """A service for ``node.register``: a function, an object with ``invoke``, or a class of such objects."""
    found = load(entry)
    if inspect.isclass(found):
        try:
            found = found()
        except Exception as error:  # its constructor is foreign code
            raise EntryPointError(f"entry point {entry!r}: {type(error).__name__}: {error}") from error
    if not callable(getattr(found, "invoke", None)) and not callable(found):
        raise EntryPointError(f"entry point {entry!r} is no service: it has no invoke(request) and is no function")
    return found


def load_setup(entry: str) -> Any:
    """A function that takes the node and registers services on it."""
    found = load(entry)
    if not callable(found):
        raise EntryPointError(f"entry point {entry!r} is not a function that takes the node")
    return found


LOST_CHECK_SECONDS = 1.0
"""How often a host looks whether its node still has its name."""


class _StopRequestedError(BaseException):
    """SIGTERM came; a BaseException, because service code may catch Exception."""


def _stop(_signal: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopRequestedError


def main() -> int:
    """Run until told to stop. Returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is speedd's to handle
    orders = sys.stdin.fileno()
    try:
        _serve(_first_order(orders), orders)
    except _StopRequestedError:
        pass
    except SpeedError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


def _first_order(orders: int) -> dict[str, Any]:
    """The settings line, read without taking more than the line."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(orders, 1)
        if not data:
            raise _StopRequestedError
        line += data
    settings: dict[str, Any] = json.loads(line)
    return settings


def _serve(settings: dict[str, Any], orders: int) -> None:
    """Be the node until the input ends."""
    sys.path[:0] = settings["python_path"]
    setup = load_setup(settings["entry"])
    from speed import Node

    node = Node(settings["name"], **settings["node"], security=_security(settings["encryption"]), starting=True)
    try:
        setup(node)
        allow = settings["allow"]
        node.allow(*allow)
        node.ready()
        _say_ready(settings["ready_fd"])
        for order in _orders(orders, node):
            change_grants(node, allow, order["allow"])
            allow = order["allow"]
        if node.closed:
            raise LeaseLostError(f"node {node.name!r} is lost: another process has its name, or its lease ran out")
    finally:
        if not node.closed:
            node.close()


def _security(encryption: dict[str, Any] | None) -> MessageSecurity | None:
    """How messages are encrypted, as the configuration declares it."""
    if encryption is None:
        return None
    from speed.message.declared import declared, security_of

    return security_of(declared(encryption))


def _orders(orders: int, node: Node) -> Iterator[dict[str, Any]]:
    """Orders until the input ends or the node is lost: a process without its node must not look alive."""
    lines = LineSplitter()
    while not node.closed:
        if select.select([orders], [], [], LOST_CHECK_SECONDS)[0]:
            data = os.read(orders, 65536)
            if not data:
                return
            yield from map(json.loads, lines.feed(data))


def _say_ready(fd: int) -> None:
    try:
        os.write(fd, b"READY\n")
    except OSError:
        pass  # speedd is gone; the end of the input says so too
    finally:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
