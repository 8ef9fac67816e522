"""Registering and leaving while calls fail: no entry without a node, no node without its entry (R-4, R-5, R-14)."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from typing import Any

import pytest

from speed.errors import StorageError
from speed.fs import claim
from speed.fs.registry import Registry
from speed.wire import names
from tests.fs.entries import LONG


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def failing_listing(monkeypatch: pytest.MonkeyPatch, registry: Registry, after: int) -> None:
    """Once the entry stands, the claims can be listed ``after`` times and then no more."""
    real, path = os.scandir, names.entry_path(registry.root, "billing")
    left = [after]

    def scandir(directory: Any) -> Any:
        if directory == names.claims_dir(registry.root) and os.path.exists(path):
            if not left[0]:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            left[0] -= 1
        return real(directory)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_failure_after_publication_takes_the_entry_away_again(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5, step 5: nobody must find the entry of a node that does not run."""
    before = descriptors()
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="cannot register 'billing'"):
        failing_listing(patch, registry, 0)
        registry.register("billing", **LONG)
    assert reader.read("billing") is None
    assert claim.is_released(registry.root, "billing", 1)
    assert descriptors() == before
    assert registry.register("billing", **LONG).entry.generation == 2


def test_claims_that_cannot_be_removed_keep_nobody_from_registering(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5, step 6: they stay."""
    registry.register("billing", **LONG).remove()
    with monkeypatch.context() as patch:
        failing_listing(patch, registry, 1)
        registration = registry.register("billing", **LONG)
    assert reader.live("billing") == registration.entry
    assert sorted(os.listdir(names.claims_dir(registry.root))) == ["billing.000001", "billing.000002"]


def test_a_heartbeat_that_waited_for_the_removal_installs_nothing(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-14, R-15: the entry would outlive its node."""
    registration = registry.register("billing", **LONG)
    beats = threading.Thread(target=registration.heartbeat)
    real = claim.release

    def release(*arguments: Any) -> None:
        beats.start()  # the removal holds the lock that the heartbeat asks for
        real(*arguments)

    monkeypatch.setattr(claim, "release", release)
    registration.remove()
    beats.join(20)
    assert not beats.is_alive()
    assert reader.read("billing") is None
    registration.heartbeat()
    assert reader.read("billing") is None


def test_what_could_not_be_published_is_not_published_later(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
):
    """A-2: the program was told that it failed."""
    registration = registry.register("billing", **LONG)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(os, "pwrite", full)
        registration.update(allow=("analytics",))
    registration.heartbeat()
    entry = reader.read("billing")
    assert entry is not None
    assert entry.allow == ()


def test_a_registration_whose_name_is_lost_holds_no_descriptor(registry: Registry, reader: Registry):
    """R-12: and touches the entry no more."""
    before = descriptors()
    registration = registry.register("billing", **LONG)
    registration.release()
    assert descriptors() == before
    entry = reader.read("billing")
    registration.heartbeat()
    registration.update(allow=("analytics",))
    registration.remove()
    assert reader.read("billing") == entry == registration.entry


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN"])
def test_a_claim_with_a_number_that_is_none_tells_nothing(registry: Registry, number: bytes):
    """R-4: it counts as one that cannot be read."""
    path = pathlib.Path(names.claim_path(registry.root, "billing", 1))
    rest = b'"pid_start":1,"pid_namespace":"","host":"","boot_id":"","lease":1}'
    path.write_bytes(b'{"pid":' + number + b"," + rest)
    assert claim.read(registry.root, "billing", 1, registry.keyring.registry_keys) is None
