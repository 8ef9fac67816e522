"""Claims, made with O_EXCL so that one process wins a name (R-4); files of entries (R-1, R-13); the floor (R-24)."""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speed.errors import StorageError, WireError
from speed.fs.identity import Identity, process_alive, try_lock
from speed.fs.open import (
    open_directory,
    open_or_make,
    opened,
    owners_of,
    put_in_place,
    read_small,
    replace_file,
    sync_directory,
    unique_name,
    unlink_quietly,
    write_all,
)
from speed.wire import names
from speed.wire.cursor import FLOOR_BYTES, NO_FLOOR, decode_floors, encode_floors
from speed.wire.entry import entry_mac
from speed.wire.limits import MAX_CLAIM_BYTES, MAX_ENTRY_BYTES, MAX_VALUE_DEPTH
from speed.wire.seal import Keyring
from speed.wire.text import read_json

# The file of an entry: read without trust, removed only while it is the one that was meant.

FAILING = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the system, which say nothing about the file itself."""


def read_entry_file(path: str) -> bytes:
    """A regular file's first bytes; never follows a link, never waits, never reads more than an entry may have."""
    fd = opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise WireError("BAD_ENTRY", "no regular file")
        if status.st_size > MAX_ENTRY_BYTES:
            raise WireError("BAD_ENTRY", "too large")
        return os.read(fd, MAX_ENTRY_BYTES)
    finally:
        os.close(fd)


