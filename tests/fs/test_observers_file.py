"""Who may look at all nodes of a root is what its owner wrote, and nobody else: real files, users and modes (A-7)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.errors import ConfigurationError
from speed.fs.root import ensure_observers, observers_of, prepare_root, share_root
from tests.fs.test_root_and_keyfile import NOBODY

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the files of somebody else")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    prepare_root(str(path))
    return path


def file_of(root: Path) -> Path:
    return root / "speed_registry" / ".observers"


def write(root: Path, text: str = "speedd\ncli.*\n", mode: int = 0o600) -> Path:
    path = file_of(root)
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(root: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        observers_of(str(root))
    return str(refused.value)


def test_a_root_without_the_file_lets_nobody_look(root: Path) -> None:
    """A-7."""
    assert observers_of(str(root)) == ()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
def test_those_named_by_the_owner_may_look(root: Path, mode: int) -> None:
    """A-7: others may read it."""
    write(root, mode=mode)
    assert observers_of(str(root)) == ("cli.*", "speedd")


def as_a_link(root: Path) -> None:
    (root / "elsewhere").write_text("cli.*\n")
    file_of(root).symlink_to(root / "elsewhere")


def with_a_second_name(root: Path) -> None:
    os.link(write(root), root / "second")


def as_a_fifo(root: Path) -> None:
    os.mkfifo(file_of(root), 0o600)


def writable_by_others(root: Path) -> None:
    write(root, mode=0o602)


def writable_by_the_group(root: Path) -> None:
    write(root, mode=0o660)


def of_another_user(root: Path) -> None:
    os.chown(write(root), NOBODY, NOBODY)


def too_long(root: Path) -> None:
    write(root, "#" * (1 << 20))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (as_a_link, "it is a link"),
        (with_a_second_name, "it has a second name"),
        (as_a_fifo, "it is no regular file"),
        (Path.mkdir, "it is no regular file"),
        (writable_by_others, "others can write to it: run `chmod go-w"),
        (writable_by_the_group, "others can write to it"),
        pytest.param(of_another_user, "it belongs to another user", marks=as_root),
        (too_long, "more than 4096 bytes"),
        (lambda root: write(root, "cli.*\n*\n"), "line 2 is neither a node name nor a family"),
    ],
)
def test_what_somebody_else_could_have_written_names_nobody(root: Path, make: Callable[[Path], None], why: str) -> None:
    """A-7: and the path is named, with what to do."""
    make(file_of(root) if make is Path.mkdir else root)
    text = refusal(root)
    assert why in text
    assert str(file_of(root)) in text


@as_root
def test_root_may_name_observers_in_the_root_of_another_user(root: Path) -> None:
    """A-7."""
    os.chown(root, NOBODY, NOBODY)
    write(root)
    assert observers_of(str(root)) == ("cli.*", "speedd")


def test_a_new_root_lets_speedd_and_commands_look(tmp_path: Path) -> None:
    """A-7: as `speed root init` makes it."""
    speed.init_root(tmp_path / "new")
    assert observers_of(str(tmp_path / "new")) == ("cli.*", "speedd")
    assert stat.S_IMODE(file_of(tmp_path / "new").stat().st_mode) == 0o600
    assert not list((tmp_path / "new" / "speed_registry").glob(".tmp-*"))


def test_what_the_owner_wrote_stays(root: Path) -> None:
    """A-7: an empty file lets nobody look."""
    write(root, "")
    assert not ensure_observers(str(root))
    assert observers_of(str(root)) == ()


@as_root
def test_the_file_of_a_groups_root_is_read_by_its_members_and_written_by_none(root: Path) -> None:
    """A-7, R-29: whatever the umask."""
    share_root(str(root), NOBODY)
    before = os.umask(0o077)
    try:
        assert ensure_observers(str(root))
    finally:
        os.umask(before)
    status = file_of(root).stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, NOBODY, 0o640)


@as_root
def test_only_the_owner_of_a_root_lets_others_look(root: Path) -> None:
    """A-7."""
    os.chown(root, NOBODY, NOBODY)
    assert not ensure_observers(str(root))
    assert not file_of(root).exists()
