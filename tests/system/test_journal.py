"""speedd with a journal, as real processes: recording, killing, reading beside it (J-9, J-10)."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.journal import Journal
from speed.journal import writer as writer_module
from speed.journal.recording import Recorder, RecordingRule, widest
from speed.journal.writer import JournalWriter
from tests.representative import fewer

pytestmark = pytest.mark.system
PATIENCE = 60.0

CONFIG = """
[node]
root = "root"
key = "speed.key"
allow = ["test"]
[python]
path = ["lib"]
[[service]]
name = "half"
entry = "svc:half"
[journal]
directory = "journal"
topics = ["flights.*", "flights.ua.*", "weather"]
inboxes = ["orders"]
allow = ["test", "sender"]
calls = true
"""

SERVICES = """
def half(value: int) -> float:
    return value / 2 if value else 1 / 0
"""

SENDER = """
import sys, speed
root, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with speed.Node("sender", root=root, key=key) as node:
    node.wait_for("orders", timeout=30)
    for number in range(count):
        try:
            node.send("orders", number, ack=True, timeout=60)
        except speed.DeliveryError:  # its receiver died; it may be recorded or not
            node.wait_for("orders", timeout=30)
        else:
            print(number, flush=True)
"""


class Site:
    """A directory with a configuration, the journal that speedd keeps in it, and the speedds of one test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root, self.key = path / "root", path / "speed.key"
        self.config = path / "speedd.toml"
        self.config.write_text(CONFIG)
        (path / "lib").mkdir()
        (path / "lib" / "svc.py").write_text(SERVICES)
        write_key_file(str(self.key), (secrets.token_bytes(32),))
        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """A speedd that said that it is ready."""
        process = subprocess.Popen(
            [sys.executable, "-m", "speed.daemon", "run", "-c", str(self.config)], stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("{") and json.loads(line)["event"] == "ready":
                return process
        raise AssertionError(f"speedd ended: {lines}")

    @property
    def journal(self) -> Journal:
        return Journal(self.path / "journal", self.key)

    def payloads(self, kind: str, subject: str) -> list[object]:
        """What is recorded about one subject, over all sources."""
        journal = self.journal
        lanes = [info for info in journal.lanes() if (info.kind, info.subject) == (kind, subject)]
        return [record.view.payload for info in lanes for record in journal.read(info.id, 0, journal.end(info.id))]

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def client(site: Site) -> Iterator[speed.Node]:
    with speed.Node("test", root=site.root, key=site.key) as node:
        yield node


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def test_events_and_messages_are_in_the_journal_once_they_are_acknowledged(site: Site, client: speed.Node) -> None:
    """J-9: each once, though two patterns match."""
    site.start()
    client.wait_for("orders")
    client.send("orders", {"id": 1}, ack=True)
    assert site.payloads("inbox", "orders") == [{"id": 1}]
    client.wait_for("speedd.journal")
    for topic in ("flights.ua.late", "weather", "other"):
        client.publish(topic, topic)
    until(lambda: site.payloads("topic", "weather") == ["weather"])
    assert site.payloads("topic", "flights.ua.late") == ["flights.ua.late"]
    assert {info.subject for info in site.journal.lanes()} == {"orders", "flights.ua.late", "weather"}


def test_a_record_has_all_metadata_of_its_message(site: Site, client: speed.Node) -> None:
    """J-5."""
    site.start()
    client.wait_for("orders")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = client.send(
        "orders",
        b"\x00\x01",
        ack=True,
        options=speed.PublishOptions(topic="new", priority=9, correlation_id="c", labels={"a": "b"}, traceparent=trace),
    )
    journal = site.journal
    (info,) = journal.lanes()
    (record,) = journal.read(info.id, 0, 1)
    view = record.view
    assert (view.message_id, view.topic, view.priority, view.correlation_id) == (sent, "new", 9, "c")
    assert (view.labels, view.traceparent, view.payload) == ({"a": "b"}, trace, b"\x00\x01")
    assert (record.source, view.content_type) == ("test", "application/octet-stream")
    assert abs(record.recorded_at_ms - time.time() * 1000) < 60_000


@pytest.mark.slow
def test_a_speedd_killed_in_the_middle_loses_no_acknowledged_message_and_records_none_twice(site: Site) -> None:
    """J-9: SIGKILL again and again while thousands of messages are sent."""
    count = fewer(10_000, 4000)
    daemon = site.start()
    sender = subprocess.Popen(
        [sys.executable, "-c", SENDER, str(site.root), str(site.key), str(count)], stdout=subprocess.PIPE, text=True
    )
    assert sender.stdout is not None
    acknowledged = []
    kills = 0
    for line in sender.stdout:
        acknowledged.append(int(line))
        if len(acknowledged) % (count // 4) == count // 9:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            daemon = site.start()
            kills += 1
    assert sender.wait(timeout=PATIENCE) == 0, acknowledged[-1:]
    assert kills >= 3
    recorded = site.payloads("inbox", "orders")
    assert recorded == sorted(set(recorded)), "in order, none twice"  # type: ignore[type-var]
    assert set(acknowledged) <= set(recorded)
    assert len(acknowledged) >= count - 2 * kills
    sender.stdout.close()


@pytest.mark.slow
def test_what_was_sent_without_waiting_is_recorded_after_a_kill_without_loss_or_repeat(site: Site) -> None:
    """J-9: what waited in the lane of a killed speedd is recorded by its successor."""
    count = fewer(10_000, 4000)
    daemon = site.start()
    with speed.Node("sender", root=site.root, key=site.key) as node:
        node.wait_for("orders")
        node.send_all("orders", range(count // 2), timeout=30)
        until(lambda: bool(site.journal.lanes()) and len(site.payloads("inbox", "orders")) > 0)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        site.start()
        node.wait_for("orders", timeout=30)
        node.send_all("orders", range(count // 2, count), timeout=30)
        until(lambda: len(site.payloads("inbox", "orders")) >= count)
    assert site.payloads("inbox", "orders") == list(range(count))


def test_a_second_speedd_on_the_same_journal_is_refused_with_a_named_error(site: Site) -> None:
    """J-1."""
    site.start()
    other = site.path / "other.toml"
    other.write_text(CONFIG.replace('root = "root"', 'root = "root2"'))
    run = subprocess.run(
        [sys.executable, "-m", "speed.daemon", "run", "-c", str(other)],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 3
    assert "JOURNAL_TAKEN" in run.stderr


def test_calls_are_logged_with_caller_and_outcome_and_without_arguments(site: Site, client: speed.Node) -> None:
    """J-10."""
    daemon = site.start()
    client.wait_for("speedd")
    before = int(time.time() * 1000)
    assert client.call("speedd", "half", {"value": 3}) == 1.5
    with pytest.raises(speed.ExecutionFailedError):
        client.call("speedd", "half", {"value": 0})
    with pytest.raises(speed.InvalidArgumentsError):
        client.call("speedd", "half", {"value": "x"})
    daemon.terminate()
    daemon.wait()
    calls = list(site.journal.calls(before - 1000, before + 600_000))
    assert [(call.service, call.caller, call.outcome) for call in calls] == [
        ("half", "test", "OK"),
        ("half", "test", "EXECUTION_FAILED"),
        ("half", "test", "INVALID_ARGUMENTS"),
    ]
    assert all(call.microseconds >= 0 for call in calls)
    assert list(site.journal.calls(0, before - 1000)) == []


def test_who_is_not_allowed_is_not_recorded(site: Site) -> None:
    """A-3."""
    site.start()
    with speed.Node("stranger", root=site.root, key=site.key) as node, pytest.raises(speed.AccessDeniedError):
        node.send("orders", 1)
    assert site.journal.lanes() == []


def test_a_reload_changes_who_is_recorded(site: Site) -> None:
    """A-2: grants of the journal change without a restart."""
    daemon = site.start()
    site.config.write_text(CONFIG.replace('allow = ["test", "sender"]', 'allow = ["late"]'))
    daemon.send_signal(signal.SIGHUP)
    with speed.Node("late", root=site.root, key=site.key) as node:
        node.wait_for("orders", timeout=30)
        node.send("orders", "hello", ack=True)
    assert site.payloads("inbox", "orders") == ["hello"]


@pytest.fixture
def small(site: Site) -> Iterator[Path]:
    """A file system of 256 KiB in place of the journal."""
    point = site.path / "journal"
    point.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(point)]
    if os.geteuid() or subprocess.run(command, check=False).returncode:
        pytest.skip("mounting needs root")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def test_a_full_disk_delays_the_acknowledgement_and_loses_nothing(site: Site, client: speed.Node, small: Path) -> None:
    """J-9: what cannot be written is not acknowledged; it is written when there is room."""
    site.start()
    client.wait_for("orders")
    filler = small / "filler"
    filler.write_bytes(bytes(200_000))
    sent = 0
    with pytest.raises(speed.NotAcknowledgedError):
        while True:
            client.send("orders", [sent, b"x" * 8000], ack=True, timeout=2)
            sent += 1
    assert [payload[0] for payload in site.payloads("inbox", "orders")] == list(range(sent))  # type: ignore[index]
    filler.unlink()
    client.send("orders", [sent + 1, b""], ack=True, timeout=30)
    assert [payload[0] for payload in site.payloads("inbox", "orders")] == list(range(sent + 2))  # type: ignore[index]


def test_what_is_no_topic_of_the_journal_is_refused_and_its_sender_told(site: Site) -> None:
    """J-9: also a message that was sent, not published, to the node that records topics."""
    with JournalWriter(site.path / "journal", site.key) as writer:
        options = {"root": site.root, "key": site.key}
        recorder = Recorder(writer, RecordingRule(("flights.*",), (), ("test",)), "recorder", **options)
        try:
            with speed.Node("test", root=site.root, key=site.key) as node:
                with pytest.raises(speed.ExecutionFailedError, match="not recorded"):
                    node.send("recorder", 1, ack=True)
                node.send("recorder", 2, ack=True, options=speed.PublishOptions(topic="flights.ua"))
        finally:
            recorder.close()
    assert site.payloads("topic", "flights.ua") == [2]


def test_a_full_journal_refuses_what_needs_another_lane_and_records_the_rest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-1, J-9."""
    monkeypatch.setattr(writer_module, "MAX_JOURNAL_LANES", 1)
    with JournalWriter(site.path / "journal", site.key) as writer:
        recorder = Recorder(
            writer, RecordingRule((), ("orders",), ("a", "b")), "recorder", root=site.root, key=site.key
        )
        try:
            with (
                speed.Node("a", root=site.root, key=site.key) as first,
                speed.Node("b", root=site.root, key=site.key) as second,
            ):
                first.send("orders", 1, ack=True)
                with pytest.raises(speed.ExecutionFailedError, match=r"inbox orders: b has 0 lanes"):
                    second.send("orders", 2, ack=True)
                first.send("orders", 3, ack=True)
        finally:
            recorder.close()
    assert site.payloads("inbox", "orders") == [1, 3]


@pytest.fixture
def recorder(site: Site) -> Iterator[Recorder]:
    """Records ``flights.*`` but ``flights.debug.*`` from test and sender."""
    with JournalWriter(site.path / "journal", site.key) as writer:
        recorded = RecordingRule(("flights.*",), (), ("test", "sender"), ("flights.debug.*",))
        recorder = Recorder(writer, recorded, "recorder", root=site.root, key=site.key)
        yield recorder
        recorder.close()


def reported(node: speed.Node) -> int:
    """How often a node was told that an event of its was refused."""
    counted: int = node.stats()["counters"].get("events_reported_refused", 0)
    return counted


def test_a_refused_topic_is_not_recorded_and_its_publisher_is_told(
    site: Site, client: speed.Node, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """J-9: though nobody asked for an acknowledgement."""
    client.wait_for("recorder")
    client.publish("flights.debug.x", 1)
    until(lambda: reported(client) == 1)
    client.publish("flights.ua", 2)
    until(lambda: site.payloads("topic", "flights.ua") == [2])
    assert [info.subject for info in site.journal.lanes()] == ["flights.ua"]
    assert "does not record events: JOURNAL_REFUSED: topic 'flights.debug.x' is refused" in caplog.text


def test_a_publisher_whose_flood_fills_a_journal_is_told_and_others_are_recorded(
    site: Site,
    client: speed.Node,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """J-1, J-9: it is told rarely, not once for each event."""
    monkeypatch.setattr(writer_module, "MAX_JOURNAL_LANES", 8)
    with speed.Node("sender", root=site.root, key=site.key) as sender:
        sender.wait_for("recorder")
        for number in range(100):
            sender.publish(f"flights.flood.n{number}", number)
        until(
            lambda: (
                reported(sender) > 0
                and sum(node.stats()["counters"].get("messages_refused", 0) for node in recorder.nodes) == 96
            )
        )
        client.publish("flights.ua", "heard")
        until(lambda: site.payloads("topic", "flights.ua") == ["heard"])
        assert reported(sender) < 20
        assert reported(client) == 0
        time.sleep(1.1)
        sender.publish("flights.flood.last", 0)
        until(lambda: reported(sender) >= 2)
    assert "JOURNAL_FULL: topic flights.flood." in caplog.text
    assert "4 are left for all" in caplog.text


def test_what_is_refused_changes_with_a_reload(site: Site, client: speed.Node) -> None:
    """J-9."""
    daemon = site.start()
    client.wait_for("speedd.journal")
    client.publish("weather", "before")
    until(lambda: site.payloads("topic", "weather") == ["before"])
    site.config.write_text(CONFIG.replace("calls = true", 'calls = true\nrefuse = ["flights.debug.*"]'))
    daemon.send_signal(signal.SIGHUP)

    def is_told() -> bool:
        client.publish("flights.debug.x", 1)
        return reported(client) > 0

    until(is_told)


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (("flights.*", "flights.ua", "flights.ua.*"), ("flights.*",)),
        (("*", "a", "b.*"), ("*",)),
        (("a", "a", "b"), ("a", "b")),
        (("a.*", "a"), ("a.*", "a")),
    ],
)
def test_each_event_comes_once_though_several_patterns_cover_it(
    patterns: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    """J-9, W-2."""
    assert widest(patterns) == kept
