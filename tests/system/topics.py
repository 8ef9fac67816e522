"""A speedd with topics, for tests: configured, started, killed."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import write_key_file

PATIENCE = 60.0
CONFIG = """
[node]
root = "root"
key = "speed.key"
lease_seconds = 4.0
heartbeat_seconds = 1.0
[topics]
publish = ["test", "producer.*", "cli.*"]
consume = ["test", "consumer.*", "cli.*"]
manage = ["test", "cli.*"]
[[topic]]
name = "orders"
[[topic]]
name = "secret"
publish = ["nobody"]
consume = ["nobody"]
manage = ["nobody"]
"""

PRODUCER = """
import sys, speed
root, key, number, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
name = sys.argv[5] if len(sys.argv) > 5 else "shop"
with speed.Node("producer.1", root=root, key=key) as node:
    node.wait_for("speedd.topics", timeout=30)
    topic = node.topic("orders")
    while number <= last:
        try:
            topic.publish(number, producer=name, sequence=number, timeout=5)
        except (speed.DeliveryError, speed.CallError):
            node.wait_for("speedd.topics", timeout=30)  # again under the same sequence
        else:
            print(number, flush=True)
            number += 1
"""

"""Publishes the numbers from one to another, as a producer of a name; says each that is kept."""

CONSUMER = """
import json, sys, speed
root, key, name = sys.argv[1], sys.argv[2], sys.argv[3]
subscription = sys.argv[4] if len(sys.argv) > 4 else "billing"
with speed.Node(name, root=root, key=key) as node:
    with node.topic("orders").consumer(subscription, type="shared", start="earliest", prefetch=20) as consumer:
        for message in consumer:
            print(json.dumps(["got", message.offset, message.payload, message.attempts]), flush=True)
            while True:
                try:
                    consumer.acknowledge(message)
                    break
                except (speed.DeliveryError, speed.CallError):
                    node.wait_for("speedd.topics", timeout=30)
            print(json.dumps(["acknowledged", message.offset]), flush=True)
"""
"""Consumes and acknowledges for ever; says what it got, and then that it was acknowledged."""


class TopicSite:
    """A directory with a configuration, and the speedds of one test."""

    def __init__(self, path: Path, config: str = CONFIG) -> None:
        self.path = path
        self.root, self.key = path / "root", path / "speed.key"
        self.config = path / "speedd.toml"
        self.config.write_text(config)
        write_key_file(str(self.key), (secrets.token_bytes(32),))
        self.started: list[subprocess.Popen[str]] = []
        self.log: list[str] = []

    def start(self) -> subprocess.Popen[str]:
        """A speedd that said that it is ready."""
        process = subprocess.Popen(
            [sys.executable, "-m", "speed.daemon", "run", "-c", str(self.config)], stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line)
            if line.startswith("{") and json.loads(line)["event"] == "ready":
                return process
        raise AssertionError(f"speedd ended: {self.log}")

    def kill(self) -> None:
        """The speedd that runs dies at once."""
        died = self.started[-1]
        died.kill()
        died.wait()
        assert died.stderr is not None
        died.stderr.close()

    def node(self, name: str = "test") -> speed.Node:
        node = speed.Node(name, root=self.root, key=self.key)
        node.wait_for("speedd.topics", timeout=PATIENCE)
        return node

    def run(self, program: str, *arguments: object) -> subprocess.Popen[str]:
        """A Python program that gets the root, the key and the arguments."""
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.root), str(self.key), *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def started(path: Path, config: str = CONFIG) -> Iterator[TopicSite]:
    """A site that serves topics, ended afterwards."""
    site = TopicSite(path, config)
    site.start()
    yield site
    site.close()


def started_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    """One with the usual configuration."""
    yield from started(tmp_path_factory.mktemp("topics"))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
