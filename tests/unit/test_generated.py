"""What is generated of the contract is what is checked in, and classes written by hand agree with it."""

from __future__ import annotations

import inspect
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import speed.backends.backend
import speed.message.errors
import speed.pulsar.frames
from scripts.generating import cpp, java, python
from scripts.generating.__main__ import ROOT, SPEC, changed, is_ours, outputs
from scripts.generating.kinds import Kind, Tree
from scripts.generating.options import in_language, of_node
from speed import Node, errors
from speed.engine.options import Options
from speed.wire import limits

CODES: dict[str, Any] = json.loads((SPEC / "codes.json").read_text())
TREE = Tree.of(CODES)


def named(kind: Kind) -> type[errors.SpeedError]:
    own = {"Message": speed.message.errors, "Pulsar": speed.pulsar.frames, "Backend": speed.backends.backend}
    module = next((one for top, one in own.items() if TREE.below(kind, top)), errors)
    found: type[errors.SpeedError] = getattr(module, python.name(kind))
    return found


def test_what_is_checked_in_is_what_the_generator_writes() -> None:
    """W-0: change the contract and run scripts/generate, never the files that it writes."""
    assert [str(path.relative_to(ROOT)) for path in changed()] == []


def test_only_files_that_say_so_are_written_over(tmp_path: Path) -> None:
    """A file of somebody else, in the place of one that is generated, stays."""
    own = tmp_path / "limits.hpp"
    assert is_ours(own)
    own.write_text("// by hand\n")
    assert not is_ours(own)
    assert all(is_ours(path) for path in outputs())


def test_the_arguments_of_a_node_are_the_options_of_the_contract() -> None:
    """In its order, and with its defaults."""
    own = {"self", "name", "engine"}
    arguments = [one for one in inspect.signature(Node.__init__).parameters.values() if one.name not in own]
    rows = in_language(of_node(ROOT, json.loads((SPEC / "limits.json").read_text())), "python")
    assert [one.name for one in arguments] == [row["python"] for row in rows]
    told = {one.name: one.default for one in arguments}
    assert told["lease_seconds"] == limits.LEASE_SECONDS
    assert (told["durability"], told["max_open_files"], told["on_error"]) == ("process", None, "dead-letter")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"workers": 257}, "workers is 257; use 1 to 256"),
        ({"max_deliveries": 0}, "max_deliveries is 0; use 1 to 1000000"),
        ({"max_lane_bytes": 0}, "max_lane_bytes is 0; use 1 or more"),
        ({"max_open_files": 0}, "max_open_files is 0; use 1 or more"),
        ({"spin_seconds": 1}, "spin_seconds is 1; use 0 to 0.01"),
        ({"bell": "x"}, "bell is 'x'; use one of 'auto', 'polling'"),
        ({"on_error": "x"}, "on_error is 'x'; use one of 'dead-letter', 'retry', 'drop'"),
        ({"ephemeral": 1}, "ephemeral is 1; use True or False"),
        ({"root": 7}, "root is 7; use a path"),
    ],
)
def test_each_option_is_checked_as_the_contract_says(given: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.ConfigurationError) as raised:
        Options(name="a", **given).check()
    assert str(raised.value) == told


def test_all_three_languages_have_the_limits_and_the_errors() -> None:
    written = {str(path.relative_to(ROOT)) for path in outputs()}
    assert {"speed/wire/limits.py", "bindings/cpp/src/wire/limits.hpp"} < written
    assert {"speed/errors.py", "bindings/cpp/include/speed/error.hpp"} < written
    assert {f"{java.SOURCES}/internal/wire/Limits.java", f"{java.SOURCES}/errors/KeyFileException.java"} < written


def sources(*places: str) -> dict[Path, str]:
    """What is written by hand in all languages, and is not generated as a whole."""
    files = (path for place in places for path in (ROOT / place).rglob("*"))
    return {path: path.read_text() for path in files if path.suffix in {".py", ".cpp", ".hpp", ".java"}}


@pytest.mark.parametrize("row", CODES["texts"], ids=lambda row: row["name"])
def test_a_text_is_written_by_hand_in_no_language(row: dict[str, Any]) -> None:
    """The longest part of it, as far as no line of code breaks it, stands where it is generated."""
    part = max(re.split(r"\{\w+\}", row["text"]), key=len)[:40]
    places = [path.stem.lower() for path, text in sources("speed", "bindings").items() if part in text]
    assert places.count("texts") == 3
    assert set(places) == {"texts"}


def test_every_number_of_the_contract_is_here() -> None:
    """W-0."""
    here = {name.lower(): value for name, value in vars(limits).items() if name.isupper()}
    assert here == json.loads((SPEC / "limits.json").read_text())


@pytest.mark.parametrize("kind", TREE.kinds, ids=lambda kind: kind.name)
def test_an_error_has_the_code_and_the_base_of_the_contract(kind: Kind) -> None:
    """Those that are written by hand too."""
    assert named(kind).code == kind.code
    assert kind.parent is None or issubclass(named(kind), named(TREE.named(kind.parent)))


@pytest.mark.parametrize("kind", TREE.kinds, ids=lambda kind: kind.name)
def test_an_error_says_the_same_in_every_list(kind: Kind) -> None:
    """A code that an error carries is listed; each says what it means, where it comes from and what to do."""
    row = next(row for row in CODES["errors"] if row["name"] == kind.name)
    assert all(row[key].endswith(".") for key in ("means", "cause", "cure"))
    assert kind.code in {
        *CODES["spc"],
        *CODES["local"],
        *CODES["journal"],
        *CODES["message"],
        *CODES["pulsar"],
        *CODES["backend"],
    }


def test_every_code_that_is_told_to_programs_has_an_error() -> None:
    told = {*CODES["spc"], *CODES["local"], *CODES["journal"], *CODES["message"], *CODES["pulsar"], *CODES["backend"]}
    assert told == {kind.code for kind in TREE.kinds}


def test_a_base_stands_before_the_kinds_of_it() -> None:
    order = [kind.name for kind in TREE.kinds]
    assert all(order.index(kind.parent) < order.index(kind.name) for kind in TREE.kinds if kind.parent)


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("bindings/cpp/include/speed/error.hpp", cpp.BY_HAND - {"Speed"}),
        (f"{java.SOURCES}/errors", java.BY_HAND - {"Speed"}),
    ],
)
def test_a_class_written_by_hand_has_the_code_of_the_contract(path: str, kinds: frozenset[str]) -> None:
    place = ROOT / path
    text = place.read_text() if place.is_file() else "\n".join(file.read_text() for file in place.glob("*.java"))
    for kind in kinds - {"Call"}:
        name = cpp.name(TREE.named(kind)) if place.is_file() else java.name(TREE.named(kind))
        body = re.split(rf"class (?:SPEED_EXPORT )?{name} ", text, maxsplit=1)[1]
        assert f'"{TREE.named(kind).code}"' in body[: body.index("\n}")]


def test_a_tree_is_drawn_to_its_last_branch() -> None:
    lines = TREE.drawn("Speed", python.name, "").splitlines()
    assert lines[0] == "SpeedError"
    assert [line.startswith("└") for line in lines].count(True) == 1
    assert all(second for _, second in pairwise(lines))
