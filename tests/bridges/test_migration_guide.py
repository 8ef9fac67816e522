"""The examples of docs/howto/migration.md run as they stand, against real servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridges.conftest import Servers
from tests.system.documents import Block, blocks

pytestmark = [pytest.mark.system, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
PAGE = blocks(ROOT / "docs" / "howto" / "migration.md")
PROGRAMS = [one for one in PAGE if one.language == "python"]
SHOWN = {"kafka": "kafka://127.0.0.1:9092", "redis": "redis://127.0.0.1:6379"}


def with_places(text: str, servers: Servers) -> str:
    """With the addresses of the servers of this run."""
    for name, shown in SHOWN.items():
        text = text.replace(shown, servers.get(name).address)
    return text


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_an_example_runs_as_it_stands(block: Block, servers: Servers) -> None:
    program = with_places(block.text, servers)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert ("print(" in program) == bool(done.stdout)


def test_its_commands_run_as_they_stand(servers: Servers, tmp_path: Path) -> None:
    (block,) = [one for one in PAGE if one.language == "text"]
    commands = [line.removeprefix("$ speed ") for line in block.text.splitlines()]
    assert len(commands) == 2
    import redis

    with redis.Redis(port=servers.get("redis").port) as client:
        client.xadd("orders.before", {"data": b'{"payload": 1}'})
    for command in commands:
        script = with_places(f"{sys.executable} -m speed.cli {command} --state {tmp_path}/state --idle 1", servers)
        done = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "redis" in done.stdout
    assert "0 missing, 0 twice" in done.stdout
