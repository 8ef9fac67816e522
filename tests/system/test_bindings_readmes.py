"""What the READMEs of the bindings show is what happens: each program is compiled, and run without root or key.

A block of C++ or Java is a whole program; the ``text`` under it is what it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from speed.daemon.config_check import check_text
from tests.system.documents import PATIENCE, REPOSITORY, Block, blocks

pytestmark = pytest.mark.system

CPP = blocks(REPOSITORY / "bindings/cpp/README.md")
JAVA = blocks(REPOSITORY / "bindings/java/README.md")
PYTHON = blocks(REPOSITORY / "bindings/python/README.md")
LONGEST = 150
BUILD = REPOSITORY / "build/cpp"
TARGET = REPOSITORY / "bindings/java/target"


def programs(page: list[Block], language: str) -> list[object]:
    """Each program with what it prints."""
    chosen = [(one, below) for one, below in pairwise(page) if one.language == language]
    return [pytest.param(one.text, below.text, id=one.place) for one, below in chosen]


def run(words: list[str], directory: Path) -> str:
    """What a program says that finds neither root nor key."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPEED_")}
    done = subprocess.run(
        words,
        cwd=directory,
        env={**own, "SPEED_ROOT": str(directory / "root")},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def link_words() -> list[str]:
    """What ``pkg-config --static`` says of the library, which is built but not installed."""
    required = re.search(r"^Requires.private: (.*)$", (BUILD / "speed.pc").read_text(), re.MULTILINE)
    assert required is not None
    libraries = subprocess.run(["pkg-config", "--libs", *required[1].split()], stdout=-1, text=True, check=True).stdout
    return [str(BUILD / "libspeed.a"), *libraries.split(), "-lpthread"]


@pytest.mark.cpp
@pytest.mark.parametrize(("text", "printed"), programs(CPP, "cpp"))
def test_a_program_in_cpp_runs_as_it_stands(text: str, printed: str, tmp_path: Path) -> None:
    assert (BUILD / "libspeed.a").exists(), "the library is missing: run scripts/cpp build"
    (tmp_path / "program.cpp").write_text(text)
    include = str(REPOSITORY / "bindings/cpp/include")
    compiler = os.environ.get("CXX", "c++")
    warnings = ["-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror"]
    run([compiler, "-std=c++20", *warnings, "-I", include, "program.cpp", "-o", "program", *link_words()], tmp_path)
    assert run([str(tmp_path / "program")], tmp_path) == printed


@pytest.mark.java
@pytest.mark.parametrize(("text", "printed"), programs(JAVA, "java"))
def test_a_program_in_java_runs_as_it_stands(text: str, printed: str, tmp_path: Path) -> None:
    assert (TARGET / "lib").is_dir(), "the jars are missing: run scripts/java build"
    (tmp_path / "Program.java").write_text(text)
    assert run(["java", "-cp", f"{TARGET}/speed-0.1.0.jar:{TARGET}/lib/*", "Program.java"], tmp_path) == printed


@pytest.mark.parametrize(("page", "language"), [(CPP, "cpp"), (JAVA, "java")], ids=["C++", "Java"])
def test_there_is_a_first_program_one_of_values_and_one_of_rows(page: list[Block], language: str) -> None:
    shown = programs(page, language)
    assert len(shown) >= 3
    assert [one.language for one in page].count("text") == len(shown)


def check_excerpt(block: Block) -> None:
    assert block.text in (REPOSITORY / "examples/cpp-consumer/CMakeLists.txt").read_text()


def check_coordinates(block: Block) -> None:
    """They are those of the artifact."""
    spaces = {"m": "http://maven.apache.org/POM/4.0.0"}
    artifact = ET.parse(REPOSITORY / "bindings/java/pom.xml").getroot()
    shown = {part.tag: part.text for part in ET.fromstring(block.text)}
    assert shown == {tag: artifact.findtext(f"m:{tag}", namespaces=spaces) for tag in shown}


def check_settings(block: Block) -> None:
    assert check_text(block.text, Path("speedd.toml"))[1] == []


CHECKS: dict[str, Callable[[Block], object]] = {
    "cmake": check_excerpt,
    "xml": check_coordinates,
    "toml": check_settings,
}


@pytest.mark.parametrize("block", [one for one in CPP + JAVA if one.language in CHECKS], ids=lambda one: one.place)
def test_a_block_is_what_its_language_says(block: Block) -> None:
    CHECKS[block.language](block)


def test_no_block_is_left_unchecked() -> None:
    known = {"cpp", "java", "text", *CHECKS}
    assert [one.place for one in CPP + JAVA + PYTHON if one.language not in known] == []


@pytest.mark.parametrize("binding", ["cpp", "java", "python"])
def test_it_is_short_and_what_it_links_to_is_there(binding: str) -> None:
    page = REPOSITORY / "bindings" / binding / "README.md"
    text = page.read_text("utf-8")
    assert len(text.splitlines()) < LONGEST
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
