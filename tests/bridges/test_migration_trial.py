"""``scripts/migration``, with small counts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


def tried(*words: str) -> Any:
    """The last thing that it prints."""
    command = [str(ROOT / "scripts" / "migration"), *words]
    own = {**os.environ, "VENV": os.environ.get("VENV", str(ROOT / ".venv"))}
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout[done.stdout.index("{") :])


@pytest.mark.thorough  # with fewer kills and writers, tests/bridges/test_migration.py
def test_records_are_migrated_while_producers_write_and_the_migration_is_killed() -> None:
    told = tried("--count", "6000", "--kills", "1")
    assert (told["found"], told["lost"], told["twice_by_id"], told["twice_by_number"]) == (6000, 0, 0, 0)
    assert (told["written_meanwhile"], told["kills"]) == (3000, 1)


def test_the_cost_of_an_envelope_is_measured_and_its_bare_metadata_is_short() -> None:
    told = tried("overhead", "--count", "50", "--a-second", "50")
    assert told["envelope_bytes"]["bare"] <= 150
    assert {"raw", "envelope", "more"} == set(told["microseconds"]["p99"])
