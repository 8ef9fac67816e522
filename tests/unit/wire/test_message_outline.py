"""What is told of bytes that are no message: sizes, presence and the id, and nothing else (M-35)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speed.message.reader import outline

ABSENT = "no security, no observability, no schema, no extensions, no payload"


def test_parts_are_told_by_their_sizes_and_the_message_by_its_id() -> None:
    assert outline(b"\x0a\x05\x0a\x03abc") == f"7 bytes: metadata 5, {ABSENT}; message_id 'abc'"


def test_what_is_repeated_is_added_up_and_what_is_unknown_is_counted() -> None:
    assert outline(b"\x0a\x00\x0a\x01\x07\x38\x01") == f"7 bytes: metadata 1, {ABSENT}, 1 unknown; no message_id"


def test_it_is_told_where_reading_ends() -> None:
    assert outline(b"\x0a\x00\x07") == f"3 bytes: metadata 0, {ABSENT}, nothing to be read from byte 2; no message_id"


def test_an_id_is_shown_as_a_log_may_have_it() -> None:
    assert outline(b"\x0a\x05\x0a\x03\x1b\xff\n").endswith("message_id '\\x1b\ufffd\\n'")


def test_what_else_the_metadata_say_is_not_told() -> None:
    assert outline(b"\x0a\x08\x12\x01t\x0a\x03abc") == f"10 bytes: metadata 8, {ABSENT}; message_id 'abc'"


def test_the_payload_is_told_by_its_size_alone() -> None:
    assert outline(b"\x9a\x06\x03abc") == "6 bytes: no metadata, " + ABSENT.replace(
        "no payload", "payload 3; no message_id"
    )


def test_of_many_records_only_the_first_are_looked_at() -> None:
    assert ", 64 unknown, more from byte 128;" in outline(b"\x38\x01" * 100)


@given(st.binary(max_size=200))
def test_any_bytes_have_an_outline(data: bytes) -> None:
    assert outline(data).startswith(f"{len(data)} bytes: ")
