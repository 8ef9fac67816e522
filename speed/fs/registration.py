"""Taking a name and keeping it: claim, install, heartbeat, update, remove (rules R-5 to R-7, R-12, R-13)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from typing import TYPE_CHECKING, Any

from speed.core.lease import LeaseState, OwnLease, Verdict, check_lease
from speed.errors import LeaseLostError, NameTakenError, RegistrationError, RootError
from speed.fs import claim as claims
from speed.fs.entry_file import EntryFile
from speed.fs.identity import Identity, identity
from speed.fs.root import prepare_root
from speed.wire import names
from speed.wire.entry import Entry, encode_entry

if TYPE_CHECKING:
    from speed.fs.registry import Registry

_POLL_SECONDS = 0.02
_MAX_ATTEMPTS = 64


def register(
    registry: Registry,
    name: str,
    *,
    lease_ms: int,
    heartbeat_ms: int,
    fabrics: tuple[str, ...],
    allow: tuple[str, ...],
    subscriptions: tuple[str, ...],
    language: str,
    version: str,
) -> Registration:
    """Take ``name``: judge who holds it, claim the next generation, install the entry (rules R-5, R-6).

    Blocks only while an undecidable holder (other boot or host) is watched, at most its lease. Raises
    InvalidNameError, ConfigurationError (lease), NameTakenError, LeaseLostError, RootError (disk).
    """
    names.check_node_name(name)
    check_lease(lease_ms, heartbeat_ms)
    _check_published(allow, subscriptions)
    own = identity()
    try:
        claim = _win_claim(registry, name, own, lease_ms)
        entry = Entry(
            name=name,
            generation=claim.generation,
            status="online",
            startup_timestamp=registry.clock.wall_ms(),
            last_heartbeat=0,
            heartbeat_monotonic_ms=0,
            lease=lease_ms,
            heartbeat_interval=heartbeat_ms,
            fabrics=fabrics,
            allow=allow,
            subscriptions=subscriptions,
            language=language,
            version=version,
            **own._asdict(),
        )
        return Registration(registry, entry, claim)
    except OSError as error:
        raise RootError(f"cannot register {name!r} in {registry.directory}: {error.strerror}") from error


def _check_published(allow: tuple[str, ...], subscriptions: tuple[str, ...]) -> None:
    """Readers reject a whole entry for one bad pattern: never publish one. Raises InvalidNameError."""
    for pattern in allow:
        names.check_grant(pattern)
    for pattern in subscriptions:
        names.check_topic_pattern(pattern)


def _win_claim(registry: Registry, name: str, own: Identity, lease_ms: int) -> claims.Claim:
    """Create the next claim once the name is free. Raises NameTakenError."""
    for _ in range(_MAX_ATTEMPTS):
        newest = _wait_until_free(registry, name)
        if newest >= claims.MAX_GENERATION:
            raise NameTakenError(f"name {name!r} has used up its generations: choose another name")
        now = registry.clock.monotonic_ms()
        claim = claims.process_claim(name, newest + 1, own, lease_ms, now)
        if not claims.make_claim(registry.root, claim, registry.modes.file):
            continue  # somebody was faster: judge that claim
        if claims.newest_generation(registry.root, name) != claim.generation:
            _withdraw(registry, claim)
            raise NameTakenError(f"name {name!r} was claimed by another process at the same moment")
        return claim
    raise NameTakenError(f"name {name!r} is contested by many processes: try again")


def _withdraw(registry: Registry, claim: claims.Claim) -> None:
    """Remove a claim that lost against a higher one; it is not the newest, so generations still only grow."""
    with contextlib.suppress(OSError):
        os.unlink(claims.claim_path(registry.root, claim.name, claim.generation))


def _wait_until_free(registry: Registry, name: str) -> int:
    """Judge the holder until it is provably gone; returns the newest generation. Raises NameTakenError.

    The order of reading matters (rule R-5): clock, newest claim, entry. A claim read as settled had its
    entry before, so the entry read afterwards is that one, or it has been removed.
    """
    watched: Entry | None = None
    while True:
        now = registry.clock.monotonic_ms()
        newest = registry.newest_generation(name)
        claim = claims.read_claim(registry.root, name, newest) if newest else None
        entry = registry.read(name)
        verdict = Verdict.STALE if entry is None else registry.verdict(entry, now)
        if entry is not None and (verdict is Verdict.LIVE or _renewed(watched, entry)):
            raise NameTakenError(_holder(entry))
        generation = max(newest, entry.generation if entry else 0)
        if verdict is Verdict.STALE:
            verdict = _claim_verdict(registry, claim, entry, now)
            if verdict is Verdict.STALE:
                return generation
            if verdict is Verdict.LIVE and claim is not None:
                raise NameTakenError(
                    f"name {name!r} is being registered by pid {claim.pid} on {claim.host}: "
                    "stop it or use another name"
                )
        watched = entry
        registry.clock.sleep(_POLL_SECONDS)


def _renewed(watched: Entry | None, entry: Entry) -> bool:
    """A holder on another boot showed a sign of life while it was watched."""
    return watched is not None and (
        watched.generation,
        watched.last_heartbeat,
        watched.heartbeat_monotonic_ms,
    ) != (
        entry.generation,
        entry.last_heartbeat,
        entry.heartbeat_monotonic_ms,
    )


def _claim_verdict(registry: Registry, claim: claims.Claim | None, entry: Entry | None, now: int) -> Verdict:
    """A pending claim newer than the entry holds the name too."""
    if claim is None or claim.settled or (entry is not None and entry.generation >= claim.generation):
        return Verdict.STALE
    return registry.claim_verdict(claim, now)


def _holder(entry: Entry) -> str:
    """Who holds the name, for people."""
    return (
        f"name {entry.name!r} is held by pid {entry.pid} on {entry.host} (generation {entry.generation}, "
        f"since {entry.startup_timestamp} ms Unix time): stop that node or choose another name"
    )


class Registration:
    """This node's right to its name, kept by `heartbeat` every ``heartbeat_interval``.

    Threads: every method holds one internal lock (a leaf: nothing else is locked inside). After fork the
    child must not use it; the runtime sees to that.
    """

    def __init__(self, registry: Registry, entry: Entry, claim: claims.Claim) -> None:
        """Install the entry for a claim that was won. Raises LeaseLostError, OSError."""
        self._registry = registry
        self._claim = claim
        self._lock = threading.Lock()
        self._entry = entry
        self._file = EntryFile(names.entry_path(registry.root, entry.name), registry.modes.file)
        now = self._clock_ms()
        self._lease = OwnLease(entry.lease, entry.heartbeat_interval, now)
        try:
            if now - claim.heartbeat_monotonic_ms > claim.lease:
                raise self._lost("registering took longer than its lease")
            self._install(now)
        finally:  # after a failure too: this process will not install any more, the name is free
            with contextlib.suppress(OSError):
                claims.settle_claim(registry.root, claim)
        claims.remove_older_claims(registry.root, entry.name, entry.generation)
        self._renewed(now)

    @property
    def entry(self) -> Entry:
        """The entry as last written."""
        return self._entry

    @property
    def name(self) -> str:
        """The node name."""
        return self._entry.name

    @property
    def generation(self) -> int:
        """The generation of this start: the upper 24 bits of every sequence sent."""
        return self._entry.generation

    def must_stop(self) -> bool:
        """True when the lease is lost or has run out: nothing may be sent or accepted then (rule R-12)."""
        return self._lease.must_stop(self._clock_ms())

    def next_heartbeat_ms(self) -> int:
        """Monotonic time (ms) at which `heartbeat` is due."""
        return self._lease.next_heartbeat_ms()

    def expires_ms(self) -> int:
        """Monotonic time (ms) after which the lease has run out unless renewed."""
        return self._lease.expires_ms

    def heartbeat(self) -> None:
        """Renew by one write in place (rule R-13). Raises LeaseLostError (final), OSError (try again)."""
        with self._lock:
            self._write({})

    def update(
        self,
        *,
        allow: tuple[str, ...] | None = None,
        subscriptions: tuple[str, ...] | None = None,
        fabrics: tuple[str, ...] | None = None,
        status: str | None = None,
    ) -> None:
        """Publish changed fields (None: unchanged) and renew the lease.

        Raises as `heartbeat`; InvalidNameError and ConfigurationError (too large) change nothing.
        """
        _check_published(allow or (), subscriptions or ())
        given = {"allow": allow, "subscriptions": subscriptions, "fabrics": fabrics, "status": status}
        with self._lock:
            self._write({field: value for field, value in given.items() if value is not None})

    def remove(self) -> bool:
        """Give the name back: unlink the entry if it is still our own; True when it was. May be repeated."""
        with self._lock:
            self._lease.lose()
            return self._file.remove()

    def release(self) -> None:
        """Close without unlinking (the name is lost, or this is a forked child)."""
        with self._lock:
            self._lease.lose()
            self._file.close()

    # -- inside, under the lock --

    def _clock_ms(self) -> int:
        return self._registry.clock.monotonic_ms()

    def _write(self, changes: dict[str, Any]) -> None:
        """Write the entry with a new heartbeat, then look whether the name is still ours."""
        now = self._clock_ms()
        if self._lease.must_stop(now):
            raise self._lost("its lease ran out before it was renewed, or it was removed")
        data = self._encoded(now, **changes)
        if not self._file.in_place():
            self._recover(now)
        elif len(data) > self._file.capacity:
            self._install(now)
        else:
            self._file.rewrite(data)
        self._renewed(now)

    def _encoded(self, now: int, **changes: Any) -> bytes:
        """The file's bytes with a new heartbeat; what cannot be published changes nothing."""
        wall = self._registry.clock.wall_ms()
        entry = dataclasses.replace(self._entry, last_heartbeat=wall, heartbeat_monotonic_ms=now, **changes)
        data = encode_entry(entry, self._registry.keyring.registry_key, self._file.capacity or None)
        self._entry = entry
        return data

    def _install(self, now: int) -> None:
        """Rename a new file in, then look at the claims: a higher one means that another took over."""
        self._file.install(self._encoded(now))
        newest = self._registry.newest_generation(self.name)
        if newest > self.generation:
            self._file.remove()
            raise self._lost(f"generation {newest} was claimed by another process")

    def _recover(self, now: int) -> None:
        """The path is not ours: a successor (then the name is lost) or damage (then it is put back)."""
        prepare_root(self._registry.root)
        other = self._registry.read(self.name)
        newest = self._registry.newest_generation(self.name)
        if max(newest, other.generation if other else 0) > self.generation:
            raise self._lost("another process holds it by a higher generation")
        if newest < self.generation:
            # The claims were lost too: without one the next start would repeat sequences.
            claims.make_claim(
                self._registry.root, self._claim._replace(settled=True), self._registry.modes.file
            )
        self._install(now)

    def _renewed(self, now: int) -> None:
        try:
            self._lease.renewed(now, self._clock_ms())
        except LeaseLostError:
            raise self._lost("its lease ran out during a heartbeat") from None

    def _lost(self, why: str) -> RegistrationError:
        """Final: close, so that nothing of ours is ever written into the registry again."""
        self._lease.lose()
        self._file.close()
        return LeaseLostError(
            f"node {self.name!r} generation {self.generation} lost its name: {why}; "
            "close this node and make a new one"
        )

    @property
    def state(self) -> LeaseState:
        """HELD or LOST."""
        self.must_stop()
        return self._lease.state