def check_reachable(root: str, name: str) -> None:
    """OSError if the system cannot show whether there is an entry: such an entry does not count as absent (R-5)."""
    try:
        os.close(opened(names.entry_path(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in FAILING:
            raise


def is_file(path: str, fd: int) -> bool:
    """Whether ``path`` leads to the file that ``fd`` holds open."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def remove_entry_file(root: str, name: str, is_meant: Callable[[str], bool]) -> bool:
    """Remove the entry of ``name`` if ``is_meant(path)`` says so; False if it was none or another's.

    No call unlinks a file by its identity, and a new owner may publish at any time. So the file moves to a name
    that nobody else knows, is looked at there, and is put back if it became another's. OSError if that fails.
    """
    path = names.entry_path(root, name)
    if not is_meant(path):
        return False
    aside = names.child_path(names.registry_dir(root), unique_name(name))
    put_in_place(path, aside)
    meant = is_meant(aside)  # False as well if somebody else removed it first
    if not meant:
        _put_back(aside, path)
    unlink_quietly(aside)
    return meant


def _put_back(aside: str, path: str) -> None:
    """Put an entry back under its name, unless its owner has published a newer one (R-14)."""
    try:
        os.link(aside, path, follow_symlinks=False)
    except OSError:
        pass  # a newer one is there, or no links are: then the owner's next heartbeat publishes again


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who made a claim, as far as its file tells."""

    identity: Identity
    lease_ms: int
    made_ms: int | None = None
    """CLOCK_MONOTONIC of its boot when the claim was made; None if the claim does not say."""
    above: int | None = None
    """Nothing that lives up to this generation left is accepted any more; None if the claim does not say."""
    ephemeral: bool = False
    sweeps: bool = False
    """Whether no node starts under this claim: its maker removes what is left of the name."""

    def is_expired(self, now_ms: int) -> bool:
        """Whether a claim of this boot has stood a whole lease (R-5)."""
        return self.made_ms is not None and now_ms - self.made_ms > self.lease_ms

    @property
    def is_dead(self) -> bool:
        return self._is_alive() is False

    def holds(self, now_ms: int) -> bool:
        """Whether a sweep of this boot goes on: its process lives, or cannot be seen and its lease has not ended."""
        is_alive = self._is_alive()
        return is_alive is True or (is_alive is None and not self.is_expired(now_ms))

    def _is_alive(self) -> bool | None:
        me = self.identity
        return process_alive(me.pid, me.pid_start, me.pid_namespace, me.boot_id)


def newest(root: str, name: str) -> int:
    """The highest claimed generation of ``name``, 0 without one."""
    return max(_generations(root, name), default=0)


def _generations(root: str, name: str) -> list[int]:
    """All claimed generations of ``name``. Claims of other names, perhaps thousands, are not parsed."""
    prefix = f"{name}."
    with os.scandir(names.claims_dir(root)) as files:
        found = [names.parse_claim(file.name) for file in files if file.name.startswith(prefix)]
    return [claim[1] for claim in found if claim and claim[0] == name]


def newest_of_all(root: str) -> dict[str, int]:
    """The highest claimed generation of each name that has claims."""
    found: dict[str, int] = {}
    with os.scandir(names.claims_dir(root)) as files:
        for file in files:
            claimed = names.parse_claim(file.name)
            if claimed is not None:
                found[claimed[0]] = max(claimed[1], found.get(claimed[0], 0))
    return found


def take(root: str, name: str, generation: int, claimant: Claimant, registry_key: bytes) -> bool:
    """Create the claim; False if somebody else has it. It survives a power cut, so no generation is used twice."""
    path = names.claim_path(root, name, generation)
    try:
        fd = open_or_make(path, os.O_WRONLY | os.O_EXCL)
    except FileExistsError:
        return False
    try:
        write_all(fd, encode_claim(claimant, registry_key))
        if not claimant.sweeps:
            _make_durable(root, fd)
    except OSError:
        _make_read_only(fd)  # no entry will follow it: see ``release``
        raise
    finally:
        os.close(fd)
    return True


def _make_durable(root: str, fd: int) -> None:
    os.fsync(fd)
    for directory in (names.claims_dir(root), names.registry_dir(root), root):
        sync_directory(directory)


def read(root: str, name: str, generation: int, registry_keys: Sequence[bytes]) -> Claimant | None:
    """Who made a claim; None while it is empty or if it is unreadable."""
    try:
        return _read_claimant(root, name, generation, registry_keys)
    except OSError:
        return None


def newest_attributed(root: str, name: str, registry_keys: Sequence[bytes]) -> Claimant | None:
    """The newest claim of a name that names its maker; OSError if the system fails to read one."""
    for generation in sorted(_generations(root, name), reverse=True):
        try:
            claimant = _read_claimant(root, name, generation, registry_keys)
        except OSError as error:
            if error.errno in FAILING:
                raise
            continue  # it was just removed, or is none
        if claimant is not None:
            return claimant
    return None


def _read_claimant(root: str, name: str, generation: int, registry_keys: Sequence[bytes]) -> Claimant | None:
    path = names.claim_path(root, name, generation)
    fd = opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return decode_claim(os.read(fd, MAX_CLAIM_BYTES), registry_keys)
    finally:
        os.close(fd)


def decode_claim(data: bytes, registry_keys: Sequence[bytes]) -> Claimant | None:
    """What a claim's file says; None if it does not say who made it.

    Without the MAC of an accepted key it tells of its maker only.
    """
    line, _, rest = data.partition(b"\n")
    mac = rest.partition(b"\n")[0]
    is_authentic = any(hmac.compare_digest(mac, entry_mac(key, line)) for key in registry_keys)
    try:
        return _claimant(read_json(line, MAX_VALUE_DEPTH), is_authentic)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _claimant(values: dict[str, Any], is_authentic: bool) -> Claimant:
    maker = Identity(
        pid=_whole(values["pid"]),
        pid_start=_whole(values["pid_start"]),
        pid_namespace=_text(values["pid_namespace"]),
        host=_text(values["host"]),
        boot_id=_text(values["boot_id"]),
    )
    made, above = values.get("made_monotonic_ms"), values.get("above")
    return Claimant(
        maker,
        _whole(values["lease"]),
        None if made is None else _whole(made),
        _whole(above) if is_authentic and above is not None else None,
        is_authentic and values.get("ephemeral") is True,
        values.get("sweeps") is True,
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("no whole number")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError("no text")
    return value


def release(root: str, name: str, generation: int) -> None:
    """Say that no entry follows this claim any more: an absent entry means a free name (R-4)."""
    try:
        _make_read_only(names.claim_path(root, name, generation))
    except OSError:
        pass  # a newer claim replaced it


def _make_read_only(claim: int | str) -> None:
    """Take the right to write from all; in the root of a group, members may still read."""
    os.chmod(claim, stat.S_IMODE(os.stat(claim).st_mode) & 0o440)


def is_released(root: str, name: str, generation: int) -> bool | None:
    """Whether the owner left cleanly, which makes its claim read-only; None if the claim is gone.

    OSError if that cannot be told.
    """
    try:
        return not os.stat(names.claim_path(root, name, generation)).st_mode & 0o200
    except FileNotFoundError:
        return None


def encode_claim(claimant: Claimant, registry_key: bytes) -> bytes:
    """The two lines of a claim's file."""
    fields = {**asdict(claimant.identity), "lease": claimant.lease_ms, "made_monotonic_ms": claimant.made_ms}
    if claimant.above is not None:
        fields["above"] = claimant.above
    fields.update({what: True for what in ("ephemeral", "sweeps") if getattr(claimant, what)})
    line = json.dumps(fields).encode()
    return line + b"\n" + entry_mac(registry_key, line) + b"\n"


def remove(root: str, name: str, generation: int) -> None:
    """Remove a claim under which nothing was published; no error if it is gone. OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(names.claim_path(root, name, generation))


def remove_older(root: str, name: str, generation: int) -> int:
    """Remove claims below ``generation``. Returns how many were removed."""
    removed = 0
    for older in _generations(root, name) if generation > 1 else ():
        if older < generation:
            try:
                os.unlink(names.claim_path(root, name, older))
                removed += 1
            except OSError:
                pass
    return removed


LOCK_SECONDS = 1.0
"""Short, because whoever renews a lease waits for it."""


def floor_of(root: str, name: str, keyring: Keyring) -> int:
    """The highest generation that may have been forgotten of ``name``. WireError if the file is not authentic."""
    return _read_floors(root, keyring.registry_keys)[names.node_id(name)[0]]


def forgotten_up_to(root: str, name: str, keyring: Keyring) -> int:
    """Nothing of the lives of ``name`` up to this generation is accepted any more (L-15). WireError, OSError."""
    try:
        claimant = newest_attributed(root, name, keyring.registry_keys)
    except FileNotFoundError:
        return 0  # nobody ever registered here
    floor = None if claimant is None else claimant.above
    return floor_of(root, name, keyring) if floor is None else floor


def raise_floor(root: str, name: str, generation: int, keyring: Keyring) -> None:
    """Raise it to at least ``generation``, on disk before this returns. StorageError while others hold the lock."""
    lock = try_lock(names.floor_lock(root), LOCK_SECONDS)
    if lock is None:
        raise StorageError(f"{names.floor_lock(root)} is held by another process: nothing was forgotten")
    try:
        floors = list(_read_floors(root, keyring.registry_keys))
        bucket = names.node_id(name)[0]
        if floors[bucket] < generation:
            floors[bucket] = generation
            _write_floors(root, floors, keyring.registry_key)
    finally:
        lock.release()


def seal_anew(root: str, keyring: Keyring) -> None:
    """Write the floor again with the first key, so that an older key can be retired."""
    try:
        _read_floors(root, (keyring.registry_key,))
    except WireError:
        lock = try_lock(names.floor_lock(root), LOCK_SECONDS)
        if lock is not None:
            try:
                _write_floors(root, list(_read_floors(root, keyring.registry_keys)), keyring.registry_key)
            finally:
                lock.release()


def _read_floors(root: str, registry_keys: tuple[bytes, ...]) -> tuple[int, ...]:
    try:
        directory = open_directory(names.claims_dir(root))
    except FileNotFoundError:
        return NO_FLOOR
    try:
        data = read_small(names.FLOOR, directory, owners_of(directory), FLOOR_BYTES + 1)
    except FileNotFoundError:
        return NO_FLOOR
    finally:
        os.close(directory)
    return decode_floors(data, registry_keys)


def _write_floors(root: str, floors: list[int], registry_key: bytes) -> None:
    directory = open_directory(names.claims_dir(root))
    try:
        os.close(replace_file(names.FLOOR, encode_floors(floors, registry_key), directory, durable=True))
    finally:
        os.close(directory)
