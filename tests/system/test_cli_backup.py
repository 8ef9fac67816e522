"""`speed root backup`: a copy of a root whose nodes run, and nodes that run in the copy."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import speed
from speed.cli import backup
from speed.journal import Journal
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import encode_message
from speed.topics.catalogue import Catalogue
from speed.topics.subscription import Terms
from speed.wire import names
from speed.wire.journal import Subject
from speed.wire.topic import RecordHead, encode
from tests.interop.harness import pause, until
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system

RECEIVER = """
import signal, sys, speed
node = speed.Node('receiver', root=sys.argv[1], allow=['sender'], max_deliveries=1)
node.on_message(lambda message: 1 / 0)
print('up', flush=True)
signal.pause()
"""


@pytest.fixture
def receiver(run: Command) -> Iterator[subprocess.Popen[bytes]]:
    """A node that fails with every message; stopped, it reads none."""
    with subprocess.Popen([sys.executable, "-c", RECEIVER, str(run.root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def sender(run: Command) -> Iterator[speed.Node]:
    with speed.Node("sender", root=run.root) as node:
        yield node


def received(copy: Path, last: int) -> list[object]:
    """What a receiver that starts in the copy gets, up to ``last``."""
    found: list[object] = []
    with speed.Node("receiver", root=copy, allow=["sender"]) as node:
        while last not in found[-1:]:
            message = node.receive(timeout=PATIENCE)
            assert message is not None, f"{last} does not come after {found[-3:]}"
            found.append(message.payload)
            message.done()
        assert not [name for name in node.stats()["counters"] if name.startswith(("rejected", "gaps"))]
    return found


def test_a_copy_holds_what_waits_and_dead_letters_and_no_node_of_the_original(
    run: Command, receiver: subprocess.Popen[bytes], sender: speed.Node, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with pytest.raises(speed.ExecutionFailedError):
        sender.send("receiver", "bad", ack=True, timeout=PATIENCE)
    pause(receiver.pid)
    for number in range(3):
        sender.send("receiver", number)
    made = run("root", "backup", str(copy), "--with-key", "--json")
    assert made.status == 0, made.err
    assert {key: made.value[key] for key in ("nodes", "lanes", "dead letters", "claims")} == {
        "nodes": 2,
        "lanes": 2,
        "dead letters": 1,
        "claims": 2,
    }
    assert run("nodes", "--root", str(copy), "--json").value == []
    assert run("root", "doctor", "--root", str(copy)).status == 0
    assert [one["node"] for one in run("dead", "list", "--root", str(copy), "--json").value] == ["receiver"]
    assert [one for one in received(copy, 2) if one != "bad"] == [0, 1, 2]
    assert sender.nodes()


def test_a_copy_holds_large_payloads_that_wait_in_slots(run: Command, tmp_path: Path) -> None:
    copy, large = tmp_path / "copy", bytes(range(256)) * 4096
    with (
        speed.Node("receiver", root=run.root, allow=["sender"], engine="python"),
        speed.Node("sender", root=run.root, engine="python") as sender,
    ):
        sender.send("receiver", large)
        assert run("root", "backup", str(copy), "--with-key").status == 0
    assert list(copy.glob("receiver/inbox/sender/*.slot"))
    with speed.Node("receiver", root=copy, allow=["sender"], engine="python") as node:
        message = node.receive(timeout=PATIENCE)
        assert message is not None
        assert message.payload == large


def test_a_name_goes_on_in_a_later_generation_at_once_while_the_original_runs(
    run: Command, sender: speed.Node, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    assert run("root", "backup", str(copy), "--with-key").status == 0
    with speed.Node("sender", root=copy) as other:
        assert other.generation == sender.generation + 1


def test_a_name_that_was_forgotten_goes_on_in_a_later_generation_too(run: Command, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for root in (run.root, copy):
        with speed.Node("worker", root=root, key=run.root / "speed.key", ephemeral=True) as worker:
            generations = [entry.generation for entry in worker.nodes() if entry.name == "worker"]
        assert generations == [1 if root == run.root else 2]
        if root == run.root:
            assert run("root", "backup", str(copy)).status == 0


def test_a_copy_made_while_messages_come_misses_none_that_was_written_before(
    run: Command, sender: speed.Node, tmp_path: Path
) -> None:
    """Nothing takes them in the original: they wait there."""
    sent, enough = 0, threading.Event()

    def send_on() -> None:
        nonlocal sent
        while not enough.is_set():
            sender.send("receiver", sent)
            sent += 1
            enough.wait(0.001)  # three copies are made before the inbox is full

    sending = threading.Thread(target=send_on)
    with speed.Node("receiver", root=run.root, allow=["sender"]):
        sending.start()
        try:
            for copy in (tmp_path / "first", tmp_path / "second", tmp_path / "third"):
                assert until(lambda: sent > 100)
                before = sent
                assert run("root", "backup", str(copy), "--with-key").status == 0
                assert received(copy, before - 1) == list(range(before))
        finally:
            enough.set()
            sending.join()


def test_a_copy_holds_the_journal(run: Command, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subject = Subject("topic", "news", "producer")
    with JournalWriter(names.journal_dir(str(run.root)), run.root / "speed.key") as writer:
        message = encode_message(1, message_id="one", topic="news", namespace="default", published_at_ms=1)
        writer.record(subject, [Incoming(1, False, message)])
        assert run("root", "backup", str(copy), "--with-key").status == 0
    (lane,) = run("journal", "verify", "--root", str(copy), "--json").value["lanes"]
    assert (lane["records"], lane["damage"]) == (1, "")
    assert not run("root", "gc", "--root", str(copy), "--dry-run", "--json").value["leftovers"]


def test_a_copy_holds_durable_topics_and_what_their_subscriptions_acknowledged(run: Command, tmp_path: Path) -> None:
    copy, key = tmp_path / "copy", str(run.root / "speed.key")
    catalogue = Catalogue(names.topics_dir(str(run.root)), key, "speedd.topics")
    with catalogue.lock:
        topic = catalogue.make("orders")
        topic.publish(None, [(0, encode(RecordHead(), {"publisher": "shop"}, bytes([number]))) for number in range(3)])
        group = topic.subscribe("billing", "c", Terms("shared"), "earliest")
        topic.receive(group, "c", 3, 0)
        topic.acknowledge(group, topic.log.lane, [0, 2], None)
    assert run("root", "backup", str(copy), "--with-key").status == 0
    catalogue.close()
    restored = Catalogue(names.topics_dir(str(copy)), str(copy / "speed.key"), "speedd.topics")
    with restored.lock:
        topic = restored.find("orders")
        group = topic.subscribe("billing", "c", Terms("shared"), "earliest")
        assert [row[:2] for row in topic.receive(group, "c", 9, 0)[1]] == [[1, 2]]
    restored.close()


def test_a_copy_made_while_volumes_are_put_together_is_whole(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-15: at any moment of the copy."""
    subject, options = Subject("topic", "news", "producer"), {"topic": "news", "namespace": "default"}
    with JournalWriter(names.journal_dir(str(run.root)), run.root / "speed.key") as writer:
        for at in range(5):
            message = encode_message(at, message_id=f"id-{at}", published_at_ms=1, **options)
            writer.record(subject, [Incoming(at + 1, False, message)])
            writer.leave_volume(subject)
        lane, copied = writer.end(subject).lane, list[str]()
        real = backup._copy

        def copy(path: str, to: str) -> int:
            copied.append(path)
            if len(copied) == moment:
                writer.rewrite(lane, writer.closed(lane)[:2], lambda _: True)
            return real(path, to)

        monkeypatch.setattr(backup, "_copy", copy)
        for moment in range(1, 8):
            copied.clear()
            place = tmp_path / f"copy{moment}"
            place.mkdir()
            backup.Copying(str(run.root), str(place)).run()
            found = Journal(names.journal_dir(str(place)), run.root / "speed.key")
            assert [one.offset for one in found.read(lane, 0, found.end(lane))] == [0, 1, 2, 3, 4]


