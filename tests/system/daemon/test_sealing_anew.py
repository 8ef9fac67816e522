"""speedd seals its journal and topics anew when the keys change, while it records and serves (J-16)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import speed
from speed.cli.keys import rotated
from speed.fs.keyfile import change_key_file, load_key_file, read_keys
from speed.journal import Journal
from speed.journal.reseal import Held, held_by
from speed.journal.writer import JournalWriter
from tests.fs.journals import SUBJECT, incoming
from tests.system.daemon.speedds import HEAD, Speedd, follow

pytestmark = pytest.mark.system

KEEPS = """
[journal]
directory = "journal"
inboxes = ["ledger"]
allow = ["test"]
[topics]
directory = "topics"
publish = ["test"]
consume = ["test"]
manage = ["test"]
[[topic]]
name = "orders"
"""


PATIENT = HEAD.replace("lease_seconds = 2", "lease_seconds = 20")
"""For a busy machine: a lease that runs out ends speedd."""


def change(directory: Path, step: str) -> None:
    change_key_file(str(directory / "speed.key"), lambda keys: rotated(keys, step, secrets.token_bytes(32)))


def held(directory: Path, place: str) -> Held:
    ring = load_key_file(str(directory / "speed.key"))
    return held_by(str(directory / place), ring, ring.key_ids[1:])


class Load:
    """Sends to the inbox, publishes to the topic, consumes and acknowledges, until it is ended."""

    def __init__(self, node: speed.Node) -> None:
        self._node = node
        self._ending = threading.Event()
        self.sent: list[int] = []
        self.kept: list[int] = []
        self.consumed: list[object] = []
        self._pool = ThreadPoolExecutor(3)
        self._running = [self._pool.submit(one) for one in (self._send, self._publish, self._consume)]

    def _send(self) -> None:
        while not self._ending.is_set():
            number = len(self.sent)
            self._node.send("ledger", number, ack=True, timeout=30)
            self.sent.append(number)

    def _publish(self) -> None:
        orders = self._node.topic("orders")
        while not self._ending.is_set():
            number = len(self.kept)
            orders.publish(number, timeout=30)
            self.kept.append(number)

    def _consume(self) -> None:
        with self._node.topic("orders").consumer("billing", start="earliest") as consumer:
            while not self._ending.is_set():
                message = consumer.receive(timeout=1)
                if message is not None:
                    self.consumed.append(message.payload)
                    consumer.acknowledge(message)

    def end(self) -> None:
        """Raises what one of them met."""
        self._ending.set()
        for one in self._running:
            one.result()
        self._pool.shutdown()


def recorded(directory: Path, place: str) -> list[object]:
    journal = Journal(directory / place, directory / "speed.key")
    records = (record for lane in journal.lanes() for record in journal.read(lane.id, 0, journal.end(lane.id)))
    return [record.view.payload for record in records]


@pytest.mark.slow
def test_keys_are_added_promoted_and_retired_under_load_and_nothing_is_lost(
    start: Callable[..., Speedd], directory: Path
) -> None:
    """J-16, W-20, D-2: all that was accepted can be read with the last key alone, also after a restart."""
    speedd = start(KEEPS, head=PATIENT)
    speedd.until("ready")
    first = read_keys(str(directory / "speed.key"))
    with speed.Node("test", root=directory / "root", key=directory / "speed.key", heartbeat_seconds=0.4) as node:
        node.allow("ledger")
        node.wait_for("ledger")
        load = Load(node)
        for _ in range(2):
            change(directory, "add")
            follow(directory)
            change(directory, "promote")
            speedd.until("sealed_anew", troubles=0)
            assert (held(directory, "journal"), held(directory, "topics")) == (Held(0, 0), Held(0, 0))
            follow(directory)
            change(directory, "retire")
            follow(directory)
        load.end()
    assert speedd.stop() == 0
    assert len(read_keys(str(directory / "speed.key"))) == 1
    assert first != read_keys(str(directory / "speed.key"))
    assert recorded(directory, "journal") == load.sent
    assert load.consumed == load.kept[: len(load.consumed)]
    assert len(load.consumed) > 0
    again = start(KEEPS, head=PATIENT)
    again.until("ready")
    with speed.Node("test", root=directory / "root", key=directory / "speed.key") as node:
        node.wait_for("speedd.topics")
        with node.topic("orders").consumer("billing") as consumer:
            rest = [consumer.receive(timeout=30) for _ in load.kept[len(load.consumed) :]]
        assert [message and message.payload for message in rest] == load.kept[len(load.consumed) :]


def test_what_was_left_before_is_sealed_anew_after_a_start(start: Callable[..., Speedd], directory: Path) -> None:
    """J-16: and what is damaged is named."""
    with JournalWriter(directory / "journal", directory / "speed.key") as writer:
        writer.record(SUBJECT, incoming([0]))
    (segment,) = (directory / "journal").glob("*/*.segment")
    with segment.open("ab") as file:
        file.write(b"x" * 100)
    change(directory, "now")
    assert held(directory, "journal").files == 3
    speedd = start(KEEPS)
    named = speedd.until("not_sealed_anew")
    assert named["file"].endswith(segment.name)
    assert "damaged at byte" in named["reason"]
    assert speedd.until("sealed_anew")["files"] == 3
    assert held(directory, "journal") == Held(0, 0)


def test_nothing_is_said_where_one_key_sealed_everything(start: Callable[..., Speedd], directory: Path) -> None:
    """J-16."""
    speedd = start(KEEPS)
    speedd.until("ready")
    change(directory, "add")
    follow(directory)
    assert speedd.stop() == 0
    assert [line for line in speedd.events if "seal" in line["event"]] == []


def test_what_cannot_be_sealed_anew_for_the_moment_is_tried_again(
    start: Callable[..., Speedd], directory: Path
) -> None:
    """J-16: a directory lies in the place where a volume is written beside."""
    with JournalWriter(directory / "journal", directory / "speed.key") as writer:
        writer.record(SUBJECT, incoming([0]))
    change(directory, "now")
    (segment,) = (directory / "journal").glob("*/*.segment")
    blocked = segment.parent / f".tmp-{segment.name}"
    blocked.mkdir()
    speedd = start(KEEPS)
    assert "File exists" in speedd.until("sealing_anew_failed")["reason"]
    blocked.rmdir()
    speedd.until("sealed_anew")
    assert held(directory, "journal") == Held(0, 0)
