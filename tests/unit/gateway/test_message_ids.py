"""Ids of messages, as Pulsar encodes them."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.gateway import frames
from speed.gateway.frames import REPEATED, MessageId, ledger_of, read


def test_an_id_is_written_as_pulsar_writes_it() -> None:
    assert MessageId(0, 3).text() == "CAAQAw=="


@pytest.mark.parametrize("text", ["CAMQADAA", "CAMQAA==", "CAMQAA", "CAMQACAAGAAwAA=="])
def test_what_pulsar_adds_to_an_id_is_passed_over(text: str) -> None:
    assert read(text) == MessageId(3, 0)


def test_fields_of_every_kind_are_passed_over() -> None:
    more = b"\x3a\x02ab" + b"\x41" + bytes(8) + b"\x4d" + bytes(4)
    assert read(b64encode(b"\x08\x03\x10\x00" + more).decode()) == MessageId(3, 0)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
def test_what_was_written_is_read(ledger: int, entry: int) -> None:
    assert read(MessageId(ledger, entry).text()) == MessageId(ledger, entry)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x08", b"\x08\x01", b"\x10\x01", b"\x08\x01\x10", b"\x08\x01\x10" + b"\xff" * 11, b"\x0b", b"\x3a\x09a"],
)
def test_bytes_that_are_no_id_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(b64encode(data).decode())


@pytest.mark.parametrize("text", ["?", "ä", "a" * 5000, "CAAQAw==="])
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(text)


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        read(text)
    except ValueError:
        pass


def test_the_ledger_is_half_of_the_lane_and_never_that_of_a_repetition() -> None:
    assert ledger_of("f" * 32) == (1 << 63) - 1
    assert ledger_of("0" * 15 + "2" + "f" * 16) == 1
    assert REPEATED.ledger > ledger_of("f" * 32)
    assert frames.read(REPEATED.text()) == REPEATED
