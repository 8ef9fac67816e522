"""Payloads that no envelope holds, links with a small limit, and what becomes of what is lost (G-14 to G-20)."""

from __future__ import annotations

import hashlib
import io
import os
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import speed
from speed.core.access import AccessPolicy
from speed.runtime.node import PythonEngine
from speed.segment import Limits, Segment, Splitter, write_segment
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import FILE_BACKED_BYTES, MAX_PAYLOAD_BYTES
from speed.wire.message import encode_message, new_message_id
from speed.wire.names import segments_dir

Make = Callable[..., speed.Node]
WAIT = 30.0
LARGE = MAX_PAYLOAD_BYTES + 5_000_000


@pytest.fixture
def make(node: Make) -> Make:
    """Nodes of the engine that speaks segments."""
    return partial(node, engine="python")


@pytest.fixture
def big(tmp_path: Path) -> Iterator[Path]:
    """A file that no envelope holds."""
    path = tmp_path / "big"
    source = random.Random(LARGE)
    with open(path, "wb") as file:
        file.writelines(source.randbytes(min(1 << 20, LARGE - begin)) for begin in range(0, LARGE, 1 << 20))
    yield path
    path.unlink()


def engine(node: speed.Node) -> PythonEngine:
    assert isinstance(node._engine, PythonEngine)
    return node._engine


def counters(node: speed.Node) -> dict[str, int]:
    return dict(node.stats()["counters"])


def digest(file: Any) -> str:
    state = hashlib.sha256()
    while data := file.read(1 << 20):
        state.update(data)
    return state.hexdigest()


def message(payload: Any) -> bytes:
    """An encoded message, each time another."""
    identifier = new_message_id(1_700_000_000_123, os.urandom(16))
    return encode_message(payload, topic="t", namespace="n", message_id=identifier, published_at_ms=1_700_000_000_123)


class Outsider:
    """A sender that chooses which segments it sends, and in which order."""

    def __init__(self, node: speed.Node) -> None:
        self.node = node

    def write(self, segments: list[Segment], flags: int = 0, type_: int = EnvelopeType.MESSAGE) -> None:
        for segment in segments:
            self.raw(write_segment(segment), flags, type_)

    def raw(self, data: bytes, flags: int = 0, type_: int = EnvelopeType.MESSAGE) -> None:
        link = engine(self.node)._parts.links.granted("billing")
        link.send(type_, flags | FLAG_SEGMENT, data, monotonic() + WAIT)

    def settled(self) -> dict[str, int]:
        """The receiver's counters once it has read all that was written."""
        self.node.ping("billing", timeout=WAIT)
        return dict(self.node.stats("billing", timeout=WAIT)["counters"])


@pytest.fixture
def outsider(make: Make) -> Outsider:
    return Outsider(make("analytics", allow=["billing"]))


# --- large payloads ---


def test_a_file_is_streamed_and_read_as_a_file(make: Make, big: Path) -> None:
    """G-18, G-20: with progress, and nothing of it left behind."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: list[tuple[int, str, str]] = []
    billing.on_message(lambda m: handled.append((m.payload.size, digest(m.payload), m.topic)))
    progress: list[tuple[int, int]] = []
    with open(big, "rb") as file:
        analytics.send(
            "billing", file, ack=True, timeout=WAIT, topic="big.one", on_progress=lambda *told: progress.append(told)
        )
        file.seek(0)
        assert handled == [(LARGE, digest(file), "big.one")]
    assert progress == sorted(progress)
    assert len(progress) > 10
    assert progress[-1][0] == progress[-1][1] >= LARGE
    billing.close()
    assert not [name for name in os.listdir(segments_dir(billing.root, "billing")) if name.endswith(".shards")]


def test_large_bytes_and_large_values_arrive(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    payload = random.Random(1).randbytes(LARGE)
    analytics.send("billing", payload, timeout=WAIT)
    analytics.send("billing", {"rows": payload}, timeout=WAIT)
    first = billing.receive(timeout=WAIT)
    assert first is not None
    assert first.payload.read_all() == payload
    second = billing.receive(timeout=WAIT)
    assert second is not None
    assert second.payload == {"rows": payload}
    assert first.payload.closed


def test_a_small_file_goes_in_one_envelope(make: Make) -> None:
    """It arrives as bytes; a receiver without segments reads it as well."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    told: list[Any] = []
    analytics.send("billing", io.BytesIO(b"small"), ack=True, timeout=WAIT, on_progress=lambda *now: told.append(now))
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == b"small"
    assert told == [(5, 5)]
    assert "payloads_from_segments" not in counters(billing)


