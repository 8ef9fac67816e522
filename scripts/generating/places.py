"""Places of a file that are generated, while what is around them is written by hand."""

from __future__ import annotations

import re

FIRST = "generated from registry_spec/{} by scripts/generate"
LAST = "end of what is generated"


def region(text: str, comment: str, generated: str, source: str = "codes.json") -> str:
    """``text`` with another region between the two lines that mark it."""
    first = FIRST.format(source)
    mark = re.compile(rf"^( *){comment} {first}\n.*?^( *){comment} {LAST}\n", re.MULTILINE | re.DOTALL)
    found = mark.search(text)
    if found is None:
        raise SystemExit(f"no lines '{comment} {first}' and '{comment} {LAST}'")
    indent = found[1]
    made = f"{indent}{comment} {first}\n{generated}{indent}{comment} {LAST}\n"
    return text[: found.start()] + made + text[found.end() :]


def between(text: str, before: str, after: str, generated: str) -> str:
    """``text`` with other lines between the one that begins with ``before`` and the next that begins with ``after``."""
    mark = re.compile(rf"(^ *{re.escape(before)}.*\n)(?:.*\n)*?(?=^ *{re.escape(after)})", re.MULTILINE)
    if not mark.search(text):
        raise SystemExit(f"no line '{before}…' with a line '{after}…' behind it")
    return mark.sub(lambda found: found[1] + generated, text, count=1)


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
