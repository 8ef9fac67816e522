"""The root and the key file are private, or refused with what to do (R-1, R-6, W-14)."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterator

import pytest

from speed.errors import KeyFileError, RootError
from speed.fs import keyfile
from speed.fs.identity import identity, process_alive
from speed.fs.keyfile import default_key, default_root, load_key_file, read_keys, write_key_file
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.seal import Keyring, format_key_file

KEY = bytes(range(32))
KEYS = Keyring((KEY,))
NOBODY = 65534


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
    """R-1."""
    registry.register("billing", lease_ms=30_000, heartbeat_ms=5_000)
    assert mode(root / "speed_registry" / "billing.node") == 0o600
    assert mode(root / "speed_registry" / ".claims" / "billing.000001") == 0o600


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o702])
def test_a_root_that_everybody_may_write_is_refused(root: pathlib.Path, bits: int):
    """R-1."""
    root.mkdir()
    root.chmod(bits)
    with pytest.raises(RootError, match="chmod 700"):
        prepare_root(str(root))


def test_a_root_that_is_no_directory_is_refused(tmp_path: pathlib.Path):
    """R-1."""
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, file / "below"):
        with pytest.raises(RootError):
            prepare_root(str(wrong))


def as_nobody(action: Callable[[], None], group: int = NOBODY) -> None:
    """Run ``action`` in a child without the rights of root, to whom nothing is forbidden; it must not raise."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([group])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            action()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def open_to_nobody() -> Iterator[pathlib.Path]:
    """A directory that every user may enter, unlike those of ``tmp_path``."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


def test_a_root_that_this_user_may_not_write_is_refused(open_to_nobody: pathlib.Path):
    """R-1."""
    read_only = open_to_nobody / "root"
    read_only.mkdir(mode=0o555)
    if os.geteuid() == 0:
        os.chown(read_only, NOBODY, NOBODY)

    def refused() -> None:
        for wrong in (read_only, open_to_nobody / "not" / "made"):
            with pytest.raises(RootError, match=r"choose another root"):
                prepare_root(str(wrong))

    if os.geteuid() != 0:
        open_to_nobody.chmod(0o555)
    as_nobody(refused)


def test_a_root_of_another_user_is_refused(open_to_nobody: pathlib.Path):
    """R-1."""
    foreign = open_to_nobody / "root"
    foreign.mkdir(mode=0o755)

    def refused() -> None:
        with pytest.raises(RootError, match=r"choose"):
            prepare_root(str(foreign) if os.geteuid() == NOBODY else "/")

    as_nobody(refused)


def test_the_default_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """R-1."""
    monkeypatch.setenv("SPEED_ROOT", "/somewhere")
    assert default_root() == "/somewhere"
    monkeypatch.delenv("SPEED_ROOT")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_root() == str(tmp_path / "speed")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_root().endswith(f"speed-{os.getuid()}")


def test_a_key_file_is_written_private_and_read_back(tmp_path: pathlib.Path):
    """W-14."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    assert mode(path) == 0o600
    assert load_key_file(str(path)).registry_key == Keyring((KEY,)).registry_key


def test_a_key_file_is_never_overwritten(tmp_path: pathlib.Path):
    """W-14: the old key would be lost."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    with pytest.raises(KeyFileError, match="exists"):
        write_key_file(str(path), (KEY,))


@pytest.mark.parametrize("bits", [0o644, 0o604, 0o620, 0o660, 0o610, 0o601])
def test_a_key_file_that_others_can_reach_is_refused_with_what_to_do(tmp_path: pathlib.Path, bits: int):
    """W-14."""
    path = tmp_path / "speed.key"
    write_key_file(str(path), (KEY,))
    path.chmod(bits)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_key_file(str(path))


def test_fifos_and_missing_key_files_are_refused_without_blocking(tmp_path: pathlib.Path):
    """W-14."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    dangling = tmp_path / "dangling"
    dangling.symlink_to("missing")
    for wrong in (fifo, tmp_path / "missing", tmp_path, dangling):
        with pytest.raises(KeyFileError):
            load_key_file(str(wrong))


@pytest.mark.parametrize(("number", "says"), [(errno.ENOENT, "there is no key file"), (errno.EACCES, "cannot read")])
def test_a_key_file_that_goes_while_it_is_opened_is_a_named_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    path = str(tmp_path / "speed.key")
    write_key_file(path, (bytes(32),))

    def failing(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("speed.fs.keyfile.os.open", failing)
    with pytest.raises(KeyFileError, match=says):
        read_keys(path)


def test_a_key_that_another_process_made_meanwhile_is_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "speed.key"
    locked = keyfile.try_lock

    def late(lock: str, seconds: float) -> object:
        path.write_bytes(format_key_file((bytes(32),)))
        path.chmod(0o600)
        return locked(lock, seconds)

    monkeypatch.setattr(keyfile, "try_lock", late)
    assert not keyfile.ensure_key_file(str(path), (bytes([1]) * 32,))
    assert read_keys(str(path)) == (bytes(32),)


def test_the_key_is_looked_up_in_the_environment_then_beside_the_root(monkeypatch: pytest.MonkeyPatch):
    """W-14."""
    monkeypatch.setenv("SPEED_KEY", "/keys/a")
    assert default_key("/run/speed") == "/keys/a"
    monkeypatch.delenv("SPEED_KEY")
    assert default_key("/run/speed") == "/run/speed/speed.key"


def test_a_credential_of_systemd_is_the_key_where_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """W-14."""
    monkeypatch.delenv("SPEED_KEY", raising=False)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert default_key("/run/speed") == "/run/speed/speed.key"
    (tmp_path / "speed.key").touch()
    assert default_key("/run/speed") == str(tmp_path / "speed.key")
    monkeypatch.setenv("SPEED_KEY", "/keys/a")
    assert default_key("/run/speed") == "/keys/a"


def test_a_process_is_known_by_more_than_its_pid():
    """R-6."""
    me = identity()
    assert process_alive(me.pid, me.pid_start, me.pid_namespace, me.boot_id) is True
    assert process_alive(me.pid, me.pid_start + 1, me.pid_namespace, me.boot_id) is False
    assert process_alive(2**22 + 1, me.pid_start, me.pid_namespace, me.boot_id) is False
    assert process_alive(me.pid, me.pid_start, me.pid_namespace, "elsewhere") is None
    assert process_alive(me.pid, me.pid_start, "pid:[1]", me.boot_id) is None
    assert process_alive(0, 0, me.pid_namespace, me.boot_id) is None


def test_a_key_file_that_cannot_be_read_says_why(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "speed.key")
    write_key_file(path, (KEY,))

    def fails(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(KeyFileError, match="Input/output error"):
        patch.setattr("speed.fs.keyfile.os.read", fails)
        load_key_file(path)
