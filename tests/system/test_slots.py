"""Large payloads between nodes: through slots, whole, in order, and inline where there are none (L-28 to L-30)."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.fs.root import filesystem_of
from speed.fs.slots import SLOTTED_BYTES, SlotReader, SlotState
from speed.message.writing import encode_message
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_SLOTS, SLOT_PIECE_BYTES
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0
LARGE = os.urandom(SLOTTED_BYTES)


class Pair:
    """Two nodes of the Python engine; ``analytics`` sends."""

    def __init__(self, node: Make, root: str, **options: Any) -> None:
        self.root = Path(root)
        self.billing = node("billing", allow=["analytics"], engine="python", **options)
        self.analytics = node("analytics", allow=["billing"], engine="python", **options)

    @property
    def link(self) -> Any:
        return self.analytics._engine._parts.links.granted("billing")  # type: ignore[attr-defined]

    def slots(self, source: str = "analytics", target: str = "billing") -> list[str]:
        return sorted(path.name for path in (self.root / target / "inbox" / source).glob("*.slot"))

    def lane_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.root / "billing/inbox/analytics").glob("*.lane"))

    def payloads(self, count: int) -> list[Any]:
        return [self.payload() for _ in range(count)]

    def payload(self) -> Any:
        """The next one, which is finished then."""
        message = self.billing.receive(timeout=PATIENCE)
        assert message is not None
        message.done()
        return message.payload


@pytest.fixture
def pair(node: Make, root: str) -> Pair:
    return Pair(node, root)


# --- the usual way ---


def test_large_arguments_and_results_go_through_slots(pair: Pair) -> None:
    pair.billing.register("echo", lambda data: data)
    data = os.urandom(1 << 20)
    for _ in range(5):
        assert pair.analytics.call("billing", "echo", {"data": data}, timeout=PATIENCE) == data
    assert pair.slots() == ["000001-01.slot"]
    assert pair.slots("billing", "analytics") == ["000001-01.slot"]


def test_large_messages_go_through_slots(pair: Pair) -> None:
    data = os.urandom(8 << 20)
    for _ in range(3):
        pair.analytics.send("billing", data, timeout=PATIENCE)
        assert pair.payloads(1) == [data]
    assert pair.slots() == ["000001-01.slot"]
    assert pair.lane_bytes() < 10_000


def test_what_is_sent_at_once_keeps_its_order_whatever_its_size(pair: Pair) -> None:
    sent = [b"first", LARGE, LARGE[::-1], b"second", b"third", LARGE]
    pair.link.send_all(EnvelopeType.MESSAGE, 0, [_message(one) for one in sent], _soon())
    assert pair.payloads(len(sent)) == sent
    assert pair.slots()


def test_many_threads_lose_nothing_and_mix_nothing_up(pair: Pair) -> None:
    expected = [bytes([number]) * (SLOTTED_BYTES + number) for number in range(24)]

    def send(payloads: list[bytes]) -> None:
        for payload in payloads:
            pair.analytics.send("billing", payload, timeout=PATIENCE)

    threads = [threading.Thread(target=send, args=(expected[part::3],)) for part in range(3)]
    for thread in threads:
        thread.start()
    assert sorted(pair.payloads(len(expected))) == expected
    for thread in threads:
        thread.join()
    assert len(pair.slots()) <= MAX_SLOTS


def test_flushed_to_a_disk_they_go_through_slots_as_well(tmp_path: Path) -> None:
    if filesystem_of(str(tmp_path)).is_memory:
        pytest.skip("no disk here")
    write_key_file(str(tmp_path / "speed.key"), (os.urandom(32),))
    with (
        speed.Node("billing", root=str(tmp_path), allow=["analytics"], engine="python") as billing,
        speed.Node("analytics", root=str(tmp_path), engine="python", durability="disk") as analytics,
    ):
        analytics.send("billing", LARGE, timeout=PATIENCE)
        message = billing.receive(timeout=PATIENCE)
        assert message is not None
        assert message.payload == LARGE
        assert list((tmp_path / "billing/inbox/analytics").glob("*.slot"))


# --- inline all the same ---


def test_small_ones_lie_in_the_lane_itself(pair: Pair) -> None:
    pair.analytics.send("billing", bytes(SLOTTED_BYTES // 2), timeout=PATIENCE)
    assert pair.payloads(1) == [bytes(SLOTTED_BYTES // 2)]
    assert pair.slots() == []


def test_what_is_never_large_by_right_goes_in_the_lane_itself(pair: Pair) -> None:
    """W-4: no slot for it, however many bytes somebody puts into it."""
    pair.link.send(EnvelopeType.HEARTBEAT, 0, LARGE, _soon())
    pair.analytics.ping("billing", timeout=PATIENCE)
    assert pair.billing.stats()["counters"]["rejected_bad_payload"] == 1
    assert pair.slots() == []


def test_to_a_node_that_does_not_know_slots_all_goes_in_the_lane_itself(
    node: Make, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.fs.registration.FEATURES", ("segments", "withdraw"))
    pair = Pair(node, root)
    pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    assert pair.payloads(1) == [LARGE]
    assert pair.slots() == []


def test_where_lanes_are_polled_all_goes_in_the_lane_itself(node: Make, root: str) -> None:
    pair = Pair(node, root, bell="polling")
    pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    assert pair.payloads(1) == [LARGE]
    assert pair.slots() == []


def test_more_than_there_are_slots_lies_in_the_lane_itself(pair: Pair) -> None:
    sent = [bytes([number]) + LARGE for number in range(MAX_SLOTS + 2)]
    for payload in sent:
        pair.analytics.send("billing", payload, timeout=PATIENCE)
    assert len(pair.slots()) == MAX_SLOTS
    assert pair.payloads(len(sent)) == sent
    assert pair.lane_bytes() > SLOTTED_BYTES


# --- failures ---


def test_a_payload_that_finds_no_space_among_others_tells_how_many_went_in(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(speed.StorageError) as caught:
        patch.setattr(os, "posix_fallocate", full)
        pair.link.send_all(
            EnvelopeType.MESSAGE, 0, [_message(one) for one in (b"first", b"second", LARGE, b"third")], _soon()
        )
    assert caught.value.envelopes_written == 2
    pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    assert pair.payloads(3) == [b"first", b"second", LARGE]


def test_a_payload_that_fails_half_way_is_told_and_nothing_else_waits_for_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, data: bytes, offset: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(speed.StorageError):
        patch.setattr("speed.fs.slots.write_all_at", refuse)
        pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    pair.analytics.send("billing", b"next", timeout=PATIENCE)
    assert pair.payloads(1) == [b"next"]
    assert pair.billing.stats()["counters"]["torn_slots"] == 1


KILLED = """
import os, sys, speed
from speed.wire.cursor import SlotPieces
seal = SlotPieces.seal
def dies(pieces, index, payload):
    if index == 1:
        os._exit(1)
    return seal(pieces, index, payload)
