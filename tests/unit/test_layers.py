"""The shape of the source tree: which layer may import which, and what keeps modules readable.

The layers, from the bottom: errors, wire, segment, core, fs, message, engine, node, the public face ``speed``, journal,
topics, pulsar, backends, bridges, hosts, observe, gateway, console, and spark, daemon, cli. A module may import its own
layer and those below, and no files import each other in a circle. `scripts/shape` prints the figures.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

from speed.core import counters
from tests.shape.files import circles, imports, median_size, names_borne_twice, small, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "speed"

LAYERS = (
    "errors",
    "wire",
    "segment",
    "core",
    "fs",
    "message",
    "engine",
    "node",
    "",
    "journal",
    "topics",
    "pulsar",
    "backends",
    "messages",
    "bridges",
    "hosts",
    "observe",
    "gateway",
    "console",
    "application",
)
NODE = frozenset({"node", "aio"})
"""``aio`` is public, and made by a node: they are one layer."""
FACE = frozenset({"testing", "columns", "column_services", "opentelemetry"})
APPLICATIONS = frozenset({"spark", "daemon", "cli"})
PURE_LAYERS = frozenset({"errors", "wire", "segment", "core"})
PURE_MODULES = frozenset(
    f"message.{name}"
    for name in ("algorithms", "compression", "encryption", "errors", "keys", "old_forms", "protect", "reader")
) | {"message.view", "message.writing", "message.schemas", "message.schemas.avro", "message.schemas.json_schema"}
IMPURE_MODULES = frozenset({"os", "time", "threading", "random", "secrets", "subprocess", "socket", "asyncio"})
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "manager"})
REFUSED_WORDS = frozenset({"asked", "said", "told"})
"""Parts of names that say how a value came, and not what it is: ``request``, ``options``, ``metadata`` do."""
REFUSED_IN_CPP = REFUSED_WORDS | {"behind", "beside"}
CPP_FOLDERS = tuple(ROOT / "bindings" / part for part in ("cpp", "python"))
CPP_LEFT_OUT = ("cpp/tests/", "cpp/src/message/", "cpp/src/wire/message/")
"""Names of tests are sentences; the layer of messages is not held to this yet."""
CPP_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\#[ ]*include[^\n]*
    |R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'
    |(?P<name>[A-Za-z_]\w*)|\d[\w'.]*""",
    re.DOTALL | re.VERBOSE,
)
NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PATH_LAYERS = frozenset({"core", "fs", "engine", "journal"})
Check = Callable[[Path, Path], list[str]]
MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 80
MAX_FILES = 252
MAX_SMALL_FILES = 25
MIN_MEDIAN_LINES = 250
MAX_NAMES_BORNE_TWICE = 10


@lru_cache(maxsize=1)
def nodes_of(path: Path) -> list[ast.AST]:
    """All of one module; each check looks at them, and no tree is kept for the next module."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def source_files(package: Path) -> list[Path]:
    """All hand-written modules under `package`; what protoc makes is not ours to shape."""
    return sorted(path for path in package.rglob("*.py") if not path.stem.endswith("_pb2"))


def module_of(path: Path, package: Path) -> str:
    """Dotted name without the package's own: ``wire.names``; the package's face is the empty string."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def part_of(module: str) -> str:
    return module.split(".", 1)[0]


def rank(part: str) -> int:
    """Height of a part; a new part needs a place here before anything may import it."""
    name = "application" if part in APPLICATIONS else "node" if part in NODE else "" if part in FACE else part
    assert name in LAYERS, f"speed.{part} belongs to no layer: give it one in this test"
    return LAYERS.index(name)


