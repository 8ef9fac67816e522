"""R-24: the floor of generations is authentic, only rises, and starts nobody where it was altered."""

from __future__ import annotations

import os
import pathlib
import threading

import pytest

from speed.errors import RegistrationError, StorageError, WireError
from speed.fs.claim import floor_of, raise_floor, seal_anew
from speed.fs.identity import try_lock
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.cursor import decode_floors, encode_floors
from speed.wire.seal import Keyring
from tests.fs.entries import LONG
from tests.vectors import load

VECTORS = load("floors")
KEYS = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"])).registry_keys


@pytest.mark.parametrize("case", VECTORS["floors_valid"], ids=lambda case: str(case["name"]))
def test_a_floor_is_read_as_the_vectors_say(case: dict[str, object]) -> None:
    floors = decode_floors(bytes.fromhex(str(case["hex"])), KEYS)
    assert {str(index): number for index, number in enumerate(floors) if number} == case["floors"]


@pytest.mark.parametrize("case", VECTORS["floors_invalid"], ids=lambda case: str(case["name"]))
def test_what_is_no_floor_is_refused(case: dict[str, object]) -> None:
    with pytest.raises(WireError, match="BAD_FLOOR"):
        decode_floors(bytes.fromhex(str(case["hex"])), KEYS)


def path_of(registry: Registry) -> pathlib.Path:
    return pathlib.Path(names.claims_dir(registry.root)) / names.FLOOR


def test_without_a_file_every_floor_is_zero(registry: Registry, keyring: Keyring) -> None:
    assert floor_of(registry.root, "billing", keyring) == 0


def test_a_floor_never_falls(registry: Registry, keyring: Keyring) -> None:
    raise_floor(registry.root, "billing", 7, keyring)
    raise_floor(registry.root, "billing", 3, keyring)
    assert floor_of(registry.root, "billing", keyring) == 7


def test_it_is_flushed_before_it_has_its_name(
    registry: Registry, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut could leave a floor that starts nobody."""
    flushed: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd))[1])
    raise_floor(registry.root, "billing", 1, keyring)
    claims = names.claims_dir(registry.root)
    assert flushed == [f"{claims}/{names.temporary_name(names.FLOOR)}", claims]


def test_those_who_raise_it_at_once_lose_nothing(registry: Registry, keyring: Keyring) -> None:
    threads = [
        threading.Thread(target=raise_floor, args=(registry.root, f"node{n}", n, keyring), name=f"raise-{n}")
        for n in range(1, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(floor_of(registry.root, f"node{n}", keyring) >= n for n in range(1, 20))


def test_a_lock_that_another_process_holds_is_waited_for_and_then_told(
    registry: Registry, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.fs.claim.LOCK_SECONDS", 0.01)
    lock = try_lock(names.floor_lock(registry.root))
    assert lock is not None
    with pytest.raises(StorageError, match="held by another process"):
        raise_floor(registry.root, "billing", 7, keyring)
    lock.release()


def test_a_name_that_was_never_claimed_begins_above_the_floor(registry: Registry, keyring: Keyring) -> None:
    raise_floor(registry.root, "billing", 7, keyring)
    assert registry.register("billing", **LONG).entry.generation == 8


def test_a_name_that_has_a_claim_goes_on_from_there(registry: Registry, keyring: Keyring) -> None:
    registry.register("billing", **LONG).remove()
    raise_floor(registry.root, "billing", 7, keyring)
    assert registry.register("billing", **LONG).entry.generation == 8  # the floor is above its claim


def test_an_altered_floor_starts_nobody(registry: Registry) -> None:
    path_of(registry).write_bytes(encode_floors([9] * 256, b"\x07" * 32))
    with pytest.raises(RegistrationError, match="restore that file from a backup"):
        registry.register("billing", **LONG)


def test_a_floor_of_an_older_key_is_sealed_anew(registry: Registry, keyring: Keyring) -> None:
    raise_floor(registry.root, "billing", 7, keyring)
    rotated = Keyring((b"\x55" * 32, bytes(range(32))))
    seal_anew(registry.root, rotated)
    assert floor_of(registry.root, "billing", Keyring((b"\x55" * 32,))) == 7
    before = os.stat(path_of(registry)).st_ino
    seal_anew(registry.root, rotated)
    assert os.stat(path_of(registry)).st_ino == before  # nothing to do
