"""A key that changes under speedd and its processes (W-20)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.cli.key_holders import holders
from speed.cli.keys import rotated
from speed.fs.keyfile import change_key_file, load_key_file, read_keys
from speed.fs.registry import Registry
from tests.system.daemon.speedds import ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system


def follow(directory: Path) -> list[str]:
    """Wait until all nodes have the keys of the file; the names of those that have."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ring = load_key_file(str(directory / "speed.key"))
        found = holders(Registry(str(directory / "root"), ring))
        if all(one.state == "current" for one in found):
            return [one.name for one in found]
        time.sleep(0.1)
    raise AssertionError(f"not all have the keys of the file: {found}")


def test_speedd_and_its_processes_go_on_while_their_key_changes(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    process = client.call("one", "pid")
    before = read_keys(str(directory / "speed.key"))
    for step in ("add", "promote", "retire"):
        change_key_file(str(directory / "speed.key"), lambda keys: rotated(keys, step, os.urandom(32)))  # noqa: B023
        assert follow(directory) == ["one", "speedd", "test"]
        assert client.call("speedd", "echo", {"value": step}) == step
        assert client.call("one", "pid") == process
    assert not set(before) & set(read_keys(str(directory / "speed.key")))
    assert speedd.stop() == 0
    assert not [event for event in speedd.events if event["level"] in ("warning", "error")]
