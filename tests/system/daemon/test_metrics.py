"""``[metrics]`` of speedd: who reads what, how often nodes are asked for it, and what a reload changes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import speed
from speed.observe.exposition import MAX_SCRAPERS, RenderedOnce
from speed.observe.metrics import listens_here
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system

LISTEN = '[metrics]\nlisten = "127.0.0.1:0"\n'
SEEN = ONE.replace('["test"]', '["test", "speedd"]')
TOPICS = '[topics]\npublish = ["test"]\nconsume = ["test"]\nmanage = ["test"]\n[[topic]]\nname = "orders"\n'
TOKEN = "0123456789abcdef0123456789abcdef"
Start = Callable[..., Speedd]
Samples = dict[tuple[str, ...], float]


class UnixConnection(http.client.HTTPConnection):
    """To a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def connection_to(address: str) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return UnixConnection(address.removeprefix("unix:"))
    return http.client.HTTPConnection(address, timeout=PATIENCE)


def fetch(address: str, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    """Status and text."""
    connection = connection_to(address)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(text: str) -> Samples:
    """Each sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def scrape(address: str, **headers: str) -> Samples:
    status, text = fetch(address, **headers)
    assert status == 200, text
    return samples(text)


def until(address: str, is_right: Callable[[Samples], Any], **headers: str) -> Samples:
    """Scrape until it is right."""
    ends = time.monotonic() + PATIENCE
    while True:
        found = scrape(address, **headers)
        if is_right(found):
            return found
        assert time.monotonic() < ends, found
        time.sleep(0.2)


def served(speedd: Speedd) -> str:
    """Where its metrics are, once it is ready."""
    address: str = speedd.until("metrics")["listen"]
    speedd.until("ready")
    return address


def token_file(directory: Path, token: str = TOKEN) -> Path:
    file = directory / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    return file


# What there is to read.


def test_one_scrape_has_the_figures_of_nodes_processes_and_speedd_itself(start: Start, client: speed.Node) -> None:
    address = served(start(SEEN + LISTEN))
    client.call("one", "pid")
    client.call("speedd", "echo", {"value": "x"})
    found = until(address, lambda all_: all_.get(("speed_service_requests_total", "one", "pid")) == 1)
    assert found["speed_up", "one"] == found["speed_up", "speedd"] == 1
    assert found["speed_service_requests_total", "speedd", "echo"] == 1
    assert found["speed_process_up", "one"] == found["speed_process_state", "one", "running"] == 1
    assert found["speed_process_starts_total", "one"] == 1
    assert found["speed_root_bytes", "free"] > 0
    assert found["speed_troubles", "root"] == 0


def test_a_process_that_was_killed_has_one_start_more(start: Start, client: speed.Node) -> None:
    speedd = start(SEEN + LISTEN)
    address = served(speedd)
    os.kill(client.call("one", "pid"), signal.SIGKILL)
    found = until(address, lambda all_: all_["speed_process_starts_total", "one"] == 2)
    assert found["speed_process_starts_total", "one"] == 2


def test_a_node_that_is_frozen_is_down_and_holds_up_no_other(start: Start, client: speed.Node) -> None:
    head = HEAD.replace("lease_seconds = 2", "lease_seconds = 60")
    address = served(start(SEEN + LISTEN + "timeout_seconds = 0.3\n", head=head))
    pid = client.call("one", "pid")
    os.kill(pid, signal.SIGSTOP)
    try:
        found = until(address, lambda all_: all_.get(("speed_up", "one")) == 0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert found["speed_up", "speedd"] == 1


def test_a_subscription_tells_its_backlog_its_age_and_its_last_acknowledgement(
    start: Start, client: speed.Node
) -> None:
    address = served(start(TOPICS + LISTEN))
    topic = client.topic("orders")
    topic.publish(b"first")
    topic.publish(b"second")
    backlog, oldest, last = (
        (f"speed_subscription_{name}", "billing", "orders")
        for name in ("backlog", "oldest_seconds", "acknowledged_timestamp_seconds")
    )
    with topic.consumer("billing", start="earliest") as consumer:
        message = consumer.receive(timeout=PATIENCE)
        assert message is not None
        found = until(address, lambda all_: all_.get(backlog) == 2)
        assert last not in found
        aged = until(address, lambda all_: all_[oldest] > 1)
        assert aged["speed_subscription_consumers", "billing", "orders"] == 1
        began = time.time()
        consumer.acknowledge(message)
        found = until(address, lambda all_: all_[backlog] == 1)
    assert found[last] >= began - 1
    assert found["speed_topic_messages_total", "", "orders"] == 2


def test_nodes_are_asked_at_most_once_a_second_however_often_is_scraped(start: Start) -> None:
    address = served(start(SEEN + LISTEN))
    began, seen = time.monotonic(), set()
    for _ in range(60):
        seen.add(scrape(address)["speed_uptime_seconds", "speedd"])
    assert len(seen) <= 1 + (time.monotonic() - began) + 1


def test_whoever_asks_while_a_text_is_rendered_gets_that_one() -> None:
    rendered: list[int] = []
    going_on = threading.Event()

    def render() -> str:
        rendered.append(1)
        going_on.wait(PATIENCE)
        return "text"

    page = RenderedOnce(render, 600)
    found: list[str] = []
    askers = [threading.Thread(target=lambda: found.append(page.get()), name=f"asker {one}") for one in range(8)]
    for one in askers:
        one.start()
    going_on.set()
    for one in askers:
        one.join()
    assert (found, rendered) == (["text"] * 8, [1])


# Who may read.


def test_a_token_is_needed_where_one_is_configured_and_a_new_one_holds_at_once(start: Start, directory: Path) -> None:
    file = token_file(directory)
    address = served(start(LISTEN + 'token_file = "token"\n'))
    assert fetch(address)[0] == 401
    assert fetch(address, Authorization="Bearer wrong")[0] == 401
    assert fetch(address, Authorization=TOKEN)[0] == 401
    assert fetch(address, Authorization=f"Bearer {TOKEN}", Host="metrics.example")[0] == 200
    file.write_text(TOKEN[::-1])
    assert fetch(address, Authorization=f"Bearer {TOKEN}")[0] == 401
    assert fetch(address, Authorization=f"Bearer {TOKEN[::-1]}")[0] == 200


def test_a_token_file_that_others_came_to_read_lets_nobody_in(start: Start, directory: Path) -> None:
    file = token_file(directory)
    speedd = start(LISTEN + 'token_file = "token"\n')
    address = served(speedd)
    file.chmod(0o644)
    status, text = fetch(address, Authorization=f"Bearer {TOKEN}")
    assert (status, TOKEN in text, str(file) in text) == (503, False, False)


def test_a_page_of_elsewhere_cannot_read_through_a_name_of_its_own(start: Start) -> None:
    address = served(start(LISTEN))
    assert fetch(address, Host="evil.example")[0] == 403
    assert fetch(address, path="/other")[0] == 404


def test_no_more_connections_than_the_bound_are_kept(start: Start) -> None:
    address = served(start(LISTEN))
    host, port = address.split(":")
    silent = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(MAX_SCRAPERS + 8)]
    try:
        ended = sum(one.recv(1) == b"" for one in silent[MAX_SCRAPERS:])
        assert ended == 8, "those beyond the bound are closed at once"
        assert [one.recv(1) for one in silent[:MAX_SCRAPERS]] == [b""] * MAX_SCRAPERS, "and who says nothing, soon"
    finally:
        for one in silent:
            one.close()
    assert fetch(address)[0] == 200


# Without a port.


def test_a_socket_is_for_its_user_and_group_and_goes_with_speedd(start: Start, directory: Path) -> None:
    path = directory / "metrics.sock"
    speedd = start(f'[metrics]\nlisten = "unix:{path}"\n')
    address = served(speedd)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    assert scrape(address)["speed_up", "speedd"] == 1
    assert speedd.stop() == 0
    assert not path.exists()


def test_what_a_killed_speedd_left_of_a_socket_is_replaced_and_nothing_else(start: Start, directory: Path) -> None:
    path = directory / "metrics.sock"
    config = f'[metrics]\nlisten = "unix:{path}"\n'
    killed = start(config)
    served(killed)
    killed.process.kill()
    killed.process.wait()
    assert path.exists()
    again = start(config)
    assert scrape(served(again))["speed_up", "speedd"] == 1
    again.stop()
    path.write_text("somebody's")
    refused = again.check()
    assert (refused.returncode, "Address already in use" in refused.stdout + refused.stderr) == (3, True)
    assert path.read_text() == "somebody's"


def test_a_file_is_kept_fresh_and_goes_with_speedd(start: Start, directory: Path) -> None:
    file = directory / "speed.prom"
    speedd = start('[metrics]\ntextfile = "speed.prom"\nevery_seconds = 0.2\n')
    speedd.until("ready")
    ends = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < ends
        time.sleep(0.05)
    first = samples(file.read_text())["speed_uptime_seconds", "speedd"]
    while samples(file.read_text())["speed_uptime_seconds", "speedd"] == first:
        assert time.monotonic() < ends
        time.sleep(0.1)
    assert speedd.stop() == 0
    assert [name for name in os.listdir(directory) if "speed.prom" in name] == [], "nobody reads of what is gone"


def test_a_file_that_cannot_be_written_is_a_trouble_and_stops_nothing(start: Start, directory: Path) -> None:
    (directory / "kept").mkdir()
    speedd = start(LISTEN + 'textfile = "kept/speed.prom"\nevery_seconds = 0.2\n')
    address = served(speedd)
    for name in os.listdir(directory / "kept"):
        (directory / "kept" / name).unlink()
    ends = time.monotonic() + PATIENCE
    while (directory / "kept").exists():
        assert time.monotonic() < ends
        for name in os.listdir(directory / "kept"):
            (directory / "kept" / name).unlink(missing_ok=True)
        try:
            (directory / "kept").rmdir()
        except OSError:
            pass  # it was written just then
    assert until(address, lambda all_: all_["speed_troubles", "metrics"] == 1)["speed_up", "speedd"] == 1


# What a reload changes, and what a check finds.


def test_a_reload_begins_changes_and_ends_it(start: Start, directory: Path) -> None:
    speedd = start("")
    speedd.until("ready")
    speedd.file.write_text(HEAD + LISTEN)
    speedd.reload()
    first = speedd.until("metrics")["listen"]
    speedd.until("reloaded")
    assert fetch(first)[0] == 200
    token_file(directory)
    speedd.file.write_text(HEAD + LISTEN + 'token_file = "token"\n')
    speedd.reload()
    second = speedd.until("metrics")["listen"]
    assert fetch(second)[0] == 401
    speedd.file.write_text(HEAD)
    speedd.reload()
    speedd.until("reloaded")
    speedd.until("reloaded")
    with pytest.raises(ConnectionRefusedError):
        fetch(second)


def test_a_reload_to_a_port_that_is_taken_is_refused_and_the_old_one_goes_on(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        listen = LISTEN.replace(":0", f":{port}")
        speedd = start(listen)
        address = served(speedd)
        speedd.file.write_text(HEAD + listen.replace(f":{port}", f":{taken.getsockname()[1]}"))
        speedd.reload()
        assert "already in use" in speedd.until("reload_refused")["reason"]
        assert scrape(address)["speed_troubles", "reload"] == 1


def test_a_check_beside_a_running_speedd_does_not_take_its_own_port_for_taken(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    speedd = start(LISTEN.replace(":0", f":{port}"))
    served(speedd)
    assert speedd.check().returncode == 0


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("[metrics]\n", "is read nowhere"),
        ('[metrics]\nlisten = "0.0.0.0:0"\n', "there is no token"),
        ('[metrics]\nlisten = "9464"\n', "no address with a port"),
        ('[metrics]\nlisten = "unix:here"\n', "whole path"),
        ('[metrics]\nlisten = "127.0.0.1:0"\ntoken_file = "absent"\n', "cannot be read: No such file"),
        ('[metrics]\nlisten = "127.0.0.1:0"\ntoken_file = "open"\n', "others can read or change"),
        ('[metrics]\nlisten = "127.0.0.1:0"\ntoken_file = "short"\n', "holds no token of 16"),
        ('[metrics]\ntextfile = "absent/speed.prom"\n', "no directory that you can write to"),
        ('[metrics]\ntextfile = "speed.prom"\ntoken_file = "short"\n', "token_file is for listen"),
        ('[metrics]\nlisten = "127.0.0.1:0"\ntextfle = "x"\n', "did you mean textfile?"),
    ],
)
def test_a_check_names_each_mistake(start: Start, directory: Path, table: str, what: str) -> None:
    token_file(directory, "short").rename(directory / "short")
    token_file(directory).rename(directory / "open")
    (directory / "open").chmod(0o644)
    speedd = start("")
    speedd.until("ready")
    assert speedd.stop() == 0
    speedd.file.write_text(HEAD + table)
    refused = speedd.check()
    assert refused.returncode == 3
    assert what in refused.stdout + refused.stderr


def test_a_check_names_a_port_that_somebody_else_has(start: Start) -> None:
    speedd = start("")
    speedd.until("ready")
    speedd.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        speedd.file.write_text(HEAD + LISTEN.replace(":0", f":{taken.getsockname()[1]}"))
        refused = speedd.check()
    assert refused.returncode == 3
    assert "already in use" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("listen", "is_here"),
    [
        ("127.0.0.1:9464", True),
        ("[::1]:9464", True),
        ("localhost:9464", True),
        ("unix:/run/x", True),
        ("0.0.0.0:9464", False),
        ("[::]:9464", False),
        ("metrics.example:9464", False),
    ],
)
def test_only_addresses_of_this_machine_are_its_own(listen: str, is_here: bool) -> None:
    assert listens_here(listen) is is_here
