"""The decoders of all languages agree on bytes that nearly keep the rules; the long run is scripts/fuzz."""

from __future__ import annotations

import os
import random

import pytest

from tests.interop.fuzz import SHOWN, run
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

KNOWN_SEED = 63309841
"""The same cases in every run; the other seed breaks new ground."""
SECONDS = float(os.environ.get("SPEED_FUZZ_SECONDS", "10"))


@pytest.mark.parametrize("seed", [KNOWN_SEED, None], ids=["known seed", "fresh seed"])
def test_altered_bytes_get_the_same_verdict_in_every_language(agents: Agents, seed: int | None) -> None:
    """W-5, W-12, W-14, W-16, R-2, L-14, L-18, S-1, S-2, M-4, M-5: a refusal has the same code everywhere."""
    if seed is None:
        seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    print("SEED =", seed)
    findings = run([agents.shared("server", language) for language in CHOSEN], SECONDS, seed)
    assert findings.cases > 0
    assert not findings.problems, "\n".join(findings.problems[:SHOWN])
