"""Encryption that the configuration of speedd declares: for its processes, and for commands (M-38)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed import generate_key
from tests.system.daemon.speedds import ONE, Speedd

pytestmark = pytest.mark.system

READING = '[[process]]\nname = "reader"\nentry = "mail:register"\nallow = ["test", "cli.*"]\n'
MAIL = """
def register(node):
    seen = []
    node.on_message(lambda message: seen.append([message.payload, message.metadata.is_encrypted]))
    @node.service("seen")
    def handed() -> list:
        return seen
"""


def declared(directory: Path, algorithm: str = "aes-256-gcm") -> str:
    key = generate_key("orders.1", algorithm)
    (directory / "keys.json").write_text(json.dumps(key.to_record()))
    (directory / "keys.json").chmod(0o600)
    return f'[encryption]\nalgorithm = "aes-256-gcm"\nkey_ref = "file://{directory}/keys.json"\n'


def test_a_process_of_speedd_reads_what_is_encrypted_to_the_declared_keys(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    (directory / "lib" / "mail.py").write_text(MAIL)
    table = declared(directory)
    speedd = start(READING + table)
    speedd.until("ready")
    file = directory / "encryption.toml"
    file.write_text(table)
    words = [sys.executable, "-m", "speed.cli", "send", "reader", '"hello"', "--ack", "--encryption", str(file)]
    places = {"SPEED_ROOT": str(directory / "root"), "SPEED_KEY": str(directory / "speed.key")}
    done = subprocess.run(words, env={**os.environ, **places}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert client.call("reader", "seen") == [["hello", True]]
    assert speedd.stop() == 0


def test_keys_that_are_not_as_declared_keep_speedd_from_starting(start: Callable[..., Speedd], directory: Path) -> None:
    speedd = start(ONE + declared(directory, "chacha20-poly1305"))
    assert speedd.process.wait(30) != 0
