"""Credit, windows and envelopes of streams: the published steps (registry_spec/streams.md)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.core.streams import ProgressRate, StreamCredit, StreamWindow
from speed.errors import WireError
from speed.wire import spc
from tests.vectors import case_name, load

VECTORS = load("streams")


@pytest.mark.parametrize("case", VECTORS["credit"], ids=case_name)
def test_who_sends_items_keeps_to_the_credit(case: dict[str, Any]) -> None:
    """S-29."""
    credit = StreamCredit(*case["begins"])
    for step in case["steps"]:
        if step["do"] == "grant":
            credit.grant(step["items"], step["bytes"])
        else:
            assert credit.send(step["bytes"]) is step["gives"], step


@pytest.mark.parametrize("case", VECTORS["windows"], ids=case_name)
def test_who_reads_items_judges_them_and_grants_more(case: dict[str, Any]) -> None:
    """S-29, S-33."""
    window = StreamWindow(case["items"], case["bytes"], is_open=case["open"])
    for step in case["steps"]:
        if step["do"] == "open":
            assert list(window.open()) == step["gives"]
        elif step["do"] == "arrive":
            assert window.arrive(step["number"], step["items"], step["bytes"]).value == step["gives"], step
        else:
            granted = window.process(step["items"], step["bytes"])
            assert (None if granted is None else list(granted)) == step["gives"], step


@pytest.mark.parametrize("case", VECTORS["rates"], ids=case_name)
def test_progress_is_written_seldom_but_for_its_end(case: dict[str, Any]) -> None:
    """S-32."""
    rate = ProgressRate()
    assert [rate.takes(step["done"], step["total"], step["now"]) for step in case["steps"]] == [
        step["gives"] for step in case["steps"]
    ]


@pytest.mark.parametrize("case", VECTORS["parts"], ids=case_name)
def test_envelopes_of_streams_are_read_as_they_were_meant(case: dict[str, Any]) -> None:
    """S-28."""
    payload = bytes.fromhex(case["payload"])
    part = spc.decode_stream(payload)
    assert part.request_id == case["requestId"]
    if "credit" in case:
        assert part.credit == tuple(case["credit"])
        assert spc.encode_credit(part.request_id, *part.credit) == payload
    elif "progress" in case:
        assert part.progress is not None
        assert part.progress._asdict() == case["progress"]
        assert spc.encode_progress(part.request_id, *part.progress) == payload
    else:
        assert (part.number, part.items, part.last, part.items_at) == tuple(
            case[key] for key in ("number", "items", "last", "itemsAt")
        )
        assert len(spc.decode_items(payload, part)) == part.items


@pytest.mark.parametrize("case", VECTORS["refused"], ids=case_name)
def test_what_is_no_envelope_of_a_stream_is_refused(case: dict[str, Any]) -> None:
    """S-28."""
    with pytest.raises(WireError):
        spc.decode_stream(bytes.fromhex(case["payload"]))


@pytest.mark.parametrize("case", VECTORS["requests"], ids=case_name)
def test_a_request_says_what_travels_beside_it(case: dict[str, Any]) -> None:
    """S-27."""
    offer = spc.decode_head(bytes.fromhex(case["payload"])).stream
    assert (None if offer is None else offer._asdict()) == case["stream"]


@pytest.mark.parametrize("case", VECTORS["refused_requests"], ids=case_name)
def test_a_request_that_says_it_wrongly_is_refused(case: dict[str, Any]) -> None:
    """S-27."""
    with pytest.raises(WireError):
        spc.decode_head(bytes.fromhex(case["payload"]))


def test_a_count_that_promises_more_items_than_there_are_is_refused() -> None:
    payload = spc.encode_items("7.1", 0, [b"\x01"])
    lying = payload[:-2] + b"\xdd\x7f\xff\xff\xff" + payload[-1:]
    with pytest.raises(WireError):
        spc.decode_items(lying, spc.decode_stream(lying))
