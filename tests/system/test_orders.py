"""The example of messages that a gateway passes on and cannot read (M-17, M-20, M-29) runs as its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2]
SHOWN = re.findall(
    r"^```\n(refused.*?)^```$", (SOURCES / "examples/orders/README.md").read_text(), re.MULTILINE | re.DOTALL
)[0]

pytestmark = pytest.mark.system


def sold(tmp_path: Path, *words: str) -> str:
    """What a run of twenty orders prints."""
    command = [sys.executable, "-m", "examples.orders.run", "--scratch", str(tmp_path), *words]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    return done.stdout


def test_what_is_forged_altered_or_malformed_is_refused_and_the_rest_arrives_unread(tmp_path: Path) -> None:
    assert sold(tmp_path, "--python-only") == SHOWN


@pytest.mark.java
def test_a_shop_in_java_sells_the_same(tmp_path: Path) -> None:
    assert sold(tmp_path) == SHOWN
