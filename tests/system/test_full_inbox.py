"""What a full inbox holds up, and what not (registry_spec/lanes.md L-6, spc.md S-4, S-5, S-10)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import Queue
from types import FrameType
from typing import Any

import pytest

import speed
from speed.fs.identity import unix_ms
from speed.wire import spc
from speed.wire.envelope import EnvelopeType

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture(name="make")
def python_nodes(node: Make) -> Make:
    return partial(node, engine="python")


class Reader:
    """A node whose handler takes nothing before ``let_go``: the inbox stays as full as it is."""

    def __init__(self, make: Make, sender: str) -> None:
        self.node = make("reader", allow=[sender])
        self.handled: Queue[Any] = Queue()
        self.let_go = threading.Event()
        self.node.on_message(self._handle)
        self.node.register("one", lambda: 1)

    def _handle(self, message: speed.Message) -> None:
        self.let_go.wait(10 * PATIENCE)
        self.handled.put(message.payload)


def fill(sender: speed.Node) -> int:
    """Send to the reader until there is no room for a kilobyte; returns how many were sent."""
    for sent in range(1000):
        try:
            sender.send("reader", bytes(1000), timeout=0)
        except speed.InboxFullError:
            return sent
    raise AssertionError("the inbox never became full")


def frames(thread: threading.Thread) -> Iterator[FrameType]:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back


def begin(run: Callable[[], object]) -> threading.Thread:
    """Run it on a thread of its own, until it waits for room."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not any(frame.f_code.co_name == "_wait_for_room" for frame in frames(thread)):
        assert time.monotonic() < end
        time.sleep(0.001)
    return thread


def outcome(run: Callable[[], object]) -> Any:
    """What it ends with, on a thread of its own: it may hang."""
    ended: Queue[Any] = Queue()

    def guarded() -> None:
        try:
            ended.put(run())
        except BaseException as error:
            ended.put(error)

    threading.Thread(target=guarded, daemon=True).start()
    return ended.get(timeout=PATIENCE)


@pytest.fixture
def reader(make: Make) -> Iterator[Reader]:
    one = Reader(make, "sender")
    yield one
    one.let_go.set()


def test_a_sender_waits_until_its_own_deadline_behind_one_that_waits_longer(make: Make, reader: Reader) -> None:
    """L-6, S-4."""
    sender = make("sender", max_lane_bytes=20_000)
    fill(sender)
    patient = begin(lambda: sender.send("reader", bytes(2000), timeout=10 * PATIENCE))
    for verb in (
        partial(sender.send, "reader", bytes(2000), timeout=0.2),
        partial(sender.call, "reader", "one", {}, timeout=0.2),
        partial(sender.ping, "reader", timeout=0.2),
        partial(sender.send_all, "reader", [bytes(2000)], timeout=0.2),
    ):
        assert isinstance(outcome(verb), speed.InboxFullError)
    reader.let_go.set()
    patient.join(PATIENCE)
    assert not patient.is_alive()


def test_who_waits_for_room_first_is_written_first(make: Make, reader: Reader) -> None:
    """L-3, L-6: also if a later one would fit sooner."""
    sender = make("sender", max_lane_bytes=20_000)
    sent = fill(sender)
    payloads = [b"1" * 8000, b"2" * 2000, b"3" * 5000]
    waiting = [begin(partial(sender.send, "reader", payload, timeout=10 * PATIENCE)) for payload in payloads]
    reader.let_go.set()
    found = [reader.handled.get(timeout=PATIENCE) for _ in range(sent + len(payloads))]
    assert found[sent:] == payloads
    for thread in waiting:
        thread.join(PATIENCE)


def test_a_node_that_closes_ends_those_who_wait_for_room(make: Make, reader: Reader) -> None:
    """S-7."""
    sender = make("sender", max_lane_bytes=20_000)
    fill(sender)
    outcomes: Queue[Any] = Queue()

    def send() -> None:
        try:
            sender.send("reader", bytes(2000), timeout=10 * PATIENCE)
        except speed.SpeedError as error:
            outcomes.put(error)

    waiting = [begin(send) for _ in range(3)]
    sender.close(drain_seconds=0)
    for thread in waiting:
        thread.join(PATIENCE)
    ends = [type(outcomes.get_nowait()) for _ in waiting]
    assert {speed.InboxFullError, speed.NodeClosedError}.issuperset(ends), ends  # nothing was written, says either


def test_an_answer_to_a_full_inbox_stops_no_reading_while_all_others_work(
    make: Make, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-5, S-10: whoever relieves the readers does not wait for room."""
    monkeypatch.setattr("speed.engine.python.links.REPLY_WAIT_SECONDS", 10 * PATIENCE)
    server = make("sender", allow=["reader", "other"], max_lane_bytes=20_000, workers=8)
    other = make("other")
    release, started = threading.Event(), threading.Semaphore(0)
    server.register("large", lambda: bytes(3000))
    server.register("slow", lambda: (started.release(), release.wait(10 * PATIENCE))[1])
    fill(server)
    # One write: a worker takes both, and the answer to the first waits while the second runs.
    requests = [
        spc.encode_request(f"test.{name}", name, {}, "reader", 1, unix_ms() + 200_000) for name in ("large", "slow")
    ]
    link = reader.node._engine._parts.links.granted("sender")  # type: ignore[attr-defined]
    link.send_all(EnvelopeType.SPC_REQUEST, 0, requests, time.monotonic() + PATIENCE)
    assert started.acquire(timeout=PATIENCE)
    try:
        for _ in range(5):
            other.submit("sender", "slow", timeout=10 * PATIENCE)
            assert started.acquire(timeout=PATIENCE), "nobody reads"
            assert other.ping("sender", timeout=PATIENCE) < PATIENCE
    finally:
        reader.let_go.set()
        release.set()
    end = time.monotonic() + PATIENCE
    while reader.node.stats()["counters"].get("answers_unexpected", 0) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    assert reader.node.stats()["counters"]["answers_unexpected"] == 2
    assert "answers_undelivered" not in server.stats()["counters"]
