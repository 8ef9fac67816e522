"""A key file is one whose every step, from the root of the file system on, only root or this user can change."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

from speed.errors import KeyFileError
from speed.fs.keyfile import load_key_file, write_key_file
from tests.fs.test_root_and_keyfile import as_nobody

KEY = bytes(range(32))
NOBODY = 65534
SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the files of somebody else")


@pytest.fixture
def place() -> Iterator[pathlib.Path]:
    """A directory that every user may enter and nobody else may write to."""
    path = pathlib.Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def key_at(path: pathlib.Path, mode: int = 0o600, owner: int = 0, group: int = 0) -> pathlib.Path:
    write_key_file(str(path), (KEY,))
    if os.geteuid() == 0:
        os.chown(path, owner, group)
    path.chmod(mode)
    return path


def refusal(path: pathlib.Path) -> str:
    with pytest.raises(KeyFileError) as refused:
        load_key_file(str(path))
    return str(refused.value)


def secret_volume(place: pathlib.Path, group: int) -> pathlib.Path:
    """What Kubernetes mounts for a secret with ``defaultMode: 0440`` and ``fsGroup``, as it is on a node."""
    volume = place / "secret"
    volume.mkdir()
    data = volume / "..2024_05_06_07_08_09.123456789"
    data.mkdir()
    key_at(data / "speed.key", 0o440, 0, group)
    (volume / "..data").symlink_to(data.name)
    (volume / "speed.key").symlink_to("..data/speed.key")
    for path, mode in ((volume, 0o3777), (data, 0o2755)):
        os.chown(path, 0, group)
        path.chmod(mode)
    return volume / "speed.key"


@as_root
def test_the_secret_of_a_pod_is_read_by_a_member_of_its_group(place: pathlib.Path) -> None:
    """W-14."""
    path = secret_volume(place, NOBODY)
    as_nobody(lambda: load_key_file(str(path)))


@as_root
def test_the_secret_of_a_pod_is_not_read_by_who_is_in_another_group(place: pathlib.Path) -> None:
    """W-14: as root, whom the kernel lets read it; the rule does not."""
    assert "others can reach" in refusal(secret_volume(place, SOMEBODY))


@as_root
@pytest.mark.parametrize("mode", [0o400, 0o440])
def test_a_credential_of_systemd_is_read(place: pathlib.Path, mode: int) -> None:
    """W-14: the file is root's; an access list that lets the user read shows in the bits of root's own group."""
    credentials = place / "speedd.service"
    credentials.mkdir()
    path = key_at(credentials / "speed.key", mode)
    credentials.chmod(0o550)
    load_key_file(str(path))


def test_a_key_file_that_an_own_group_may_read_is_read(place: pathlib.Path) -> None:
    """W-14."""
    load_key_file(str(key_at(place / "speed.key", 0o640, 0, os.getegid())))


@as_root
@pytest.mark.parametrize("mode", [0o640, 0o440])
def test_a_key_file_that_a_foreign_group_may_read_is_refused(place: pathlib.Path, mode: int) -> None:
    """W-14."""
    assert "chmod 600" in refusal(key_at(place / "speed.key", mode, 0, SOMEBODY))


def test_links_of_this_user_are_followed_however_they_lead(place: pathlib.Path) -> None:
    """W-14: relative, absolute, through directories, up and down."""
    (place / "deep" / "er").mkdir(parents=True)
    key_at(place / "deep" / "er" / "speed.key")
    (place / "directory").symlink_to("deep/er")
    (place / "relative").symlink_to("./deep/../directory/speed.key")
    (place / "absolute").symlink_to(place / "relative")
    load_key_file(str(place / "absolute"))


def test_links_without_an_end_are_refused(place: pathlib.Path) -> None:
    """W-14."""
    (place / "one").symlink_to("two")
    (place / "two").symlink_to("one")
    assert "more than 40 links" in refusal(place / "one")


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_directory_to_which_others_can_write_is_refused_with_what_to_do(place: pathlib.Path, mode: int) -> None:
    """W-14: they could put their key in the place of this one."""
    (place / "open").mkdir()
    key_at(place / "open" / "speed.key")
    (place / "open").chmod(mode)
    assert f"chmod go-w {place / 'open'}" in refusal(place / "open" / "speed.key")


def test_a_directory_far_above_the_key_counts_too(place: pathlib.Path) -> None:
    """W-14."""
    (place / "open" / "private").mkdir(parents=True)
    key_at(place / "open" / "private" / "speed.key")
    (place / "open" / "private").chmod(0o700)
    (place / "open").chmod(0o777)
    assert "others can write" in refusal(place / "open" / "private" / "speed.key")


def test_the_way_of_a_link_counts_as_well_as_the_link(place: pathlib.Path) -> None:
    """W-14."""
    (place / "open").mkdir()
    key_at(place / "open" / "speed.key")
    (place / "open").chmod(0o777)
    (place / "link").symlink_to("open/speed.key")
    assert "others can write" in refusal(place / "link")


def foreign_directory(place: pathlib.Path) -> pathlib.Path:
    (place / "theirs").mkdir()
    key_at(place / "theirs" / "speed.key")
    os.chown(place / "theirs", SOMEBODY, SOMEBODY)
    return place / "theirs" / "speed.key"


def foreign_link(place: pathlib.Path) -> pathlib.Path:
    key_at(place / "speed.key")
    (place / "link").symlink_to("speed.key")
    os.chown(place / "link", SOMEBODY, SOMEBODY, follow_symlinks=False)
    return place / "link"


def foreign_file(place: pathlib.Path) -> pathlib.Path:
    return key_at(place / "speed.key", 0o600, SOMEBODY)


def foreign_link_in_a_sticky_directory(place: pathlib.Path) -> pathlib.Path:
    path = foreign_link(place)
    place.chmod(0o1777)
    return path


@as_root
@pytest.mark.parametrize(
    "make",
    [foreign_directory, foreign_link, foreign_file, foreign_link_in_a_sticky_directory],
    ids=lambda f: f.__name__,
)
def test_a_step_of_another_user_is_refused(place: pathlib.Path, make: Callable[[pathlib.Path], pathlib.Path]) -> None:
    """W-14."""
    assert f"belongs to another user (uid {SOMEBODY})" in refusal(make(place))


def test_in_a_sticky_directory_a_file_of_this_user_is_read(place: pathlib.Path) -> None:
    """W-14: others may write there, but not to what is this user's."""
    place.chmod(0o1777)
    load_key_file(str(key_at(place / "speed.key")))


def test_a_file_in_place_of_a_directory_is_a_named_error(place: pathlib.Path) -> None:
    """W-14."""
    key_at(place / "speed.key")
    assert "cannot read the key file" in refusal(place / "speed.key" / "below")


def test_a_key_file_is_found_from_the_working_directory(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-14."""
    key_at(place / "speed.key")
    monkeypatch.chdir(place)
    load_key_file("speed.key")
