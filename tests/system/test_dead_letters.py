"""Messages that fail follow the node's policy, and nothing is lost silently (S-17, S-18)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed.fs.dead_letters import DeadLetters
from speed.fs.keyfile import load_key_file
from tests.interop.harness import until
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0
RECEIVER = """
import os, sys, speed
root, engine, marks = sys.argv[1:4]
node = speed.Node("billing", root=root, engine=engine, max_deliveries=3)

def handle(message: speed.Message):
    with open(marks, "a") as file:
        file.write(f"{message.payload} {message.deliveries} {message.redelivered}\\n")
    if message.payload == "poison":
        os._exit(1)

node.on_message(handle)
node.allow("analytics")
print("up", flush=True)
sys.stdin.readline()
node.close()
"""


def letters_of(root: str, name: str = "billing") -> DeadLetters:
    return DeadLetters(root, name, load_key_file(f"{root}/speed.key"))


def payload_of(letters: DeadLetters, number: int) -> Any:
    from speed.message.view import MessageView

    return MessageView(b"".join(letters.read(number)[1])).payload


def test_a_message_that_ends_its_process_again_and_again_becomes_a_dead_letter(
    root: str, make: Make, kind: str, child: Start, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    analytics = make("analytics")
    lives = [child(RECEIVER, root, kind, str(marks))]
    assert lives[0].line() == "up"
    analytics.send_all("billing", ["poison", "good"])  # at once: the first one ends the node
    lives[0].process.wait(PATIENCE)
    for _ in range(2):
        life = child(RECEIVER, root, kind, str(marks))
        assert life.line() in {"up", "<end>"}
        life.process.wait(PATIENCE)
    last = child(RECEIVER, root, kind, str(marks))
    assert last.line() == "up"
    analytics.wait_for("billing", timeout=PATIENCE)
    analytics.send("billing", "end", ack=True, timeout=PATIENCE)
    seen = [line.split() for line in marks.read_text().splitlines()]
    assert [int(count) for payload, count, _ in seen if payload == "poison"] == [1, 2, 3]
    assert [payload for payload, _, _ in seen if payload != "poison"] == ["good", "end"]
    letters = letters_of(root)
    (kept,) = letters.kept()
    letter, _ = letters.read(kept.number)
    assert (letter.source, letter.deliveries, payload_of(letters, kept.number)) == ("analytics", 4, "poison")


RECEIVER_BY_DEFAULT = """
import os, sys, speed
root, engine, marks = sys.argv[1:4]
node = speed.Node("billing", root=root, engine=engine)

def handle(message: speed.Message):
    with open(marks, "a") as file:
        file.write(f"{message.payload}\\n")
    if message.payload == "poison":
        os._exit(1)