SlotPieces.seal = dies
node = speed.Node("analytics", root=sys.argv[1], engine="python")
node.send("billing", bytes(1 << 20), timeout=20)
"""


def test_a_sender_that_is_killed_between_two_pieces_holds_up_nobody(node: Make, root: str, child: Start) -> None:
    billing = node("billing", allow=["analytics"], engine="python")
    assert child(KILLED, root).rest() == []
    _until(lambda: billing.stats()["counters"].get("torn_slots") == 1)
    assert "damaged_bad_slot" not in billing.stats()["counters"]
    node("analytics", engine="python").send("billing", LARGE, timeout=PATIENCE)
    message = billing.receive(timeout=PATIENCE)
    assert message is not None
    assert message.payload == LARGE


DIES = """
import os, sys, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine="python")
print("up", flush=True)
message = node.receive(timeout=20)
print(len(message.payload), message.redelivered, flush=True)
os._exit(1)
"""


def test_a_payload_that_was_in_hand_comes_again_to_the_next_life(node: Make, root: str, child: Start) -> None:
    first = child(DIES, root)
    assert first.line() == "up"
    node("analytics", engine="python").send("billing", LARGE, timeout=PATIENCE)
    assert first.rest() == [f"{len(LARGE)} False"]
    again = node("billing", allow=["analytics"], engine="python").receive(timeout=PATIENCE)
    assert again is not None
    assert (again.payload, again.redelivered) == (LARGE, True)


# --- large ones do not hold up others ---


def test_a_ring_that_comes_while_another_thread_waits_for_a_piece_is_not_lost(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.engine.python.reader.FULL_SCAN_SECONDS", 3600.0)
    written, looked = threading.Event(), threading.Event()
    real = SlotReader.read

    def too_early(slot: SlotReader, *arguments: Any) -> SlotState:
        """The first look ends just before the last piece, and tells of it only after the second ring."""
        if looked.is_set():
            return real(slot, *arguments)
        looked.set()
        assert written.wait(PATIENCE)
        return SlotState.WAITS

    monkeypatch.setattr(SlotReader, "read", too_early)
    data = os.urandom(5 << 20)
    pair.analytics.send("billing", data, timeout=PATIENCE)
    lane = pair.billing._engine._parts.protocol._lanes.opened("analytics")  # type: ignore[attr-defined]
    _until(lambda: lane._rang)
    written.set()
    assert pair.payloads(1) == [data]


# --- the end of slots ---


def test_slots_that_are_not_used_any_more_are_removed(pair: Pair) -> None:
    pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    pair.payloads(1)
    links = pair.analytics._engine._parts.links  # type: ignore[attr-defined]
    links.release_slots()
    assert pair.slots()
    links.release_slots()
    assert pair.slots() == []


def test_slots_are_not_looked_at_while_somebody_writes(pair: Pair) -> None:
    pair.analytics.send("billing", LARGE, timeout=PATIENCE)
    links = pair.analytics._engine._parts.links  # type: ignore[attr-defined]
    with pair.link.lock:
        links.release_slots()
    assert pair.slots()


def test_a_node_that_leaves_takes_the_slots_with_it_that_are_free(pair: Pair) -> None:
    pair.analytics.send("billing", bytes(SLOT_PIECE_BYTES) + LARGE, timeout=PATIENCE)
    pair.payloads(1)
    pair.billing.close()
    pair.analytics.close()
    assert pair.slots() == []


def _message(payload: bytes) -> bytes:
    return encode_message(
        payload, topic="message", namespace="default", message_id=os.urandom(8).hex(), published_at_ms=1
    )


def _soon() -> float:
    return monotonic() + PATIENCE


def _until(is_so: Callable[[], Any]) -> None:
    deadline = _soon()
    while not is_so():
        assert monotonic() < deadline
        sleep(0.01)
