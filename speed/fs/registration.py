"""A node's own entry: claiming the name, publishing, heartbeats, leaving (R-5 to R-7, R-14, R-15)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from speed.core.lease import OwnLease, Verdict, check_lease
from speed.core.log import logger
from speed.errors import LeaseLostError, NameTakenError, RegistrationError, SpeedError, StorageError
from speed.fs import claim
from speed.fs.entry_file import check_reachable, is_file, remove_entry_file
from speed.fs.identity import boot_id, identity
from speed.fs.open import put_in_place, unlink_quietly, write_all, write_at_start
from speed.wire import names
from speed.wire.entry import Entry, encode_entry

if TYPE_CHECKING:
    from speed.fs.registry import Registry

log = logger("speed.registry")

WATCH_SECONDS = 0.05
UNCLEAR_LEASE_MS = 30_000
"""How long a claim that tells nothing about its maker is respected without an entry."""
MAX_ATTEMPTS = 64
FEATURES = ("segments", "withdraw")
"""What this implementation can take (R-2)."""
_MEND = "make room in the root, or choose another"


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def register(
    registry: Registry,
    name: str,
    *,
    lease_ms: int,
    heartbeat_ms: int,
    fabrics: tuple[str, ...],
    allow: tuple[str, ...],
    before_publish: Callable[[int], None],
) -> Registration:
    """See ``Registry.register``."""
    check_lease(lease_ms, heartbeat_ms, registry.late_ms)
    try:
        return _register(registry, name, lease_ms, heartbeat_ms, fabrics, allow, before_publish)
    except OSError as error:
        if isinstance(error, SpeedError):
            raise
        raise RegistrationError(f"cannot register {name!r}: {error.strerror}: {_MEND}") from None


def _register(
    registry: Registry,
    name: str,
    lease_ms: int,
    heartbeat_ms: int,
    fabrics: tuple[str, ...],
    allow: tuple[str, ...],
    before_publish: Callable[[int], None],
) -> Registration:
    claimant, generation = _claim(registry, name, claim.Claimant(identity(), lease_ms))
    registration = None
    try:
        before_publish(generation)
        registration = Registration(registry, _first_entry(name, generation, claimant, heartbeat_ms, fabrics, allow))
        registration.publish()
        if claimant.is_expired(_now_ms()):
            raise LeaseLostError(f"registering {name!r} took longer than its lease: try again")
    except BaseException:
        if registration is not None:
            registration.remove()
        claim.release(registry.root, name, generation)  # or this process would keep the name from itself
        raise
    with contextlib.suppress(OSError):  # those that stay are in nobody's way
        claim.remove_older(registry.root, name, generation)
    return registration


def _first_entry(
    name: str,
    generation: int,
    claimant: claim.Claimant,
    heartbeat_ms: int,
    fabrics: tuple[str, ...],
    allow: tuple[str, ...],
) -> Entry:
    """The entry as it is first published, with the time of now."""
    return Entry(
        name=name,
        generation=generation,
        pid=claimant.identity.pid,
        pid_start=claimant.identity.pid_start,
        pid_namespace=claimant.identity.pid_namespace,
        host=claimant.identity.host,
        boot_id=claimant.identity.boot_id,
        startup_timestamp=time.time_ns() // 1_000_000,
        last_heartbeat=time.time_ns() // 1_000_000,
        heartbeat_monotonic_ms=_now_ms(),
        lease=claimant.lease_ms,
        heartbeat_interval=heartbeat_ms,
        fabrics=fabrics,
        allow=allow,
        features=FEATURES,
    )


def _claim(registry: Registry, name: str, claimant: claim.Claimant) -> tuple[claim.Claimant, int]:
    """Win the next generation of ``name``, or NameTakenError."""
    for _ in range(MAX_ATTEMPTS):
        newest = registry.newest_generation(name)
        entry = _wait_until_stale(registry, name)
        if newest and (entry is None or entry.generation < newest):
            _respect_claim(registry, name, newest)
        if registry.read(name) != entry:
            continue  # published since it was judged: judge that entry
        if newest != registry.newest_generation(name):
            continue
        check_reachable(registry.root, name)
        claimant = replace(claimant, made_ms=_now_ms())
        if not claim.take(registry.root, name, newest + 1, claimant):
            continue
        if registry.newest_generation(name) == newest + 1:
            return claimant, newest + 1
        claim.release(registry.root, name, newest + 1)  # what was seen before was old: look again
    raise NameTakenError(f"{name!r} is being claimed by others again and again: try later")


def _wait_until_stale(registry: Registry, name: str) -> Entry | None:
    """Return the entry once it is absent (None) or stale; NameTakenError when it is live.

    An entry of another host or boot is watched for at most its lease (R-10).
    """
    while True:
        entry, verdict = registry.verdict(name)
        if entry is None or verdict is Verdict.STALE or registry.process_gone(entry):
            return entry
        first = entry if verdict is Verdict.LIVE else None
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


def _respect_claim(registry: Registry, name: str, generation: int) -> None:
    """A claim without an entry: a starting node's, a dead one's, or one that left in order (R-4).

    Returns when it need not be respected any longer; NameTakenError when it must be. A claim that says nothing may be
    one that its maker has only just created: it is read again.
    """
    began, has_told = _now_ms(), False
    while True:
        claimant = claim.read(registry.root, name, generation)
        if claim.is_released(registry.root, name, generation) or (claimant is not None and claimant.is_dead):
            return
        if claimant is not None and claimant.identity.boot_id == boot_id():
            _respect_neighbour(registry, name, claimant)
            return
        lease_ms = UNCLEAR_LEASE_MS if claimant is None else claimant.lease_ms
        entry = registry.read(name)
        if entry is not None and entry.generation >= generation:
            return
        if registry.newest_generation(name) > generation or _now_ms() >= began + lease_ms + registry.late_ms:
            return
        time.sleep(WATCH_SECONDS)  # the claimant may be on another host: only its entry tells
        if not has_told and _now_ms() < began + lease_ms:
            _tell_of_wait(names.claim_path(registry.root, name, generation), name, claimant, lease_ms)
        has_told = True


def _tell_of_wait(path: str, name: str, claimant: claim.Claimant | None, lease_ms: int) -> None:
    """Once, and not of a claim that was only being written as it was looked at."""
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
    """The same for a claimant of this boot, which lives."""
    maker = f"process {claimant.identity.pid} on {claimant.identity.host}"
    if registry.is_unreadable(name):
        raise NameTakenError(
            f"{name!r} is held by {maker}, whose entry this key does not open: use the key of this root"
        )
    if not claimant.is_expired(_now_ms()):
        raise NameTakenError(f"{name!r} is being claimed by {maker}: try again soon, or choose another name")


class Registration:
    """The entry of this process. Thread-safe by one lock; no other lock is taken under it."""

    def __init__(self, registry: Registry, entry: Entry) -> None:
        self.entry = entry
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
        return _now_ms() > self._lease.expires_ms

    def check_held(self) -> None:
        """LeaseLostError once the lease ran out; called before every write of an envelope, so it is quick."""
        if time.monotonic_ns() // 1_000_000 > self._lease.expires_ms:
            self._lease.lose()
            raise self._lost("its lease ran out before it could be renewed")

    def heartbeat(self) -> None:
        """Renew the lease: one write in place; nothing once the entry was removed to leave (R-14).

        LeaseLostError when the name is another's; OSError to try again.
        """
        with self._lock:
            if self._fd < 0:
                return
            written = _now_ms()
            self._check_lease(written)
            self._set(last_heartbeat=time.time_ns() // 1_000_000, heartbeat_monotonic_ms=written)
            self._check_lease(_now_ms())
            self._lease.renewed(written, _now_ms())

    def _check_lease(self, now: int) -> None:
        if self._lease.must_stop(now):
            raise self._lost("its lease ran out before it could be renewed")

    def update(self, **changes: Any) -> None:
        """Publish other grants, subscriptions, fabrics or status; they are on disk when this returns."""
        with self._lock:
            if self._fd < 0:
                return
            try:
                self._set(**changes)
            except OSError as error:
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
            fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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

    def _unpublished(self, error: OSError) -> RegistrationError:
        return RegistrationError(f"cannot publish the entry of {self.entry.name!r}: {error.strerror}: {_MEND}")

    def remove(self) -> None:
        """Leave: remove the entry if it is still this one, release the claim."""
        with self._lock:
            if self._fd < 0:
                return
            with contextlib.suppress(OSError):  # or it stays without its node, hence stale after a lease
                remove_entry_file(self._registry.root, self.entry.name, self._is_at)
            claim.release(self._registry.root, self.entry.name, self.entry.generation)
            self._close()

    def let_go(self) -> None:
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
