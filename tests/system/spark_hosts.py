"""Hosts for the tests: namespaces of mounts, names and networks on one bridge, each with a root and a key of its own.

They need `unshare` and `nsenter` of util-linux and `ip` of iproute2 (Debian: apt install iproute2), as root or where
users may make namespaces. Nothing of them outlives their processes: no mount, no link, no address.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.system.commands import PATIENCE
from tests.system.confined import IS_ROOT, MOUNTING
from tests.system.spark_sessions import JAVA, SOURCES

_ROOM = "mode=0700,size=64m"
_SUBNET = "10.77.0"


class Space:
    """Namespaces that last as long as a process of theirs, which is given a script to begin with."""

    def __init__(self, words: list[str], script: str) -> None:
        self._process = subprocess.Popen(
            [*words, "sh", "-ec", f"{script}; echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.pid = self._process.pid

    def inside(self, *kinds: str) -> list[str]:
        """The words before a command that is to run in these namespaces of it."""
        own_users = [] if IS_ROOT else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.pid), *own_users, *kinds, "--"]

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)


class Network:
    """A bridge, in namespaces of its own, that hosts are put on."""

    def __init__(self) -> None:
        self._space = Space([*MOUNTING, "--net"], "ip link add name bridge type bridge; ip link set bridge up")
        self._hosts = 0
        self.unsharing = [*([] if IS_ROOT else self._space.inside("--net")), "unshare", "--mount", "--uts", "--net"]

    def connect(self, space: Space) -> str:
        """Put the namespaces on the bridge; the address that they have there."""
        self._hosts += 1
        port, address = f"port{self._hosts}", f"{_SUBNET}.{self._hosts}"
        link = (
            f"ip link add name {port} type veth peer name eth0 netns {space.pid}; ip link set {port} master bridge up"
        )
        run([*self._space.inside("--net"), "sh", "-ec", link])
        own = f"ip address add {address}/24 dev eth0; ip link set eth0 up; ip link set lo up"
        run([*space.inside("--net"), "sh", "-ec", own])
        return address

    def stop(self) -> None:
        self._space.stop()


class Host:
    """What runs ``inside`` it sees a filesystem in memory of its own at ``root``, and has an address of its own."""

    def __init__(self, network: Network, name: str, root: Path, directory: Path, *, has_key: bool = True) -> None:
        self.name, self.root, self.directory = name, root, directory
        directory.mkdir()
        script = f"hostname {name}; mount -t tmpfs -o {_ROOM} none {root}"
        self._space = Space(network.unsharing, script)
        self.inside = self._space.inside("--mount", "--uts", "--net")
        self.address = network.connect(self._space)
        self._service: subprocess.Popen[str] | None = None
        if has_key:
            self.speed("root", "init", "--root", str(root))

    def speed(self, *words: str) -> None:
        """Run a command of `speed` here."""
        self.run(sys.executable, "-m", "speed.cli", *words)

    def run(self, *words: str) -> None:
        """Run a command here, which must succeed."""
        run([*self.inside, *words])

    def begin(self, script: str, *words: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a script of the tests here, which reads its standard input and writes lines."""
        return subprocess.Popen(
            [*self.inside, sys.executable, f"{SOURCES}/tests/system/{script}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=SOURCES,
            env={**os.environ, "PYTHONPATH": SOURCES, **JAVA, **(environment or {})},
        )

    def serve(self, node: str = "geo", mode: str = "") -> None:
        """Start a node with the service ``twice``, which takes messages too."""
        self._service = self.begin("spark_service.py", str(self.root), node, str(self.directory), mode)
        assert self._service.stdout is not None
        assert self._service.stdout.readline() == "ready\n"

    def kill_service(self) -> None:
        """As the kernel would, in the middle of whatever it does."""
        service, self._service = self._service, None
        if service is not None:
            service.send_signal(signal.SIGKILL)
            service.communicate(timeout=PATIENCE)

    def noted(self, what: str) -> set[int]:
        """The first row of each batch that the service ran, ``rows``, or the ``messages`` taken, since ``forget``."""
        notes = self.directory / what
        return {int(line.split()[0]) for line in notes.read_text().splitlines()} if notes.exists() else set()

    def forget(self) -> None:
        """Drop what the service noted."""
        for what in ("rows", "messages"):
            (self.directory / what).unlink(missing_ok=True)

    def kill(self, program: str) -> None:
        """End all processes of this name here, as the kernel would."""
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == program and _network_of(process.pid) == _network_of(self._space.pid):
                process.kill()

    @property
    def key(self) -> bytes:
        """The key of this host, which nobody sees from outside."""
        told = f"from speed.fs.keyfile import read_keys; print(read_keys('{self.root}/speed.key')[0].hex())"
        return bytes.fromhex(run([*self.inside, sys.executable, "-c", told]))

    @property
    def network_bytes(self) -> int:
        """What came and went over the network until now."""
        lines = Path(f"/proc/{self._space.pid}/net/dev").read_text().splitlines()
        counters = next(line.partition(":")[2].split() for line in lines if line.strip().startswith("eth0:"))
        return int(counters[0]) + int(counters[8])

    def stop(self) -> None:
        """End the host with its service; Spark's processes on it have ended before."""
        self.kill_service()
        self._space.stop()


def _network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:  # it has just ended
        return ""


def run(words: list[str]) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=SOURCES)
    assert done.returncode == 0, done.stderr
    return done.stdout
