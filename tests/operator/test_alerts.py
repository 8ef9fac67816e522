"""The alerts of ``examples/monitoring``: each fault fires its own in a real Prometheus, and a sound speedd fires none.

Times are shortened in a copy of the rules: scrapes and evaluations every second, ranges of half a minute, no patience.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import speed
from scripts.servers import Prometheus
from speed.fs.keyfile import write_key_file
from tests.system.confined import MOUNTING
from tests.system.daemon.speedds import SERVICES, Speedd

pytestmark = [pytest.mark.system, pytest.mark.slow]

MONITORING = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
PATIENCE = 120.0
BACKLOG = 10_001
CONFIG = """
[node]
root = "root"
key = "speed.key"
allow = ["test"]
lease_seconds = 60
heartbeat_seconds = 1
[python]
path = ["lib"]
[[process]]
name = "frozen"
entry = "svc:register"
allow = ["speedd", "shop"]
[topics]
publish = ["shop"]
consume = ["shop"]
manage = ["shop"]
[[topic]]
name = "orders"
[metrics]
listen = "127.0.0.1:0"
timeout_seconds = 0.5
"""
FAULTY = """
[[process]]
name = "crashing"
entry = "svc:crashing"
[[bridge]]
name = "away"
source = "topics"
target = "redis://127.0.0.1:1"
topics = "orders"
"""
FULL = """
[node]
root = "full"
key = "speed.key"
[metrics]
listen = "127.0.0.1:0"
"""
FAULTS = {
    "SpeedNotScraped": {"job": "speed"},
    "SpeedNodeDown": {"node": "frozen"},
    "SpeedLaneStuck": {"node": "busy", "peer": "shop"},
    "SpeedProcessDown": {"process": "crashing"},
    "SpeedProcessRestarts": {"process": "crashing"},
    "SpeedServiceErrors": {"node": "shop", "service": "fail"},
    "SpeedServiceSlow": {"node": "shop", "service": "slow"},
    "SpeedCallsQueued": {"node": "busy"},
    "SpeedCallsTimedOut": {"node": "busy"},
    "SpeedRefused": {"node": "stranger", "peer": "shop"},
    "SpeedDeadLetters": {"node": "shop"},
    "SpeedTopicDeadLetters": {"dead_letters_of": "orders"},
    "SpeedSubscriptionBacklog": {"subscription": "billing"},
    "SpeedSubscriptionStuck": {"subscription": "billing"},
    "SpeedBridgeWaits": {"bridge": "away"},
    "SpeedRootFull": {"job": "speed"},
    "SpeedTrouble": {"about": "reload"},
}


def shortened(rules: str) -> str:
    """The rules with shorter times; what they compare is as it was, but for ages."""
    rules = re.sub(r"\n +for: \w+", "", rules)
    rules = re.sub(r"\[\d+m\]|(?<=offset )\d+m", lambda found: "[30s]" if found[0][0] == "[" else "30s", rules)
    return re.sub(r"oldest_seconds > \d+", "oldest_seconds > 5", rules)


def written(directory: Path, targets: list[str]) -> None:
    """Configuration and rules of the example, with shorter times and these targets."""
    config = (MONITORING / "prometheus.yml").read_text()
    assert '["127.0.0.1:9464"]' in config
    config = config.replace('["127.0.0.1:9464"]', json.dumps(targets)).replace(": 15s", ": 1s")
    (directory / "prometheus.yml").write_text(config)
    (directory / "speed.rules.yml").write_text(shortened((MONITORING / "speed.rules.yml").read_text()))


class Watched:
    """A Prometheus that scrapes a speedd, one whose root is nearly full, and one that is gone."""

    def __init__(self, directory: Path, ends: ExitStack) -> None:
        self.directory, self._ends = directory, ends
        (directory / "lib").mkdir()
        (directory / "lib" / "svc.py").write_text(SERVICES)
        write_key_file(str(directory / "speed.key"), (secrets.token_bytes(32),))
        self.speedd = Speedd(directory, "", head=CONFIG)
        ends.callback(end, self.speedd.process)
        ends.callback(self.speedd.limit.cancel)
        self.speedd.limit.cancel()
        self.address = self.speedd.until("metrics")["listen"]
        self.speedd.until("ready")
        self.prometheus = Prometheus(directory / "prometheus")
        self._serve([self.address])
        self.prometheus.start()
        ends.callback(self.prometheus.kill)

    def _serve(self, targets: list[str]) -> None:
        written(self.prometheus.directory, targets)

    def node(self, name: str, *allow: str, **options: Any) -> speed.Node:
        made = speed.Node(
            name, root=self.directory / "root", key=self.directory / "speed.key", allow=["speedd", *allow], **options
        )
        return self._ends.enter_context(made)

    def firing(self) -> list[dict[str, str]]:
        """Labels of all alerts that fire."""
        alerts = self.prometheus.get("alerts")["alerts"]
        return [one["labels"] for one in alerts if one["state"] == "firing"]

    def until_firing(self, alert: str, labels: dict[str, str]) -> None:
        """Wait for one."""
        wanted = {"alertname": alert, **labels}.items()
        ends = time.monotonic() + PATIENCE
        while not any(wanted <= found.items() for found in self.firing()):
            assert time.monotonic() < ends, (alert, self.firing())
            time.sleep(0.5)

    def until_evaluated(self, times: int) -> None:
        """Wait until the rules were evaluated so often from now on."""
        seen: set[str] = set()
        ends = time.monotonic() + PATIENCE
        while len(seen) <= times:
            (group,) = self.prometheus.get("rules")["groups"]
            assert not [one["lastError"] for one in group["rules"] if one.get("lastError")]
            seen.add(group["lastEvaluation"])
            assert time.monotonic() < ends
            time.sleep(0.2)

    # --- faults ---

    def break_all(self) -> None:
        """All faults at once; what they need goes on until the end."""
        self._break_processes_and_bridges()
        self._break_topics()
        self._break_services()
        self._refuse_a_reload()
        gone = socket.create_server(("127.0.0.1", 0))
        port = gone.getsockname()[1]
        gone.close()
        self._serve([self.address, self._full_root(), f"127.0.0.1:{port}"])
        os.kill(int((self.prometheus.directory / "pid").read_text()), signal.SIGHUP)

    def _break_processes_and_bridges(self) -> None:
        self.speedd.file.write_text(CONFIG + FAULTY)
        self.speedd.reload()
        self.speedd.until("reloaded")

    def _break_topics(self) -> None:
        shop = self.node("shop", "shop", "test")
        topic = shop.topic("orders")
        with topic.consumer("once", start="earliest", max_deliveries=1, dead_letter=True) as consumer:
            assert consumer.receive(timeout=0.1) is None
            topic.publish(b"poison")
            message = consumer.receive(timeout=PATIENCE)
            assert message is not None
            consumer.reject(message)
            with suppress(speed.SpeedError):
                consumer.receive(timeout=1.0)
        with topic.consumer("billing", start="earliest") as waiting:
            assert waiting.receive(timeout=PATIENCE) is not None
        for _ in range(0, BACKLOG, 1000):
            topic.publish_batch([b"order"] * 1000)
        self._shop = shop

    def _break_services(self) -> None:
        shop, stopping = self._shop, threading.Event()

        @shop.service("fail")
        def fail() -> None:
            raise speed.ApplicationError("SOLD_OUT", "nothing is left")

        shop.register("slow", lambda: stopping.wait(1.2))
        busy = self.node("busy", "shop", workers=1)
        busy.register("hold", lambda: stopping.wait(2 * PATIENCE))

        def call_on() -> None:
            while not stopping.is_set():
                shop.submit("shop", "slow", timeout=PATIENCE)
                shop.submit("busy", "hold", timeout=PATIENCE)
                with suppress(speed.SpeedError):
                    shop.call("shop", "fail")
                with suppress(speed.SpeedError):
                    shop.call("busy", "hold", timeout=0.3)

        calling = threading.Thread(target=call_on, name="caller")
        calling.start()
        self._ends.callback(calling.join)
        self._ends.callback(stopping.set)
        stranger = self.node("stranger")
        with pytest.raises(speed.AccessDeniedError):
            stranger.call("shop", "fail")

        def refuse(_message: Any) -> None:
            raise ValueError("no such account")

        shop.on_message(refuse)
        shop.send("shop", "bad")
        os.kill(shop.call("frozen", "pid"), signal.SIGSTOP)

    def _refuse_a_reload(self) -> None:
        self.speedd.file.write_text("[nodes]\n")
        self.speedd.reload()
        self.speedd.until("reload_refused")

    def _full_root(self) -> str:
        """A speedd whose root has a filesystem of its own, nine tenths of which are full."""
        place = self.directory / "full"
        place.mkdir()
        (self.directory / "full.toml").write_text(FULL)
        fill = f"mount -t tmpfs -o mode=0700,size=32m none {place} && head -c 31000000 /dev/zero > {place}/filler"
        run = f"exec {sys.executable} -m speed.daemon run -c {self.directory / 'full.toml'}"
        process = subprocess.Popen([*MOUNTING, "sh", "-c", f"{fill} && {run}"], stderr=subprocess.PIPE, text=True)
        self._ends.callback(end, process)
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == "metrics":
                return str(json.loads(line)["listen"])
        raise AssertionError("it did not start")


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stderr:
        process.stderr.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with ExitStack() as ends:
        yield Watched(tmp_path_factory.mktemp("watched"), ends)


@pytest.fixture(scope="module")
def broken(watched: Watched) -> Watched:
    """After a while in which nothing was wrong."""
    watched.until_evaluated(3)
    assert watched.firing() == [], "a sound speedd fires nothing"
    watched.break_all()
    return watched


@pytest.mark.parametrize("alert", FAULTS)
def test_a_fault_fires_its_alert(broken: Watched, alert: str) -> None:
    broken.until_firing(alert, FAULTS[alert])


def test_each_rule_has_a_fault_that_is_tried_here() -> None:
    assert re.findall(r"- alert: (\w+)", (MONITORING / "speed.rules.yml").read_text()) == list(FAULTS)


def test_promtool_finds_nothing_wrong() -> None:
    Prometheus.provide()
    promtool = shutil.which("promtool")
    assert promtool is not None
    for what, file in (("config", "prometheus.yml"), ("rules", "speed.rules.yml")):
        checked = subprocess.run(
            [promtool, "check", what, file], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_query_of_the_dashboard_is_one_and_finds_something(broken: Watched) -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    queries = {target["expr"]: panel["title"] for panel in dashboard["panels"] for target in panel["targets"]}
    assert len(queries) >= 10
    broken.until_evaluated(3)
    for query, title in queries.items():
        query = query.replace("$__rate_interval", "30s")
        assert broken.prometheus.get("query", query=query)["result"], title
