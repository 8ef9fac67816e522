"""Text of the code as a cell of a Markdown table: no HTML, no attributes, no end of the cell."""

from __future__ import annotations

import re

CODE = re.compile(r"(`[^`]*`)")


def cell(text: str) -> str:
    """One line; `<root>`, `{publisher}` and `|` are shown as they are."""
    parts = CODE.split(" ".join(text.split()).replace("|", "\\|"))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(part: str) -> str:
    return part.replace("&", "&amp;").replace("<", "&lt;").replace("{", "&#123;")
