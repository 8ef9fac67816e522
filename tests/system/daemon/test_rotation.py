"""A key that changes under speedd and its processes (W-20)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.cli.keys import rotated
from speed.fs.keyfile import change_key_file, read_keys
from tests.system.daemon.speedds import ONE, Speedd, follow

pytestmark = pytest.mark.system


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
