"""Reading the registry directory: entries as they are now, who is live, what is wrong (R-14 to R-19)."""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple

from speed.core.lease import Tenure, Verdict, judge
from speed.errors import RootError, WireError
from speed.fs import claim as claims
from speed.fs.clock import SYSTEM_CLOCK, Clock
from speed.fs.entry_file import UnacceptableFileError, read_regular, unlink_if_same
from speed.fs.identity import Identity, identity, process_alive
from speed.fs.registration import Registration, register
from speed.fs.root import Modes, prepare_root
from speed.wire import limits, names
from speed.wire.entry import Entry, decode_entry
from speed.wire.seal import Keyring

_RACY_NS = 20_000_000
_TORN_RETRIES = 3
_TEMPORARY_LIFE_NS = 600 * 1_000_000_000


class Problem(NamedTuple):
    """Something in the registry directory that is ignored, and why."""

    file: str
    reason: str


class _Cached(NamedTuple):
    inode: int
    mtime_ns: int
    size: int
    trusted: bool
    entry: Entry


class _Sighting(NamedTuple):
    """Since when (own monotonic ms) an entry or claim has looked like ``mark``."""

    mark: tuple[int, int, str]
    since_ms: int


class Registry:
    """The registry of one root, for one key ring.

    Threads: every method may be called from any thread without a lock; the caches are dicts of immutable
    values, and losing one costs a re-read. `Registration` has its own lock.
    """

    def __init__(self, root: str | os.PathLike[str], keyring: Keyring, clock: Clock = SYSTEM_CLOCK) -> None:
        """Prepares the root (rule R-1). Raises RootError."""
        self.root = os.path.abspath(os.fspath(root))
        self.keyring = keyring
        self.clock = clock
        self.modes: Modes = prepare_root(self.root)
        self.directory = names.registry_dir(self.root)
        self._cache: dict[str, _Cached] = {}
        self._sightings: dict[str, _Sighting] = {}
        self._paths: dict[str, str] = {}
        self._problems: tuple[Problem, ...] = ()
        self.rejected = 0
        """How often a file was ignored because it is no authentic entry."""

    # -- reading --

    def read(self, name: str) -> Entry | None:
        """The entry as on disk now; None when absent or not authentic. One stat when unchanged (R-15)."""
        path = self._paths.get(name)
        if path is None:
            path = self._path(name)
        try:
            return self._current(name, path)
        except (UnacceptableFileError, OSError, WireError):
            self._cache.pop(name, None)
            return None

    def entries(self) -> list[Entry]:
        """Every authentic entry, live or not, by name; refreshes `problems`."""
        found: list[Entry] = []
        problems: list[Problem] = []
        for file in self._listed():
            if file.startswith("."):  # temporary files and the claims
                continue
            name = names.parse_entry_file(file)
            if name is None:
                problems.append(Problem(file, "not the name of an entry"))
                continue
            try:
                found.append(self._current(name, self._path(name)))
            except FileNotFoundError:
                continue
            except (UnacceptableFileError, OSError, WireError) as error:
                problems.append(Problem(file, str(error)))
        self._problems = tuple(problems)
        return found

    def problems(self) -> tuple[Problem, ...]:
        """What the last `entries` ignored (rule R-17)."""
        return self._problems

    def live(self, name: str) -> Entry | None:
        """The entry unless it is absent or stale; an undecidable one counts as live (rule R-11)."""
        now = self.clock.monotonic_ms()
        entry = self.read(name)
        if entry is None or self.verdict(entry, now) is Verdict.STALE:
            return None
        return entry

    def nodes(self) -> list[Entry]:
        """All entries that are not stale, by name."""
        now, own = self.clock.monotonic_ms(), identity()
        return [entry for entry in self.entries() if self.verdict(entry, now, own) is not Verdict.STALE]

    def newest_generation(self, name: str) -> int:
        """The highest generation ever claimed for ``name``; 0 for a name never used."""
        return claims.newest_generation(self.root, name)

    def verdict(self, entry: Entry, monotonic_ms: int, own: Identity | None = None) -> Verdict:
        """Judge an entry; ``monotonic_ms`` was read before the entry (rule R-8)."""
        mark = (entry.generation, entry.heartbeat_monotonic_ms, f"{entry.boot_id}{entry.last_heartbeat}")
        alive = process_alive(entry, own or identity())
        return self._judge(entry.name, entry, mark, alive, monotonic_ms, own)

    def claim_verdict(self, claim: claims.Claim, monotonic_ms: int) -> Verdict:
        """Judge a pending claim like an entry that is never renewed (rule R-6)."""
        mark = (claim.generation, claim.heartbeat_monotonic_ms, claim.boot_id)
        key = names.claim_name(claim.name, claim.generation)
        return self._judge(f"/{key}", claim, mark, process_alive(claim, identity()), monotonic_ms, None)

    # -- changing --

    def register(
        self,
        name: str,
        *,
        lease_ms: int = int(limits.LEASE_SECONDS * 1000),
        heartbeat_ms: int = int(limits.HEARTBEAT_SECONDS * 1000),
        fabrics: tuple[str, ...] = (),
        allow: tuple[str, ...] = (),
        subscriptions: tuple[str, ...] = (),
        language: str = "python",
        version: str = "",
    ) -> Registration:
        """Take ``name``, or raise NameTakenError; see `speed.fs.registration.register`."""
        return register(
            self,
            name,
            lease_ms=lease_ms,
            heartbeat_ms=heartbeat_ms,
            fabrics=fabrics,
            allow=allow,
            subscriptions=subscriptions,
            language=language,
            version=version,
        )

    def remove_stale(self) -> tuple[str, ...]:
        """Remove stale entries (never claims) and old temporary files; returns the names removed (R-16)."""
        now, own = self.clock.monotonic_ms(), identity()
        stale = [entry for entry in self.entries() if self.verdict(entry, now, own) is Verdict.STALE]
        removed = tuple(entry.name for entry in stale if self._unlink(entry))
        self._remove_temporaries()
        return removed

    # -- inside --

    def _listed(self) -> list[str]:
        """Names of all files in the registry directory. Raises RootError when it is gone."""
        try:
            return sorted(os.listdir(self.directory))
        except OSError as error:
            raise RootError(
                f"cannot list {self.directory}: {error.strerror}; was the root removed?"
            ) from error

    def _path(self, name: str) -> str:
        """Path of an entry, remembered for a bounded number of names."""
        names.check_node_name(name)
        path = names.entry_path(self.root, name)
        if len(self._paths) < limits.MAX_LANES:
            self._paths[name] = path
        return path

    def _current(self, name: str, path: str) -> Entry:
        """The entry, cached while unchanged. Raises OSError, UnacceptableFileError, WireError."""
        cached = self._cache.get(name)
        if cached is not None and cached.trusted:
            found = os.lstat(path)
            if (
                found.st_mtime_ns == cached.mtime_ns
                and found.st_ino == cached.inode
                and found.st_size == cached.size
            ):
                return cached.entry
        return self._load(name, path)

    def _load(self, name: str, path: str) -> Entry:
        """Read and authenticate; a torn entry is read again (rule R-14)."""
        for attempt in range(1 + _TORN_RETRIES):
            now_ns = time.time_ns()
            try:
                content = read_regular(path, limits.MAX_ENTRY_BYTES)
                entry = decode_entry(content.data, self.keyring)
                if entry.name != name:
                    raise WireError("BAD_ENTRY", f"holds the entry of {entry.name!r}")
            except (WireError, UnacceptableFileError):
                if attempt == _TORN_RETRIES:
                    self.rejected += 1
                    raise
                continue
            found = content.stat
            # git's racy rule: a later write within the same clock tick would leave the same mtime behind.
            trusted = now_ns - found.st_mtime_ns > _RACY_NS
            self._cache[name] = _Cached(found.st_ino, found.st_mtime_ns, found.st_size, trusted, entry)
            return entry
        raise AssertionError("unreachable")

    def _judge(
        self,
        key: str,
        tenure: Tenure,
        mark: tuple[int, int, str],
        alive: bool | None,
        monotonic_ms: int,
        own: Identity | None,
    ) -> Verdict:
        """Judge with the time this observer has seen ``mark`` unchanged."""
        sighting = self._sightings.get(key)
        if sighting is None or sighting.mark != mark:
            sighting = _Sighting(mark, self.clock.monotonic_ms())
            self._sightings[key] = sighting
        boot_id = (own or identity()).boot_id
        return judge(tenure, boot_id, monotonic_ms, alive, monotonic_ms - sighting.since_ms)

    def _unlink(self, entry: Entry) -> bool:
        """Remove the entry if the file is still the one that was judged."""
        path = self._path(entry.name)
        cached = self._cache.get(entry.name)
        if cached is None or cached.entry is not entry:
            return False
        try:
            return unlink_if_same(path, (os.lstat(path).st_dev, cached.inode))
        except OSError:  # another user's entry under a sticky directory: its owner or root removes it
            return False

    def _remove_temporaries(self) -> None:
        """Remove what killed processes left half-written ten minutes ago or earlier."""
        horizon = time.time_ns() - _TEMPORARY_LIFE_NS
        with os.scandir(self.directory) as files:
            for file in files:
                if file.name.startswith(names.TEMPORARY_PREFIX):
                    with contextlib.suppress(OSError):
                        if file.stat(follow_symlinks=False).st_mtime_ns < horizon:
                            os.unlink(file.path)
