"""Sweeping: what nodes that are gone left in a root, removed by whoever comes by (R-26, R-27)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

from speed.core.access import Verdict
from speed.errors import NameTakenError
from speed.fs import claim
from speed.fs.claim import raise_floor
from speed.fs.committed import nodes_in
from speed.fs.registration import hold
from speed.fs.registry import Registry
from speed.wire import names


class Leftovers:
    """Names that something may be left of. Each iteration looks through the registry once; not thread-safe.

    None stands for a name that is left alone: whoever has other things to do may do them between any two names.
    Entries that were written in the last ``untouched_seconds`` are not read: most nodes are alive.
    """

    def __init__(self, registry: Registry, untouched_seconds: float = 0.0) -> None:
        self._registry = registry
        self._untouched_seconds = untouched_seconds
        self._ordinary: dict[str, int] = {}
        """Generations that were looked at, and stay."""

    def __iter__(self) -> Iterator[str | None]:
        claims = claim.newest_of_all(self._registry.root)
        for name in self._registry.names():
            claims.pop(name, None)
            is_untouched = _untouched_for(names.entry_path(self._registry.root, name)) >= self._untouched_seconds
            yield name if is_untouched else None
        self._ordinary = {name: newest for name, newest in self._ordinary.items() if name in claims}
        for name, newest in claims.items():
            if self._ordinary.get(name) == newest:
                continue
            is_short_lived = _is_ephemeral(self._registry, name, newest)
            if not is_short_lived:
                self._ordinary[name] = newest
            yield name if is_short_lived else None


def written_within(registry: Registry, seconds: float) -> int:
    """How many entries were written in the last ``seconds``: those of live nodes, and of few others."""
    paths = (names.entry_path(registry.root, name) for name in registry.names())
    return sum(_untouched_for(path) < seconds for path in paths)


def _untouched_for(path: str) -> float:
    """Seconds since a file was written, by the wall clock: good for a hint only."""
    try:
        return abs(time.time() - os.lstat(path).st_mtime)
    except OSError:
        return 0.0


def sweep(registry: Registry, name: str) -> bool:
    """Remove an entry that has been stale for a lease, or all of a name that does not come back; whether it was.

    OSError, StorageError or WireError if it cannot be done now: it is done another time, from wherever it ended.
    """
    if not is_forgettable(registry, name):
        entry = registry.read(name)
        goes_alone = entry is not None and not entry.ephemeral and registry.is_abandoned(name)
        return goes_alone and registry.remove_stale_entry(name)
    try:
        return forget(registry, name)
    except NameTakenError:
        return False  # somebody else sweeps, or starts


def is_forgettable(registry: Registry, name: str) -> bool:
    """Whether the last life of a name was ephemeral, and is over."""
    newest = registry.newest_generation(name)
    if not _is_ephemeral(registry, name, newest):
        return False
    entry, verdict = registry.verdict(name)
    if entry is not None and entry.generation == newest:
        return verdict is Verdict.STALE or registry.process_gone(entry)
    claimant = claim.read(registry.root, name, newest, registry.keyring.registry_keys)
    return claim.is_released(registry.root, name, newest) is not False or (claimant is not None and claimant.is_dead)


def is_ephemeral(registry: Registry, name: str) -> bool:
    """Whether the last life of a name was ephemeral, also while it is held for sweeping."""
    return _is_ephemeral(registry, name, registry.newest_generation(name))


def _is_ephemeral(registry: Registry, name: str, generation: int) -> bool:
    claimant = claim.read(registry.root, name, generation, registry.keyring.registry_keys) if generation else None
    return claimant is not None and claimant.ephemeral


def forget(registry: Registry, name: str) -> bool:
    """Remove all that is left of an ephemeral name; False while an inbox holds a lane of it.

    NameTakenError if somebody has the name, or takes it.
    """
    with hold(registry, name) as held:
        if not held.claimant.ephemeral:
            return False
        if not _remove_directory(registry.root, name) or has_lanes(registry.root, name):
            return False
        raise_floor(registry.root, name, held.former, registry.keyring)
        registry.remove_stale_entry(name)
        if os.path.lexists(names.entry_path(registry.root, name)):
            return False
        claim.remove_older(registry.root, name, held.generation)
        return True


def _remove_directory(root: str, name: str) -> bool:
    """Remove the directory of a name; False if that is for somebody else to do: another's of the group, or a link."""
    if os.path.islink(names.node_dir(root, name)):
        return False
    try:
        shutil.rmtree(names.node_dir(root, name))
    except FileNotFoundError:
        return True
    except PermissionError:
        return False
    return True


def has_lanes(root: str, name: str) -> bool:
    """Whether any inbox holds a lane of a name; one that cannot be looked into counts as one that does."""
    return any(_is_there(names.lane_dir(root, target, name)) for target in nodes_in(root))


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