node.on_message(handle)
node.allow("analytics")
sys.stdin.readline()
"""


def test_a_message_that_ends_its_process_does_not_come_back_for_ever(
    root: str, make: Make, kind: str, child: Start, tmp_path: Path
) -> None:
    """S-17: whoever asked for nothing is safe as well, and what stands behind it is handled."""
    marks = tmp_path / "marks"
    marks.touch()
    life = child(RECEIVER_BY_DEFAULT, root, kind, str(marks))
    analytics = make("analytics")
    analytics.wait_for("billing", timeout=PATIENCE)
    while "analytics" not in next(entry.allow for entry in analytics.nodes() if entry.name == "billing"):
        assert life.process.poll() is None
    analytics.send_all("billing", ["poison", "good"])  # at once: the first one ends the node
    for _ in range(8):
        until = time.monotonic() + PATIENCE
        while life.process.poll() is None and "good" not in marks.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        if "good" in marks.read_text():
            break
        life = child(RECEIVER_BY_DEFAULT, root, kind, str(marks))
    assert marks.read_text().split() == ["poison"] * 5 + ["good"]


def test_a_handler_that_raises_loses_nothing_silently(root: str, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Also where nobody waits for an acknowledgement."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: Queue[Any] = Queue()

    def handle(message: speed.Message) -> None:
        if message.payload == "bad":
            raise ValueError("no such account")
        handled.put(message.payload)

    billing.on_message(handle)
    with caplog.at_level(logging.ERROR):
        analytics.send("billing", "bad")
        with pytest.raises(speed.ExecutionFailedError, match="no such account"):
            analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
        analytics.send("billing", "good", ack=True, timeout=PATIENCE)
    assert handled.get(timeout=PATIENCE) == "good"
    letters = letters_of(root)
    assert [payload_of(letters, one.number) for one in letters.kept()] == ["bad", "bad"]
    assert "no such account" in letters.read(1)[0].error_message
    assert billing.stats()["counters"]["dead_letters"] == 2
    assert "no such account" in caplog.text


def test_retry_hands_a_message_over_again_in_its_place(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"], on_error="retry"), make("analytics")
    seen: list[tuple[Any, int]] = []

    def handle(message: speed.Message) -> None:
        seen.append((message.payload, message.deliveries))
        if message.payload == 1 and message.deliveries < 3:
            raise ValueError("not yet")

    billing.on_message(handle)
    for number in (1, 2):
        analytics.send("billing", number)
    analytics.send("billing", 3, ack=True, timeout=PATIENCE)
    assert seen == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]


def test_retry_ends_with_a_dead_letter(root: str, make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"], on_error="retry", max_deliveries=2), make("analytics")
    seen: list[int] = []

    def handle(message: speed.Message) -> None:
        seen.append(message.deliveries)
        raise ValueError("never")

    billing.on_message(handle)
    with pytest.raises(speed.ExecutionFailedError, match="never"):
        analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    assert seen == [1, 2]
    assert len(letters_of(root).kept()) == 1


def test_drop_counts_and_goes_on(root: str, make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"], on_error="drop"), make("analytics")
    billing.on_message(lambda message: 1 / 0)
    with pytest.raises(speed.ExecutionFailedError, match="ZeroDivisionError"):
        analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    assert billing.stats()["counters"]["messages_dropped"] == 1
    assert letters_of(root).kept() == []


def test_an_event_that_fails_becomes_a_dead_letter_as_well(root: str, make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    called = threading.Event()

    def handle(message: speed.Message) -> None:
        called.set()
        raise ValueError("no")

    billing.subscribe("orders.*", handle)
    assert analytics.publish("orders.created", {"number": 7}, timeout=PATIENCE) == 1
    assert called.wait(PATIENCE)
    billing.close()
    (kept,) = letters_of(root).kept()
    assert letters_of(root).read(kept.number)[0].type == "EVENT"


def test_a_dead_letter_that_is_asked_for_again_is_handled_and_gone(root: str, make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    broken = threading.Event()
    broken.set()
    handled: Queue[tuple[Any, bool]] = Queue()

    def handle(message: speed.Message) -> None:
        if broken.is_set():
            raise ValueError("not now")
        handled.put((message.payload, message.redelivered))

    billing.on_message(handle)
    with pytest.raises(speed.ExecutionFailedError):
        analytics.send("billing", "again", ack=True, timeout=PATIENCE)
    broken.clear()
    letters = letters_of(root)
    assert letters.move(1, "letter", "retry")
    assert handled.get(timeout=PATIENCE) == ("again", True)
    assert until(lambda: billing.stats()["counters"].get("dead_letters_tried_again") == 1)
    billing.close()
    assert letters.kept() == []


def test_a_dead_letter_that_fails_again_is_kept(root: str, make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    tried = threading.Semaphore(0)

    def handle(message: speed.Message) -> None:
        tried.release()
        raise ValueError("not now")

    billing.on_message(handle)
    with pytest.raises(speed.ExecutionFailedError):
        analytics.send("billing", "again", ack=True, timeout=PATIENCE)
    letters = letters_of(root)
    assert letters.move(1, "letter", "retry")
    for _ in range(2):
        assert tried.acquire(timeout=PATIENCE)
    billing.close()
    assert [(one.number, one.state) for one in letters.kept()] == [(1, "letter")]


def test_where_there_is_no_room_for_letters_a_message_waits(
    root: str, node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speed.fs import dead_letters

    monkeypatch.setattr(dead_letters, "MAX_DEAD_LETTERS", 0)
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    tries: Queue[int] = Queue()

    def handle(message: speed.Message) -> None:
        tries.put(message.deliveries)
        if tries.qsize() < 3:
            raise ValueError("not yet")

    billing.on_message(handle)
    analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    assert tries.qsize() == 3
    assert letters_of(root).kept() == []
    assert billing.stats()["counters"]["dead_letters_without_room"] == 2


def test_a_letter_that_was_being_tried_is_one_again_and_one_that_cannot_be_read_stays(root: str, make: Make) -> None:
    """The process ended while it tried the first; somebody altered the second."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    @billing.on_message
    def handle(message: speed.Message) -> None:
        raise ValueError("not now")

    for number in range(2):
        with pytest.raises(speed.ExecutionFailedError):
            analytics.send("billing", number, ack=True, timeout=PATIENCE)
    billing.close()
    letters = letters_of(root)
    assert letters.move(1, "letter", "trying")
    assert letters.move(2, "letter", "retry")
    path = Path(root, "billing", "dead", "00000002.retry")
    path.write_bytes(path.read_bytes()[:-1])
    successor = make("billing")
    assert until(lambda: {"dead_letters_unfinished", "dead_letters_unread"} <= successor.stats()["counters"].keys())
    assert until(lambda: {(one.number, one.state) for one in letters.kept()} == {(1, "letter"), (2, "letter")})
    assert [successor.stats()["counters"][f"dead_letters_{end}"] for end in ("unfinished", "unread")] == [1, 1]
