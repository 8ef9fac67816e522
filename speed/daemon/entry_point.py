"""Entry points ``module:attribute``: looked up without running anything, and loaded."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from speed.errors import ConfigurationError


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
