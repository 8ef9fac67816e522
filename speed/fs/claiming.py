"""Winning a name: the next generation of it, once nobody holds it any more (R-4, R-5, R-26)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from speed.core.lease import Verdict
from speed.core.log import logger
from speed.errors import NameTakenError
from speed.fs import claim
from speed.fs.clock import monotonic_ms
from speed.fs.entry_file import check_reachable
from speed.fs.fence import generation_left, has_unopened_lanes
from speed.fs.floor import floor_of
from speed.fs.identity import boot_id, identity
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.limits import SWEEP_SECONDS, SWEEPING_LEASE_SECONDS

log = logger("speed.registry")

WATCH_SECONDS = 0.05
UNCLEAR_LEASE_MS = 30_000
"""How long a claim without an entry counts if it does not say who made it."""
SWEEPING_LEASE_MS = int(SWEEPING_LEASE_SECONDS * 1000)
"""Far longer than sweeping takes. After so long, another host may take the name."""
SWEEP_LOOK_SECONDS = 0.005
MAX_ATTEMPTS = 64


class Won(NamedTuple):
    """A claim of this process, and the highest generation that was used before; 0 where there was none.

    The claim of who sweeps is ephemeral if the last life of the name was.
    """

    claimant: claim.Claimant
    generation: int
    former: int


@contextlib.contextmanager
def hold(registry: Registry, name: str, *, waits: bool = False) -> Iterator[Won]:
    """Keep everybody from starting under ``name``, to remove what is left of it.

    NameTakenError if it is alive, starting, or, unless this ``waits``, nobody can tell at once.
    """
    won = win(registry, name, claim.Claimant(identity(), SWEEPING_LEASE_MS, sweeps=True), waits=waits)
    try:
        yield won
    finally:
        claim.remove(registry.root, name, won.generation)


def win(registry: Registry, name: str, claimant: claim.Claimant, *, waits: bool = True) -> Won:
    """Claim the next generation of ``name``, or NameTakenError. WireError if the floor is not authentic."""
    for _ in range(MAX_ATTEMPTS):
        newest = registry.newest_generation(name)
        judged = claim.read(registry.root, name, newest, registry.keyring.registry_keys) if newest else None
        entry = _wait_until_stale(registry, name, waits)
        is_claimed = newest and (entry is None or entry.generation < newest)
        if is_claimed and not _is_free(registry, name, newest, waits):
            continue
        if registry.read(name) != entry:
            continue  # published since it was judged: judge that entry
        if newest != registry.newest_generation(name):
            continue
        won = _take(registry, name, newest, judged, claimant, entry)
        if won is not None:
            return won
    raise NameTakenError(f"{name!r} is being claimed by others again and again: try later")


def _take(
    registry: Registry,
    name: str,
    newest: int,
    judged: claim.Claimant | None,
    claimant: claim.Claimant,
    entry: Entry | None,
) -> Won | None:
    """The first claim above ``newest``, which ``judged`` made, what else was used, and the floor.

    None if others were quicker.
    """
    root, keyring = registry.root, registry.keyring
    check_reachable(root, name)
    floor = floor_of(root, name, keyring)
    former = claim.newest_told(root, name, keyring.registry_keys)
    used = _used(registry, name, newest, entry)
    generation = max(used, floor) + 1
    claimant = replace(
        claimant,
        made_ms=monotonic_ms(),
        above=_forgotten(registry, name, newest, former, floor),
        ephemeral=claimant.ephemeral or (claimant.sweeps and former is not None and former.ephemeral),
    )
    if not claim.take(root, name, generation, claimant, keyring.registry_key):
        return None
    if (
        _is_still(registry, name, newest, judged)
        and registry.newest_generation(name) == generation
        and floor_of(root, name, keyring) == floor
    ):
        return Won(claimant, generation, used)
    claim.remove(root, name, generation)  # others were quicker, or it may have been forgotten meanwhile
    return None


def _used(registry: Registry, name: str, newest: int, entry: Entry | None) -> int:
    """The highest generation that a name had: somebody may have removed its claims, but not all else it left."""
    if not newest and entry is None:
        return generation_left(registry.root, name, registry.keyring)
    return newest if entry is None else max(newest, entry.generation)


def _is_still(registry: Registry, name: str, newest: int, judged: claim.Claimant | None) -> bool:
    """Whether claim ``newest`` is the one that was judged: another sweep may have begun under the same number."""
    if not newest:
        return True
    is_there = os.path.lexists(names.claim_path(registry.root, name, newest))
    return is_there and claim.read(registry.root, name, newest, registry.keyring.registry_keys) == judged


def _forgotten(registry: Registry, name: str, newest: int, former: claim.Claimant | None, floor: int) -> int:
    """The generation up to which nothing of a name is accepted any more."""
    if former is None or former.above is None:
        return floor
    unopened = former.ephemeral and has_unopened_lanes(registry.root, name, registry.keyring)
    return newest if former.ephemeral and not unopened else former.above


def _wait_until_stale(registry: Registry, name: str, waits: bool) -> Entry | None:
    """Return the entry once it is absent (None) or stale; NameTakenError when it is live.

    An entry of another host or boot is watched for at most its lease (R-10).
    """
    while True:
        entry, verdict = registry.verdict(name)
        if entry is None or verdict is Verdict.STALE or registry.process_gone(entry):
            return entry
        first = entry if verdict is Verdict.LIVE or not waits else None
        while verdict is Verdict.WATCH and first is None:
            time.sleep(WATCH_SECONDS)  # another host's heartbeat cannot be waited for in any other way
            again, verdict = registry.verdict(name)
            if again != entry:
                first = again
        if first is None:
            continue
        raise NameTakenError(
            f"{name!r} is held by process {first.pid} on {first.host} (generation {first.generation}): "
            "choose another name, or stop that node"
        )


def _is_free(registry: Registry, name: str, generation: int, waits: bool) -> bool:
    """Judge a claim without an entry: a starting node's, a dead one's, or one that left in order (R-5, step 2).

    True once it need not be respected any longer; False where it ended, and another may follow under the same number;
    NameTakenError when it must be respected. A claim that says nothing may be one that its maker has only just created:
    it is read again.
    """
    began, has_told = monotonic_ms(), False
    while True:
        claimant = claim.read(registry.root, name, generation, registry.keyring.registry_keys)
        is_released = claim.is_released(registry.root, name, generation)
        if is_released is None:
            return False
        if is_released or (claimant is not None and claimant.is_dead):
            return True
        if claimant is not None and claimant.identity.boot_id == boot_id():
            if claimant.sweeps and waits and claimant.holds(monotonic_ms()):
                _wait_for_sweeper(registry, name, generation, claimant)
                return False
            _respect_neighbour(registry, name, claimant)
            return True
        if not waits:
            raise NameTakenError(f"{name!r} is claimed by a process that cannot be seen from here")
        lease_ms = UNCLEAR_LEASE_MS if claimant is None else claimant.lease_ms
        entry = registry.read(name)
        if entry is not None and entry.generation >= generation:
            return True
        if registry.newest_generation(name) > generation or monotonic_ms() >= began + lease_ms + registry.late_ms:
            return True
        time.sleep(WATCH_SECONDS)  # the claimant may be on another host: only its entry tells
        if not has_told and monotonic_ms() < began + lease_ms:
            _tell_of_wait(names.claim_path(registry.root, name, generation), name, claimant, lease_ms)
        has_told = True


def _tell_of_wait(path: str, name: str, claimant: claim.Claimant | None, lease_ms: int) -> None:
    """Say once why this start waits, but not about a claim that is just being written."""
    maker = (
        f"is of process {claimant.identity.pid} on {claimant.identity.host}" if claimant else "does not tell its maker"
    )
    log.warning(
        "%s waits up to %d s for its name: the claim %s %s, which may be starting; if nobody is, `chmod 400` it",
        name,
        -(-lease_ms // 1000),
        path,
        maker,
    )


def _respect_neighbour(registry: Registry, name: str, claimant: claim.Claimant) -> None:
    """NameTakenError while another process of this boot claims or holds the name."""
    maker = f"process {claimant.identity.pid} on {claimant.identity.host}"
    if registry.is_unreadable(name):
        raise NameTakenError(
            f"{name!r} is held by {maker}, whose entry this key does not open: use the key of this root"
        )
    if claimant.holds(monotonic_ms()) if claimant.sweeps else not claimant.is_expired(monotonic_ms()):
        raise NameTakenError(f"{name!r} is being claimed by {maker}: try again soon, or choose another name")


def _wait_for_sweeper(registry: Registry, name: str, generation: int, claimant: claim.Claimant) -> None:
    """Wait for a sweep to end. Pushing it aside would let it remove what the new node makes."""
    until = monotonic_ms() + SWEEP_SECONDS * 1000
    while registry.newest_generation(name) == generation and claimant.holds(monotonic_ms()):
        if monotonic_ms() >= until:
            sweeper = claimant.identity.pid
            raise NameTakenError(f"process {sweeper} is removing what is left of {name!r}: try again later")
        time.sleep(SWEEP_LOOK_SECONDS)  # it is gone within milliseconds, and nothing tells
