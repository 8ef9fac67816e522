"""The pages of the reference leave nothing out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.reference import cli, configuration, errors, pictures
from scripts.reference.cells import cell
from scripts.reference.links import rewritten
from speed.cli.app import FORMER, MESSAGE, SECTIONS
from speed.cli.app import ROOT as ROOT_COMMANDS
from speed.daemon.config_check import check_text

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"
COUNTED = re.compile(r"\b[cC]ounters(?:\.|::)(\w+)")
WRITTEN_OUT = re.compile(r"(?:\.|->|\b)_?count\(\s*f?\"([a-z][a-z_]+)(?:\"|\{)")
COUNTERS = [
    row
    for section in json.loads((ROOT / "registry_spec" / "counters.json").read_text())["sections"]
    for row in section["counters"]
]
OF_NODES = [
    row
    for section in json.loads((ROOT / "registry_spec" / "counters.json").read_text())["sections"]
    if section["nodes"]
    for row in section["counters"]
]
EVENT = re.compile(r"_?log\.(?:debug|info|warning|error)\(\"([a-z_]+)\"")
RULE = re.compile(r"(?<![\w.-])[A-Z]-\d+\b")
MODULES = ("speed", "speed.spark", "speed.journal", "speed.segment")


def named(page: str) -> set[str]:
    """What stands in the first column of the tables of a page."""
    rows = re.findall(r"^\| (`.*?) \|", (PAGES / page).read_text("utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def sources(*places: str) -> str:
    files = (path for place in places for path in (ROOT / place).rglob("*"))
    return "\n".join(path.read_text("utf-8") for path in files if path.suffix in {".py", ".cpp", ".hpp", ".java"})


def test_the_tables_of_counters_are_those_of_the_contract() -> None:
    """As the names of all languages are, which their compilers and type checkers check."""
    known = named("metrics.md")
    assert sorted({row["name"] for row in COUNTERS} - known) == []


def test_a_counter_is_counted_by_its_name_in_the_contract() -> None:
    """Never by a text, which could be misspelt."""
    assert WRITTEN_OUT.findall(sources("speed", "bindings/cpp/src", "bindings/java/src/main")) == []


def test_each_counter_of_the_contract_is_counted_somewhere() -> None:
    counted = {name.lower() for name in COUNTED.findall(sources("speed", "bindings/cpp/src", "bindings/java/src/main"))}
    assert sorted({row["name"].removesuffix("_…") for row in COUNTERS} - counted) == []


NODES = {
    "python": ("speed/core", "speed/fs", "speed/engine", "speed/message", "speed/node"),
    "cpp": ("bindings/cpp/src",),
    "java": ("bindings/java/src/main",),
}


@pytest.mark.parametrize("language", NODES)
def test_a_counter_of_nodes_is_counted_by_nodes_of_each_language(language: str) -> None:
    """Or by a family that it is one of, as ``rejected_bad_payload`` is."""
    counted = {name.lower() for name in COUNTED.findall(sources(*NODES[language]))}
    families = tuple(one for row in OF_NODES if (one := row["name"].removesuffix("…")) != row["name"])
    assert [
        row["name"] for row in OF_NODES if row["name"] not in counted and not row["name"].startswith(families)
    ] == []


def test_each_event_of_speedd_is_explained() -> None:
    assert sorted(set(EVENT.findall(sources("speed/daemon"))) - named("metrics.md")) == []


@pytest.mark.parametrize("table", [*configuration.TABLES, "[python]"])
def test_each_key_that_the_check_knows_is_on_the_page(table: str) -> None:
    _, mistakes = check_text(f"{table}\nzzzzzz = 1\n", Path("speedd.toml"))
    told = next(one.todo for one in mistakes if "zzzzzz" in one.what)
    section = configuration.page().partition(f"## `{table}`\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(shown) == sorted(told.removeprefix("known here: ").split(", "))


def test_each_command_is_on_the_page() -> None:
    page = cli.page()
    below = [f"root {name}" for name in ROOT_COMMANDS] + [f"message {name}" for name in MESSAGE]
    names = [name for commands in SECTIONS.values() for name in commands] + below
    assert [name for name in names if f"### speed {name}\n" not in page] == []
    assert [name for name in FORMER if f"### speed {name}\n" in page] == []
    assert "### speedd check\n" in page


FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"\[[^\]]*\]\((?!\w+:|#|<)([^)\s]+)\)")


def test_no_link_is_dead_in_a_checkout() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "registry_spec").glob("*.md")]
    dead = {
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in TARGET.findall(FENCED.sub("", page.read_text("utf-8")))
        if not (page.parent / target.partition("#")[0]).exists()
    }
    assert sorted(dead) == []


def test_who_contributes_is_sent_to_files_that_are_there() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    named_files = re.findall(r"`((?:speed|bindings|registry_spec|docs|tests|scripts|pyspark_speed)/[\w./-]*)`", page)
    assert len(named_files) > 30
    assert [path for path in named_files if not (ROOT / path).exists()] == []


def test_what_the_code_says_is_shown_as_it_is_in_a_table() -> None:
    assert cell("<root>/speed.key, {publisher} | a\n b `<x>`") == "&lt;root>/speed.key, &#123;publisher} \\| a b `<x>`"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_as_it_is_drawn(name: str) -> None:
    """``python -m scripts.reference.pictures`` writes it."""
    drawn = pictures.drawn(pictures.PICTURES[name]())
    assert (pictures.PLACE / f"{name}.svg").read_text("utf-8") == drawn
    ElementTree.fromstring(drawn)


def test_nothing_of_the_site_is_loaded_from_another_host() -> None:
    drawn = "".join(pictures.drawn(one()) for one in pictures.PICTURES.values())
    written = [drawn, (ROOT / "docs" / "site.css").read_text("utf-8"), (ROOT / "mkdocs.yml").read_text("utf-8")]
    assert [
        found for text in written for found in re.findall(r"https?://[^\s\"]+", text) if "w3.org" not in found
    ] == []


def test_a_shell_completes_each_public_name_of_speed() -> None:
    speed = import_module("speed")
    assert {*speed.__all__, "columns", "testing"} <= set(dir(speed))


def test_each_public_name_is_on_a_page() -> None:
    pages = [errors.classes_page(), *(one.read_text("utf-8") for one in PAGES.rglob("*.md"))]
    shown = {name for page in pages for name in re.findall(r"^::: (\S+)", page, re.MULTILINE)}
    shown |= {f"speed.{name.rpartition('.')[2]}" for name in shown if "errors." in name}
    public = {f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
    left_out = {"speed.__version__", "speed.spark.MAX_NAME_BYTES"}
    assert sorted(public - shown - left_out) == []


@pytest.mark.parametrize("page", [cli.page, configuration.page, errors.page, errors.classes_page])
def test_a_page_that_is_made_names_no_rule(page: Callable[[], str]) -> None:
    assert RULE.findall(page()) == []


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("[w](../registry_spec/wire.md#names)", "[w](contract/wire.md#names)"),
        ("[r](../README.md)", "r"),
        ("[f](figures.md)", "[f](figures.md)"),
        ("[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
        ("`[w](../README.md)`", "`[w](../README.md)`"),
        ("[`w`](../registry_spec/wire.md)", "[`w`](contract/wire.md)"),
        ("```\n[w](../README.md)\n```\n", "```\n[w](../README.md)\n```\n"),
        ("![p](plots/bench.svg)", "![p](plots/bench.svg)"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(text: str, becomes: str) -> None:
    on_site = {
        "registry_spec/wire.md": "contract/wire.md",
        "docs/figures.md": "figures.md",
        "docs/plots/bench.svg": "plots/bench.svg",
    }
    assert rewritten(text, "docs/rfc.md", "rfc.md", on_site.get, None) == becomes


def test_a_link_to_the_repository_leads_to_its_address_if_it_has_one() -> None:
    made = rewritten("[r](../README.md)", "docs/rfc.md", "rfc.md", lambda _: None, "https://example.org/blob/main")
    assert made == "[r](https://example.org/blob/main/README.md)"
