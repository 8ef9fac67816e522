"""A message whose head came before is judged and read as if it had not (M-4 to M-9)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from speed.errors import WireError
from speed.wire import message_known
from speed.wire.message import MessageView, encode_message
from speed.wire.records import varint

ID, OTHER_ID = "018bcfe5-687b-7001-8203-0405060708ff", "018bcfe5-687b-7001-8203-040506070800"
NOW = 1_700_000_000_000
MUTATIONS = 3000
PAYLOAD_RECORD = b"\x9a\x06\x05\x12\x03abc"


@pytest.fixture(autouse=True, params=[1, 1 << 30], ids=["compared at once", "looked up"])
def forget(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(message_known, "_known", {})
    monkeypatch.setattr(message_known, "_usual", None)
    monkeypatch.setattr(message_known, "_OFTEN", request.param)


def message(payload: Any = b"abc", **said: Any) -> bytes:
    fields = {"topic": "orders.created", "namespace": "default", "message_id": ID, "published_at_ms": NOW}
    return encode_message(payload, **{**fields, **said})


def read(data: bytes | memoryview) -> Any:
    """All that a message says, or the refusal."""
    try:
        view = MessageView(data).validate()
    except WireError as error:
        return error.code, str(error)
    ours = (view.message_id, view.published_at_ms, view.topic, view.namespace, view.content_type, view.publisher_id)
    more = (view.priority, view.ttl_seconds, view.correlation_id, view.content_encoding, view.type_url)
    return ours, more, bytes(view.payload_bytes), view.security.SerializeToString(), view.schema.SerializeToString()


def read_in_full(data: bytes) -> Any:
    """The same, of bytes that are never compared with what came before."""
    return read(memoryview(data))


@pytest.mark.parametrize("publisher", [None, "billing"])
@pytest.mark.parametrize("size", [0, 3, 120, 130, 20_000, 3_000_000])
def test_a_message_like_one_before_says_what_is_its_own(publisher: str | None, size: int) -> None:
    read(message(publisher_id=publisher))
    data = message(b"x" * size, publisher_id=publisher, message_id=OTHER_ID, published_at_ms=NOW + 86_400_000)
    assert message_known.recall(data) is not None
    view = MessageView(data).validate()
    assert (view.message_id, view.published_at_ms, len(view.payload_bytes)) == (OTHER_ID, NOW + 86_400_000, size)
    assert read(data) == read_in_full(data)


def test_what_differs_in_more_than_id_time_and_payload_is_not_taken_for_known() -> None:
    read(message())
    for said in ({"topic": "orders.deleted"}, {"priority": 1}, {"publisher_id": "x"}, {"correlation_id": ID}):
        data = message(**said)
        assert message_known.recall(data) is None
        assert read(data) == read_in_full(data)


@pytest.mark.parametrize(
    "more",
    [
        b"\x0a\x26\x0a\x24" + OTHER_ID.encode(),  # a second id, in metadata of its own
        b"\x0a\x07\x20\x80\x80\x80\x80\x80\x01",  # a second time
        b"\x12\x09\x0a\x01a\x22\x04sign",  # a security context with more than a name
        PAYLOAD_RECORD,
    ],
    ids=["id", "time", "security", "payload"],
)
def test_a_head_that_says_something_twice_or_says_more_is_not_remembered(more: bytes) -> None:
    """M-4: of repeated records the last one counts, which is not where a writer has it."""
    plain = message()
    for data in (plain[: -len(PAYLOAD_RECORD)] + more + PAYLOAD_RECORD, plain + more):
        assert read(data) == read_in_full(data)
        assert message_known._known == {}


def test_an_id_twice_in_one_metadata_is_not_remembered() -> None:
    """M-4."""
    plain = message()
    metadata = plain[2 : 2 + plain[1]] + b"\x0a\x24" + OTHER_ID.encode()
    data = b"\x0a" + varint(len(metadata)) + metadata + PAYLOAD_RECORD
    assert read(data)[0][0] == OTHER_ID
    assert message_known._known == {}


def test_a_length_of_more_bytes_than_it_needs_is_not_remembered() -> None:
    """M-4 allows it, and what follows then lies elsewhere."""
    plain = message(topic="a", namespace="\x01" * 60)
    data = b"\x0a" + bytes([plain[1] & 0x7F | 0x80, plain[2] | 0x80, 0]) + plain[3:]
    assert read(data) == read_in_full(data) == read(plain)
    assert len(message_known._known) == 1  # that of the plain one


@pytest.mark.parametrize("publisher", [None, "billing"])
def test_altered_messages_are_judged_as_if_nothing_was_known(publisher: str | None) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = message(publisher_id=publisher)
    for _ in range(MUTATIONS):
        read(whole)  # known, also after others were
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            data[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        assert read(bytes(data)) == read_in_full(bytes(data)), data.hex()


def test_what_is_given_away_is_nobody_elses() -> None:
    read(message(publisher_id="billing"))
    view = MessageView(message(publisher_id="billing", message_id=OTHER_ID)).validate()
    view.security.publisher_id = "forged"
    view.schema.schema_name = "forged"
    assert MessageView(message(publisher_id="billing")).validate().publisher_id == "billing"
    assert MessageView(message(publisher_id="billing")).validate().schema.schema_name == ""


def test_heads_are_remembered_within_a_bound() -> None:
    for number in range(1000):
        read(message(topic=f"t{number}"))
    assert 0 < len(message_known._known) <= 256


def test_a_correlation_id_that_is_empty_is_written() -> None:
    """M-6."""
    assert MessageView(message(correlation_id="")).correlation_id == ""
    assert MessageView(message()).correlation_id is None
