"""What a change touches is told by git, from where it began; where git cannot tell, that is said."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.steady import changed

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git in a new repository."""
    monkeypatch.delenv("SPEED_BASE", raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@localhost")

    def run(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    return run


def commit(git: Git, path: Path, name: str) -> str:
    """A commit that makes a file."""
    (path / name).write_text(name)
    git("add", "-A")
    git("commit", "-qm", name)
    return git("rev-parse", "HEAD")


def test_on_a_branch_all_since_it_left_main_counts(git: Git, tmp_path: Path) -> None:
    git("update-ref", "refs/remotes/origin/main", commit(git, tmp_path, "a"))
    commit(git, tmp_path, "b")
    commit(git, tmp_path, "c")
    (tmp_path / "d").touch()  # not committed
    assert changed.changed(tmp_path) == ["b", "c", "d"]


def test_on_main_all_since_the_last_merge_counts_with_what_it_brought(git: Git, tmp_path: Path) -> None:
    commit(git, tmp_path, "a")
    git("checkout", "-qb", "side")
    commit(git, tmp_path, "b")
    git("checkout", "-q", "main")
    commit(git, tmp_path, "c")
    git("merge", "-q", "--no-ff", "-m", "d", "side")
    git("update-ref", "refs/remotes/origin/main", commit(git, tmp_path, "e"))
    assert changed.changed(tmp_path) == ["b", "e"]


def test_without_merges_the_last_commit_counts_and_a_base_may_be_named(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit(git, tmp_path, "a")
    commit(git, tmp_path, "b")
    commit(git, tmp_path, "c")
    assert changed.changed(tmp_path) == ["c"]
    monkeypatch.setenv("SPEED_BASE", first)
    assert changed.changed(tmp_path) == ["b", "c"]


def test_of_one_commit_alone_nobody_can_tell(git: Git, tmp_path: Path) -> None:
    commit(git, tmp_path, "a")
    assert changed.changed(tmp_path) is None


def test_an_area_is_told_by_where_a_file_is() -> None:
    assert changed.areas(["docs/index.md", "tests/unit/test_rules.py"]) == []
    assert changed.areas(["bindings/cpp/src/wire/value/value.cpp"]) == ["cpp", "decoders", "promises"]
    assert changed.areas(["bindings/cpp/src/fs/lane/lane.cpp"]) == ["cpp", "threads", "promises"]
    assert changed.areas(["tests/torture/disk.py"]) == ["promises", "torture"]
