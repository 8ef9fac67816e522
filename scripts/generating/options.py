"""The rows of ``options.json``, as the files of all languages are made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def of_node(root: Path, numbers: dict[str, Any]) -> list[Row]:
    """The options of a node, with the numbers of ``limits.json`` in their places, and what may be as a text."""
    rows = json.loads((root / "registry_spec" / "options.json").read_text())["node"]
    known = [{key: number(value, numbers) for key, value in row.items()} for row in rows]
    return [{**row, "check": allowed(row)} for row in known]


def number(value: Any, numbers: dict[str, Any]) -> Any:
    return numbers[value["limit"]] if isinstance(value, dict) and "limit" in value else value


def allowed(row: Row) -> str:
    """Which values are taken; empty where the type says it."""
    if "choices" in row:
        return ", ".join(row["choices"])
    if "least" not in row:
        return str(row.get("check", ""))
    if "most" not in row:
        return f"{row['least']} or more"
    unit = f" {row['unit']}" if "unit" in row else ""
    return f"{row['least']} to {row['most']:,}{unit}"


def in_language(rows: list[Row], language: str) -> list[Row]:
    return [row for row in rows if language in row]
