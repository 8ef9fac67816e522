"""The file of the floor (R-24): read by who claims a name, raised by who forgets one."""

from __future__ import annotations

import os

from speed.errors import StorageError, WireError
from speed.fs import claim
from speed.fs.lock import try_lock
from speed.fs.open import open_directory, owners_of, read_small, replace_file
from speed.wire import names
from speed.wire.floor import FLOOR_BYTES, NO_FLOOR, decode_floors, encode_floors
from speed.wire.seal import Keyring

LOCK_SECONDS = 1.0
"""Short, because whoever renews a lease waits for it."""


def floor_of(root: str, name: str, keyring: Keyring) -> int:
    """The highest generation that may have been forgotten of ``name``. WireError if the file is not authentic."""
    return _read(root, keyring.registry_keys)[names.node_id(name)[0]]


def forgotten_up_to(root: str, name: str, keyring: Keyring) -> int:
    """Nothing of the lives of ``name`` up to this generation is accepted any more (L-15). WireError, OSError."""
    try:
        claimant = claim.newest_told(root, name, keyring.registry_keys)
    except FileNotFoundError:
        return 0  # nobody ever registered here
    told = None if claimant is None else claimant.above
    return floor_of(root, name, keyring) if told is None else told


def raise_floor(root: str, name: str, generation: int, keyring: Keyring) -> None:
    """Raise it to at least ``generation``, on disk before this returns. StorageError while others hold the lock."""
    lock = try_lock(names.floor_lock(root), LOCK_SECONDS)
    if lock is None:
        raise StorageError(f"{names.floor_lock(root)} is held by another process: nothing was forgotten")
    try:
        floors = list(_read(root, keyring.registry_keys))
        bucket = names.node_id(name)[0]
        if floors[bucket] < generation:
            floors[bucket] = generation
            _write(root, floors, keyring.registry_key)
    finally:
        lock.release()


def seal_anew(root: str, keyring: Keyring) -> None:
    """Write the floor again with the first key, so that an older key can be retired."""
    try:
        _read(root, (keyring.registry_key,))
    except WireError:
        lock = try_lock(names.floor_lock(root), LOCK_SECONDS)
        if lock is not None:
            try:
                _write(root, list(_read(root, keyring.registry_keys)), keyring.registry_key)
            finally:
                lock.release()


def _read(root: str, registry_keys: tuple[bytes, ...]) -> tuple[int, ...]:
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


def _write(root: str, floors: list[int], registry_key: bytes) -> None:
    directory = open_directory(names.claims_dir(root))
    try:
        os.close(replace_file(names.FLOOR, encode_floors(floors, registry_key), directory, durable=True))
    finally:
        os.close(directory)
