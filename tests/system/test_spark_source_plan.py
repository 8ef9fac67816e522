"""How reading a journal is planned: which lanes and records, in which parts, from which offsets. No Spark runs here."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from speed.errors import ConfigurationError, JournalDamagedError, JournalExpiredError, JournalReplacedError
from speed.journal import Journal
from speed.journal.files import call_bytes
from speed.spark.source.format import StreamReader, shares
from speed.spark.source.options import read_options
from speed.spark.source.read import USUAL_PARTITIONS, BatchReader, JournalRows, LanePart, LaneParts, pack
from speed.wire.journal import Subject
from tests.system.journals_for_spark import Recorded

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def parts(recorded: Recorded) -> Callable[..., list[LanePart]]:
    """The parts that a batch with these options reads."""

    def plan(**options: str) -> list[LanePart]:
        reader = BatchReader(read_options({"root": recorded.root, **options}, streaming=False), SCHEMA)
        return [part for task in reader.partitions() for part in task.parts]

    return plan


def stream(recorded: Recorded, **options: str) -> StreamReader:
    return StreamReader(read_options({"root": recorded.root, **options}), SCHEMA)


def rows(reader: StreamReader, start: Any, end: Any) -> int:
    """How many rows a micro-batch reads; reader and parts travel as they do to executors."""
    copy, planned = pickle.loads(pickle.dumps((reader._rows, list(reader.partitions(start, end)))))
    return sum(batch.num_rows for part in planned for batch in copy.read(part))


# --- batches ---


def test_lanes_are_cut_into_parts_that_cover_each_record_once(recorded: Recorded, parts: Any) -> None:
    recorded.topic("a", "p", 2500)
    recorded.topic("b", "p", 10)
    planned = parts(messagesPerPartition="1000")
    covered = [(part.lane.subject, number) for part in planned for number in range(part.start, part.end)]
    assert sorted(covered) == sorted([("a", n) for n in range(2500)] + [("b", n) for n in range(10)])
    assert max(part.end - part.start for part in planned) <= 1000


def test_many_small_lanes_share_few_tasks_and_each_record_comes_once_and_in_the_order_of_its_lane(
    recorded: Recorded,
) -> None:
    for number in range(100):
        recorded.topic("a", f"p{number}", 3)
    schema = pa.schema([("source", pa.string()), ("offset", pa.int64())])
    reader = StreamReader(read_options({"root": recorded.root, "maxPartitions": "7"}), schema)
    tasks = reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))
    assert len(tasks) == 7
    read = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    for number in range(100):
        assert [row["offset"] for row in read if row["source"] == f"p{number}"] == [0, 1, 2]
    assert len(read) == 300


def test_a_long_lane_is_not_packed_with_many_others(recorded: Recorded) -> None:
    recorded.topic("long", "p", 5000)
    for number in range(20):
        recorded.topic("short", f"p{number}", 1)
    reader = BatchReader(read_options({"root": recorded.root, "maxPartitions": "3"}, streaming=False), SCHEMA)
    lanes = sorted((len(task.parts), max(part.rows for part in task.parts)) for task in reader.partitions())
    assert lanes == [(1, 5000), (10, 1), (10, 1)]


def test_without_the_option_small_lanes_are_bounded_and_long_lanes_have_as_many_tasks_as_they_need(
    recorded: Recorded,
) -> None:
    recorded.topic("a", "p", 1)
    (lane,) = recorded.journal.lanes()
    options = read_options({"root": recorded.root})
    assert len(pack([LanePart(lane, n, n + 1) for n in range(4096)], options)) == USUAL_PARTITIONS
    many = USUAL_PARTITIONS * 3
    full = [LanePart(lane, n * 100_000, (n + 1) * 100_000) for n in range(many)]
    assert len(pack(full, options)) == many


def test_a_micro_batch_that_runs_again_has_the_same_tasks(recorded: Recorded) -> None:
    """Rows that are written keep their message ids, which count within a task."""
    for number in range(30):
        recorded.topic("a", f"p{number}", number + 1)
    end = stream(recorded).latestOffset({}, ReadAllAvailable())
    turned = dict(reversed(end.items()))
    options = {"maxPartitions": "4"}
    assert stream(recorded, **options).partitions({}, end) == stream(recorded, **options).partitions({}, turned)


@pytest.mark.parametrize("given", ["0", "-1", "many"])
def test_a_number_of_tasks_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"maxPartitions is .*at least 1"):
        read_options({"root": "/nowhere", "maxPartitions": given})


@pytest.mark.parametrize(
    ("options", "subjects"),
    [
        ({"topic": "a.*"}, {"a.x", "a.y"}),
        ({"inbox": "orders"}, {"orders"}),
        ({"source": "q"}, {"a.y"}),
        ({"topic": "c"}, set()),
    ],
)
def test_options_choose_lanes_too(recorded: Recorded, parts: Any, options: dict[str, str], subjects: set[str]) -> None:
    recorded.topic("a.x", "p", 5)
    recorded.topic("a.y", "q", 5)
    recorded.topic("b", "p", 5)
    recorded.inbox("orders", "p", 5)
    assert {part.lane.subject for part in parts(**options)} == subjects


def test_blocks_before_the_time_that_is_asked_for_are_not_read(recorded: Recorded, parts: Any) -> None:
    recorded.topic("a", "p", 100)
    journal = recorded.journal
    (lane,) = journal.lanes()
    (*_, last) = journal.read(lane.id, 0, 100)
    while True:  # until the clock of the journal has gone on
        recorded.topic("a", "p", 1)
        (*_, newest) = journal.read(lane.id, 100, journal.end(lane.id))
        if newest.recorded_at_ms > last.recorded_at_ms:
            break
    (part,) = parts(startingTimestamp=str(last.recorded_at_ms + 1))
    assert part.start >= 100
    assert parts(startingTimestamp=str(last.recorded_at_ms + 86_400_000)) == []


def test_records_after_the_time_that_is_asked_for_are_not_given(recorded: Recorded) -> None:
    recorded.topic("a", "p", 10)
    early = datetime.now(timezone.utc) - timedelta(hours=1)
    reader = BatchReader(
        read_options({"root": recorded.root, "endingTimestamp": early.isoformat()}, streaming=False), SCHEMA
    )
    assert [batch for part in reader.partitions() for batch in reader.read(part)] == []


def test_a_batch_reads_the_range_that_its_options_name(recorded: Recorded, parts: Any) -> None:
    for topic in ("a", "b"):
        recorded.topic(topic, "p", 50)
    lane = next(one for one in recorded.journal.lanes() if one.subject == "a").id
    planned = parts(startingOffsets=f'{{"{lane}": 10}}', endingOffsets=f'{{"{lane}": 30}}')
    assert sorted((part.lane.subject, part.start, part.end) for part in planned) == [("a", 10, 30), ("b", 0, 50)]


def test_a_batch_reads_what_was_recorded_between_two_times(recorded: Recorded, parts: Any) -> None:
    recorded.topic("a", "p", 10)
    (lane,) = recorded.journal.lanes()
    last = max(record.recorded_at_ms for record in recorded.journal.read(lane.id, 0, 10))
    while time.time() * 1000 <= last + 1:
        pass
    recorded.topic("a", "p", 5)
    assert [(part.start, part.end) for part in parts(startingTimestamp=str(last + 1))] == [(10, 15)]
    (before,) = parts(endingTimestamp=str(last + 1))
    rows = JournalRows(read_options({"root": recorded.root}), SCHEMA).read(LaneParts((before,)))
    assert sum(batch.num_rows for batch in rows) == 10


def test_a_stream_begins_at_the_offsets_that_are_named(recorded: Recorded) -> None:
    for topic in ("a", "b"):
        recorded.topic(topic, "p", 20)
    lane = next(one for one in recorded.journal.lanes() if one.subject == "a").id
    reader = stream(recorded, startingOffsets=f'{{"{lane}": 15}}')
    begin = reader.initialOffset()
    assert rows(reader, begin, reader.latestOffset(begin, ReadAllAvailable())) == 25


# --- streams ---


def test_a_query_begins_at_the_first_kept_record_or_behind_the_last_one(recorded: Recorded) -> None:
    recorded.topic("a", "p", 7)
    (lane,) = recorded.journal.lanes()
    assert stream(recorded).initialOffset() == {lane.id: [0, ""]}
    assert stream(recorded, startingOffsets="latest").initialOffset() == {
        lane.id: [7, recorded.journal.mark(lane.id, 7)]
    }


def test_lanes_that_appear_later_are_read_from_their_beginning(recorded: Recorded) -> None:
    recorded.topic("a", "p", 7)
    reader = stream(recorded, startingOffsets="latest")
    start = reader.initialOffset()
    recorded.topic("a", "p", 2)
    recorded.topic("b", "q", 3)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert rows(reader, start, end) == 5
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert list(reader.partitions(end, end)) == []


def test_a_limit_is_kept_and_everything_is_read_once_in_the_end(recorded: Recorded) -> None:
    for source, count in (("p", 1000), ("q", 10), ("r", 1)):
        recorded.topic("a", source, count)
    reader = stream(recorded, maxMessagesPerTrigger="100")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(100)
    offset, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, limit)) != offset:
        sizes.append(rows(reader, offset, end))
        offset = end
    assert sizes == [100] * 10 + [11]
    assert stream(recorded).getDefaultReadLimit() == ReadAllAvailable()


def test_a_share_of_each_lane_is_taken_so_that_none_starves() -> None:
    assert shares({"a": 990, "b": 10}, 100) == {"a": 99, "b": 1}
    assert shares({"a": 5, "b": 5}, 1) in ({"a": 1, "b": 0}, {"a": 0, "b": 1})
    assert shares({"a": 5}, 10) == {"a": 5}
    assert sum(shares({str(n): n for n in range(50)}, 77).values()) == 77


def test_what_comes_after_a_run_of_available_now_began_is_for_the_next_one(recorded: Recorded) -> None:
    recorded.topic("a", "p", 5)
    reader = stream(recorded)
    reader.prepareForTriggerAvailableNow()
    recorded.topic("a", "p", 5)
    recorded.topic("b", "p", 5)
    end: Any = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert sum(number for number, _ in end.values()) == 5


def expire(root: str) -> tuple[Recorded, str]:
    """A journal whose first records are gone, and the lane."""
    recorded = Recorded(root, max_bytes=1 << 20)
    while True:
        recorded.topic("a", "p", 100, payload=b"x" * 1000)
        (lane,) = recorded.journal.lanes()
        if recorded.journal.first(lane.id) > 0:
            return recorded, lane.id


def test_a_checkpoint_older_than_the_retention_is_an_error_that_says_what_is_lost(root: str) -> None:
    recorded, lane = expire(root)
    first, end = recorded.journal.first(lane), recorded.journal.end(lane)
    with pytest.raises(JournalExpiredError, match=f"{first - 3} messages of topic a from p .*failOnDataLoss") as raised:
        stream(recorded).partitions({lane: 3}, {lane: end})
    assert raised.value.first == first
    recorded.close()


def test_a_query_may_go_on_behind_what_the_retention_removed(root: str, caplog: pytest.LogCaptureFixture) -> None:
    recorded, lane = expire(root)
    first, end = recorded.journal.first(lane), recorded.journal.end(lane)
    reader = StreamReader(
        read_options({"root": root, "failOnDataLoss": "false"}), pa.schema([("payload", pa.binary())])
    )
    assert rows(reader, {lane: 3}, {lane: end}) == end - first
    assert f"{first - 3} messages of topic a from p" in caplog.text
    recorded.close()


def test_records_that_expire_between_planning_and_reading_are_an_error_of_the_task(root: str) -> None:
    recorded, lane = expire(root)
    reader = stream(recorded)
    info = recorded.journal.lane(lane)
    with pytest.raises(JournalExpiredError):
        list(reader.read(LaneParts((LanePart(info, 0, 10),))))
    recorded.close()


def test_damage_is_an_error_unless_the_query_may_go_on(
    recorded: Recorded, parts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        recorded.topic("a", "p", 10)  # a block each
    (lane,) = recorded.journal.lanes()
    (segment,) = Path(recorded.root, "journal", lane.id).glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    (part,) = parts()
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(JournalDamagedError):
        list(JournalRows(read_options({"root": recorded.root}), schema).read(LaneParts((part,))))
    tolerant = JournalRows(read_options({"root": recorded.root, "failOnDataLoss": "false"}), schema)
    numbers = [n for batch in tolerant.read(LaneParts((part,))) for n in batch["n"].to_pylist()]
    assert numbers == [*range(10), *range(20, 30)]
    assert "10 messages of topic a from p are damaged" in caplog.text


def test_the_call_log_is_a_stream_too_and_never_mixed_with_messages(recorded: Recorded) -> None:
    recorded.topic("half", "p", 5)
    for caller in ("a", "b", "c"):
        recorded.raw(Subject("calls", "half", "speedd"), call_bytes(caller, 70, "OK"))
    schema = pa.schema(
        [("caller", pa.string()), ("microseconds", pa.int64()), ("answered_at", pa.timestamp("us", "UTC"))]
    )
    reader = StreamReader(read_options({"root": recorded.root, "calls": "true"}), schema)
    start = reader.initialOffset()
    (part,) = reader.partitions({}, reader.latestOffset(start, ReadMaxRows(2)))
    (batch,) = reader.read(part)
    assert batch["caller"].to_pylist() == ["a", "b"]
    assert batch["microseconds"].to_pylist() == [70, 70]
    assert rows(stream(recorded), {}, stream(recorded).latestOffset({}, ReadAllAvailable())) == 5


# --- journals that were made anew, restored, cut or damaged ---


def everything(reader: StreamReader, start: Any) -> tuple[Any, int]:
    """What a micro-batch without a limit reaches and reads."""
    end = reader.latestOffset(start, ReadAllAvailable())
    return end, rows(reader, start, end)


def tolerant(recorded: Recorded) -> StreamReader:
    return stream(recorded, failOnDataLoss="false")


def read_then_replaced(root: str, *, keep: int, grow: int) -> tuple[Recorded, Any]:
    """A query read 250 messages; then the journal was one of ``keep`` messages, of before or made anew, and grew."""
    recorded, journal, copy = Recorded(root), Path(root, "journal"), Path(root, "copied")
    if keep:
        recorded.topic("a", "p", keep)
    shutil.copytree(journal, copy)
    recorded.topic("a", "p", 250 - keep)
    read, _ = everything(stream(recorded), {})
    recorded.close()
    shutil.rmtree(journal)
    shutil.copytree(copy, journal)
    recorded = Recorded(root)
    recorded.skip("a", "p", 1000)
    recorded.topic("a", "p", grow)
    return recorded, read


@pytest.mark.parametrize(("keep", "grow"), [(0, 250), (50, 200), (50, 201), (50, 10)])
def test_a_checkpoint_of_another_journal_is_an_error_and_no_message_is_skipped(root: str, keep: int, grow: int) -> None:
    """J-13: whether the journal was made anew or restored, and has grown to the checkpoint, beyond it, or not."""
    recorded, read = read_then_replaced(root, keep=keep, grow=grow)
    with pytest.raises(JournalReplacedError, match="failOnDataLoss=false"):
        everything(stream(recorded), read)
    reader = tolerant(recorded)
    end, count = everything(reader, read)
    assert count == keep + grow, "all of it, from the beginning"
    assert everything(stream(recorded), end) == (end, 0), "and then it is as any other"
    recorded.close()


def test_going_on_in_a_restored_journal_says_how_many_messages_may_come_again(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorded, read = read_then_replaced(root, keep=50, grow=10)
    everything(tolerant(recorded), read)
    assert "250 messages that were read may come again" in caplog.text
    recorded.close()


def test_a_cut_lane_is_an_error_or_its_lost_messages_are_counted_and_other_lanes_go_on(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    """J-12."""
    for source in ("p", "q"):
        recorded.topic("a", source, 20)
        recorded.topic("a", source, 10)
    lanes = {lane.source: lane.id for lane in recorded.journal.lanes()}
    (segment,) = Path(recorded.root, "journal", lanes["p"]).glob("*.segment")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: whole.rfind(b"SPJB")])
    with pytest.raises(JournalDamagedError, match="written to offset 30, and ends at 20"):
        everything(stream(recorded), {})
    end, count = everything(tolerant(recorded), {})
    assert count == 20 + 30
    assert "10 messages of topic a from p are damaged" in caplog.text
    strict = stream(recorded)
    strict.prepareForTriggerAvailableNow()
    assert everything(strict, end) == (end, 0), "what was given up once stops no query again"


def test_a_damaged_description_is_an_error_or_counted_once_and_other_lanes_go_on(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    """J-2."""
    recorded.topic("a", "p", 10)
    recorded.topic("b", "p", 20)
    lanes = {lane.subject: lane.id for lane in recorded.journal.lanes()}
    path = Path(recorded.root, "journal", lanes["a"], "description")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalDamagedError, match=f"{lanes['a']}.*failOnDataLoss=false"):
        everything(stream(recorded), {})
    reader = tolerant(recorded)
    end, count = everything(reader, {})
    assert (list(end), count) == ([lanes["b"]], 20)
    everything(reader, end)
    assert caplog.text.count("1 lanes are damaged and not read") == 1
    batch = BatchReader(read_options({"root": recorded.root, "failOnDataLoss": "false"}, streaming=False), SCHEMA)
    assert {part.lane.subject for task in batch.partitions() for part in task.parts} == {"b"}


def removed(root: str) -> tuple[Recorded, str]:
    """A journal of which retention removed a lane of 10 messages."""
    recorded = Recorded(root, max_bytes=1 << 20)
    recorded.topic("a", "p", 10, payload=b"x" * 1000)
    (lane,) = recorded.journal.lanes()
    while recorded.journal.removed() == {}:
        recorded.topic("b", "p", 100, payload=b"x" * 1000)
    return recorded, lane.id


def test_a_lane_that_was_read_to_its_end_may_be_removed_and_leaves_the_checkpoint(root: str) -> None:
    """J-14."""
    recorded, lane = removed(root)
    end = stream(recorded).latestOffset({lane: [10, "00" * 12]}, ReadAllAvailable())
    assert [recorded.journal.lane(one).subject for one in end] == ["b"]
    recorded.close()


def test_a_lane_that_is_removed_while_lanes_are_looked_at_ends_no_query(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-14: the list of lanes is older than their files."""
    recorded = Recorded(root, max_bytes=1 << 20)
    recorded.topic("a", "p", 10, payload=b"x" * 1000)
    before = recorded.journal.survey()
    while recorded.journal.removed() == {}:
        recorded.topic("b", "p", 100, payload=b"x" * 1000)
    monkeypatch.setattr(Journal, "survey", lambda journal: before)
    reader = stream(recorded)
    assert reader.initialOffset() == {}
    assert stream(recorded, startingOffsets="latest").initialOffset() == {}
    assert reader.latestOffset({}, ReadAllAvailable()) == {}
    assert list(BatchReader(read_options({"root": root}, streaming=False), SCHEMA).partitions()) == []
    recorded.close()


