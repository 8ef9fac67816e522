"""Write what is generated: ``scripts/generate``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from scripts.generating import cpp, fields, java, java_options, pages, python, python_options
from scripts.generating.kinds import Tree

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "registry_spec"
MARKS = ("scripts/generate", "registry_spec/codes.json")


def outputs() -> dict[Path, str]:
    """Every file with something generated in it, and the text that it should have."""
    tree = Tree.of(json.loads((SPEC / "codes.json").read_text()))
    numbers = json.loads((SPEC / "limits.json").read_text())
    made = (
        *(file for language in (python, cpp, java, pages) for file in language.files(ROOT, tree, numbers)),
        *(file for language in (python_options, java_options) for file in language.files(ROOT, numbers)),
        *fields.files(ROOT),
    )
    return {ROOT / path: text for path, text in made}


def changed() -> dict[Path, str]:
    """Those that have another text, or are not there."""
    return {path: text for path, text in outputs().items() if not path.exists() or path.read_text() != text}


def is_ours(path: Path) -> bool:
    """Whether a file may be written: it is not there, or says that it, or a part of it, is made of the contract."""
    return not path.exists() or any(mark in path.read_text() for mark in MARKS)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="scripts/generate", description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing; fail if something would be written")
    check = arguments.parse_args().check
    different = changed()
    for path, text in different.items():
        print(path.relative_to(ROOT))
        if not check and not is_ours(path):
            raise SystemExit(f"{path} does not say that scripts/generate wrote it: move it, or give it that line")
        if not check:
            path.write_text(text)
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
