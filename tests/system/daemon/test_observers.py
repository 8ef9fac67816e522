"""Who may look at the nodes of a root: speedd writes down itself and commands where nobody has said so (A-7)."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.errors import AccessDeniedError
from speed.fs.root import observers_of, prepare_root
from tests.fs.test_root_and_keyfile import NOBODY
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system

Start = Callable[..., Speedd]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the files of somebody else")


def file_of(directory: Path) -> Path:
    return directory / "root" / "speed_registry" / ".observers"


@pytest.fixture
def prepared(directory: Path) -> Path:
    """The file's place, in a root that nobody has served yet."""
    prepare_root(str(directory / "root"))
    return file_of(directory)


def looked(directory: Path, name: str) -> bool:
    """Whether a node of that name may read the figures of the process, which allows it nothing."""
    with speed.Node(name, root=directory / "root", key=directory / "speed.key") as node:
        assert "one" in [entry.name for entry in node.nodes()]
        try:
            return bool(node.stats("one", timeout=PATIENCE)["name"])
        except AccessDeniedError:
            return False


def test_speedd_lets_itself_and_commands_look_where_nobody_has_said_who_may(start: Start, directory: Path) -> None:
    speedd = start(ONE)
    assert speedd.until("observers")["names"] == ["speedd", "cli.*"]
    speedd.until("ready")
    status = file_of(directory).lstat()
    assert stat.S_ISREG(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == os.geteuid()
    assert observers_of(str(directory / "root")) == ("cli.*", "speedd")
    assert [one.name for one in file_of(directory).parent.glob(".tmp-*")] == []
    ends = time.monotonic() + PATIENCE
    while not looked(directory, "cli.1"):  # the process may have read the file before it was there
        assert time.monotonic() < ends
    assert not looked(directory, "clerk")


def test_a_speedd_of_another_name_lets_that_name_look(start: Start, directory: Path) -> None:
    start(ONE, head=HEAD.replace("[node]\n", '[node]\nname = "guard"\n')).until("ready")
    assert observers_of(str(directory / "root")) == ("cli.*", "guard")


@pytest.mark.parametrize("text", ["", "cli.root.1\n"])
def test_what_the_owner_wrote_stays_and_holds(start: Start, directory: Path, prepared: Path, text: str) -> None:
    prepared.write_text(text)
    prepared.chmod(0o600)
    start(ONE).until("ready")
    assert prepared.read_text() == text
    assert looked(directory, "cli.root.1") == bool(text)
    assert not looked(directory, "cli.other.1")


def test_a_link_in_its_place_is_neither_followed_nor_replaced_and_lets_nobody_look(
    start: Start, directory: Path, prepared: Path
) -> None:
    elsewhere = directory / "elsewhere"
    prepared.symlink_to(elsewhere)
    start(ONE).until("ready")
    assert prepared.is_symlink()
    assert not elsewhere.exists()
    assert not looked(directory, "cli.1")


@as_root
def test_a_file_of_another_user_is_left_alone_and_lets_nobody_look(
    start: Start, directory: Path, prepared: Path
) -> None:
    prepared.write_text("clerk\n")
    os.chown(prepared, NOBODY, NOBODY)
    start(ONE).until("ready")
    assert prepared.read_text() == "clerk\n"
    assert prepared.stat().st_uid == NOBODY
    assert not looked(directory, "clerk")
