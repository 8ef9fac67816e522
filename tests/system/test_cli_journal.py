"""``speed journal follow``, ``grep`` and ``export``: records of many lanes, by topic, node and time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.journal.files import call_bytes
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import encode_message
from speed.wire import names
from speed.wire.journal import Subject
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system


class Recorded:
    """A journal that a test writes: each record is numbered in its lane."""

    def __init__(self, root: Path) -> None:
        self._writer = JournalWriter(names.journal_dir(str(root)), root / "speed.key")
        self._numbers: dict[Subject, int] = {}

    def record(self, topic: str, source: str, payload: Any) -> None:
        subject = Subject("topic", topic, source)
        number = self._numbers[subject] = self._numbers.get(subject, 0) + 1
        message = encode_message(
            payload, message_id=f"{source}-{number}", topic=topic, namespace="default", published_at_ms=1
        )
        self._writer.record(subject, [Incoming(number, False, message)])

    def carry(self, subject: Subject, data: bytes) -> None:
        """A record of bytes that the test made itself."""
        self._writer.record(subject, [Incoming(1, False, data)])

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
def recorded(run: Command) -> Iterator[Recorded]:
    made = Recorded(run.root)
    made.record("orders.eu", "shop.1", {"item": "tea"})
    made.record("orders.eu", "shop.2", {"item": "Coffee"})
    made.record("orders.us", "shop.1", {"item": "tea"})
    made.record("stock", "store", {"item": "tea"})
    yield made
    made.close()


def ids(text: str) -> set[str]:
    return {f"{row['subject']} {row['messageId']}" for row in map(json.loads, text.splitlines())}


@pytest.mark.usefixtures("recorded")
def test_records_are_found_by_what_is_in_them_and_whose_they_are(run: Command) -> None:
    assert ids(run("journal", "grep", "tea").out) == {"orders.eu shop.1-1", "orders.us shop.1-1", "stock store-1"}
    assert ids(run("journal", "grep", "tea", "--subject", "orders.*").out) == {
        "orders.eu shop.1-1",
        "orders.us shop.1-1",
    }
    assert ids(run("journal", "grep", "-i", "COFFEE").out) == {"orders.eu shop.2-1"}
    assert ids(run("journal", "grep", ".", "--source", "store").out) == {"stock store-1"}


@pytest.mark.usefixtures("recorded")
def test_a_search_without_a_hit_ends_with_status_1_and_a_wrong_expression_with_2(run: Command) -> None:
    assert run("journal", "grep", "milk").status == 1
    wrong = run("journal", "grep", "(")
    assert (wrong.status, "is no regular expression" in wrong.err) == (2, True)


def test_a_time_leaves_out_what_was_recorded_before(run: Command, recorded: Recorded) -> None:
    assert run("journal", "grep", "tea", "--since", "2100-01-01T00:00:00Z").status == 1
    assert len(ids(run("journal", "grep", "tea", "--since", "2020-01-01").out)) == 3
    wrong = run("journal", "grep", "tea", "--since", "yesterday")
    assert (wrong.status, "2026-07-01T12:00:00Z" in wrong.err) == (2, True)


@pytest.mark.usefixtures("recorded")
def test_records_are_exported_into_a_file_that_is_whole_when_it_is_there(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    told = run("journal", "export", str(file), "--subject", "orders.*", "--json")
    assert told.value == {"file": str(file), "records": 3, "damaged": 0}
    assert ids(file.read_text()) == {"orders.eu shop.1-1", "orders.eu shop.2-1", "orders.us shop.1-1"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.usefixtures("recorded")
def test_nothing_but_an_ordinary_file_is_replaced_by_an_export(run: Command, tmp_path: Path) -> None:
    """A link such as /dev/stdout stays what it is."""
    file = tmp_path / "orders.jsonl"
    link = tmp_path / "link"
    link.symlink_to(file)
    refused = run("journal", "export", str(link))
    assert (refused.status, "is no ordinary file" in refused.err) == (2, True)
    assert link.is_symlink()
    for _ in range(2):
        assert run("journal", "export", str(file)).status == 0


@pytest.mark.usefixtures("recorded")
def test_damage_in_one_lane_is_told_and_the_others_are_exported(run: Command, tmp_path: Path) -> None:
    lanes = {row["subject"]: run.root / "journal" / row["lane"] for row in run("journal", "list", "--json").value}
    (lanes["stock"] / "description").write_bytes(b"damaged")
    (segment,) = lanes["orders.us"].glob("*.segment")
    segment.write_bytes(bytes(one ^ (place == 70) for place, one in enumerate(segment.read_bytes())))
    told = run("journal", "export", str(tmp_path / "all.jsonl"), "--json")
    assert (told.status, told.value["damaged"]) == (1, 2)
    assert all(lanes[one].name in told.err for one in ("stock", "orders.us"))
    assert ids((tmp_path / "all.jsonl").read_text()) == {"orders.eu shop.1-1", "orders.eu shop.2-1"}


def test_who_follows_sees_what_comes_from_then_on_in_new_lanes_too(run: Command, recorded: Recorded) -> None:
    following = run.begin("journal", "follow", "--subject", "orders.*", "--count", "2")
    try:
        until = time.monotonic() + PATIENCE
        while following.poll() is None and time.monotonic() < until:  # it looks at the journal once it has begun
            recorded.record("orders.asia", "shop.3", {"item": "rice"})
            time.sleep(0.05)
        assert following.poll() == 0
    finally:
        following.kill()
        out, _ = following.communicate(timeout=PATIENCE)
    seen = ids(out)
    assert len(seen) == 2
    assert all(one.startswith("orders.asia shop.3-") for one in seen)


@pytest.mark.usefixtures("recorded")
def test_who_follows_since_a_time_sees_what_was_recorded_since(run: Command) -> None:
    told = run("journal", "follow", "--since", "2020-01-01", "--count", "4")
    assert len(ids(told.out)) == 4


TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_what_carries_a_trace_is_found_in_all_lanes_by_time(run: Command, recorded: Recorded) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-01"
    recorded.carry(Subject("calls", "tax", "speedd"), call_bytes("shop", 1_500, "OK", parent))
    recorded.carry(Subject("calls", "rate", "speedd"), call_bytes("shop", 70, "OK"))
    time.sleep(0.002)  # the next record is of a later millisecond
    message = encode_message(
        1, message_id="m-1", topic="orders.eu", namespace="default", published_at_ms=1, traceparent=parent
    )
    recorded.carry(Subject("topic", "orders.eu", "billing"), message)
    for wanted in (TRACE, parent, TRACE.upper()):
        lines = run("trace", wanted).out.splitlines()
        assert [line.split("  ", 2)[1:] for line in lines] == [
            ["b7ad6b7169203331", "shop called speedd tax: OK, 1.5 ms"],
            ["b7ad6b7169203331", "billing published orders.eu: m-1"],
        ]
    rows = [json.loads(line) for line in run("trace", TRACE, "--json").out.splitlines()]
    assert [(row["kind"], row["subject"], row["traceparent"]) for row in rows] == [
        ("calls", "tax", parent),
        ("topic", "orders.eu", parent),
    ]


@pytest.mark.usefixtures("recorded")
def test_a_trace_that_nothing_carries_and_what_is_no_trace_say_so(run: Command) -> None:
    nothing = run("trace", "1" * 32)
    assert (nothing.status, nothing.out) == (1, "")
    assert "Nothing that is recorded carries the trace" in nothing.err
    for wrong in ("orders", "00-zz-1-01", "1" * 31):
        assert run("trace", wrong).status == 2
