"""The files of claims, entries and keys, one call at a time (R-4, R-13, W-14)."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from speed.errors import KeyFileError
from speed.fs import claim
from speed.fs.claim import remove_entry_file
from speed.fs.identity import identity
from speed.fs.keyfile import read_keys, write_key_file
from speed.fs.registry import Registry
from speed.wire import names
from tests.fs.conftest import KEY

MINE = claim.Claimant(identity(), 30_000, 7)


def test_a_claim_is_won_once_and_read_back(registry: Registry) -> None:
    """R-4."""
    assert claim.take(registry.root, "billing", 1, MINE, registry.keyring.registry_key)
    assert not claim.take(registry.root, "billing", 1, MINE, registry.keyring.registry_key)
    assert claim.read(registry.root, "billing", 1, registry.keyring.registry_keys) == MINE
    assert claim.read(registry.root, "billing", 2, registry.keyring.registry_keys) is None


def test_a_claim_that_is_not_on_the_disk_is_given_back(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-4: no entry will follow it, so it must not keep the name for a lease."""

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="broken"):
        patch.setattr(os, "fsync", broken)
        claim.take(registry.root, "billing", 1, MINE, registry.keyring.registry_key)
    assert claim.is_released(registry.root, "billing", 1)


def test_a_claim_that_a_newer_one_replaced_is_gone(registry: Registry) -> None:
    """R-4."""
    claim.release(registry.root, "billing", 1)
    assert claim.is_released(registry.root, "billing", 1) is None


def test_an_older_claim_that_cannot_be_removed_stays_and_is_not_counted(registry: Registry) -> None:
    """R-4: it is in nobody's way."""
    for generation in (2, 3):
        assert claim.take(registry.root, "billing", generation, MINE, registry.keyring.registry_key)
    pathlib.Path(names.claim_path(registry.root, "billing", 1)).mkdir()
    assert claim.remove_older(registry.root, "billing", 3) == 1
    assert claim.newest(registry.root, "billing") == 3


def test_an_entry_that_somebody_else_removed_first_is_none_of_ours(registry: Registry) -> None:
    """R-13."""
    path = pathlib.Path(names.entry_path(registry.root, "billing"))
    path.write_bytes(b"stale")

    def is_meant(place: str) -> bool:
        seen = path.exists()
        path.unlink(missing_ok=True)
        return seen

    assert not remove_entry_file(registry.root, "billing", is_meant)


def test_a_key_file_that_is_too_large_or_of_another_user_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-14."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    with monkeypatch.context() as patch, pytest.raises(KeyFileError, match="another user"):
        patch.setattr(os, "geteuid", lambda: 12345)
        patch.setattr(os, "fstat", lambda fd: os.stat_result((0o100600, 0, 0, 1, 54321, 0, 0, 0, 0, 0)))
        read_keys(str(path))
    path.write_bytes(path.read_bytes() + b" " * 5000)
    with pytest.raises(KeyFileError, match="too large"):
        read_keys(str(path))


def test_a_key_file_that_cannot_be_written_is_a_named_error(tmp_path: pathlib.Path) -> None:
    """W-14."""
    with pytest.raises(KeyFileError, match="cannot write"):
        write_key_file(str(tmp_path / "absent" / "speed.key"), (KEY,))