def imported_modules(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) for each import, relative ones and those inside functions too."""
    is_package = path.stem == "__init__"
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ("speed." + module).rstrip(".").split(".")
                keep = len(here) - node.level + (1 if is_package else 0)
                base = ".".join([*here[:keep], *([node.module] if node.module else [])])
            # `from speed import wire` imports a layer, `from speed import Node` the face: only names tell.
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def imported_part(name: str) -> str | None:
    """The part of this package that an absolute name belongs to; None for other packages."""
    parts = name.split(".")
    if parts[0] != "speed":
        return None
    second = parts[1] if len(parts) > 1 else ""
    if second == "_native":  # the compiled part of its layer
        return "engine"
    return second if second in {*LAYERS, *NODE, *FACE, *APPLICATIONS} or (PACKAGE / second).is_dir() else ""


def upward_imports(path: Path, package: Path) -> list[str]:
    module = module_of(path, package)
    own = part_of(module)
    found = []
    for line, name in imported_modules(path, module):
        other = imported_part(name)
        if other is None or other == own:
            continue
        between_applications = own in APPLICATIONS and other in APPLICATIONS
        if rank(other) > rank(own) or between_applications:
            found.append(f"{path}:{line}: speed.{own} imports {name}")
    return found


def impure_imports(path: Path, package: Path) -> list[str]:
    module = module_of(path, package)
    if part_of(module) not in PURE_LAYERS and module not in PURE_MODULES:
        return []
    return [
        f"{path}:{line}: {name}"
        for line, name in imported_modules(path, module)
        if name.split(".")[0] in IMPURE_MODULES
    ]


def joins_path(node: ast.AST) -> bool:
    """True for os.path.join(...), x.joinpath(...), Path(a, b), and an f-string that reads as a path."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute):
            in_os_path = isinstance(called.value, ast.Attribute) and called.value.attr == "path"
            return called.attr == "joinpath" or (called.attr == "join" and in_os_path)
        return isinstance(called, ast.Name) and called.id in {"Path", "PurePath"} and len(node.args) > 1
    if isinstance(node, ast.JoinedStr):
        return is_path_fstring(node)
    return False


def is_path_fstring(node: ast.JoinedStr) -> bool:
    """A slash with no blank in any constant part, and no scheme: ``f"{root}/{name}"`` but not a sentence.

    ``/proc`` and ``/dev`` are addresses of the kernel, not of SPEED.
    """
    constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
    text = "".join(str(constant) for constant in constants)
    if text.startswith(("/proc/", "/dev/", "/sys/")) or "://" in text or any(blank in text for blank in " \n"):
        return False
    return "/" in text


def path_building(path: Path, package: Path) -> list[str]:
    if part_of(module_of(path, package)) not in PATH_LAYERS:
        return []
    return [f"{path}:{node.lineno}" for node in nodes_of(path) if joins_path(node) and hasattr(node, "lineno")]


def long_functions(path: Path, package: Path) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name}"
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]


def identifiers(node: ast.AST) -> list[str]:
    """Those that a node itself has, also inside an f-string."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [name for alias in node.names for name in (alias.name, alias.asname) if name]
    fields = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
    return [field for field in fields if isinstance(field, str)]


COUNTERS = frozenset(value for value in vars(counters).values() if isinstance(value, str))


def refused_names(path: Path, package: Path) -> list[str]:
    return [
        f"{path}:{getattr(node, 'lineno', 0)}: {name}"
        for node in nodes_of(path)
        for name in identifiers(node)
        if name.lower() not in COUNTERS  # the contract names them
        and REFUSED_WORDS.intersection(word.lower() for word in NAME_PARTS.findall(name))
    ]


def refused_cpp_names(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each identifier of C++ that has a refused word; comments and literals may say what they like."""
    for token in CPP_TOKENS.finditer(source):
        name = token["name"]
        if name and name not in COUNTERS and REFUSED_IN_CPP.intersection(map(str.lower, NAME_PARTS.findall(name))):
            yield source.count("\n", 0, token.start()) + 1, name


def cpp_sources() -> list[Path]:
    """All but what is made: that lies in no folder of its own."""
    files = (path for folder in CPP_FOLDERS for path in folder.rglob("*.[ch]pp"))
    return sorted(path for path in files if not any(part in path.as_posix() for part in CPP_LEFT_OUT))


@cache
def findings() -> dict[Check, list[str]]:
    """What each check finds in the package, which is read once."""
    files = source_files(PACKAGE)
    assert files, f"no source under {PACKAGE}"
    found: dict[Check, list[str]] = {
        check: [] for check in (upward_imports, impure_imports, path_building, long_functions, refused_names)
    }
    for path in files:
        for check, of_all in found.items():
            of_all += check(path, PACKAGE)
    return found


