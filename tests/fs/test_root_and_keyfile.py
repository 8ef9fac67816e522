"""The root and the key file are private, or refused with what to do (rules R-1 to R-4)."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from speed.errors import KeyFileError, RootError
from speed.fs.identity import Identity, identity, process_alive
from speed.fs.keyfile import default_key_path, default_root, load_key_file, write_key_file
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.seal import Keyring

KEY = bytes(range(32))


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_root_is_made_private_whatever_the_umask(root: pathlib.Path):
    """R-1."""
    before = os.umask(0)
    try:
        prepare_root(str(root))
    finally:
        os.umask(before)
    assert mode(root) == mode(root / "speed_registry") == mode(root / "speed_registry" / ".claims") == 0o700


def test_entries_and_claims_are_private_files(root: pathlib.Path, registry: Registry):
    """R-2."""
    registry.register("billing")
    assert mode(root / "speed_registry" / "billing.node") == 0o600
    assert mode(root / "speed_registry" / ".claims" / "billing.000001") == 0o600


def test_a_group_root_shares_its_files_with_the_group(root: pathlib.Path, keyring: Keyring):
    """R-2."""
    root.mkdir()
    root.chmod(0o3770)
    Registry(root, keyring).register("billing")
    assert mode(root / "speed_registry") & 0o777 == 0o770
    assert mode(root / "speed_registry" / "billing.node") == 0o660


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o720])
def test_a_root_that_others_may_write_must_be_sticky(root: pathlib.Path, bits: int):
    """R-3: else others could rename a node's directory away."""
    root.mkdir()
    root.chmod(bits)
    with pytest.raises(RootError, match="chmod 700"):
        prepare_root(str(root))


def test_a_root_that_is_no_directory_is_refused(tmp_path: pathlib.Path):
    """R-3."""
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, file / "below"):
        with pytest.raises(RootError):
            prepare_root(str(wrong))


def test_a_link_in_place_of_the_registry_directory_is_refused(root: pathlib.Path, tmp_path: pathlib.Path):
    """R-3."""
    root.mkdir(mode=0o700)
    (root / "speed_registry").symlink_to(tmp_path)
    with pytest.raises(RootError, match="not a directory"):
        prepare_root(str(root))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_root_is_refused(root: pathlib.Path):
    """R-3."""
    root.mkdir(mode=0o500)
    with pytest.raises(RootError):
        prepare_root(str(root))


def test_the_default_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    """R-1."""
    monkeypatch.setenv("SPEED_ROOT", "/somewhere")
    assert default_root() == "/somewhere"
    monkeypatch.delenv("SPEED_ROOT")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_root() == "/run/user/7/speed"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_root().endswith(f"speed-{os.getuid()}")


def test_a_key_file_is_written_private_and_read_back(tmp_path: pathlib.Path):
    """R-4."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    assert mode(path) == 0o600
    assert load_key_file(str(path)).registry_key == Keyring((KEY,)).registry_key


def test_a_key_file_is_never_overwritten(tmp_path: pathlib.Path):
    """R-4: the old key would be lost."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    with pytest.raises(KeyFileError, match="exists"):
        write_key_file(str(path), (KEY,))


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_key_file_that_others_can_reach_is_refused_with_what_to_do(tmp_path: pathlib.Path, bits: int):
    """R-4."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    path.chmod(bits)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_key_file(str(path))


def test_a_shared_root_lets_the_group_read_the_key_but_not_write_it(tmp_path: pathlib.Path):
    """R-4."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    path.chmod(0o640)
    load_key_file(str(path), group_readable=True)
    path.chmod(0o660)
    with pytest.raises(KeyFileError):
        load_key_file(str(path), group_readable=True)


def test_links_fifos_and_missing_key_files_are_refused_without_blocking(tmp_path: pathlib.Path):
    """R-4."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    link = tmp_path / "link"
    link.symlink_to(path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    for wrong in (link, fifo, tmp_path / "missing", tmp_path):
        with pytest.raises(KeyFileError):
            load_key_file(str(wrong))


def test_the_key_is_looked_up_in_the_environment_then_beside_the_root(monkeypatch: pytest.MonkeyPatch):
    """R-4."""
    monkeypatch.setenv("SPEED_KEY", "/keys/a")
    assert default_key_path("/run/speed") == "/keys/a"
    monkeypatch.delenv("SPEED_KEY")
    assert default_key_path("/run/speed") == "/run/speed/speed.key"


def test_a_process_is_known_by_more_than_its_pid():
    """R-9."""
    own = identity()
    assert process_alive(own, own) is True
    assert process_alive(own._replace(pid_start=own.pid_start + 1), own) is False
    assert process_alive(own._replace(pid=2**22 + 1), own) is False
    assert process_alive(own._replace(boot_id="elsewhere"), own) is None
    assert process_alive(own._replace(pid_namespace="pid:[1]"), own) is None
    nowhere = Identity(0, 0, "", "", "")
    assert process_alive(nowhere, nowhere) is None
