"""Topics of a speedd of its own, with a gateway. Its files lie in memory: what is measured is no disk."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import speed
from bench.topics.rates import AT_ONCE, PAYLOAD_BYTES, PUBLISHERS
from speed.fs.keyfile import write_key_file

CONFIG = """
[node]
root = "root"
key = "speed.key"
[topics]
publish = ["bench.*", "web"]
consume = ["bench.*", "web"]
manage = ["bench.*"]
[gateway]
port = 0
name = "web"
max_connections = 1200
max_connections_per_client = 1200
max_frames_per_second = 1000000
"""


class Speedd:
    """A speedd in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        (path / "speedd.toml").write_text(CONFIG)
        write_key_file(str(path / "speed.key"), (secrets.token_bytes(32),))
        self.start()

    def start(self) -> None:
        """Returns when its gateway listens."""
        words = [sys.executable, "-m", "speed.daemon", "run", "-c", str(self._path / "speedd.toml")]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            told = json.loads(line)
            if told["event"] == "gateway":
                self.websocket = f"ws://127.0.0.1:{told['port']}/ws/v2"
                return
        raise SystemExit("speedd did not start")

    def node(self, name: str) -> speed.Node:
        """A node that may publish and consume."""
        made = speed.Node(name, root=self._path / "root", key=self._path / "speed.key")
        made.wait_for("speedd.topics", timeout=30)
        return made

    def memory_mb(self) -> int:
        """What it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") // 1_000_000

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def close(self) -> None:
        self.process.terminate()
        self._wait()

    def _wait(self) -> None:
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


class SpeedTopic:
    """The topic ``bench`` of a speedd."""

    name = "SPEED"

    def __init__(self, path: Path) -> None:
        self._speedd = Speedd(path)
        self.websocket = self._speedd.websocket
        self._nodes = [self._speedd.node(f"bench.{number}") for number in range(PUBLISHERS + 1)]
        self._topics = [node.topic("bench") for node in self._nodes]
        self._topics[0].create()

    def publish(self, publisher: int, payload: bytes) -> None:
        self._topics[publisher].publish(payload)

    def publish_all(self, count: int) -> None:
        self._topics[0].publish_batch(bytes(PAYLOAD_BYTES) for _ in range(count))

    def consume_all(self, count: int) -> None:
        with self._topics[-1].consumer("all", start="earliest", prefetch=AT_ONCE) as consumer:
            for number in range(1, count + 1):
                message = consumer.receive(timeout=30)
                assert message is not None
                if number % AT_ONCE == 0:
                    consumer.acknowledge_until(message)

    def arriving(self, take: Callable[[bytes], None]) -> AbstractContextManager[object]:
        return self._topics[-1].consumer("latency", type="shared", on_message=lambda message: take(message.payload))

    def close(self) -> None:
        for node in self._nodes:
            node.close()
        self._speedd.close()