def test_a_copy_made_while_the_journal_is_written_is_whole_and_a_reader_ahead_of_it_is_told(
    run: Command, tmp_path: Path
) -> None:
    """J-12, J-13: no lane of the copy counts as cut."""
    subject, options = Subject("topic", "news", "producer"), {"topic": "news", "namespace": "default"}
    writer = JournalWriter(names.journal_dir(str(run.root)), run.root / "speed.key")
    ended = threading.Event()

    def write() -> None:
        for number in itertools.count(1):
            message = encode_message(number, message_id=f"id-{number}", published_at_ms=1, **options)
            writer.record(subject, [Incoming(number, False, message)])
            if ended.is_set():
                return

    with writer, contextlib.ExitStack() as stack:
        thread = threading.Thread(target=write)
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)
        for number in range(3):
            assert run("root", "backup", str(tmp_path / f"copy{number}"), "--with-key").status == 0
    journal = Journal(names.journal_dir(str(run.root)), run.root / "speed.key")
    (lane,) = journal.lanes()
    end = journal.end(lane.id)
    for number in range(3):
        copy = tmp_path / f"copy{number}"
        assert run("journal", "verify", "--root", str(copy), "--json").value["damaged"] == 0
        with pytest.raises(speed.JournalReplacedError, match="restored from a copy"):
            Journal(names.journal_dir(str(copy)), copy / "speed.key").check(lane.id, end, journal.mark(lane.id, end))


def test_a_copy_is_private_lacks_the_key_and_replaces_nothing(run: Command, sender: speed.Node, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    made = run("root", "backup", str(copy))
    assert made.status == 0, made.err
    assert "Left out" in made.out
    assert "the key" in made.out
    assert not (copy / "speed.key").exists()
    assert {path.stat().st_mode & 0o077 for path in (copy, *copy.rglob("*"))} == {0}
    again = run("root", "backup", str(copy))
    assert (again.status, "is there already" in again.err) == (3, True)
    assert run("root", "backup", str(tmp_path / "none" / "copy")).status == 8


def test_a_copy_within_the_root_is_refused(run: Command, tmp_path: Path) -> None:
    """The next copy would hold it."""
    (tmp_path / "way").symlink_to(run.root)
    for place in (run.root / "copy", run.root / "billing" / "copy", tmp_path / "way" / "copy"):
        refused = run("root", "backup", str(place))
        assert (refused.status, "lies in the root" in refused.err) == (3, True)
    assert not list(run.root.glob("*.partial"))


def test_what_somebody_put_into_a_lane_does_not_inflate_the_copy(
    run: Command, sender: speed.Node, tmp_path: Path
) -> None:
    """A sparse giant under the name of a segment, and one under no name of ours, in an inbox that nobody reads now."""
    with speed.Node("receiver", root=run.root, allow=["sender"]):
        sender.send("receiver", 1)
    lane = Path(names.lane_dir(str(run.root), "receiver", "sender"))
    for filename in (names.lane_file_name(1, 99), "giant"):
        with open(lane / filename, "wb") as file:
            file.truncate(1 << 40)
    assert run("root", "backup", str(tmp_path / "copy")).status == 0
    copied = Path(names.lane_dir(str(tmp_path / "copy"), "receiver", "sender"))
    assert not {"giant", names.lane_file_name(1, 99)} & {path.name for path in copied.iterdir()}
