"""One version, said in one place; the other languages' builds agree with it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import speed
from speed.fs.registration import VERSION

ROOT = Path(__file__).resolve().parents[3]


def said_in(path: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))
    assert found is not None, path
    return found[1]


def test_the_entry_of_a_node_says_the_version_of_the_package() -> None:
    assert speed.__version__ == VERSION


def test_the_library_of_cpp_and_so_the_native_engine_has_the_version_of_the_package() -> None:
    assert said_in("bindings/cpp/CMakeLists.txt", r"project\(speed VERSION ([\d.]+)") == speed.__version__


def test_the_node_of_java_has_the_version_of_the_package() -> None:
    project = ET.parse(ROOT / "bindings" / "java" / "pom.xml").getroot()
    assert project.findtext("{*}version") == speed.__version__
    registrant = "bindings/java/src/main/java/speed/internal/fs/Registrant.java"
    assert said_in(registrant, r'VERSION = "([\d.]+)"') == speed.__version__


def test_the_changelog_names_the_version() -> None:
    assert said_in("CHANGELOG.md", r"## \[(\d[^\]]*)\]") == speed.__version__


def test_the_package_says_nowhere_else_what_version_it_is() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert 'input = "speed/__init__.py"' in project
    assert f'version = "{speed.__version__}"' not in project
