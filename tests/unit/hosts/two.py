"""Two hosts in this process: real roots and nodes, and a gateway for each."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import speed
from speed.daemon.config_check import check_text
from speed.daemon.hosting import Joining
from speed.fs.keyfile import write_key_file
from speed.hosts.link import HostLink
from speed.hosts.services import HostGateway
from speed.wire.envelope import EnvelopeType
from tests.bridges.joined import eventually
from tests.unit.hosts.broker import MemoryBroker

WAIT_SECONDS = 20.0
TEXT = """
[node]
root = "root"
key = "speed.key"
[hosts]
name = "{name}"
address = "{address}"
allow = ["watcher"]
max_calls = {most}
[[host]]
name = "{other}"
key = "pair.key"
[[host_grant]]
callers = ["analytics@hosta"]
nodes = ["*@hostb"]
"""


class Side:
    """One of the two hosts."""

    def __init__(self, directory: Path, name: str, other: str, address: str, pair: bytes, most: int) -> None:
        directory.mkdir()
        self.root, self.key = directory / "root", directory / "speed.key"
        write_key_file(str(self.key), (secrets.token_bytes(32),))
        write_key_file(str(directory / "pair.key"), (pair,))
        text = TEXT.format(name=name, other=other, address=address, most=most)
        config, mistakes = check_text(text, directory / "speedd.toml")
        assert not mistakes and config is not None and config.hosts is not None
        self.joining = Joining(config, config.hosts, str(self.root), str(self.key))
        self.gateway: HostGateway = self.joining._gateway
        self.link: HostLink = self.gateway.links[other]
        self._nodes: list[speed.Node] = []

    def node(self, name: str, **how: Any) -> speed.Node:
        self._nodes.append(speed.Node(name, root=self.root, key=self.key, **how))
        return self._nodes[-1]

    def counter(self, name: str) -> int:
        return int(self.gateway.listed()["counters"].get(name, 0))

    def close(self) -> None:
        for node in self._nodes:
            node.close(drain_seconds=0.0)
        self.joining.close()


class Two:
    """Both, and the server between them."""

    def __init__(self, directory: Path, broker: MemoryBroker, most: int = 8) -> None:
        self.broker = broker
        pair = secrets.token_bytes(32)
        self.a = Side(directory / "a", "hosta", "hostb", broker.address, pair, most)
        self.b = Side(directory / "b", "hostb", "hosta", broker.address, pair, most)
        self.analytics = self.a.node("analytics")
        self.billing = self.b.node("billing")
        self.calls: list[Any] = []
        self.billing.register("charge", self.charge)
        self.billing.allow("*@hosta")
        eventually(lambda: self.a.link.is_up and self.b.link.is_up)

    def charge(self, amount: int) -> int:
        self.calls.append(amount)
        return amount

    def drop(self, type_: EnvelopeType, times: int) -> list[tuple[str, bytes]]:
        """Have the server lose so many envelopes of a type; they are in the list then."""
        lost: list[tuple[str, bytes]] = []

        def change(subject: str, data: bytes) -> list[tuple[str, bytes]]:
            if data[1] == type_ and len(lost) < times:
                lost.append((subject, data))
                return []
            return [(subject, data)]

        self.broker.change = change
        return lost

    def close(self) -> None:
        self.a.close()
        self.b.close()


def held(two: Two) -> tuple[Future[Any], threading.Event]:
    """A call that runs on the other host until the event is set."""
    began, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        go_on.wait(WAIT_SECONDS)

    return _begun(two, wait, began), go_on


def withdrawable(two: Two) -> tuple[Future[Any], threading.Event]:
    """A call that runs on the other host; the event is set when it is withdrawn there."""
    began, gone = threading.Event(), threading.Event()

    def wait(request: speed.Request) -> None:
        began.set()
        if request.cancellation.wait(WAIT_SECONDS):
            gone.set()

    return _begun(two, wait, began), gone


def _begun(two: Two, service: Callable[..., None], began: threading.Event) -> Future[Any]:
    two.billing.register("wait", service)
    future = two.analytics.submit("billing@hostb", "wait", timeout=WAIT_SECONDS)
    assert began.wait(WAIT_SECONDS)
    return future