def test_no_module_imports_a_layer_above_its_own() -> None:
    """Layers: imports go downward only, and spark, daemon and cli never import each other."""
    assert findings()[upward_imports] == []


def test_errors_wire_and_core_import_no_clock_no_threads_no_randomness_and_no_io() -> None:
    """Layers: time and randomness are passed in, so that every decision can be tested without waiting."""
    assert findings()[impure_imports] == []


def test_only_wire_names_builds_paths() -> None:
    """Layers: the file layout of lanes.md and registry.md is written down in one module."""
    assert findings()[path_building] == []


def test_module_names_say_what_the_module_is_for() -> None:
    names = {
        str(path): part
        for path in source_files(PACKAGE)
        for part in module_of(path, PACKAGE).lower().replace("_", ".").split(".")
        if part in VAGUE_NAMES
    }
    assert names == {}


def test_no_module_is_longer_than_600_lines() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in source_files(PACKAGE)}
    assert {str(path): size for path, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_no_function_is_longer_than_80_lines() -> None:
    assert findings()[long_functions] == []


def test_a_name_says_what_it_is() -> None:
    """``asked``, ``said`` and ``told`` name no thing: a reader has to look for what it was."""
    assert findings()[refused_names] == []


def test_a_name_of_cpp_says_what_it_is() -> None:
    """Also not ``beside`` and ``behind``: a reader has to look beside what, and behind which."""
    files = cpp_sources()
    assert len(files) > 200
    assert [
        f"{path}:{line}: {name}" for path in files for line, name in refused_cpp_names(path.read_text(encoding="utf-8"))
    ] == []


def unguarded_imports(tree: ast.AST) -> Iterator[int]:
    """Lines of imports in functions that a fork would not wait for."""

    def walk(node: ast.AST, in_function: bool) -> Iterator[int]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.With) and any(
                ast.unparse(one.context_expr) == "lazily.guard" for one in child.items
            ):
                continue
            if in_function and isinstance(child, ast.Import | ast.ImportFrom):
                yield child.lineno
            yield from walk(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return walk(tree, False)


def test_a_fork_waits_for_each_import_that_a_thread_of_a_node_begins() -> None:
    """Else the lock of the module stays locked in the child, and its first send never ends."""
    found = [
        f"{path}:{line}"
        for path in source_files(PACKAGE)
        if part_of(module_of(path, PACKAGE)) in {"wire", "fs", "segment", "message", "engine", "node", "aio"}
        for line in unguarded_imports(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Inside functions and for type checkers alone, too: who reads one of them would have to read all."""
    assert circles(imports()) == []


def test_a_file_is_a_concept_and_not_a_fragment() -> None:
    """What protoc makes is not counted."""
    assert len(sources()) <= MAX_FILES
    assert small() <= MAX_SMALL_FILES
    assert median_size() >= MIN_MEDIAN_LINES


def test_a_class_name_means_one_thing() -> None:
    """Some do not: ``Consumer`` and ``Reader`` are public twice, of topics and of Pulsar."""
    assert len(names_borne_twice()) <= MAX_NAMES_BORNE_TWICE


# The checks above pass on an empty finding, so each is shown here to find what it is for.


def test_a_circle_is_found_and_a_chain_is_none() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == [["b", "c"]]


def test_an_import_inside_a_function_counts_and_a_package_may_be_named_by_what_is_in_it(tmp_path: Path) -> None:
    package = tmp_path / "speed"
    write_module(package, "__init__.py", "")
    write_module(package, "one.py", "def late():\n    from speed import two")
    write_module(package, "two.py", "if TYPE_CHECKING:\n    from .one import late")
    assert circles(imports(package)) == [["speed.one", "speed.two"]]


def write_module(package: Path, name: str, source: str) -> Path:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("wire/seal.py", "from speed.core import lease"),
        ("wire/seal.py", "import speed.fs.bell"),
        ("core/link.py", "from ..fs.bell import Bell"),
        ("core/link.py", "from .. import engine"),
        ("core/__init__.py", "from ..engine import api"),
        ("fs/lane.py", "def late():\n    from speed import Node"),
        ("errors.py", "from speed.wire import names"),
        ("cli/nodes.py", "from speed.daemon.config import Config"),
        ("daemon/app.py", "import speed.spark"),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, module: str, source: str) -> None:
    path = write_module(tmp_path, module, source)
    assert len(upward_imports(path, tmp_path)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "fs/lane.py",
            "from speed.wire import names\nfrom speed.core.lane import Link\nfrom .bell import Bell",
        ),
        ("__init__.py", "from speed.node.node import Node\nfrom .errors import SpeedError"),
        (
            "cli/nodes.py",
            "from speed import Node\nfrom speed.fs.registry import Registry\nfrom . import table",
        ),
        ("core/lease.py", "import enum\nfrom ..errors import SpeedError"),
    ],
)
def test_a_downward_import_is_allowed(tmp_path: Path, module: str, source: str) -> None:
    path = write_module(tmp_path, module, source)
    assert upward_imports(path, tmp_path) == []


@pytest.mark.parametrize(
    "source", ["import os", "import os.path", "from time import monotonic", "import threading as t"]
)
def test_an_impure_import_is_found_in_wire_and_allowed_in_fs(tmp_path: Path, source: str) -> None:
    assert impure_imports(write_module(tmp_path, "wire/seal.py", source), tmp_path)
    assert impure_imports(write_module(tmp_path, "fs/lane.py", source), tmp_path) == []


@pytest.mark.parametrize(
    "source",
    ["os.path.join(a, b)", "f'{root}/{name}'", "f'{root}/inbox'", "Path(a, b)", "root.joinpath(name)"],
)
def test_path_building_is_found_outside_wire_names(tmp_path: Path, source: str) -> None:
    assert path_building(write_module(tmp_path, "fs/lane.py", source), tmp_path)
    assert path_building(write_module(tmp_path, "wire/names.py", source), tmp_path) == []


@pytest.mark.parametrize("source", ["', '.join(a)", "f'{a} / {b} done'", "f'/proc/{pid}/stat'", "Path(a)"])
def test_what_only_looks_like_a_path_is_left_alone(tmp_path: Path, source: str) -> None:
    assert path_building(write_module(tmp_path, "fs/lane.py", source), tmp_path) == []


def test_a_function_that_is_too_long_is_found(tmp_path: Path) -> None:
    body = "".join(f"    x{line} = 1\n" for line in range(MAX_FUNCTION_LINES))
    assert long_functions(write_module(tmp_path, "fs/lane.py", f"def f():\n{body}"), tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "self._asked",
        "MAX_TOLD = 2",
        "def f(is_asked): ...",
        "def _said_of(): ...",
        "class Asked: ...",
        "f(told=1)",
        "f'{told}'",
        "from a import b as asked",
        "import said",
    ],
)
def test_a_refused_word_in_a_name_is_found(tmp_path: Path, source: str) -> None:
    assert refused_names(write_module(tmp_path, "fs/lane.py", source), tmp_path)


@pytest.mark.parametrize("source", ["soldier = 1", "masked = 2", "'told'", "# said", "def unsaid(): ..."])
def test_a_refused_word_elsewhere_is_left_alone(tmp_path: Path, source: str) -> None:
    assert refused_names(write_module(tmp_path, "fs/lane.py", source), tmp_path) == []


@pytest.mark.parametrize(
    "source", ["int told = 1;", "asked_ms", "void lock_beside();", "class Said {};", "x ? told : y"]
)
def test_a_refused_word_in_a_name_of_cpp_is_found(source: str) -> None:
    assert list(refused_cpp_names(source))


@pytest.mark.parametrize(
    "source",
    [
        '"told"',
        "// asked",
        "/* said */",
        'R"x(told)x"',
        "'a', masked",
        "1'000",
        "rejected_behind_fence",
        '#include "told.hpp"',
    ],
)
def test_a_refused_word_elsewhere_in_cpp_is_left_alone(source: str) -> None:
    assert list(refused_cpp_names(source)) == []
