"""Two hosts in network namespaces of their own: each reaches only the NATS server, and the network between is cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.errors import HostAwayError
from tests.bridges.joined import WAIT_SECONDS, Broker, Pair, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        what = f"network namespaces cannot be made here: {' '.join(words)}: {done.stderr.strip() or done.returncode}"
        pytest.fail(f"{what}; run as root with iproute2")


class Island:
    """A network namespace that has one cable to this one, with 10.x.x.1 at our end and 10.x.x.2 at its own."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self._cable = name, f"{name[:12]}c"
        self._net = f"10.{200 + number}.{os.getpid() % 250}"
        self.address = f"{self._net}.1"

    def make(self) -> None:
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "addr", "add", f"{self._net}.1/30", "dev", self._cable)
        run("ip", "link", "set", self._cable, "up")
        for words in (("addr", "add", f"{self._net}.2/30", "dev", "eth0"), ("link", "set", "eth0", "up")):
            run("ip", "netns", "exec", self.name, "ip", *words)

    @property
    def around(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        run("ip", "link", "set", self._cable, "down")

    def mend(self) -> None:
        run("ip", "link", "set", self._cable, "up")

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._cable], capture_output=True, check=False)


@pytest.fixture
def islands() -> Iterator[list[Island]]:
    if shutil.which("ip") is None:
        pytest.fail("the command `ip` is missing: install iproute2")
    made = [Island(f"sp{os.getpid()}{letter}", number) for number, letter in enumerate("ab")]
    try:
        for one in made:
            one.make()
        yield made
    finally:
        for one in made:
            one.remove()


def test_hosts_in_two_networks_call_and_write_and_meet_again_after_a_cut_and_a_crash(
    tmp_path: Path, islands: list[Island]
) -> None:
    server = Broker(tmp_path / "nats")
    server.start()
    addresses = [f"nats://{one.address}:{server.port}" for one in islands]
    pair = Pair(tmp_path, addresses, [one.around for one in islands])
    try:
        pair.start()
        billing = pair.b.node("billing")
        handled: list[Any] = []
        billing.register("charge", lambda amount: amount * 2)
        billing.on_message(lambda message: handled.append(message.payload))
        billing.allow("*@hosta")
        analytics = pair.a.node("analytics")
        assert analytics.call("billing@hostb", "charge", {"amount": 2}, timeout=WAIT_SECONDS) == 4
        analytics.send("billing@hostb", "first", ack=True, timeout=WAIT_SECONDS)

        islands[1].cut()
        eventually(lambda: not any(one["up"] for one in pair.a.told()["hosts"]))
        with pytest.raises(HostAwayError):
            analytics.call("billing@hostb", "charge", {"amount": 2}, timeout=WAIT_SECONDS)
        islands[1].mend()
        pair.meet()
        assert analytics.call("billing@hostb", "charge", {"amount": 3}, timeout=WAIT_SECONDS) == 6

        pair.b.end()
        pair.b.start()
        pair.meet()
        analytics.send("billing@hostb", "second", ack=True, timeout=WAIT_SECONDS)
        assert handled == ["first", "second"]
    finally:
        pair.close()
        server.kill()
