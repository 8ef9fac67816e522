"""Many agents reach for one name at one moment."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.interop.harness import Agent, AgentError

START_NS = 200_000_000
"""From telling all racers to the start: long enough for the last of them to be told."""


def race(racers: Iterable[Agent], name: str) -> list[tuple[Agent, int]]:
    """Who says that it won, with its generation; the others must hear NAME_TAKEN, and nothing else."""
    at = time.monotonic_ns() + START_NS
    told = [(racer, racer.tell("race", name=name, at=at)) for racer in racers]
    winners = []
    for racer, number in told:
        try:
            winners.append((racer, racer.answer(number)))
        except AgentError as error:
            assert error.code == "NAME_TAKEN", (name, racer, str(error))
    return winners
