"""What a build of a wheel compiled is found by the next one, though pip gives each an environment of its own."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
CACHE = """# a comment
//The directory of nanobind.
nanobind_DIR:PATH=/tmp/gone/nanobind/cmake

//Where Python is
_Python_EXECUTABLE:INTERNAL=/tmp/gone/python
CMAKE_BUILD_TYPE:STRING=RelWithDebInfo
"""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "bindings" / "python"))
    found = importlib.import_module("backend")
    monkeypatch.setattr(found, "ROOT", tmp_path)
    monkeypatch.setenv("SPEED_NANOBIND", "")
    return found


def made_by(directory: Path, package: str, version: str) -> Path:
    directory.mkdir(parents=True)
    (directory / "CMakeCache.txt").write_text(CACHE)
    (directory / "CMakeFiles").mkdir()
    told = {"skbuild_path": package, "skbuild_version": version, "source_dir": "/src"}
    (directory / ".skbuild-info.json").write_text(json.dumps(told))
    return directory


def info_of(directory: Path) -> dict[str, str]:
    return dict(json.loads((directory / ".skbuild-info.json").read_text()))


@pytest.mark.parametrize("asked", ["", "build/other"])
def test_a_build_directory_of_another_environment_is_taken_over(backend: Any, tmp_path: Path, asked: str) -> None:
    import scikit_build_core as core

    directory = made_by(tmp_path / (asked or "build/wheel/cp311"), "/tmp/gone/scikit_build_core", core.__version__)
    backend.keep_objects({"build-dir": asked} if asked else {})
    assert info_of(directory)["skbuild_path"] == str(Path(core.__file__).resolve().parent)
    assert (directory / "CMakeCache.txt").read_text() == "# a comment\n\nCMAKE_BUILD_TYPE:STRING=RelWithDebInfo\n"


def test_a_build_directory_of_another_version_is_left_to_be_emptied(backend: Any, tmp_path: Path) -> None:
    directory = made_by(tmp_path / "build/wheel/cp311", "/tmp/gone/scikit_build_core", "0.0.1")
    backend.keep_objects({})
    assert info_of(directory)["skbuild_path"] == "/tmp/gone/scikit_build_core"
    assert (directory / "CMakeCache.txt").read_text() == CACHE


def test_nanobind_gets_a_place_that_stays(backend: Any, tmp_path: Path) -> None:
    backend.keep_objects({})
    (place,) = (tmp_path / "build").glob("nanobind-*")
    header = place / "include" / "nanobind" / "nanobind.h"
    written = header.stat().st_mtime_ns
    backend.keep_objects({})
    assert header.stat().st_mtime_ns == written