def test_a_lane_that_was_removed_before_it_was_read_is_an_error_that_says_how_much_is_lost(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    """J-14."""
    recorded, lane = removed(root)
    with pytest.raises(JournalExpiredError, match="7 messages were not read yet"):
        stream(recorded).latestOffset({lane: [3, ""]}, ReadAllAvailable())
    assert lane not in tolerant(recorded).latestOffset({lane: [3, ""]}, ReadAllAvailable())
    assert "7 messages were not read yet" in caplog.text
    recorded.close()


# --- compressed payloads ---


def compressed(recorded: Recorded, encoding: str, count: int, payload: bytes) -> None:
    from speed.message.compression import compress
    from speed.message.writing import MessageIds, encode_message

    for message_id in MessageIds(encoding).take(0, count):
        message = encode_message(
            compress(encoding, payload),
            topic="t",
            namespace="default",
            message_id=message_id.decode(),
            published_at_ms=1_700_000_000_000,
            content_type="application/json",
            content_encoding=encoding,
            uncompressed_bytes=len(payload),
        )
        recorded.raw(Subject("topic", "t", "p"), message)


def batches(recorded: Recorded) -> list[pa.RecordBatch]:
    options = read_options({"root": recorded.root}, streaming=False)
    reader = BatchReader(options, SCHEMA)
    return [batch for task in reader.partitions() for batch in reader.read(task)]


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "lz4", "snappy"])
def test_fields_of_compressed_payloads_are_columns(recorded: Recorded, encoding: str) -> None:
    compressed(recorded, encoding, 3, b'{"n": 7}')
    assert [row["n"] for batch in batches(recorded) for row in batch.to_pylist()] == [7, 7, 7]


