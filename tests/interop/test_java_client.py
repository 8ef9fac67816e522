"""The example client in Java, a program of its own, calls services in C++, Java and Python."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.interop.languages import LANGUAGES, ROOT
from tests.interop.test_flights import Hosted

CLIENT = [str(ROOT / "bindings" / "java" / "bin" / "speed-java"), "speed.examples.Client"]
JFK, LAX = (40.6413, -73.7781), (33.9416, -118.4085)
PLACE = "lat1", "lon1", "lat2", "lon2"


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    for language in LANGUAGES.values():
        language.check_built()
    hosted = Hosted("speedd.toml")
    try:
        yield hosted
    finally:
        hosted.close()


def test_the_java_client_gets_the_answers_of_all_three_languages(hosted: Hosted) -> None:
    """S-8, W-15: what it prints is what a Python node is told."""
    environment = dict(os.environ, SPEED_ROOT=hosted.root, SPEED_KEY=f"{hosted.root}/speed.key")
    printed = subprocess.run(CLIENT, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout
    for service, language in (("geo", "c++"), ("rules", "java"), ("model", "python")):
        assert f"{service} is written in {language}\n" in printed
    miles = hosted.answer("geo", "distance", dict(zip(PLACE, JFK + LAX, strict=True)))
    assert f"JFK to LAX: {miles:.1f} miles\n" in printed
    owed = hosted.answer("rules", "compensation", {"delay_minutes": 240, "distance_miles": miles, "cancelled": False})
    assert f"four hours late: {owed['amount']} euros ({owed['category']})\n" in printed
    assert re.search(r"all pairs: \d+\.\d miles\n", printed)
    assert "model: rmse 0.000000, f(10) = 21.000\n" in printed
