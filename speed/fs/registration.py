"""A node's own entry: claiming the name, publishing, heartbeats, leaving (R-5 to R-7, R-14, R-15)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from speed.core.lease import OwnLease, Verdict, check_lease
from speed.errors import LeaseLostError, NameTakenError, RegistrationError, StorageError
from speed.fs import claim
from speed.fs.identity import identity
from speed.wire import names
from speed.wire.entry import Entry, encode_entry

if TYPE_CHECKING:
    from speed.fs.registry import Registry

WATCH_SECONDS = 0.05
UNCLEAR_LEASE_MS = 30_000
"""How long a claim that tells nothing about its maker is respected without an entry."""
MAX_ATTEMPTS = 64


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
    check_lease(lease_ms, heartbeat_ms)
    claimant = claim.Claimant(identity(), lease_ms)
    generation = _claim(registry, name, claimant)
    before_publish(generation)
    entry = Entry(
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
        lease=lease_ms,
        heartbeat_interval=heartbeat_ms,
        fabrics=fabrics,
        allow=allow,
    )
    registration = Registration(registry, entry)
    registration.publish()
    claim.remove_older(registry.root, name, generation)
    return registration


def _claim(registry: Registry, name: str, claimant: claim.Claimant) -> int:
    """Win the next generation of ``name``, or NameTakenError."""
    for _ in range(MAX_ATTEMPTS):
        newest = registry.newest_generation(name)
        _wait_until_stale(registry, name)
        entry = registry.read(name)
        if newest and (entry is None or entry.generation < newest):
            _respect_claim(registry, name, newest)
        if newest != registry.newest_generation(name):
            continue
        if claim.take(registry.root, name, newest + 1, claimant):
            return newest + 1
    raise NameTakenError(f"{name!r} is being claimed by others again and again: try later")


def _wait_until_stale(registry: Registry, name: str) -> None:
    """Return when the entry is absent or stale; NameTakenError when it is live.

    An entry of another host or boot is watched for at most its lease (R-10).
    """
    while True:
        entry, verdict = registry.verdict(name)
        if entry is None or verdict is Verdict.STALE or registry.process_gone(entry):
            return
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
    """A claim without an entry: a starting node's, a dead one's, or one that left in order (R-4)."""
    path = names.claim_path(registry.root, name, generation)
    claimant = claim.read(registry.root, name, generation)
    if claimant is not None and (claimant.is_dead or claim_is_released(path)):
        return
    lease_ms = UNCLEAR_LEASE_MS if claimant is None else claimant.lease_ms
    deadline = _now_ms() + lease_ms
    if claimant is not None and claimant.identity.boot_id == identity().boot_id:
        raise NameTakenError(
            f"{name!r} is being claimed by process {claimant.identity.pid} on {claimant.identity.host}"
        )
    while _now_ms() < deadline:
        if registry.newest_generation(name) > generation or registry.read(name) is not None:
            return
        time.sleep(WATCH_SECONDS)  # the claimant may be on another host: only its entry tells


def claim_is_released(path: str) -> bool:
    """Whether the owner left in order: it then made its claim read-only."""
    try:
        return not os.stat(path).st_mode & 0o200
    except OSError:
        return True


class Registration:
    """The entry of this process. Thread-safe by one lock; no other lock is taken under it."""

    def __init__(self, registry: Registry, entry: Entry) -> None:
        self.entry = entry
        self._registry = registry
        self._path = names.entry_path(registry.root, entry.name)
        self._claim = names.claim_path(registry.root, entry.name, entry.generation)
        self._lock = threading.Lock()
        self._lease = OwnLease(entry.lease, entry.heartbeat_interval, entry.heartbeat_monotonic_ms)
        self._fd = -1
        self._capacity = 0

    def publish(self) -> None:
        """Make the entry visible; LeaseLostError if a newer claim exists by then."""
        with self._lock:
            self._check_claim()
            self._install()
            self._check_claim()

    def check_held(self) -> None:
        """LeaseLostError once the lease ran out; called before every write of an envelope, so it is quick."""
        if time.monotonic_ns() // 1_000_000 > self._lease.expires_ms:
            self._lease.lose()
            raise self._lost("its lease ran out before it could be renewed")

    def heartbeat(self) -> None:
        """Renew the lease: one write in place. LeaseLostError when the name is another's; OSError to try again."""
        with self._lock:
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
        data = encode_entry(entry, self._registry.keyring.registry_key, self._capacity)
        self.entry = entry
        if len(data) != self._capacity or not self._is_installed():
            self._check_claim()
            self._install()
        else:
            os.pwrite(self._fd, data, 0)

    def _is_installed(self) -> bool:
        """Whether the path still leads to this entry's file."""
        try:
            return os.stat(self._path, follow_symlinks=False).st_ino == os.fstat(self._fd).st_ino
        except OSError:
            return False

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
        data = encode_entry(self.entry, self._registry.keyring.registry_key, self._capacity)
        directory = names.registry_dir(self._registry.root)
        token = f"{self.entry.name}-{os.getpid()}-{self.entry.generation}"
        temporary = names.child_path(directory, names.temporary_name(token))
        try:
            fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.write(fd, data)
            os.rename(temporary, self._path)
        except OSError as error:
            raise RegistrationError(f"cannot publish the entry of {self.entry.name!r}: {error.strerror}") from None
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._capacity = len(data)

    def remove(self) -> None:
        """Leave: remove the entry if it is still this one, release the claim."""
        with self._lock:
            if self._fd < 0:
                return
            if self._is_installed():
                os.unlink(self._path)
            try:
                os.chmod(self._claim, 0o400)
            except OSError:
                pass  # a newer claim replaced it
            self._close()

    def abandon(self) -> None:
        """Release the descriptor without touching the entry (fork, or the name is lost)."""
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
