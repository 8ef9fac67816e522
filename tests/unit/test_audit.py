"""The audit of libraries refuses what it must, and knows what a library needs in turn."""

from __future__ import annotations

import pytest

from tests.audit import Library, needed, python_libraries


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-only",
        "GNU General Public License v2 or later (GPLv2+)",
        "AGPL-3.0-or-later",
        "LGPL-2.1-only",
        "MIT AND GPL-2.0-only",
        "GPL-2.0-only OR SSPL-1.0",
        "",
    ],
)
def test_a_library_without_a_free_choice_is_refused(licence: str) -> None:
    assert not Library("core", "some", "1", licence).is_allowed


@pytest.mark.parametrize(
    "licence", ["MIT", "Apache-2.0 OR BSD-3-Clause", "LGPL-2.1-or-later OR Apache-2.0", "(GPL-2.0-only OR MIT)", "ISC"]
)
def test_one_permitted_licence_is_enough(licence: str) -> None:
    assert Library("core", "some", "1", licence).is_allowed


def test_what_a_library_needs_is_audited_too() -> None:
    """cffi is needed by PyNaCl only."""
    core = needed("speed-ipc", "", set())
    assert {"pynacl", "cffi", "watchdog"} <= core
    assert "pyspark" not in core
    assert "pyspark" in needed("speed-ipc", "spark", set())


def test_each_library_is_listed_once_with_its_version() -> None:
    listed = list(python_libraries())
    assert len({library.name for library in listed}) == len(listed)
    assert all(library.version for library in listed)
