"""The layers of the C++ node: includes go one way, and bindings stand on the public headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

BINDINGS = Path(__file__).resolve().parents[2] / "bindings"
CPP = BINDINGS / "cpp"
BELOW = {
    "wire": {"speed"},
    "core": {"speed", "wire"},
    "message": {"speed", "wire"},
    "segment": {"speed", "wire"},
    "fs": {"speed", "wire", "core", "message", "segment"},
    "engine": {"speed", "wire", "core", "message", "segment", "fs"},
    "topics": {"speed", "wire", "core", "message", "segment", "fs", "engine"},
    "node": {"speed", "wire", "core", "message", "segment", "fs", "engine", "topics"},
}
"""Folder of src/ -> what its files may include; ``speed`` are the public headers."""
PURE = ("wire", "core", "segment")
FORBIDDEN = frozenset(["fcntl.h", "unistd.h", "fstream", "filesystem", "thread"])
"""What only decides opens nothing and starts nothing; it may hold a lock or memory."""


def included(path: Path, marks: str = '""') -> list[str]:
    return re.findall(rf"^#include {marks[0]}([^\"<>]+){marks[1]}", path.read_text(), re.MULTILINE)


def sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in {".hpp", ".cpp"})


def place(include: str) -> Path:
    """The file of this project that an include names."""
    return CPP / "include" / include if include.startswith("speed/") else CPP / "src" / include


def test_every_folder_has_its_layer() -> None:
    assert {path.name for path in (CPP / "src").iterdir() if path.is_dir()} == set(BELOW)


@pytest.mark.parametrize("layer", BELOW)
def test_a_layer_includes_only_what_is_below(layer: str) -> None:
    upward = [
        f"{path.relative_to(CPP)}: {include}"
        for path in sources(CPP / "src" / layer)
        for include in included(path)
        if include.split("/")[0] not in BELOW[layer] | {layer} and place(include).exists()
    ]
    assert upward == []


def test_a_public_header_includes_public_headers_only() -> None:
    private = [
        f"{path.name}: {include}"
        for path in sources(CPP / "include")
        for include in included(path)
        if not include.startswith("speed/")
    ]
    assert private == []


def files() -> list[Path]:
    return [path for folder in ("include", "src") for path in sources(CPP / folder)]


def no_circle(graph: dict[Path, set[Path]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(str(Path(path).relative_to(CPP)) for path in error.args[1]))


def test_no_header_includes_itself_by_way_of_others() -> None:
    no_circle({path: {place(one) for one in included(path)} for path in files() if path.suffix == ".hpp"})


def test_no_two_concepts_need_each_other() -> None:
    """A header and its source are one: what a source includes, its header stands on."""
    graph: dict[Path, set[Path]] = {}
    for path in files():
        concept = path.with_suffix("")
        graph.setdefault(concept, set()).update(place(one).with_suffix("") for one in included(path))
        graph[concept].discard(concept)
    no_circle(graph)


def test_an_include_names_a_file_that_is_there() -> None:
    folders = [CPP / folder for folder in ("include", "src", "tests", "agent", "bench", "examples", "fuzz")]
    missing = [
        f"{path.relative_to(CPP)}: {include}"
        for folder in folders
        for path in sources(folder)
        for include in included(path)
        if not any((root / include).exists() for root in (path.parent, CPP / "include", CPP / "src", CPP / "tests"))
        and include != "message.pb.h"  # which protoc makes
    ]
    assert missing == []


def test_the_tests_of_a_folder_lie_in_a_folder_of_its_name() -> None:
    """One program of tests a folder of src/, and its files below it as those they test."""
    tests = sorted((CPP / "tests").rglob("*_test.cpp"))
    astray = [
        str(one.relative_to(CPP)) for one in tests if not (CPP / "src" / one.parent.relative_to(CPP / "tests")).is_dir()
    ]
    assert astray == []


@pytest.mark.parametrize("layer", PURE)
def test_what_decides_opens_no_file_and_starts_no_thread(layer: str) -> None:
    found = [
        f"{path.relative_to(CPP)}: {include}"
        for path in sources(CPP / "src" / layer)
        for include in included(path, "<>")
        if include in FORBIDDEN
    ]
    assert found == []


def test_the_python_module_stands_on_the_public_headers() -> None:
    folder = BINDINGS / "python" / "src"
    own = {path.name.removesuffix(".in") for path in folder.iterdir()}
    past_the_public = [
        f"{path.name}: {include}"
        for path in sources(folder)
        for include in included(path)
        if not include.startswith("speed/") and include not in own
    ]
    assert past_the_public == []


def test_no_public_header_and_no_message_names_a_rule() -> None:
    """Rules are for who writes a node; who uses one is told what they mean."""
    rule = re.compile(r"\b[WLRASMCJGT]-\d+\b")
    headers = [path.name for path in sources(CPP / "include") if rule.search(path.read_text())]
    messages = [
        f"{path.name}: {text}"
        for folder in (CPP / "src", CPP / "include", BINDINGS / "python" / "src")
        for path in sources(folder)
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', re.sub(r"//.*", "", path.read_text()))
        if rule.search(text)
    ]
    assert headers == []
    assert messages == []