def test_small_messages_pass_a_large_one_on_its_way(make: Make, big: Path) -> None:
    """G-17: segments of a payload need not follow each other."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    seen: list[Any] = []
    done = threading.Event()

    def take(message: speed.Message) -> None:
        seen.append(message.payload if isinstance(message.payload, str) else "large")
        if seen.count("large") == 1:
            done.set()

    billing.on_message(take)
    with open(big, "rb") as file:
        count = iter(map(str, range(1000)))
        analytics.send("billing", file, timeout=WAIT, on_progress=lambda *_: analytics.send("billing", next(count)))
    assert done.wait(WAIT)
    assert [one for one in seen if one != "large"] == sorted({*seen} - {"large"}, key=int)


def test_a_file_that_shrinks_is_a_named_error(make: Make, tmp_path: Path) -> None:
    make("billing", allow=["analytics"])
    analytics = make("analytics")
    path = tmp_path / "shrinks"
    path.write_bytes(bytes(LARGE))
    with open(path, "rb") as file, pytest.raises(speed.ConfigurationError, match="changed"):
        analytics.send("billing", file, timeout=WAIT, on_progress=lambda *_: os.truncate(path, 10))


@pytest.mark.parametrize("payload", [io.StringIO("text"), object()])
def test_what_is_no_binary_file_is_refused(make: Make, payload: Any) -> None:
    make("billing", allow=["analytics"])
    with pytest.raises((speed.ConfigurationError, speed.UnserialisableError)):
        make("analytics").send("billing", payload)


# --- links with a segment size ---


def test_calls_messages_and_events_work_over_a_link_with_a_small_limit(make: Make) -> None:
    """G-18: all of them are segmented, those of one segment too."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics", allow=["billing"])
    billing.register("double", lambda x: x + x)
    heard: list[Any] = []
    billing.on_message(lambda one: heard.append(one.payload))
    billing.subscribe("orders.*", lambda one: heard.append(one.topic))
    analytics.segment("billing", 1024, parity_rate=0.125)
    billing.segment("analytics", 1000)
    for size in (1, 1000, 100_000):
        assert analytics.call("billing", "double", {"x": "y" * size}, timeout=WAIT) == "y" * 2 * size
        assert len(analytics.submit("billing", "double", {"x": "z" * size}, timeout=WAIT).result()) == 2 * size
        analytics.send("billing", b"b" * size, ack=True, timeout=WAIT)
    assert analytics.publish("orders.made", {"n": 1}) == 1
    analytics.send("billing", "last", ack=True, timeout=WAIT)
    assert sorted(map(str, heard)) == sorted(map(str, [b"b", b"b" * 1000, b"b" * 100_000, "orders.made", "last"]))
    assert counters(billing)["payloads_from_segments"] == 6 + 3 + 2
    assert counters(analytics)["payloads_from_segments"] == 6
    with pytest.raises(speed.ExecutionFailedError, match="limit is 255000"):
        analytics.call("billing", "double", {"x": "y" * 130_000}, timeout=WAIT)
    analytics.segment("billing", None)
    before = counters(billing)["payloads_from_segments"]
    analytics.send("billing", "plain", ack=True)
    assert counters(billing)["payloads_from_segments"] == before


def test_what_a_bridge_loses_is_recovered(make: Make, outsider: Outsider) -> None:
    """G-10, G-13: any k segments, in any order, twice."""
    billing = make("billing", allow=["analytics"])
    for lost in range(1, 4):
        payload = os.urandom(2000 - lost)
        segments = list(Splitter(64, 0.125).split(message(payload)))
        arriving = random.Random(lost).sample(segments, segments[0].data_count)
        outsider.write([*arriving, *arriving[:3], *segments])
        received = billing.receive(timeout=WAIT)
        assert received is not None
        assert received.payload == payload
    assert billing.receive(timeout=0) is None


@pytest.mark.parametrize(("size", "rate"), [(0, 0.0), (100, 0.5), (MAX_PAYLOAD_BYTES, 0.0)])
def test_a_segment_size_that_cannot_be_is_refused(make: Make, size: int, rate: float) -> None:
    """G-4, G-18."""
    with pytest.raises(speed.ConfigurationError):
        make("analytics").segment("billing", size, parity_rate=rate)


# --- what is lost, and what is done again ---


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
    billing.close()
    billing = make("billing", allow=["analytics"])
    outsider.write(segments)
    assert outsider.settled()["segments_repeated"] == len(segments)
    assert billing.receive(timeout=0) is None


def test_a_lost_payload_is_reported_to_who_waits_for_it(make: Make, outsider: Outsider) -> None:
    """G-15, G-19: after the time of idleness, under any of its sequences."""
    billing = make("billing", allow=["analytics"], segment_limits=Limits(idle_seconds=0.2))
    waiter = engine(outsider.node)._parts.calls.waiter()
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
    with pytest.raises(speed.SegmentsLostError, match="exceeds"):
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


def test_a_flood_of_first_segments_grows_no_further_than_the_limits(make: Make, outsider: Outsider) -> None:
    """G-15, G-16: nor does it harm the payload of another sender."""
    bounds = Limits(sender_reconstructions=4, reconstructions=8)
    billing = make("billing", allow=["analytics", "honest"], segment_limits=bounds)
    honest = Outsider(make("honest", allow=["billing"]))
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


def test_a_store_in_use_by_another_refuses_segments_and_harms_nothing_else(make: Make, outsider: Outsider) -> None:
    """G-14: such as a process of this name that was paused and replaced."""
    from speed.fs.segment_store import SegmentStore

    billing = make("billing", allow=["analytics"])
    other = SegmentStore(billing.root, "billing", engine(billing)._context.keyring)
    other.load()
    outsider.write(list(Splitter(64, 0).split(message("lost" * 100))))
    outsider.node.send("billing", "whole")
    received = billing.receive(timeout=WAIT)
    assert received is not None
    assert received.payload == "whole"
    assert outsider.settled()["segment_store_failures"] >= 1
    other.close()
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
    assert isinstance(engine(billing)._context.policy, AccessPolicy)
    engine(billing)._context.policy.deny("analytics")
    outsider.write(segments[2:])
    assert billing.receive(timeout=0.5) is None
    assert counters(billing)["unauthorised"] >= len(segments) - 2


def test_large_messages_are_a_file_above_a_size_only(make: Make) -> None:
    """G-18."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    analytics.segment("billing", 1 << 20)
    for size, kind in ((FILE_BACKED_BYTES // 2, bytes), (FILE_BACKED_BYTES + 1, io.RawIOBase)):
        analytics.send("billing", bytes(size), timeout=WAIT)
        received = billing.receive(timeout=WAIT)
        assert received is not None
        assert isinstance(received.payload, kind)
        assert len(received.payload) == size
