"""Parts of all backends: what is handed over, marks, rows as JSON, the loop."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.backends.backend import BackendAwayError, BackendError, Loop, Outgoing, too_large
from speed.backends.kafka_records import Marks
from speed.backends.records import RowWriter, bytes_of
from speed.errors import PayloadTooLargeError, WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message, has_token, with_security

ID = "0190163d-8694-739b-aea5-966c26f8ad90"
HEAD = {"topic": "orders", "namespace": "n", "message_id": ID, "published_at_ms": 1_718_000_000_000}
TOKEN = b"\x1a\x05token"


def test_what_is_handed_over_has_no_token() -> None:
    """B-1."""
    message = encode_message("x", publisher_id="me", traceparent=f"00-{'a' * 32}-{'b' * 16}-01", **HEAD)
    one = Outgoing.of(with_security(message, TOKEN), "key")
    assert not has_token(one.envelope)
    assert one == Outgoing("orders", "key", message, ID, 1_718_000_000_000, "a" * 32)


def test_what_is_handed_over_is_a_message() -> None:
    """B-1."""
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        Outgoing.of(b"\xff\xff")
    with pytest.raises(WireError, match="metadata"):
        Outgoing.of(b"")


def test_neither_key_nor_payload_is_in_a_text() -> None:
    one = Outgoing.of(encode_message("secret", **HEAD), "secret")
    assert "secret" not in repr(one)
    assert one.trace_id is None


def test_too_large_names_what_to_raise() -> None:
    assert isinstance(too_large("max_payload"), PayloadTooLargeError)


@given(st.permutations(range(8)))
def test_a_mark_is_the_lowest_offset_that_is_not_acknowledged(order: list[int]) -> None:
    """B-5."""
    marks = Marks()
    for offset in range(10, 18):
        marks.deliver(offset)
    assert marks.mark() == 10
    done: set[int] = set()
    for one in order:
        marks.acknowledge(10 + one)
        done.add(one)
        assert marks.mark() == 10 + min(set(range(9)) - done)


def test_an_acknowledgement_of_what_is_not_held_is_left_alone() -> None:
    marks = Marks()
    marks.acknowledge(3)
    marks.deliver(5)
    marks.acknowledge(4)
    marks.acknowledge(6)
    assert marks.mark() == 5
    marks.acknowledge(5)
    marks.acknowledge(5)
    marks.deliver(6)
    assert marks.mark() == 6


def test_offsets_may_have_gaps() -> None:
    """Those of transactions, and of what was compacted."""
    marks = Marks()
    for offset in (5, 9):
        marks.deliver(offset)
    marks.acknowledge(5)
    assert marks.mark() == 9


def test_a_row_says_what_the_message_says() -> None:
    """B-6."""
    message = encode_message({"a": 1}, labels={"region": "eu"}, priority=8, **HEAD)
    told = json.loads(RowWriter().json_of(message))
    assert told["metadata"]["messageId"] == ID
    assert told["metadata"]["topic"] == "orders"
    assert told["observability"]["labels"] == {"region": "eu"}
    again = MessageView(bytes_of(RowWriter().json_of(message))).validate()
    assert (again.payload, again.priority, again.labels) == ({"a": 1}, 8, {"region": "eu"})


def test_a_row_keeps_the_type_of_a_protobuf_payload() -> None:
    """B-6."""
    from google.protobuf.duration_pb2 import Duration

    message = encode_message(Duration(seconds=3), **HEAD)
    assert (
        json.loads(RowWriter().json_of(message))["payload"]["typeUrl"] == "type.googleapis.com/google.protobuf.Duration"
    )
    assert MessageView(bytes_of(RowWriter().json_of(message))).validate().payload.seconds == 3


def test_a_zero_character_has_another_one_in_its_place() -> None:
    """B-6."""
    message = encode_message(1, correlation_id="a\0b\\u0000", **HEAD)
    text = RowWriter().json_of(message)
    assert json.loads(text)["metadata"]["correlationId"] == "a\ufffdb\\u0000"


def test_a_row_that_is_like_another_one_says_what_its_own_message_says() -> None:
    """B-6."""
    writer = RowWriter()
    for number in range(3):
        said = {**HEAD, "message_id": f'{ID}"{number}', "published_at_ms": 1_718_000_000_000 + number}
        for publisher in ("shop", "till"):
            message = encode_message(f"value {number}", publisher_id=publisher, labels={"a": "\0"}, **said)
            assert json.loads(writer.json_of(message)) == json.loads(RowWriter().json_of(message))


@pytest.mark.parametrize("labels", [{"messageId": ID}, {"publishedAtMs": "1718000000000"}], ids=str)
def test_a_label_that_looks_like_the_id_or_the_time_of_a_message_stays(labels: dict[str, str]) -> None:
    """B-6."""
    writer = RowWriter()
    writer.json_of(encode_message(1, labels=labels, **HEAD))
    other = {**HEAD, "message_id": ID.replace("0", "1"), "published_at_ms": 1_718_000_000_001}
    told = json.loads(writer.json_of(encode_message(1, labels=labels, **other)))
    assert told["observability"]["labels"] == labels
    assert told["metadata"]["messageId"] == other["message_id"]


def test_rows_of_many_publishers_hold_few_of_them() -> None:
    """B-6."""
    writer = RowWriter()
    for number in range(40):
        text = writer.json_of(encode_message(1, publisher_id=f"shop-{number}", **HEAD))
        assert json.loads(text)["security"]["publisherId"] == f"shop-{number}"
    assert len(writer._forms) <= 8


@pytest.mark.parametrize(
    "text",
    ["{}x", "[]", "3", '{"metadata": 3}', '{"payload": {"value": "!"}}', '{"payload": 3}', "[" * 100_000],
    ids=lambda text: str(text)[:30],
)
def test_json_of_another_form_is_no_message(text: str) -> None:
    """B-6."""
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        bytes_of(text)


def test_a_loop_runs_coroutines_for_threads() -> None:
    loop = Loop("Test")

    async def name() -> str:
        return threading.current_thread().name

    assert loop.run(name(), 5) == "speed-Test-loop"
    assert loop.run(name(), 5) == "speed-Test-loop"
    loop.close()
    loop.close()
    assert "speed-Test-loop" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(BackendError, match="was closed"):
        loop.run(name(), 5)


def test_what_takes_too_long_is_cancelled() -> None:
    loop, cancelled = Loop("Test"), threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(BackendAwayError, match="in time"):
        loop.run(wait(), 0.05)
    assert cancelled.wait(5)
    loop.close()


def test_what_is_under_way_ends_with_its_loop() -> None:
    loop, begun, ended = Loop("Test"), threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def ask() -> None:
        with pytest.raises(BackendAwayError):
            loop.run(wait(), 30)

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(5)
    loop.close()
    assert ended.wait(5)
    thread.join(5)
    assert not thread.is_alive()
