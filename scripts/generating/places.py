"""Places of a file that are generated, while what is around them is written by hand."""

from __future__ import annotations

import re

FIRST = "generated from registry_spec/codes.json by scripts/generate"
LAST = "end of what is generated"


def region(text: str, comment: str, generated: str) -> str:
    """``text`` with another region between the two lines that mark it."""
    mark = re.compile(rf"^( *){comment} {FIRST}\n.*?^( *){comment} {LAST}\n", re.MULTILINE | re.DOTALL)
    found = mark.search(text)
    if found is None:
        raise SystemExit(f"no lines '{comment} {FIRST}' and '{comment} {LAST}'")
    indent = found[1]
    made = f"{indent}{comment} {FIRST}\n{generated}{indent}{comment} {LAST}\n"
    return text[: found.start()] + made + text[found.end() :]


def tree(text: str, root: str, prefix: str, drawn: str) -> str:
    """``text`` with another tree: from the line that is its root alone to the end of its last branch."""
    start = text.find(f"{prefix}{root}\n{prefix}├")
    last = text.find(f"\n{prefix}└── ", start)
    if start < 0 or last < 0:
        raise SystemExit(f"no tree below {root}")
    end = text.index("\n", last + 1) + 1
    while text.startswith(f"{prefix}     ", end):
        end = text.index("\n", end) + 1
    return text[:start] + drawn + text[end:]
