"""A real server of each backend for all tests, and a place in it for each test."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import speed.messages
from scripts.servers import KINDS, FlushingRedis, Moto, Server
from scripts.servers.nats import Nats
from speed.messages import Connection, Subscription
from tests.bridges.joined import Broker, Pair
from tests.bridges.raw import Raw, raw_of

LEASE_SECONDS = 2
WAIT_SECONDS = 40.0
"""How long a test waits for a message that must come."""


class Servers:
    """One server of each backend for all processes of a run: who needs it first starts it, who leaves last ends all."""

    def __init__(self, directory: Path, locks: Path) -> None:
        """``directory``: what they write, where PostgreSQL's user gets to; ``locks``: on which processes agree."""
        self._directory, self._locks = directory, locks
        self._users = (locks / "users.lock").open("w")
        fcntl.flock(self._users, fcntl.LOCK_SH)
        directory.mkdir(mode=0o755, exist_ok=True)
        self._starting = ThreadPoolExecutor(len(KINDS), "start")
        self._servers = {name: self._starting.submit(self._started, name) for name in KINDS}

    def get(self, name: str) -> Server:
        """All are started at once; a test waits for the one that it asks for."""
        return self._servers[name].result(300)

    def _started(self, name: str) -> Server:
        with (self._locks / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            server = KINDS[name](self._directory / name)
            if not server.runs():
                server.start()
        return server

    def leave(self) -> None:
        self._starting.shutdown()
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others go on
        else:
            for one in self._servers.values():
                if one.exception() is None:
                    one.result().kill()
            shutil.rmtree(self._directory, ignore_errors=True)
        self._users.close()


@pytest.fixture(scope="session")
def servers(testrun_uid: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All servers of this run."""
    own = tmp_path_factory.getbasetemp()
    locks = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    every = Servers(Path(tempfile.gettempdir(), f"speed-test-{testrun_uid}"), locks)
    yield every
    every.leave()


class OwnServers:
    """Servers of this process alone, which a test may kill."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="speed-test-own-"))
        self._directory.chmod(0o755)  # PostgreSQL's user goes through it
        self._servers: dict[str, Server] = {}

    def get(self, name: str) -> Server:
        if name not in self._servers:
            kind = FlushingRedis if name == FlushingRedis.name else KINDS[name]
            self._servers[name] = kind(self._directory / name)
            self._servers[name].start()
        return self._servers[name]

    def end(self) -> None:
        for one in self._servers.values():
            one.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


@pytest.fixture(scope="session")
def own_servers() -> Iterator[OwnServers]:
    """Those that this process may kill; one that was killed by a test is started again by it."""
    every = OwnServers()
    yield every
    every.end()


class Bench:
    """A backend for one test: an own table or bucket, where there is such a thing, and own topics."""

    def __init__(self, server: Server) -> None:
        self.server, self.name = server, server.name
        self.own = f"t{uuid.uuid4().hex[:12]}"
        self.topic = f"{self.own}.created"
        self.group = f"{self.own}-billing"
        self._made: list[Any] = []
        self._raw: Raw | None = None
        if isinstance(server, Moto):
            server.make(self.own)

    @property
    def raw(self) -> Raw:
        """The backend's own library."""
        self._raw = self._raw or raw_of(self.server, self.own)
        return self._raw

    @property
    def address(self) -> str:
        """Of the test's place."""
        if self.name == "postgres":
            return f"{self.server.address}?table={self.own}"
        if self.name == "s3":
            return self.server.address.replace("@events?", f"@{self.own}?")
        if self.name == "sqs":
            own = self.server.address.replace("@events.fifo?", f"@{self.own}.fifo?").replace("=events", f"={self.own}")
            return f"{own}&lease_seconds={LEASE_SECONDS}"
        return f"{self.server.address}?lease_seconds={LEASE_SECONDS}"

    def connect(self, more: str = "", **how: Any) -> Connection:
        """Closed at the end of the test."""
        joint = "&" if "?" in self.address else "?"
        one = speed.messages.connect(self.address + (f"{joint}{more}" if more else ""), **how)
        self._made.append(one)
        return one

    def subscribe(self, connection: Connection, pattern: str = "", **how: Any) -> Subscription:
        """Of the test's topic and group, from the beginning."""
        how = {"group": self.group, "start": "earliest", **how}
        one = connection.subscribe(pattern or self.topic, **how)
        self._made.append(one)
        return one

    def close(self) -> None:
        for one in reversed(self._made):
            one.close()


def take(subscription: Subscription, count: int) -> list[Any]:
    """The payloads of so many messages, each finished."""
    found = []
    for _ in range(count):
        message = subscription.receive(WAIT_SECONDS)
        assert message is not None, f"{len(found)} of {count} came"
        found.append(message.payload)
        message.done()
    subscription.flush()
    return found


def take_all(subscription: Subscription, payloads: set[Any]) -> None:
    """Until each of these came, perhaps more than once, and nothing else."""
    missing = set(payloads)
    while missing:
        (payload,) = take(subscription, 1)
        assert payload in payloads
        missing.discard(payload)


@pytest.fixture(scope="session", params=sorted(KINDS, key=lambda name: name == "kafka"))
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each in turn, that which starts slowest last: of the session, so that pytest orders tests by it."""
    return str(request.param)


@pytest.fixture
def bench(backend: str, servers: Servers) -> Iterator[Bench]:
    """Each backend in turn."""
    one = Bench(servers.get(backend))
    yield one
    one.close()


@pytest.fixture
def own_bench(backend: str, own_servers: OwnServers) -> Iterator[Bench]:
    """Each backend in turn, with a server that the test may kill."""
    one = Bench(own_servers.get(backend))
    yield one
    one.close()


@pytest.fixture
def bench_of(servers: Servers) -> Iterator[Callable[[str], Bench]]:
    """The backend that a test names."""
    made: list[Bench] = []

    def make(name: str) -> Bench:
        made.append(Bench(servers.get(name)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """The NATS server between two hosts."""
    server = Broker(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: Nats) -> Iterator[Pair]:
    """Two hosts for the tests of a file."""
    both = Pair(tmp_path_factory.mktemp("pair"), [broker.address, broker.address])
    both.start()
    yield both
    both.close()


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    """Two hosts whose speedds run; the nodes of a test leave at its end."""
    running.meet()
    yield running
    running.leave()
