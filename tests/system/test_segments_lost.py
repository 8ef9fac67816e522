"""Segments that are lost, repeated, spoilt or too many: counted, and the next is unharmed (G-2, G-12 to G-19)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import speed
from speed.engine.futures import Waiter
from speed.segment import Limits, Segment, Splitter, write_segment
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.names import segments_dir
from tests.interop.harness import until
from tests.system.segments import WAIT, Outsider, counters, engine, message

Make = Callable[..., speed.Node]
Start = Callable[..., Any]
RECEIVER = """
import sys, speed, time
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
node.on_message(lambda message: (print("handling"), time.sleep(60)))
print("up"); sys.stdin.read()
"""
HOLDER = """
import sys
from speed.fs.keyfile import load_key_file
from speed.fs.segment_store import SegmentStore
store = SegmentStore(sys.argv[1], "billing", load_key_file(sys.argv[1] + "/speed.key"))
store.load(); print("held"); sys.stdin.readline()
store.close(); print("let go")
"""
LARGE = MAX_PAYLOAD_BYTES + 5_000_000


def test_segments_survive_a_restart_and_the_payload_comes_once(make: Make, outsider: Outsider) -> None:
    """G-14."""
    billing = make("billing", allow=["analytics"])
    segments = list(Splitter(64, 0.125).split(message(b"x" * 1000)))
    outsider.write(segments[:9])
    outsider.settled()
    billing.close()
    billing = make("billing", allow=["analytics"])
    outsider.write(segments[9:])
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == b"x" * 1000
    received.done()
    outsider.settled()  # those that were not needed: what is not read by now comes again
    billing.close()
    billing = make("billing", allow=["analytics"])
    outsider.write(segments)
    assert outsider.settled()["segments_repeated"] == len(segments)
    assert billing.receive(timeout=0) is None


def test_a_handler_that_was_killed_gets_the_payload_again(
    root: str, kind: str, make: Make, outsider: Outsider, child: Start
) -> None:
    """G-14: all of its segments were kept, and the last of them was not committed."""
    receiver = child(RECEIVER, root, kind)
    assert receiver.line() == "up"
    for _ in range(2):
        outsider.write(list(Splitter(1 << 20, 0).split(message(bytes(3 << 20)))))
    assert receiver.line() == "handling"
    receiver.kill()
    billing = make("billing", allow=["analytics"])
    seen = [billing.receive(timeout=WAIT), billing.receive(timeout=WAIT)]
    assert [one and one.payload for one in seen] == [bytes(3 << 20)] * 2
    first = min((one for one in seen if one), key=lambda one: one.sequence)  # either may be put together first
    assert first.redelivered
    assert billing.receive(timeout=0) is None


def test_a_message_that_passed_a_payload_and_was_in_hand_comes_again_with_its_mark(
    root: str, kind: str, make: Make, outsider: Outsider, child: Start
) -> None:
    """L-15, G-14: the payload is put together meanwhile."""
    receiver = child(RECEIVER, root, kind)
    assert receiver.line() == "up"
    outsider.write(list(Splitter(1 << 20, 0).split(message(bytes(16 << 20)))))
    outsider.node.send("billing", "small")
    assert receiver.line() == "handling"
    receiver.kill()
    billing = make("billing", allow=["analytics"])
    seen = [billing.receive(timeout=WAIT), billing.receive(timeout=WAIT)]
    assert sorted(one.redelivered for one in seen if one) == [True, True]
    assert "small" in [one and one.payload for one in seen]


def test_a_lost_payload_is_reported_to_who_waits_for_it(make: Make, outsider: Outsider) -> None:
    """G-15, G-19: after the time of idleness, under any of its sequences."""
    billing = make("billing", allow=["analytics"], segment_limits=Limits(idle_seconds=0.2))
    waiter = Waiter()
    segment = next(Splitter(64, 0).split(message(b"x" * 1000)))
    engine(outsider.node)._parts.links.granted("billing").send_tracked(
        EnvelopeType.MESSAGE,
        FLAG_SEGMENT | FLAG_ACK_REQUESTED,
        write_segment(segment),
        monotonic() + WAIT,
        lambda sequence: engine(outsider.node)._context.pending.add(
            sequence, monotonic() + WAIT, "billing", waiter.complete
        ),
    )
    with pytest.raises(speed.SegmentsLostError, match="not all of its segments"):
        waiter.result()
    assert counters(billing)["segments_expired"] == 1


def test_a_payload_above_the_limit_is_reported_and_the_sender_stops(make: Make) -> None:
    """G-12, G-19."""
    make("billing", allow=["analytics"], segment_limits=Limits(payload_bytes=10_000_000))
    analytics = make("analytics", allow=["billing"])
    with pytest.raises(speed.SegmentsLostError, match="exceed"):
        analytics.send("billing", bytes(LARGE), ack=True, timeout=WAIT)


def test_a_request_that_finds_no_room_ends_its_call(make: Make) -> None:
    """G-19."""
    billing = make("billing", allow=["analytics"], segment_limits=Limits(sender_buffered_bytes=10_000))
    billing.register("size", lambda x: len(x))
    analytics = make("analytics", allow=["billing"])
    analytics.segment("billing", 1024)
    assert analytics.call("billing", "size", {"x": "y" * 5000}, timeout=WAIT) == 5000
    with pytest.raises(speed.SegmentsLostError, match="room"):
        analytics.call("billing", "size", {"x": "y" * 50_000}, timeout=WAIT)


@pytest.mark.parametrize("spoilt", ["hash", "bytes"])
def test_a_payload_that_is_not_what_its_hash_says_is_discarded_and_the_next_unharmed(
    make: Make, outsider: Outsider, spoilt: str
) -> None:
    """G-3, G-13."""
    billing = make("billing", allow=["analytics"])
    good = list(Splitter(64, 0).split(message("good")))
    bad = [
        Segment(
            bytes(32) if spoilt == "hash" else one.hash,
            one.data_count,
            one.parity_count,
            one.index,
            one.is_parity,
            one.payload if spoilt == "hash" else bytes(len(one.payload)),
        )
        for one in good
    ]
    outsider.write(bad)
    outsider.write(good)
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "good"
    assert outsider.settled()["rejected_segment_hash"] == 1


def test_nonsense_in_segments_is_counted_and_the_next_message_unharmed(make: Make, outsider: Outsider) -> None:
    """G-2: bytes that are none, a message that is none, an empty payload."""
    billing = make("billing", allow=["analytics"])
    source = random.Random(11)
    for _ in range(200):
        outsider.raw(source.randbytes(source.randrange(200)), random.Random(1).choice([0, FLAG_ACK_REQUESTED]))
    outsider.write(list(Splitter(64, 0).split(b"no message" * 20)), FLAG_ACK_REQUESTED)
    outsider.write(list(Splitter(64, 0).split(b"")))
    outsider.write(list(Splitter(64, 0).split(message("fine"))))
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "fine"
    seen = outsider.settled()
    assert seen["rejected_bad_segment"] == 200
    assert seen["rejected_bad_message"] == 2


def test_a_message_whose_payload_is_not_last_is_refused_in_segments(make: Make, outsider: Outsider) -> None:
    """G-18: or a reader would have to keep all of it in memory."""
    make("billing", allow=["analytics"])
    whole = message(b"x" * 300)
    outsider.write(list(Splitter(128, 0).split(whole + b"\x42\x01x")))
    assert outsider.settled()["rejected_bad_message"] == 1


def test_a_flood_of_first_segments_grows_no_further_than_the_limits(make: Make, node: Make, outsider: Outsider) -> None:
    """G-15, G-16: nor does it harm the payload of another sender."""
    bounds = Limits(sender_reconstructions=4, reconstructions=8)
    billing = make("billing", allow=["analytics", "honest"], segment_limits=bounds)
    honest = Outsider(node("honest", allow=["billing"], engine="python"))
    mine = list(Splitter(64, 0).split(message("mine" * 100)))
    honest.write(mine[:-1])
    honest.settled()
    for number in range(int(os.environ.get("SEGMENT_FLOOD", "500"))):
        outsider.write([Segment(number.to_bytes(32, "big"), 200, 0, 0, False, bytes(100))])
    seen = outsider.settled()
    assert seen["segments_evicted"] >= 400
    files = os.listdir(segments_dir(billing.root, "billing"))
    assert len([name for name in files if name.endswith(".shards")]) == 5
    honest.write(mine[-1:])
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "mine" * 100


def test_a_damaged_store_loses_what_it_held_and_nothing_else(make: Make, outsider: Outsider) -> None:
    """G-14."""
    billing = make("billing", allow=["analytics"])
    first, second = (list(Splitter(64, 0).split(message(text * 100))) for text in ("one", "two"))
    outsider.write(first[:2])
    outsider.settled()
    billing.close()
    Path(segments_dir(billing.root, "billing"), "index.sqlite").write_bytes(b"damage" * 1000)
    billing = make("billing", allow=["analytics"])
    outsider.write(first[2:])
    outsider.write(second)
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "two" * 100


def test_a_store_in_use_by_another_refuses_segments_and_harms_nothing_else(
    make: Make, outsider: Outsider, child: Start
) -> None:
    """G-14: such as a process of this name that was paused and replaced."""
    billing = make("billing", allow=["analytics"])
    other = child(HOLDER, billing.root)
    assert other.line() == "held"
    outsider.write(list(Splitter(64, 0).split(message("lost" * 100))))
    outsider.node.send("billing", "whole")
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "whole"
    assert outsider.settled()["segment_store_failures"] >= 1
    other.tell("enough")
    assert other.line() == "let go"
    outsider.write(list(Splitter(64, 0).split(message("kept" * 100))))
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "kept" * 100


def test_segments_of_a_sender_without_a_grant_are_not_looked_at(make: Make, outsider: Outsider) -> None:
    """A-6, G-17: each is an envelope."""
    billing = make("billing", allow=["analytics"])
    segments = list(Splitter(64, 0).split(message("x" * 300)))
    outsider.write(segments[:2])
    outsider.settled()
    billing.deny("analytics")
    outsider.write(segments[2:])
    assert until(lambda: counters(billing).get("unauthorised", 0) >= len(segments) - 2)
    assert billing.receive(timeout=0) is None


def test_of_a_payload_that_is_no_message_nothing_is_remembered(node: Make) -> None:
    """G-18: a sender could fill the memory of who trusts it."""
    billing = node("billing", allow=["analytics"], engine="python")
    outsider = Outsider(node("analytics", engine="python"))
    late = [message(b"x", extensions={"x-long": bytes(70_000)}) for _ in range(3)]
    for one in late:
        outsider.write(list(Splitter(64_000, 0).split(one)))
    assert outsider.settled()["rejected_bad_message"] == len(late)
    segments = engine(billing)._parts.dispatch.segments()
    assert (segments._latest, segments._in_hand) == ({}, {})
    assert billing.receive(timeout=0) is None
