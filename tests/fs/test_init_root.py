"""A root and its key from a program: ``speed.init_root``."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import read_keys


def test_root_and_key_are_made_private_and_serve_a_node(tmp_path: Path) -> None:
    root = speed.init_root(tmp_path / "deep" / "root")
    assert root == str(tmp_path / "deep" / "root")
    assert stat.S_IMODE(os.stat(root).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{root}/speed.key").st_mode) == 0o600
    with speed.Node("billing", root=root) as node:
        assert [entry.name for entry in node.nodes()] == ["billing"]


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    root = speed.init_root(tmp_path)
    keys = read_keys(f"{root}/speed.key")
    assert speed.init_root(tmp_path) == root
    assert read_keys(f"{root}/speed.key") == keys


def test_many_at_once_make_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        roots = set(pool.map(lambda _: speed.init_root(tmp_path / "root"), range(32)))
    assert roots == {str(tmp_path / "root")}
    assert len(read_keys(str(tmp_path / "root" / "speed.key"))) == 1


def test_the_key_may_lie_elsewhere(tmp_path: Path) -> None:
    root = speed.init_root(tmp_path / "root", tmp_path / "keys" / ".." / "one.key")
    assert read_keys(str(tmp_path / "one.key"))
    assert not os.path.lexists(f"{root}/speed.key")


def test_the_environment_says_where_as_it_does_for_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEED_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("SPEED_KEY", str(tmp_path / "one.key"))
    assert speed.init_root() == str(tmp_path / "root")
    assert (tmp_path / "one.key").is_file()


def test_a_root_that_others_can_change_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(speed.RootError, match="chmod 700"):
        speed.init_root(tmp_path)


def test_a_damaged_key_is_refused_and_kept(tmp_path: Path) -> None:
    key = tmp_path / "speed.key"
    key.write_text("no key\n")
    key.chmod(0o600)
    with pytest.raises(speed.KeyFileError):
        speed.init_root(tmp_path)
    assert key.read_text() == "no key\n"
