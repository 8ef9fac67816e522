"""The page of all error codes, from `registry_spec/codes.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from speed.backends import backend as bridge_errors
from speed.errors import Execution, SpeedError
from speed.message import errors as message_errors
from speed.pulsar import frames as pulsar_errors

CODES = Path(__file__).resolve().parents[2] / "registry_spec" / "codes.json"
KINDS = {
    "spc": "Calls",
    "local": "Nodes and delivery",
    "journal": "Journal",
    "message": "Protected messages",
    "pulsar": "Apache Pulsar",
    "backend": "Backends",
    "wire": "Rejected bytes",
}
ABOUT = {
    "spc": "The other node answered, and the answer is an error. `error.execution` says whether the service ran.",
    "local": "What a node says to its own program.",
    "journal": "What a journal says to the program that reads or writes it.",
    "message": "Why a message could not be protected, or was refused.",
    "pulsar": "What [`speed.pulsar`](python/pulsar.md) says of a Pulsar. In Python only.",
    "backend": "What [`speed.messages`](python/backends.md) says of its backend. In Python only.",
    "wire": "Why bytes in a file were rejected. Such bytes are counted, put into quarantine and never delivered: they "
    "appear in `speed root doctor` and in [counters](metrics.md), and only programs that decode files themselves see "
    "them as an exception (`WireError.reason`).",
}
INTRODUCTION = """# Errors

Every error has a stable code, the same in Python (`error.code`), C++ (`error.code()`) and Java (`error.code()`), in
`speed … --json` and in logs. Its message says what happened in your case; this page says what the code means and what
to do. Each class is named as in Python ([more about them](python/errors.md)) and C++; Java's end in `Exception`.
"""

CLASSES = """# Error classes

Every exception of SPEED derives from `SpeedError`, and can be caught by any of its bases. [Errors](../errors.md) lists
the codes, with what causes them and what to do about them.
"""
OPTIONS = "    options: {inherited_members: false, show_root_full_path: false}\n"
MODULES = ("speed.errors", message_errors.__name__, pulsar_errors.__name__, bridge_errors.__name__)


def page() -> str:
    """The whole page in Markdown."""
    codes = json.loads(CODES.read_text("utf-8"))
    return "\n".join([INTRODUCTION, *(part for kind in KINDS for part in _kind(kind, codes))])


def classes_page() -> str:
    """The page of the Python classes: a directive for each, in the order of the tree."""
    kinds = dict.fromkeys([Execution, *_below(SpeedError)])
    shown = (f"::: {one.__module__}.{one.__name__}\n{OPTIONS}" for one in kinds if one.__module__ in MODULES)
    return "\n".join([CLASSES, *shown])


def _kind(kind: str, codes: dict[str, Any]) -> Iterator[str]:
    yield f"## {KINDS[kind]}\n\n{ABOUT[kind]}\n"
    for code in codes[kind]:
        yield f"### {code}\n"
        if kind == "wire":
            yield _told(codes["refusals"][code])
        else:
            yield from (_error(row) for row in codes["errors"] if row["code"] == code and row["name"] != "Wire")


def _error(row: dict[str, str]) -> str:
    means = " ".join(filter(None, (row["means"], row.get("more"))))
    return f"`{row['name']}Error`: {means}\n\n{_told(row)}"


def _told(row: dict[str, str]) -> str:
    return f"**Cause.** {row['cause']}\n\n**Cure.** {row['cure']}\n"


def _below(kind: type[SpeedError]) -> Iterator[type[SpeedError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)
