"""Reads registry_spec/vectors: what every implementation must accept, and what it must refuse."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from struct import unpack
from typing import Any

DIRECTORY = Path(__file__).resolve().parents[1] / "registry_spec" / "vectors"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def load(stem: str) -> dict[str, Any]:
    """The vectors of one file, e.g. ``envelopes``."""
    vectors: dict[str, Any] = json.loads((DIRECTORY / f"{stem}.json").read_text(encoding="ascii"))
    return vectors


def case_name(case: Any) -> str:
    """How pytest calls a case: its name and the bug that it catches."""
    if not isinstance(case, dict):
        return str(case)[:40]
    return f"{case.get('name', '')}: {case['bug']}"[:80]


def value_of(tagged: Any) -> Any:
    """The value that a vector writes as tagged JSON."""
    if isinstance(tagged, list):
        return [value_of(item) for item in tagged]
    if not isinstance(tagged, dict):
        return tagged
    ((kind, content),) = tagged.items()
    if kind == "int":
        return int(content)
    if kind == "float":
        return unpack(">d", bytes.fromhex(content))[0]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "decimal":
        return Decimal(content)
    if kind == "local":
        return datetime.fromisoformat(content)
    if kind == "date":
        return date.fromisoformat(content)
    if kind == "time":
        return time.fromisoformat(content)
    if kind == "duration":
        return timedelta(microseconds=int(content))
    if kind == "timestamp":
        return _EPOCH + timedelta(seconds=int(content[0]), microseconds=content[1] // 1000)
    return {value_of(key): value_of(item) for key, item in content}


def placed(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a cursor or fence as Python names them: the contract calls the number of a lane's file ``segment``."""
    return {"file" if key == "segment" else key: value for key, value in fields.items()}
