"""A node's own entry: claiming the name, publishing, heartbeats, leaving (R-5 to R-7, R-14, R-15)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from speed.core.lease import OwnLease, check_lease
from speed.errors import LeaseLostError, RegistrationError, SpeedError, StorageError, WireError
from speed.fs import claim
from speed.fs.claiming import Won, win
from speed.fs.entry_file import is_file, remove_entry_file
from speed.fs.identity import identity
from speed.fs.open import open_or_make, put_in_place, unlink_quietly, write_all, write_at_start
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry, encode_entry

VERSION = "0.1.0"
"""Of this package, as entries say it: what lies above it is not imported here."""
FEATURES = ("segments", "withdraw", "slots")
"""What this implementation can take (R-2)."""
_MEND = "make room in the root, or choose another"


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a node wants to be in the registry."""

    name: str
    lease_ms: int
    heartbeat_ms: int
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    ephemeral: bool = False
    starting: bool = False


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
    before_publish: Callable[[Won], None] = lambda won: None,
) -> Registration:
    """Claim ``name`` and publish its entry; ``before_publish`` runs in between.

    Raises NameTakenError, LeaseLostError, ConfigurationError, RegistrationError.
    """
    asked = _Asked(name, lease_ms, heartbeat_ms, tuple(fabrics), tuple(allow), ephemeral, starting)
    check_lease(asked.lease_ms, asked.heartbeat_ms, registry.late_ms)
    try:
        return _register(registry, asked, before_publish)
    except WireError as error:
        raise RegistrationError(
            f"cannot register {asked.name!r}: {names.floor_path(registry.root)}: {error}: "
            "use the key of this root, or restore that file from a backup of the root"
        ) from None
    except OSError as error:
        if isinstance(error, SpeedError):
            raise
        raise RegistrationError(f"cannot register {asked.name!r}: {error.strerror}: {_MEND}") from None


def _register(registry: Registry, asked: _Asked, before_publish: Callable[[Won], None]) -> Registration:
    name = asked.name
    won = win(registry, name, claim.Claimant(identity(), asked.lease_ms, ephemeral=asked.ephemeral))
    registration = None
    try:
        before_publish(won)
        registration = Registration(registry, _first_entry(asked, won))
        registration.publish()
        if won.claimant.is_expired(_now_ms()):
            raise LeaseLostError(f"registering {name!r} took longer than its lease: try again")
    except BaseException:
        if registration is not None:
            registration.remove()
        claim.release(registry.root, name, won.generation)  # or this process would keep the name from itself
        raise
    with contextlib.suppress(OSError):  # those that stay are in nobody's way
        claim.remove_older(registry.root, name, won.generation)
    return registration


def _first_entry(asked: _Asked, won: Won) -> Entry:
    """The entry as it is first published, with the time of now."""
    maker = won.claimant.identity
    return Entry(
        name=asked.name,
        generation=won.generation,
        pid=maker.pid,
        pid_start=maker.pid_start,
        pid_namespace=maker.pid_namespace,
        host=maker.host,
        boot_id=maker.boot_id,
        startup_timestamp=time.time_ns() // 1_000_000,
        last_heartbeat=time.time_ns() // 1_000_000,
        heartbeat_monotonic_ms=_now_ms(),
        lease=asked.lease_ms,
        heartbeat_interval=asked.heartbeat_ms,
        fabrics=asked.fabrics,
        allow=asked.allow,
        version=VERSION,
        features=FEATURES,
        ephemeral=asked.ephemeral,
        status="starting" if asked.starting else "online",
    )


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

    def lose(self) -> None:
        """Another process has the name: nothing is written any more."""
        self._lease.lose()

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

    def expire(self) -> None:
        """Leave as one whose name will not come back: the entry stays, stale for everybody, until it is swept."""
        with contextlib.suppress(SpeedError):  # or it is stale after a lease
            self.update(status="leaving", lease=1, heartbeat_interval=1, heartbeat_monotonic_ms=0)
        claim.release(self._registry.root, self.entry.name, self.entry.generation)
        self.let_go()

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