def test_payloads_that_would_fill_the_memory_come_in_smaller_batches(recorded: Recorded) -> None:
    compressed(recorded, "zstd", 5, b'{"n": 7, "x": "' + b" " * (24 << 20) + b'"}')
    found = batches(recorded)
    assert sum(batch.num_rows for batch in found) == 5
    assert max(batch.num_rows for batch in found) == 2


@pytest.mark.parametrize(
    ("encoding", "size", "says"),
    [
        ("brotli", 9, "its encoding, brotli, is not read here; read it as binary"),
        ("gzip", 9, "payload: does not decompress to the 9 bytes that it says"),
        ("gzip", 1 << 31, "uncompressed_bytes: is 2147483648, allowed are 1 to"),
    ],
)
def test_a_payload_that_cannot_be_decompressed_is_named(
    recorded: Recorded, encoding: str, size: int, says: str
) -> None:
    from speed.message.writing import encode_message, new_message_id
    from speed.spark.source.columns import PayloadError

    recorded.raw(
        Subject("topic", "t", "p"),
        encode_message(
            b"x",
            topic="t",
            namespace="default",
            message_id=new_message_id(1_700_000_000_000, bytes(16)),
            published_at_ms=1_700_000_000_000,
            content_type="application/json",
            content_encoding=encoding,
            uncompressed_bytes=size,
        ),
    )
    with pytest.raises(PayloadError, match=says):
        batches(recorded)


