"""The price service of examples/pricing: three processes, a typed client, and one that is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.system.documents import PATIENCE, REPOSITORY

pytestmark = pytest.mark.system


def test_the_price_service_answers_from_three_processes_whoever_is_killed() -> None:
    command = [sys.executable, "-m", "examples.pricing.shop"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "three apples cost 1.20",
        "no price of a melon",
        "processes that answered: 3",
        "a hundred pears cost 55.00 whoever is killed",
        "processes that one key went to: 1",
    ]
