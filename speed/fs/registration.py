"""A node's own entry: winning the name (R-4, R-5, R-26), publishing, heartbeats, leaving (R-5 to R-7, R-14, R-15)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from speed.core import texts
from speed.core.access import OwnLease, Verdict, check_lease
from speed.core.log import logger
from speed.errors import LeaseLostError, NameTakenError, RegistrationError, SpeedError, StorageError, WireError
from speed.fs import claim
from speed.fs.claim import check_reachable, floor_of, is_file, remove_entry_file
from speed.fs.committed import generation_left, has_unopened_lanes
from speed.fs.identity import boot_id, identity, monotonic_ms
from speed.fs.open import ensure_directory, open_or_make, put_in_place, unlink_quietly, write_all, write_at_start
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry, encode_entry
from speed.wire.limits import SWEEP_SECONDS, SWEEPING_LEASE_SECONDS

# Winning a name: the next generation of it, once nobody holds it any more.

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
    former = claim.newest_attributed(root, name, keyring.registry_keys)
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
        left = os.path.lexists(names.node_dir(registry.root, name))
        return generation_left(registry.root, name, registry.keyring) if left else 0
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
        own = identity()
        is_own = (first.pid, first.pid_start, first.boot_id) == (own.pid, own.pid_start, own.boot_id)
        taken = texts.name_taken_here(name) if is_own else texts.name_taken(name, str(first.pid), first.host)
        raise NameTakenError(taken)


def _is_free(registry: Registry, name: str, generation: int, waits: bool) -> bool:
    """Judge a claim without an entry: a starting node's, a dead one's, or one that left in order (R-5, step 2).

    True once it need not be respected any longer; False where it ended, and another may follow under the same number;
    NameTakenError when it must be respected. A claim that says nothing may be one that its maker has only just created:
    it is read again.
    """
    began, has_warned = monotonic_ms(), False
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
        if not has_warned and monotonic_ms() < began + lease_ms:
            _warn_of_wait(names.claim_path(registry.root, name, generation), name, claimant, lease_ms)
        has_warned = True


def _warn_of_wait(path: str, name: str, claimant: claim.Claimant | None, lease_ms: int) -> None:
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


VERSION = "0.1.0"
"""Of this package, as entries say it: what lies above it is not imported here."""
FEATURES = ("segments", "withdraw", "slots", "streams")
"""What this implementation can take (R-2)."""
_MEND = "make room in the root, or choose another"


@dataclass(frozen=True, slots=True)
class _RegistrationRequest:
    """What a node wants to be in the registry."""

    name: str
    lease_ms: int
    heartbeat_ms: int
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    ephemeral: bool = False
    starting: bool = False
    identity: str = ""
    identities: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()


def register(
    registry: Registry,
    name: str,
    *,
    lease_ms: int,
    heartbeat_ms: int,
    fabrics: Iterable[str] = (),
    allow: Iterable[str] = (),
    ephemeral: bool = False,
    starting: bool = False,
    identity: str = "",
    identities: tuple[str, ...] = (),
    observers: tuple[str, ...] = (),
    before_publish: Callable[[Won], None] = lambda won: None,
    after_publish: Callable[[], None] = lambda: None,
) -> Registration:
    """Claim ``name`` and publish its entry; ``before_publish`` runs in between, ``after_publish`` may still refuse.

    Raises NameTakenError, LeaseLostError, ConfigurationError, StorageError; RegistrationError for a floor that is not
    authentic.
    """
    about = tuple(fabrics), tuple(allow), ephemeral, starting, identity, identities, observers
    request = _RegistrationRequest(name, lease_ms, heartbeat_ms, *about)
    check_lease(request.lease_ms, request.heartbeat_ms, registry.late_ms)
    try:
        return _register(registry, request, before_publish, after_publish)
    except WireError as error:
        raise RegistrationError(
            f"cannot register {request.name!r}: {names.floor_path(registry.root)}: {error}: "
            "use the key of this root, or restore that file from a backup of the root"
        ) from None
    except OSError as error:
        if isinstance(error, SpeedError):
            raise
        raise StorageError(f"cannot register {request.name!r}: {error.strerror}: {_MEND}") from None


def _register(
    registry: Registry,
    request: _RegistrationRequest,
    before_publish: Callable[[Won], None],
    after_publish: Callable[[], None],
) -> Registration:
    name = request.name
    won = win(registry, name, claim.Claimant(identity(), request.lease_ms, ephemeral=request.ephemeral))
    registration = None
    try:
        before_publish(won)
        registration = Registration(registry, _first_entry(request, won), won.claimant)
        registration.publish()
        after_publish()
        if won.claimant.is_expired(monotonic_ms()):
            raise LeaseLostError(f"registering {name!r} took longer than its lease: try again")
    except BaseException:
        if registration is not None:
            registration.remove()
        claim.release(registry.root, name, won.generation)  # or this process would keep the name from itself
        raise
    with contextlib.suppress(OSError):  # those that stay are in nobody's way
        claim.remove_older(registry.root, name, won.generation)
    return registration


def _first_entry(request: _RegistrationRequest, won: Won) -> Entry:
    """The entry as it is first published, with the time of now."""
    maker = won.claimant.identity
    return Entry(
        name=request.name,
        generation=won.generation,
        pid=maker.pid,
        pid_start=maker.pid_start,
        pid_namespace=maker.pid_namespace,
        host=maker.host,
        boot_id=maker.boot_id,
        startup_timestamp=time.time_ns() // 1_000_000,
        last_heartbeat=time.time_ns() // 1_000_000,
        heartbeat_monotonic_ms=monotonic_ms(),
        lease=request.lease_ms,
        heartbeat_interval=request.heartbeat_ms,
        fabrics=request.fabrics,
        allow=request.allow,
        version=VERSION,
        features=FEATURES,
        ephemeral=request.ephemeral,
        status="starting" if request.starting else "online",
        identity=request.identity,
        identities=request.identities,
        observers=request.observers,
    )


class Registration:
    """The entry of this process. Thread-safe by one lock; no other lock is taken under it."""

    def __init__(self, registry: Registry, entry: Entry, claimant: claim.Claimant) -> None:
        self.entry = entry
        self.claims_restored = 0
        """How often somebody removed the claim, and it was made again."""
        self._claimant = claimant
        self._registry = registry
        self._path = names.entry_path(registry.root, entry.name)
        self._lock = threading.Lock()
        self._lease = OwnLease(entry.lease, entry.heartbeat_interval, entry.heartbeat_monotonic_ms)
        self._fd = -1
        self._capacity = 0
        self._keys = registry.keyring.now

    @property
    def has_new_keys(self) -> bool:
        """Whether the keys changed since the entry was written: a heartbeat mends that (W-20)."""
        return self._keys is not self._registry.keyring.now

    def _encoded(self, entry: Entry) -> bytes:
        """The bytes of an entry under the first key of now."""
        self._keys = self._registry.keyring.now
        return encode_entry(entry, self._keys.registry_keys[0], self._capacity, self._keys.ids)

    def publish(self) -> None:
        """Make the entry visible; LeaseLostError if a newer claim exists by then."""
        with self._lock:
            self._check_claim()
            self._install()
            self._check_claim()

    @property
    def is_over(self) -> bool:
        """Whether the lease ran out, noticed or not (R-12)."""
        return monotonic_ms() > self._lease.expires_ms

    def lose(self) -> None:
        """Another process has the name: nothing is written any more."""
        self._lease.lose()

    def check_held(self) -> None:
        """LeaseLostError once the lease ran out; called before every write of an envelope, so it is quick."""
        if monotonic_ms() > self._lease.expires_ms:
            self._lease.lose()
            raise self._lost("its lease ran out before it could be renewed")

    def check_held_still(self) -> None:
        """LeaseLostError if the lease ran out while an envelope was written: its receiver may have given it up."""
        if monotonic_ms() > self._lease.expires_ms:
            self._lease.lose()
            raise self._lost(
                "its lease ran out while it wrote, and what it wrote may not have been delivered: "
                "ask the receiver before you send it again"
            )

    def heartbeat(self) -> None:
        """Renew the lease: one write in place; nothing once the entry was removed to leave (R-14).

        LeaseLostError when the name is another's; OSError to try again.
        """
        with self._lock:
            if self._fd < 0:
                return
            written = monotonic_ms()
            self._check_lease(written)
            self._set(last_heartbeat=time.time_ns() // 1_000_000, heartbeat_monotonic_ms=written)
            self._check_lease(monotonic_ms())
            self._lease.renewed(written, monotonic_ms())
            with contextlib.suppress(OSError):  # the next one tries again
                self._restore_claim()

    def _restore_claim(self) -> None:
        """Make the own claim again if somebody removed it: a later life would begin with a generation that was used.

        LeaseLostError if a higher one is there; OSError.
        """
        root, name, generation = self._registry.root, self.entry.name, self.entry.generation
        if os.path.lexists(names.claim_path(root, name, generation)):
            return
        ensure_directory(names.claims_dir(root))
        self._check_claim()
        if claim.take(root, name, generation, self._claimant, self._registry.keyring.registry_key):
            self.claims_restored += 1

    def _check_lease(self, now: int) -> None:
        if self._lease.must_stop(now):
            raise self._lost("its lease ran out before it could be renewed")

    def ready(self) -> None:
        """Publish that the node serves, if it was starting."""
        with self._lock:
            if self.entry.status == "starting":
                self._update(status="online")

    def update(self, **changes: Any) -> None:
        """Publish other grants, subscriptions, fabrics or status; they are on disk when this returns."""
        with self._lock:
            self._update(**changes)

    def _update(self, **changes: Any) -> None:
        if self._fd < 0:
            return
        try:
            self._set(**changes)
        except OSError as error:
            self._registry.check_there()
            raise StorageError(f"cannot update the entry of {self.entry.name!r}: {error.strerror}") from None

    def _set(self, **changes: Any) -> None:
        entry = replace(self.entry, **changes)
        data = self._encoded(entry)
        before, self.entry = self.entry, entry
        try:
            if len(data) != self._capacity or not self._is_at(self._path):
                self._check_claim()
                self._install()
            else:
                write_at_start(self._fd, data)
        except BaseException:
            self.entry = before  # or the next heartbeat would publish what its owner was told has failed
            raise

    def _is_at(self, path: str) -> bool:
        return is_file(path, self._fd)

    def _check_claim(self) -> None:
        newest = self._registry.newest_generation(self.entry.name)
        if newest > self.entry.generation:
            self._lease.lose()
            raise self._lost(f"generation {newest} was claimed")

    def _lost(self, why: str) -> LeaseLostError:
        return LeaseLostError(
            f"{self.entry.name!r} (generation {self.entry.generation}) lost its name: {why}; make a new Node"
        )

    def _install(self) -> None:
        """Write the entry beside and rename it into place."""
        data = self._encoded(self.entry)
        directory = names.registry_dir(self._registry.root)
        token = f"{self.entry.name}-{os.getpid()}-{self.entry.generation}"
        temporary = names.child_path(directory, names.temporary_name(token))
        try:
            fd = open_or_make(temporary, os.O_RDWR | os.O_TRUNC)
        except OSError as error:
            raise self._unpublished(error) from None
        try:
            write_all(fd, data)
            put_in_place(temporary, self._path)
        except OSError as error:
            os.close(fd)
            unlink_quietly(temporary)
            raise self._unpublished(error) from None
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._capacity = len(data)

    def _unpublished(self, error: OSError) -> StorageError:
        return StorageError(f"cannot publish the entry of {self.entry.name!r}: {error.strerror}: {_MEND}")

    def remove(self) -> None:
        """Leave: remove the entry if it is still this one, release the claim."""
        with self._lock:
            if self._fd < 0:
                return
            with contextlib.suppress(OSError, SpeedError):
                if self._is_at(self._path):  # or the whole root is gone
                    self._restore_claim()
            with contextlib.suppress(OSError):  # or it stays without its node, hence stale after a lease
                remove_entry_file(self._registry.root, self.entry.name, self._is_at)
            claim.release(self._registry.root, self.entry.name, self.entry.generation)
            self._close()

    def expire(self) -> None:
        """Leave as one whose name will not come back: the entry stays, stale for everybody, until it is swept."""
        with contextlib.suppress(SpeedError):  # or it is stale after a lease
            self.update(status="leaving", lease=1, heartbeat_interval=1, heartbeat_monotonic_ms=0)
        claim.release(self._registry.root, self.entry.name, self.entry.generation)
        self.release()

    def release(self) -> None:
        """The name is lost: release the descriptor; the entry, if it is there, is no longer this one's to touch."""
        with self._lock:
            self._close()

    def abandon(self) -> None:
        """The same in a forked child, where another thread of the parent may hold the lock for ever."""
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
