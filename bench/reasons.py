"""Why a target is not reached: where the processor was meanwhile, as a profile made in the same run shows it.

A reason is never written by hand: what is true of one machine and one version is not of the next.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import perf
import stages
from contender import Contender
from contenders.processes import files_directory, resident_kinds
from kinds import MIB, SMALL

PROFILED = {
    "small": ("call", SMALL),
    "cpu_us": ("call", SMALL),
    "pipelined": ("pipeline", SMALL),
    "one_way": ("send", SMALL),
    "batched": ("batch", SMALL),
    "large": ("call", MIB),
}
"""kind of figure -> what is profiled for it, and its payload. Of what waits rather than works there is no profile."""
COUNTS = {"call": 5000, "pipeline": 20_000, "send": 40_000, "batch": 40_000}
LARGER = 50
"""Of large payloads so many times fewer."""
WARM_SHARE = 4
TOLD = 3
Profiles = dict[str, dict[str, float]]
"""contender/what/bytes -> stage -> share, the largest first."""


def add(found: dict[str, Any]) -> None:
    """To each verdict that fails its reason; the profiles themselves go into ``profiles``."""
    profiles: Profiles = found.setdefault("profiles", {})
    seen = found.get("reasons", {})
    for verdict in found["verdicts"]:
        if verdict["verdict"] == "FAIL":
            try:
                verdict["why"] = _reason(verdict["figure"], profiles) or seen.get(verdict["figure"], "")
            except (RuntimeError, OSError) as error:  # such as a system that lets nobody look
                print(f"no profile for {verdict['what']}: {error}", file=sys.stderr)


def _reason(figure: str, profiles: Profiles) -> str:
    """Nothing where no profile speaks of it."""
    kind, _, rest = figure.partition("/")
    name = rest.partition("/")[0]
    if kind in PROFILED and perf.is_there():
        return _processor(profiles, name, *PROFILED[kind])
    return _memory(name) if kind == "resident_mb" else ""


def _processor(profiles: Profiles, name: str, what: str, size: int) -> str:
    """One profile serves all figures of its kind."""
    key = f"{name}/{what}/{size}"
    if key not in profiles:
        samples = _profile(name, what, size)
        if not samples:
            raise RuntimeError(f"perf took no samples of {name}")
        profiles[key] = {stage: number / samples.total() for stage, number in samples.most_common()}
    return f"processor time: {_told(profiles[key])}"


def _told(shares: dict[str, float]) -> str:
    return ", ".join(f"{100 * share:.0f} % {stage}" for stage, share in list(shares.items())[:TOLD])


def _profile(name: str, what: str, size: int) -> collections.Counter[str]:
    count = COUNTS[what] // (LARGER if size == MIB else 1)
    with _pair(name) as pair:
        act = stages.asking(pair, what, size)
        act(count // WARM_SHARE if "java" not in pair.peer.languages else count)
        return stages.shares(pair, act, count)


def _memory(name: str) -> str:
    with _pair(name) as pair:
        kinds = resident_kinds(pair.server.process.pid)
    return ", ".join(f"{megabytes:.1f} MB {kind}" for kind, megabytes in kinds.items())


@contextmanager
def _pair(name: str) -> Iterator[Contender]:
    """Both processes of a contender, for one profile."""
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=files_directory(), ignore_cleanup_errors=True) as work:
        pair = Contender(name, Path(work))
        try:
            yield pair
        finally:
            pair.close()
