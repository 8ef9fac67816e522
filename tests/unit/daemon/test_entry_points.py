"""Entry points are checked without running anything, and loaded with a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.daemon.host import EntryPointError, find_problem, load_service


class Echo:
    def invoke(self, request: object) -> object:
        return request


@pytest.fixture
def modules(tmp_path: Path) -> str:
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('importing runs code')\n")
    (package / "good.py").write_text("def register(node): ...\nclass Tax: ...\nalias = Tax\nfrom os import path as p\n")
    (package / "broken.py").write_text("def f(:\n")
    (tmp_path / "single.py").write_text("raise RuntimeError\n")
    return str(tmp_path)


@pytest.mark.parametrize("name", ["register", "Tax", "alias", "p", "Tax.member"])
def test_what_a_module_defines_is_found_without_importing_it(modules: str, name: str) -> None:
    assert find_problem(f"acme.good:{name}", [modules]) is None


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("acme.good:absent", "does not define 'absent'"),
        ("acme.nothing:f", "no module 'acme.nothing'"),
        ("nothing.at.all:f", "no module 'nothing'"),
        ("single.part:f", "not a package"),
        ("acme.broken:f", "line 1"),
    ],
)
def test_a_wrong_entry_point_is_explained(modules: str, entry: str, says: str) -> None:
    assert says in (find_problem(entry, [modules]) or "")


def test_a_class_is_a_service_through_its_instance() -> None:
    service = load_service("tests.unit.daemon.test_entry_points:Echo")
    assert service.invoke("x") == "x"


def test_what_cannot_be_a_service_is_refused() -> None:
    with pytest.raises(EntryPointError, match="no service"):
        load_service("math:pi")


def test_a_module_that_fails_names_the_cause() -> None:
    with pytest.raises(EntryPointError, match="ModuleNotFoundError"):
        load_service("no_such_module_here:f")
