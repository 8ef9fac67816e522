"""Payloads that no envelope holds, and links with a small limit (G-17 to G-20)."""

from __future__ import annotations

import hashlib
import io
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.journal import Journal
from speed.journal.recording import Recorder, RecordingRule
from speed.journal.writer import JournalWriter
from speed.segment import Splitter
from speed.wire.limits import FILE_BACKED_BYTES, MAX_PAYLOAD_BYTES
from speed.wire.names import segments_dir
from tests.system.segments import WAIT, Outsider, counters, message

Make = Callable[..., speed.Node]
LARGE = MAX_PAYLOAD_BYTES + 5_000_000


@pytest.fixture
def big(tmp_path: Path) -> Iterator[Path]:
    """A file that no envelope holds."""
    path = tmp_path / "big"
    source = random.Random(LARGE)
    with open(path, "wb") as file:
        file.writelines(source.randbytes(min(1 << 20, LARGE - begin)) for begin in range(0, LARGE, 1 << 20))
    yield path
    path.unlink()


def digest(file: Any) -> str:
    state = hashlib.sha256()
    while data := file.read(1 << 20):
        state.update(data)
    return state.hexdigest()


# --- large payloads ---


def test_a_file_is_streamed_and_read_as_a_file(make: Make, big: Path) -> None:
    """G-18, G-20: with progress, and nothing of it left behind."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: list[tuple[int, str, str]] = []
    billing.on_message(lambda m: handled.append((m.payload.size, digest(m.payload), m.topic)))
    progress: list[tuple[int, int]] = []
    with open(big, "rb") as file:
        analytics.send(
            "billing",
            file,
            ack=True,
            timeout=WAIT,
            on_progress=lambda *told: progress.append(told),
            options=speed.PublishOptions(topic="big.one"),
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


def test_a_journal_refuses_by_name_what_no_record_holds(make: Make, root: str, tmp_path: Path) -> None:
    """J-6: and records what comes next."""
    key = Path(root, "speed.key")
    journal = Journal(tmp_path / "journal", key)
    with JournalWriter(journal.directory, key) as writer:
        recorded = RecordingRule((), ("billing",), ("analytics",))
        analytics = make("analytics", allow=["billing"])
        recorder = Recorder(writer, recorded, "journal", root=root, key=key, engine=analytics.engine)
        try:
            with pytest.raises(speed.ExecutionFailedError, match="more than a record holds"):
                analytics.send("billing", bytes(LARGE), ack=True, timeout=WAIT)
            analytics.segment("billing", 4096)
            analytics.send("billing", bytes(100_000), ack=True, timeout=WAIT)
        finally:
            recorder.close()
    (lane,) = journal.lanes()
    assert [len(one.view.payload) for one in journal.read(lane.id, 0, journal.end(lane.id))] == [100_000]


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


@pytest.mark.parametrize(("size", "rate"), [(0, 0.0), (63, 0.5), (MAX_PAYLOAD_BYTES, 0.0)])
def test_a_segment_size_that_cannot_be_is_refused(make: Make, size: int, rate: float) -> None:
    """G-4, G-18."""
    with pytest.raises(speed.ConfigurationError):
        make("analytics").segment("billing", size, parity_rate=rate)


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
