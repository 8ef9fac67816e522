"""The examples of docs/howto/backends.md run as they stand, against real servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.servers.server import PASSWORD, USER
from tests.bridges.conftest import Servers
from tests.system.documents import Block, blocks

pytestmark = [pytest.mark.system, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
PAGE = blocks(ROOT / "docs" / "howto" / "backends.md")
PROGRAMS = [one for one in PAGE if one.language == "python"]
SHOWN = {
    "kafka": "kafka://127.0.0.1:9092",
    "nats": "nats://127.0.0.1:4222",
    "redis": "redis://127.0.0.1:6379",
    "postgres": "postgres://127.0.0.1:5432/shop",
    "s3": "s3://events?endpoint=http://127.0.0.1:5000",
    "sqs": "sqs://events.fifo?endpoint=http://127.0.0.1:5000&bucket=events",
}


def test_there_is_an_example_for_each_backend() -> None:
    assert {name for name, shown in SHOWN.items() for one in PROGRAMS if shown in one.text} == set(SHOWN)


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_an_example_runs_as_it_stands(block: Block, servers: Servers) -> None:
    (name,) = [name for name, shown in SHOWN.items() if shown in block.text]
    program = block.text.replace(SHOWN[name], servers.get(name).address)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert ("print(" in program) == bool(done.stdout)
    assert USER not in done.stderr and PASSWORD not in done.stderr
