"""What the files of ``speed/`` tell: sizes, who imports whom, and names that are borne twice."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "speed"
SMALL_LINES = 100


@cache
def sources(package: Path = PACKAGE) -> Mapping[str, Path]:
    """Modules by name; what protoc makes is not ours to shape."""
    files = sorted(path for path in package.rglob("*.py") if not path.stem.endswith("_pb2"))
    return {module_of(path, package): path for path in files}


def module_of(path: Path, package: Path = PACKAGE) -> str:
    """Dotted name: ``speed.wire.names``."""
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def length(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def sizes(package: Path = PACKAGE) -> list[int]:
    """Lines of each file."""
    return sorted(length(path) for path in sources(package).values())


def median_size(package: Path = PACKAGE) -> float:
    return median(sizes(package))


def small(package: Path = PACKAGE) -> int:
    """How many files have less than a hundred lines."""
    return sum(size < SMALL_LINES for size in sizes(package))


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Whom each module imports: at its top, inside functions, and for type checkers alone."""
    modules = sources(package)
    return {name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()}


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = _base(name, path, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                if full in modules or base in modules:
                    yield full if full in modules else base


def _base(name: str, path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = name.split(".")
    kept = here[: len(here) - node.level + (path.stem == "__init__")]
    return ".".join([*kept, *([node.module] if node.module else [])])


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each imports all others, by whatever way."""
    after = {name: _reached(name, graph) for name in graph}
    groups = {tuple(sorted(other for other in after[name] if name in after[other])) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def names_borne_twice(package: Path = PACKAGE) -> list[str]:
    """Names of classes that stand in two files or more."""
    found = Counter(
        node.name for path in sources(package).values() for node in tree_of(path).body if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, times in found.items() if times > 1)
