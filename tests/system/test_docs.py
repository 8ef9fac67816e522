"""What the pages of docs/ show is what happens.

A ``python`` block runs whole, as a program in a fresh root. One with ``title="…"``, or the name of a file in a comment
on its first line, is saved under that name beside the page's session instead, or used by a test of its own. The
``console`` blocks of a page are one session, which is typed and compared. Blocks of C++ and Java are parts of the
examples that are built. What cannot be run says ``no-run``, and a comment before it says why.
"""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from speed.daemon.config_check import check_text
from speed.fs.keyfile import write_key_file
from tests.system.documents import PATIENCE, REPOSITORY, Block, blocks, check_session, user_environment

pytestmark = pytest.mark.system

PAGES = {str(page.relative_to(REPOSITORY)): blocks(page) for page in sorted((REPOSITORY / "docs").rglob("*.md"))}
BLOCKS = [block for page in PAGES.values() for block in page]
EXAMPLES = (
    "examples",
    "bindings/cpp/examples",
    "bindings/java/src/main/java/speed/examples",
)
SHOWN_ONLY = frozenset({"text", "mermaid"})


def cases(chosen: Iterable[Block]) -> list[object]:
    """One test a block; those of Spark need Java."""
    spark = pytest.mark.spark
    return [pytest.param(one, id=one.place, marks=spark if "pyspark" in one.text else ()) for one in chosen]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a root is made."""
    return tmp_path / "root"


@pytest.fixture
def environment(tmp_path: Path, root: Path) -> dict[str, str]:
    """That of a user who has installed SPEED, with Spark."""
    own = user_environment(tmp_path)
    return {**own, "SPEED_ROOT": str(root), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def make_root(root: Path) -> None:
    root.mkdir(mode=0o700)
    write_key_file(f"{root}/speed.key", (os.urandom(32),))


def programs() -> list[Block]:
    return [one for one in BLOCKS if one.language == "python" and one.runs and one.title is None]


@pytest.mark.parametrize("block", cases(programs()))
def test_a_program_runs_as_it_stands(block: Block, tmp_path: Path, root: Path, environment: dict[str, str]) -> None:
    make_root(root)
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def sessions() -> list[str]:
    return [name for name, page in PAGES.items() if any(one.language == "console" and one.runs for one in page)]


@pytest.mark.parametrize("page", sessions())
def test_a_session_prints_what_it_shows(page: str, tmp_path: Path, root: Path, environment: dict[str, str]) -> None:
    for one in PAGES[page]:
        if one.title is not None:
            (tmp_path / one.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / one.title).write_text(one.text)
    typed = "".join(one.text for one in PAGES[page] if one.language == "console" and one.runs)
    if "speed root init" not in typed:
        make_root(root)
    check_session(typed, tmp_path, environment)


def check_toml(block: Block) -> None:
    assert check_text(block.text, Path("speedd.toml"))[1] == []


def check_yaml(block: Block) -> None:
    import yaml  # it comes with moto

    assert all(isinstance(one, dict) for one in yaml.safe_load_all(block.text))


def check_unit(block: Block) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read_string(block.text)
    assert unit.sections()


def check_shell(block: Block) -> None:
    subprocess.run(["bash", "-n", "-c", block.text], check=True)


def check_excerpt(block: Block) -> None:
    """It stands in an example as it is, but for the indentation around it."""
    wanted = _lines(block.text)
    assert any(wanted in _lines(source) for source in _example_texts()), f"no example holds this:\n{block.text}"


def _example_texts() -> Iterable[str]:
    for place in EXAMPLES:
        for path in sorted((REPOSITORY / place).rglob("*")):
            if path.is_file() and path.suffix in {".cpp", ".hpp", ".java", ".txt", ".xml"}:
                yield path.read_text("utf-8")


def _lines(text: str) -> str:
    return "\n" + "\n".join(line.strip() for line in textwrap.dedent(text).strip().splitlines()) + "\n"


def check_page(block: Block) -> None:
    """Each element that is begun ends, but for those that cannot."""
    begun: list[str] = []
    page = HTMLParser()
    page.handle_starttag = lambda tag, attributes: begun.append(tag)  # type: ignore[method-assign]
    page.handle_endtag = lambda tag: assert_same(begun.pop(), tag)  # type: ignore[method-assign]
    page.feed(block.text)
    assert begun == []


def assert_same(begun: str, ended: str) -> None:
    assert begun == ended


CHECKS: dict[str, Callable[[Block], object]] = {
    "toml": check_toml,
    "yaml": check_yaml,
    "json": lambda block: json.loads(block.text),
    "xml": lambda block: ET.fromstring(f"<all>{block.text}</all>"),
    "html": check_page,
    "ini": check_unit,
    "bash": check_shell,
    "cpp": check_excerpt,
    "java": check_excerpt,
    "cmake": check_excerpt,
}


@pytest.mark.parametrize("block", cases(one for one in BLOCKS if one.language in CHECKS and one.runs))
def test_a_block_is_what_its_language_says(block: Block) -> None:
    CHECKS[block.language](block)


def test_each_block_is_in_a_language_that_is_checked() -> None:
    known = {"python", "console", *CHECKS, *SHOWN_ONLY}
    assert [one.place for one in BLOCKS if one.language not in known and one.runs] == []


def test_what_does_not_run_says_why() -> None:
    assert [one.place for one in BLOCKS if not one.runs and not one.reason] == []


def test_each_file_of_a_page_is_used() -> None:
    tests = "".join(one.read_text("utf-8") for one in Path(__file__).parent.rglob("test_*.py"))
    filed = {name for name, page in PAGES.items() if any(one.title and one.runs for one in page)}
    assert [name for name in filed - set(sessions()) if Path(name).name not in tests] == []
