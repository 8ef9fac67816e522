"""Two hosts: for each a root, a key, a speedd in a process of its own, and nodes; and the NATS server between them."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import speed
from scripts.servers.nats import Nats
from speed.fs.keyfile import write_key_file
from speed.wire.names import GATEWAY

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 30.0
GRANT = """
[[host_grant]]
callers = ["analytics@hosta", "cli.*@hosta"]
nodes = ["billing@hostb", "slow@hostb"]
"""


class Broker(Nats):
    """A NATS server for two hosts alone, which listens on all addresses."""

    def prepare(self) -> None:
        text = f'listen: "0.0.0.0:{self.port}"\nmax_payload: 256KB\n'
        (self.directory / "nats.conf").write_text(text)


class Host:
    """One host. Its files are in a directory of its own; ``around`` stands before the commands that it runs."""

    def __init__(self, directory: Path, name: str, other: str, address: str, around: Sequence[str] = ()) -> None:
        self.directory, self.name, self.other = directory, name, other
        self.address, self._around = address, list(around)
        self.root, self.key = directory / "root", directory / "speed.key"
        self.pair = directory / "pair.key"
        self.log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._nodes: list[speed.Node] = []
        directory.mkdir()
        write_key_file(str(self.key), (secrets.token_bytes(32),))

    def configure(self, grants: str = GRANT, more: str = "", others: Sequence[str] | None = None) -> None:
        """Write its configuration; ``others`` are the hosts that it knows, by default the other one."""
        known = [self.other] if others is None else others
        text = f"""
[node]
root = "root"
key = "speed.key"
lease_seconds = 2
heartbeat_seconds = 0.4
[hosts]
name = "{self.name}"
address = "{self.address}"
allow = ["watcher", "cli.*"]
{more}
"""
        hosts = "".join(f'[[host]]\nname = "{name}"\nkey = "pair.key"\n' for name in known)
        (self.directory / "speedd.toml").write_text(text + hosts + grants)

    def start(self) -> None:
        """Its speedd, until it says that it is ready."""
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "speed.daemon", "run", "-c", str(self.directory / "speedd.toml")]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [*self._around, *command, "--ready-fd", str(writing)], stderr=log, pass_fds=(writing,), cwd=ROOT
            )
        os.close(writing)
        assert select.select([reading], [], [], WAIT_SECONDS)[0], self.log.read_text()[-2000:]
        assert os.read(reading, 16) == b"READY\n", self.log.read_text()[-2000:]
        os.close(reading)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Its speedd ends, by a signal."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(WAIT_SECONDS)
            self._process = None

    def reload(self) -> None:
        """Its speedd reads the configuration again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def node(self, name: str, **how: Any) -> speed.Node:
        """A node of its root, in this process; closed at the end of the test."""
        times = {"lease_seconds": 2, "heartbeat_seconds": 0.4}
        self._nodes.append(speed.Node(name, root=self.root, key=self.key, **times, **how))
        return self._nodes[-1]

    def told(self) -> dict[str, Any]:
        """What its gateway says of itself."""
        with speed.Node("watcher", root=self.root, key=self.key) as watcher:
            listed: dict[str, Any] = watcher.call(GATEWAY, "list")
            return listed

    def counter(self, name: str) -> int:
        """One of its gateway."""
        return int(self.told()["counters"].get(name, 0))

    def speed(self, *words: str, seconds: float = WAIT_SECONDS) -> subprocess.CompletedProcess[str]:
        """A command of its root."""
        command = [sys.executable, "-m", "speed.cli", "--root", str(self.root), "--key", str(self.key), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT)

    def leave(self) -> None:
        """Its nodes leave."""
        for node in self._nodes:
            node.close(drain_seconds=0.0)
        self._nodes.clear()

    def close(self) -> None:
        """All of it ends."""
        self.leave()
        self.end()


class Pair:
    """Two hosts that know each other: `hosta` and `hostb`."""

    def __init__(self, directory: Path, addresses: Sequence[str], around: Sequence[Sequence[str]] = ((), ())) -> None:
        self.a = Host(directory / "a", "hosta", "hostb", addresses[0], around[0])
        self.b = Host(directory / "b", "hostb", "hosta", addresses[1], around[1])
        key = secrets.token_bytes(32)
        for host in (self.a, self.b):
            write_key_file(str(host.pair), (key,))
            host.configure()

    def start(self) -> None:
        """Both, until each has heard of the other."""
        self.a.start()
        self.b.start()
        self.meet()

    def meet(self) -> None:
        """Wait until both are up."""
        for host in (self.a, self.b):
            eventually(lambda host=host: all(one["up"] for one in host.told()["hosts"]))  # type: ignore[misc]

    def leave(self) -> None:
        """The nodes of both leave."""
        self.a.leave()
        self.b.leave()

    def close(self) -> None:
        """Both end."""
        self.a.close()
        self.b.close()


def eventually(holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Until it holds; fails if it does not in time."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.05)


def lines_of(log: Path) -> list[dict[str, Any]]:
    """The log of a speedd."""
    return [json.loads(line) for line in log.read_text().splitlines()]