# --- batches of payloads ---


def batch_of(recorded: Recorded, payloads: list[Any], encoding: str = "none", cut: int | None = None) -> None:
    from speed.message.compression import compress
    from speed.message.options import encode_batch
    from speed.message.writing import encode_message, new_message_id

    data = bytes(encode_batch(payloads).data[:cut])
    said = {} if encoding == "none" else {"content_encoding": encoding, "uncompressed_bytes": len(data)}
    message = encode_message(
        data if encoding == "none" else compress(encoding, data),
        topic="t",
        namespace="default",
        message_id=new_message_id(1_700_000_000_000, bytes(16)),
        published_at_ms=1_700_000_000_000,
        content_type="application/x-speed-batch",
        **said,
    )
    recorded.raw(Subject("topic", "t", "p"), message)


BATCH_SCHEMA = pa.schema([("offset", pa.int64()), ("batch_index", pa.int32()), ("n", pa.int64())])


def read_rows(recorded: Recorded, schema: pa.Schema = BATCH_SCHEMA, **options: str) -> list[tuple[Any, ...]]:
    reader = BatchReader(read_options({"root": recorded.root, **options}, streaming=False), schema)
    found = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("encoding", ["none", "zstd"])
def test_each_payload_of_a_batch_is_a_row(recorded: Recorded, encoding: str) -> None:
    recorded.topic("t", "p", 1)
    batch_of(recorded, [{"n": 5}, {"n": 6}], encoding)
    batch_of(recorded, [])
    recorded.topic("t", "p", 1)
    assert read_rows(recorded) == [(0, None, 0), (1, 0, 5), (1, 1, 6), (3, None, 1)]


