"""A root is used only if nobody else can change it or what lies above it: real users, modes and access lists."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator

import pytest

from scripts.vectors.trust import USER, access_list
from speed.errors import RootError
from speed.fs.keyfile import default_root, write_key_file
from speed.fs.root import check_root, prepare_root, share_root
from speed.journal.writer import JournalWriter
from speed.message.keystore import write_keys
from tests.fs.test_root_and_keyfile import NOBODY, as_nobody

SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the files of somebody else")


@pytest.fixture
def place() -> Iterator[pathlib.Path]:
    """A sticky directory of root in which everybody may make files, as /dev/shm is, and below it."""
    path = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


def refusal(root: pathlib.Path) -> str:
    with pytest.raises(RootError) as refused:
        prepare_root(str(root))
    return str(refused.value)


def listing(path: pathlib.Path, user: int, name: str = "system.posix_acl_access") -> None:
    try:
        os.setxattr(path, name, bytes.fromhex(access_list((USER, 7, user))))
    except OSError:
        pytest.skip("no access lists on this filesystem")


def made_first_with_a_list(root: pathlib.Path) -> None:
    root.mkdir(0o700)
    listing(root, SOMEBODY)
    os.chown(root, NOBODY, NOBODY)


def made_first_for_a_group(root: pathlib.Path) -> None:
    root.mkdir()
    os.chown(root, NOBODY, os.getegid())
    root.chmod(0o2770)


def made_first(root: pathlib.Path) -> None:
    root.mkdir(0o700)
    os.chown(root, NOBODY, NOBODY)


def a_link_made_first(root: pathlib.Path) -> None:
    (root.parent / "own").mkdir(0o700)
    root.symlink_to("own")
    os.chown(root, NOBODY, NOBODY, follow_symlinks=False)


@as_root
@pytest.mark.parametrize(
    "make",
    [made_first, made_first_with_a_list, made_first_for_a_group, a_link_made_first],
    ids=lambda make: make.__name__,
)
def test_a_root_that_another_user_made_first_is_refused(
    place: pathlib.Path, make: Callable[[pathlib.Path], None]
) -> None:
    """R-28: in /dev/shm, say, where anybody may make the root that this user would have by default."""
    root = place / "speed-0"
    make(root)
    assert f"{root} belongs to another user (uid {NOBODY})" in refusal(root)
    assert not (root / "speed_registry").exists()


def test_a_root_in_a_sticky_directory_is_made_private(place: pathlib.Path) -> None:
    """R-28."""
    prepare_root(str(place / "speed"))
    assert stat.S_IMODE((place / "speed").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2775])
def test_a_root_below_a_directory_that_others_can_change_is_refused(place: pathlib.Path, mode: int) -> None:
    """R-28: they could put another in its place."""
    (place / "open" / "private").mkdir(parents=True)
    (place / "open").chmod(mode)
    assert f"others can write to {place / 'open'}" in refusal(place / "open" / "private" / "root")
    assert f"{place / 'open'}`" in refusal(place / "open" / "root")


@pytest.mark.parametrize("name", ["system.posix_acl_access", "system.posix_acl_default"])
def test_a_root_whose_access_list_lets_another_user_write_is_refused(place: pathlib.Path, name: str) -> None:
    """R-28: `chmod 700` hides such a list, and the next chmod brings it back."""
    root = place / "root"
    root.mkdir()
    listing(root, SOMEBODY, name)
    root.chmod(0o700)
    assert f"setfacl -bk {root}" in refusal(root)


def test_an_access_list_above_a_root_counts_by_what_it_gives(place: pathlib.Path) -> None:
    """R-28."""
    (place / "above").mkdir()
    listing(place / "above", SOMEBODY)
    assert f"others can write to {place / 'above'}" in refusal(place / "above" / "root")
    (place / "above").chmod(0o700)  # the mask: the list gives nothing now
    prepare_root(str(place / "above" / "root"))


@pytest.mark.parametrize("inner", ["speed_registry", "speed_registry/.claims"])
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_registry_that_others_can_change_is_refused(place: pathlib.Path, inner: str, mode: int) -> None:
    """R-28."""
    root = place / "root"
    prepare_root(str(root))
    (root / inner).chmod(mode)
    assert f"can write to {root / inner}" in refusal(root)


def test_a_registry_that_is_a_link_is_refused(place: pathlib.Path) -> None:
    """R-28."""
    root = place / "root"
    root.mkdir(mode=0o700)
    (place / "elsewhere").mkdir(mode=0o700)
    (root / "speed_registry").symlink_to(place / "elsewhere")
    assert f"{root / 'speed_registry'} is no directory" in refusal(root)


@as_root
def test_a_user_has_a_root_below_a_directory_of_root(place: pathlib.Path) -> None:
    """R-28."""
    as_nobody(lambda: prepare_root(str(place / "of-nobody")))
    assert (place / "of-nobody").stat().st_uid == NOBODY


@as_root
def test_root_trusts_no_root_of_a_user(place: pathlib.Path) -> None:
    """R-28: what the user puts there, root would write to."""
    as_nobody(lambda: prepare_root(str(place / "of-nobody")))
    with pytest.raises(RootError, match=f"uid {NOBODY}"):
        check_root(str(place / "of-nobody"))


def test_links_of_this_user_to_a_root_are_followed(place: pathlib.Path) -> None:
    """R-28."""
    prepare_root(str(place / "root"))
    (place / "link").symlink_to("root")
    prepare_root(str(place / "link"))


@pytest.mark.parametrize("mode", [0o770, 0o755, 0o1777])
def test_a_session_directory_to_which_others_have_a_right_is_passed_over(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """W-14."""
    monkeypatch.delenv("SPEED_ROOT", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    place.chmod(mode)
    assert default_root().endswith(f"/speed-{os.geteuid()}")
    place.chmod(0o700)
    assert default_root() == f"{place}/speed"


@as_root
def test_a_session_directory_of_another_user_is_passed_over(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-14: `sudo` and `su` keep the variable."""
    monkeypatch.delenv("SPEED_ROOT", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    place.chmod(0o700)
    os.chown(place, NOBODY, NOBODY)
    assert default_root().endswith("/speed-0")


def test_a_root_in_a_directory_of_a_group_is_private_all_the_same(place: pathlib.Path) -> None:
    """R-25: nobody asked for the root of a group."""
    place.chmod(0o3777)
    prepare_root(str(place / "deep" / "root"))
    for path in (place / "deep", place / "deep" / "root", place / "deep" / "root" / "speed_registry"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o777 == 0o700


def test_keys_and_journals_in_a_directory_of_a_group_are_private_all_the_same(place: pathlib.Path) -> None:
    """W-14, J-1."""
    place.chmod(0o3777)
    write_key_file(str(place / "speed.key"), (bytes(32),))
    JournalWriter(place / "journal", key=place / "speed.key").close()
    write_keys(str(place / "keys.json"), [])
    modes = {
        name: stat.S_IMODE((place / name).stat().st_mode) & 0o777 for name in ("speed.key", "journal", "keys.json")
    }
    assert modes == {"speed.key": 0o600, "journal": 0o700, "keys.json": 0o600}


def test_a_key_file_in_the_root_of_a_group_is_read_by_its_group(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "root"
    prepare_root(str(root))
    share_root(str(root), os.getegid())
    key = root / "speed.key"
    write_key_file(str(key), (bytes(32),))
    assert stat.S_IMODE(key.stat().st_mode) == 0o640


def test_a_key_file_that_a_group_reads_is_still_read_by_it_after_a_change(tmp_path: pathlib.Path) -> None:
    key = tmp_path / "speed.key"
    write_key_file(str(key), (bytes(32),))
    key.chmod(0o640)
    write_key_file(str(key), (b"\x01" * 32,), replace=True)
    assert stat.S_IMODE(key.stat().st_mode) == 0o640
