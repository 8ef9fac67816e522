"""`speed root init --group`, and what `speed root doctor` says of the root of a group."""

from __future__ import annotations

import encodings.ascii  # noqa: F401 - another user may not be able to read it later
import grp
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock  # noqa: F401 - likewise
import pytest

from speed.cli.options import Settings
from speed.fs.identity import try_lock
from speed.fs.keyfile import load_key_file
from speed.observe.root import examine
from tests.fs.test_root_and_keyfile import NOBODY, as_nobody
from tests.system.commands import Command
from tests.system.confined import IS_ROOT

pytestmark = [pytest.mark.system, pytest.mark.skipif(not IS_ROOT, reason="only root shares a root")]

GROUP = grp.getgrall()[-1]


@pytest.fixture
def shared(run: Command) -> Iterator[Path]:
    """A root of the group, below directories that everybody may enter."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        root = Path(place, "root")
        made = run("root", "init", "--root", str(root), "--key", f"{root}/speed.key", "--group", GROUP.gr_name)
        assert made.status == 0, made.err
        run.environment |= {"SPEED_ROOT": str(root)}
        yield root


def rights(path: Path) -> tuple[int, int]:
    status = path.stat()
    return stat.S_IMODE(status.st_mode), status.st_gid


def test_init_makes_the_root_of_a_group_and_keeps_it_the_second_time(run: Command, shared: Path) -> None:
    """R-29."""
    key = (shared / "speed.key").read_bytes()
    for _ in range(2):
        assert rights(shared) == (0o3770, GROUP.gr_gid)
        assert rights(shared / "speed_registry") == (0o2770, GROUP.gr_gid)
        assert rights(shared / "speed_registry" / ".claims") == (0o2770, GROUP.gr_gid)
        assert rights(shared / "speed.key") == (0o640, GROUP.gr_gid)
        assert run("root", "init", "--root", str(shared)).status == 0
    assert (shared / "speed.key").read_bytes() == key


def test_a_rotated_key_is_still_read_by_its_group(run: Command, shared: Path) -> None:
    """W-14."""
    assert run("key", "rotate", str(shared / "speed.key")).status == 0
    assert rights(shared / "speed.key") == (0o640, GROUP.gr_gid)


def test_a_group_that_there_is_not_is_named(run: Command) -> None:
    refused = run("root", "init", "--root", str(run.root / "shared"), "--group", "no-such-group", "--json")
    assert refused.error["code"] == "CONFIGURATION"
    assert "no-such-group" in refused.error["message"]
    assert not (run.root / "shared").exists()


def test_doctor_finds_nothing_wrong_with_the_root_of_a_group(run: Command, shared: Path) -> None:
    well = run("root", "doctor", "--root", str(shared), "--json")
    found = {one["check"]: one for one in well.value["findings"]}
    assert [one for one in found.values() if one["state"] == "broken"] == []
    assert "a group's" in found["permissions"]["found"]


def test_doctor_names_what_lost_the_rights_of_the_group(run: Command, shared: Path) -> None:
    lane = shared / "billing" / "inbox"
    lane.mkdir(parents=True)
    for directory in (lane.parent, lane):
        directory.chmod(0o2770)
    lost = lane / "000001-00000001.lane"
    lost.touch()
    lost.chmod(0o600)
    sick = run("root", "doctor", "--root", str(shared), "--json")
    (one,) = [one for one in sick.value["findings"] if one["state"] == "broken"]
    assert (one["check"], one["todo"]) == ("group", f"chgrp {GROUP.gr_gid} {lost} && chmod g+rw {lost}")


def test_doctor_tells_who_is_no_member(shared: Path) -> None:
    settings = Settings(str(shared), str(shared / "speed.key"), False, None)

    def look() -> None:
        assert any("no member" in one.found and one.state == "broken" for one in examine(settings.root, settings.key))

    as_nobody(look)


def test_a_member_replaces_neither_key_nor_locks_nor_registry(shared: Path) -> None:
    """R-29: each member goes on with the key that root gave, and takes the locks that root made."""

    def attack() -> None:
        for name in ("speed.key", ".speed.key.lock", ".speedd.lock", "speed_registry"):
            with pytest.raises(PermissionError):
                (shared / name).rename(shared / "taken")
        with pytest.raises(PermissionError):
            (shared / "speed.key").open("ab")
        (shared / "mine").touch()
        load_key_file(str(shared / "speed.key"))
        lock = try_lock(str(shared / ".speedd.lock"))
        assert lock is not None
        lock.release()

    as_nobody(attack, GROUP.gr_gid)
    assert (shared / "mine").stat().st_gid == GROUP.gr_gid


def test_init_and_rotation_survive_what_others_left_beside_the_key(run: Command, shared: Path) -> None:
    """W-14: the beginnings of a key, another user's."""
    for words in (("key", "rotate", str(shared / "speed.key")), ("root", "init", "--root", str(shared))):
        (shared / "speed.key.new").touch(0o600)
        os.chown(shared / "speed.key.new", NOBODY, GROUP.gr_gid)
        done = run(*words)
        assert done.status == 0, done.err
        (shared / "speed.key").unlink()