def test_payloads_of_a_batch_have_types_of_their_own(recorded: Recorded) -> None:
    batch_of(recorded, ["a text", b"bytes"])
    schema = pa.schema([("content_type", pa.string()), ("payload", pa.binary())])
    assert read_rows(recorded, schema) == [("text/plain", b"a text"), ("application/octet-stream", b"bytes")]


def test_a_batch_that_is_none_is_named_or_null(recorded: Recorded) -> None:
    from speed.spark.source.columns import PayloadError

    batch_of(recorded, [{"n": 5}, {"n": 6}], cut=-1)
    with pytest.raises(PayloadError, match="offset 0: a payload of the batch reaches past its end; onError=null"):
        read_rows(recorded)
    assert read_rows(recorded, onError="null") == [(0, None, None)]


def test_a_payload_of_a_batch_that_does_not_fit_is_named_by_its_message(recorded: Recorded) -> None:
    from speed.spark.source.columns import PayloadError

    batch_of(recorded, [{"n": 5}, {"n": "text"}])
    batch_of(recorded, [{"n": 6}])
    with pytest.raises(PayloadError, match="offset 0: the payload"):
        read_rows(recorded)
    assert read_rows(recorded, onError="null") == [(0, 0, 5), (0, 1, None), (1, 0, 6)]


# --- durable topics ---


def test_a_payload_of_a_durable_topic_that_cannot_be_read_is_named_or_null(recorded: Recorded) -> None:
    """No host keeps such a one; whoever has the key could write it."""
    from speed.spark.source.columns import PayloadError
    from speed.wire.topic import RecordHead, encode

    for payload in (b"\x81\xa1n\x01", b"\xa5cut", b"\xa2\xff\xff"):
        recorded.raw(Subject("topic", "orders", "speedd.topics"), encode(RecordHead(), {"publisher": "p"}, payload))
    of_topics = {"durableTopic": "orders", "journal": f"{recorded.root}/journal"}
    whole = pa.schema([("offset", pa.int64()), ("payload", pa.binary())])
    assert read_rows(recorded, whole, **of_topics)[1:] == [(1, b"\xa5cut"), (2, b"\xa2\xff\xff")]
    fields = pa.schema([("offset", pa.int64()), ("n", pa.int64())])
    with pytest.raises(PayloadError, match=r"offset 1: the payload .* does not fit"):
        read_rows(recorded, fields, **of_topics)
    assert read_rows(recorded, fields, onError="null", **of_topics) == [(0, 1), (1, None), (2, None)]
