"""Segments that another language cut are put together here, whatever was lost on the way (G-1 to G-11)."""

from __future__ import annotations

import json
import random
import subprocess
from collections import defaultdict
from functools import cache

import pytest

from scripts.vectors.segment_cases import BY_NAME
from speed.segment import Assembler, write_segment
from tests.interop.languages import CHOSEN, LANGUAGES, ROOT

SEED = random.randrange(1 << 32)
PRODUCERS = [name for name in ("cpp", "java") if name in CHOSEN]


@cache
def cut_by(language: str) -> dict[str, list[bytes]]:
    """The segments of each cut of segments.json, as this language writes them."""
    LANGUAGES[language].check_built()
    command = [*LANGUAGES[language].vectors, "segments"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    cuts = defaultdict(list)
    for line in done.stdout.splitlines():
        one = json.loads(line)
        cuts[one["name"]].append(bytes.fromhex(one["hex"]))
    return cuts


@pytest.mark.parametrize("language", PRODUCERS)
def test_the_same_payload_is_cut_into_the_same_bytes(language: str) -> None:
    """G-1, G-3 to G-9."""
    cuts = cut_by(language)
    assert cuts.keys() == BY_NAME.keys()
    for name, case in BY_NAME.items():
        assert cuts[name] == [write_segment(segment) for segment in case.segments()], name


@pytest.mark.parametrize("language", PRODUCERS)
def test_what_another_language_cut_is_put_together_from_any_sufficient_part(language: str) -> None:
    """G-10, G-11."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for name, segments in cut_by(language).items():
        case = BY_NAME[name]
        for _ in range(4):
            some = chance.sample(segments, len(segments) - case.parity)
            assembler = Assembler()
            outcomes = [assembler.receive("a", one, 0) for one in some]
            assert outcomes[-1].payload == case.payload(), name
