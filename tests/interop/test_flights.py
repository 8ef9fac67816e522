"""The services of the flights example in C++ and Java answer as their Python versions do; clients get the answers."""

from __future__ import annotations

import math
import os
import random
import subprocess
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.interop.hosted import START_SECONDS, Hosted
from tests.interop.languages import LANGUAGES, ROOT

CALLS = 300
CLIENTS = {
    "cpp": [str(ROOT / "build" / "cpp" / "examples" / "speed-example-client")],
    "java": [str(ROOT / "bindings" / "java" / "bin" / "speed-java"), "speed.examples.Client"],
}
PRINTED = """\
JFK to LAX: 2469.5 miles
four hours late: delayed, long haul, 600 euros
all pairs: 22710.6 miles
model: rmse 0.000000, f(10) = 21.000
"""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Hosted, Hosted]]:
    """(three languages, Python only)."""
    for language in LANGUAGES.values():
        language.check_built()
    hosted = Hosted("speedd.toml"), Hosted("python-only.toml")
    try:
        assert hosted[0].wait() == {"geo": "c++", "rules": "java"}
        assert hosted[1].wait() == {"geo": "python", "rules": "python"}
        yield hosted
    finally:
        for one in hosted:
            one.close()


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    print("SEED =", seed)
    return random.Random(seed)


def test_distances_of_the_cpp_service_are_those_of_the_python_one(
    both: tuple[Hosted, Hosted], chance: random.Random
) -> None:
    """S-8, S-9, W-15: equal within rounding; the same codes for the same mistakes."""
    compiled, reference = both
    places = [(chance.uniform(-90, 90), chance.uniform(-180, 180)) for _ in range(CALLS)] + [(90.0, 0.0), (0, 180)]
    for (lat1, lon1), (lat2, lon2) in pairwise(places):
        arguments = {"lat1": lat1, "lon1": lon1, "lat2": lat2, "lon2": lon2}
        expected = reference.answer("geo", "distance", arguments)
        assert math.isclose(compiled.answer("geo", "distance", arguments), expected, rel_tol=1e-9)
    fitting = {"lat1": 1.0, "lon1": 2.0, "lat2": 3.0, "lon2": 4.0}
    for wrong in ({"lat1": 91.0}, {"lon2": math.nan}, {"lat2": "north"}, {"colour": 1}):
        arguments = {**fitting, **wrong}
        assert compiled.answer("geo", "distance", arguments) == reference.answer("geo", "distance", arguments), wrong


def test_compensations_of_the_java_service_are_those_of_the_python_one(
    both: tuple[Hosted, Hosted], chance: random.Random
) -> None:
    """S-8, S-9, W-15: equal, at the limits of the table too; the same codes for the same mistakes."""
    compiled, reference = both
    limits = [0.5, 932.05, 932.06, 2174.79, 2174.8, 2174.81, 5000.0]
    cases = [(delay, miles) for delay in (-10.0, 14.9, 15, 179.9, 180, 239.9, 240.0, math.inf) for miles in limits]
    cases += [(chance.uniform(-60, 400), chance.uniform(1, 5000)) for _ in range(CALLS)]
    for delay, miles in cases:
        for cancelled in (True, False):
            arguments = {"delay_minutes": delay, "distance_miles": miles, "cancelled": cancelled}
            expected = reference.answer("rules", "compensation", arguments)
            assert compiled.answer("rules", "compensation", arguments) == expected, arguments
    fitting = {"delay_minutes": 5.0, "distance_miles": 100.0, "cancelled": False}
    for wrong in ({"distance_miles": 0}, {"delay_minutes": math.nan}, {"cancelled": 1}, {"colour": 1}):
        arguments = {**fitting, **wrong}
        expected = reference.answer("rules", "compensation", arguments)
        assert compiled.answer("rules", "compensation", arguments) == expected, wrong


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_in_either_language_calls_geo_in_cpp_rules_in_java_and_model_in_python(
    both: tuple[Hosted, Hosted], language: str
) -> None:
    """S-1, S-2, W-15: numbers, text, lists, nested maps and bytes cross from each language to each other."""
    hosted = both[0]
    hosted.node.wait_for("model", timeout=START_SECONDS)
    done = subprocess.run(
        CLIENTS[language], env=hosted.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr
