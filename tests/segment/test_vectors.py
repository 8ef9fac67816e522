"""registry_spec/vectors/segments.json: the same bytes and the same verdicts in every language (G-n)."""

from __future__ import annotations

import itertools
from functools import cache
from hashlib import sha256
from typing import Any

import pytest

from scripts.vectors.segment_arrivals import LIMITS
from speed.errors import ConfigurationError, WireError
from speed.segment import Assembler, Limits, Splitter, keccak256, read_segment, write_segment
from speed.segment.form import Memory
from speed.segment.parity import Shape, cut
from tests.vectors import case_name, load

VECTORS = load("segments")
CUT = {case["name"]: case for case in VECTORS["cut"]}


def payload_of(case: dict[str, Any]) -> bytes:
    """The payload that the file describes, made here once more."""
    told = case["payload"]
    data = bytearray()
    for row, column in itertools.product(range(told["rows"]), range(told["row_bytes"])):
        x = (row * 2654435761 + column * 40503 + 12345) % 2**32
        x ^= x >> 15
        x = x * 2246822519 % 2**32
        data.append((x ^ x >> 13) & 255)
    del data[told["bytes"] :]
    kept = told.get("zeros_from", len(data))
    return bytes(data[:kept]) + bytes(len(data) - kept)


def segments_of(case: dict[str, Any]) -> list[bytes]:
    payload = payload_of(case)
    shape = Shape(len(payload), case["segment_size"], case["data_segment_count"], case["parity_segment_count"])
    return [write_segment(segment) for segment in cut(Memory(payload), shape)]


@cache
def segments_named(name: str) -> list[bytes]:
    return segments_of(CUT[name])


@pytest.mark.parametrize("case", VECTORS["hashes"], ids=case_name)
def test_a_hash_is_that_of_the_vector(case: dict[str, Any]) -> None:
    """G-3."""
    assert keccak256(bytes.fromhex(case["hex"])).hex() == case["hash"]


@pytest.mark.parametrize("case", VECTORS["sizes"], ids=case_name)
def test_a_segment_size_is_a_maximum_that_parity_cuts_down_to_a_multiple_of_64(case: dict[str, Any]) -> None:
    """G-4."""
    if "used" not in case:
        with pytest.raises(ConfigurationError, match="at least 64 with parity, 1 without"):
            Splitter(case["asked"], case["parity_rate"])
    else:
        assert Splitter(case["asked"], case["parity_rate"]).shape(0).segment_size == case["used"]


@pytest.mark.parametrize("case", VECTORS["cut"], ids=case_name)
def test_a_payload_is_cut_into_the_segments_of_the_vector(case: dict[str, Any]) -> None:
    """G-1, G-4 to G-9; seventeen of them as the reference's library makes parity."""
    written = segments_of(case)
    assert len(written) == case["data_segment_count"] + case["parity_segment_count"]
    parity = [bytes(read_segment(data).payload).hex() for data in written[case["data_segment_count"] :]]
    assert parity == case["parity"]
    assert sha256(b"".join(written)).hexdigest() == case["segments_sha256"]
    assert case.get("segments", [data.hex() for data in written]) == [data.hex() for data in written]
    assert read_segment(written[0]).hash.hex() == case["hash"]


def test_the_shapes_of_the_reference_are_all_there() -> None:
    """G-6: the seventeen whose parity was taken from Leopard-RS itself, that of the wide field included."""
    shapes = {(case["data_segment_count"], case["parity_segment_count"]) for case in CUT.values() if case["reference"]}
    assert len(shapes) == 17
    assert {(226, 28), (200, 25), (8, 1), (1, 1)} <= shapes


@pytest.mark.parametrize("case", VECTORS["also_read"], ids=case_name)
def test_other_spellings_are_read(case: dict[str, Any]) -> None:
    """G-1."""
    segment = read_segment(bytes.fromhex(case["hex"]))
    told = case["segment"]
    assert (segment.hash.hex(), bytes(segment.payload).hex()) == (told["hash"], told["payload"])
    assert (segment.data_count, segment.parity_count) == (told["data_count"], told["parity_count"])
    assert (segment.index, segment.is_parity) == (told["index"], told["is_parity"])


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_what_is_no_segment_is_refused_and_the_field_is_named(case: dict[str, Any]) -> None:
    """G-2."""
    with pytest.raises(WireError) as caught:
        read_segment(bytes.fromhex(case["hex"]))
    assert caught.value.reason == case["error"]
    assert str(caught.value).startswith(f"{case['error']}: {case['field']}: ")


@pytest.mark.parametrize("story", VECTORS["arrivals"], ids=case_name)
def test_segments_get_the_verdicts_of_the_vector(story: dict[str, Any]) -> None:
    """G-10 to G-16."""
    assembler = Assembler(Limits(**{LIMITS[name]: value for name, value in story.get("limits", {}).items()}))
    for arrival in story["arrivals"]:
        data = segments_named(arrival["of"])[arrival["slot"]] if "of" in arrival else bytes.fromhex(arrival["hex"])
        try:
            verdict, payload = assembler.receive(arrival["from"], data, arrival.get("at", 0))
        except WireError as error:
            verdict, payload = error.reason, None
        assert verdict == arrival["verdict"]
        if "payload" in arrival:
            assert payload == payload_of(CUT[arrival["payload"]])
