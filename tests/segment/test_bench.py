"""The bench of segments does what it says, on small payloads."""

from __future__ import annotations

import random

import pytest

from bench import segment, segment_others
from bench.figure import Figure, line
from speed.segment import Splitter


def test_figures_are_reached_or_not_by_wall_or_processor_time() -> None:
    assert Figure("x", 100, "MB/s", 150, processor=160).reached
    assert not Figure("x", 100, "MB/s", 150, processor=140).reached
    assert not Figure("x", 100, "MiB", 64, most=True).reached
    assert "NOT reached" in line(Figure("x", 100, "MiB", 64, most=True))


def test_what_other_languages_print_stands_beside_their_targets() -> None:
    told = "Keccak-256 alone    372 MB/s\nsegments with parity 0.125, hash apart  999 MB/s\n"
    alone, coded = segment_others.figures("C++", told)
    assert (alone.name, alone.value, alone.target) == ("C++: Keccak-256 alone", 372, None)
    assert not coded.reached
    with pytest.raises(ValueError, match="no figure"):
        list(segment_others.figures("C++", "Segmentation fault"))


def test_what_is_measured_is_put_together_again() -> None:
    segment.lossy(Splitter(64), random.Random(4).randbytes(5000))
    segment.cut_only(Splitter(64, 0), bytes(1000))


def test_a_flood_is_held_within_the_limits() -> None:
    assert segment.flooded(200).value <= 16
