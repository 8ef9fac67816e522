"""What a change touches: ``python -m tests.steady.changed`` prints the areas, on one line, for .ci/run.

A change is what differs from ``SPEED_BASE``, or from where the branch left ``origin/main``; on main itself, from the
first parent of the last merge, or without merges from the commit before. Where that cannot be told, as in a checkout of
one commit, it prints ``unknown``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = "unknown"
PARTS_WITH_PROMISES = ("backends", "bridges", "core", "engine", "fs", "journal", "segment", "topics", "wire")
AREAS = {
    # The address sanitizer, with all tests.
    "cpp": (
        *(f"bindings/cpp/{part}" for part in ("src/", "include/", "tests/", "cmake/", "CMakeLists")),
        "scripts/cpp",
    ),
    # The thread sanitizer, with the tests of what threads share.
    "threads": (
        *(f"bindings/cpp/{part}" for part in ("src/fs/", "src/engine/", "tests/", "cmake/", "CMakeLists")),
        "scripts/cpp",
    ),
    # The fuzzer: what takes bytes of others.
    "decoders": (
        *(f"bindings/cpp/src/{part}/" for part in ("core", "message", "segment", "wire")),
        "bindings/cpp/fuzz/",
        "scripts/fuzz",
        "tests/interop/corpus",
    ),
    # The reference of the headers, and what is installed.
    "headers": ("bindings/cpp/include/", "bindings/cpp/cmake/", "bindings/cpp/CMakeLists", "bindings/cpp/Doxyfile"),
    "cpp-install": ("bindings/cpp/cmake/", "bindings/cpp/CMakeLists", "examples/cpp-consumer/"),
    "java-install": ("bindings/java/pom.xml", "bindings/java/src/main/java/module-info", "examples/java-consumer/"),
    "wheel": ("pyproject.toml", "bindings/python/", "bindings/cpp/cmake/", "scripts/wheel", "tests/wheel/"),
    # What may break a promise of registry_spec/reliability.md, and what tries to.
    "promises": (
        *(f"speed/{part}/" for part in PARTS_WITH_PROMISES),
        *("bindings/cpp/src/", "bindings/java/src/main/", "tests/torture/", "registry_spec/reliability.md"),
    ),
    "torture": ("tests/torture/", "scripts/torture"),
}
"""The beginnings of paths; those of a part that has a step of its own in .ci/run."""


def areas(paths: Iterable[str]) -> list[str]:
    """The areas that these files are in."""
    found = list(paths)
    return [area for area, beginnings in AREAS.items() if any(path.startswith(beginnings) for path in found)]


def changed(root: Path = ROOT) -> list[str] | None:
    """The files that differ, those that are not committed among them; None where nobody can tell."""
    base = _base(root)
    listed = _git(root, "diff", "--name-only", base, "--") if base else None
    untracked = _git(root, "ls-files", "--others", "--exclude-standard")
    return None if listed is None else [*listed.splitlines(), *(untracked or "").splitlines()]


def _base(root: Path) -> str:
    if asked := os.environ.get("SPEED_BASE"):
        return asked
    head, left = _git(root, "rev-parse", "HEAD"), _git(root, "merge-base", "origin/main", "HEAD")
    if left and left != head:
        return left
    merge = _git(root, "rev-list", "--merges", "--first-parent", "--max-count=1", "HEAD")
    return _git(root, "rev-parse", "--verify", "--quiet", f"{merge or 'HEAD'}^1") or ""


def _git(root: Path, *words: str) -> str | None:
    """What git says; None where it fails or is not there."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> int:
    found = changed()
    print(UNKNOWN if found is None else " ".join(areas(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
