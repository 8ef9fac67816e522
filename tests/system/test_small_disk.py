"""A root on a small filesystem: what a node can do without makes room for what it sends (L-29)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.system.commands import Command
from tests.system.confined import on_a_mount

pytestmark = pytest.mark.system

PROGRAM = """
import sys, speed
engine, root = sys.argv[1:]
speed.init_root(root)
with (
    speed.Node("billing", root=root, engine=engine, allow=["analytics"]) as billing,
    speed.Node("audit", root=root, engine=engine, allow=["analytics"]) as audit,
    speed.Node("analytics", root=root, engine=engine) as analytics,
):
    def exchange(target, size):
        analytics.send(target.name, bytes(size), timeout=20)
        message = target.receive(timeout=20)
        assert len(message.payload) == size
        message.done()
    exchange(billing, 5 << 20)
    exchange(audit, 5 << 20)
    print("through")
    analytics.send("audit", bytes(3 << 20), timeout=20)
    try:
        for _ in range(8):
            analytics.send("audit", bytes(3 << 20), timeout=20)
        print("no error")
    except speed.StorageError as error:
        print(error.code)
"""


@pytest.mark.parametrize("engine", ["python", "native"])
def test_slots_that_are_free_never_fill_the_disk(run: Command, tmp_path: Path, engine: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = tmp_path / "mount"
    script = f"{sys.executable} {program} {engine} {root}/root"
    result = on_a_mount(run, root, "size=8m", script)
    assert result.out.split() == ["through", "STORAGE"], result.err
