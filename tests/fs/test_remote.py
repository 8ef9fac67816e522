"""Roots on network filesystems: late views, answers that get lost, failures that are no fault of a file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from speed.errors import ConfigurationError, NameTakenError, StorageError
from speed.fs import root
from speed.fs.open import put_in_place
from speed.fs.registration import register
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.limits import MAX_REMEMBERED_JUNK, MIN_ENTRY_BYTES
from tests.fs.entries import run_out
from tests.fs.lanes import Lane, sealed

BRIEF = {"lease_ms": 800, "heartbeat_ms": 200}
LARGE, SMALL = MAX_REMEMBERED_JUNK + 100, 100


@pytest.mark.parametrize(
    ("options", "late"),
    [
        ("rw,vers=4.2", 60.0),
        ("rw,acregmax=3,acdirmax=5", 5.0),
        ("rw,acregmax=3", 60.0),
        ("rw,actimeo=2", 2.0),
        ("rw,acregmax=3,acdirmax=5,noac", 0.0),
        ("rw,acdirmax=soon", 60.0),
    ],
)
def test_mount_options_say_how_late_another_host_may_see_a_change(
    options: str, late: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-21"""
    monkeypatch.setattr(root, "_mounts", lambda: [("/", "ext4", "rw"), (str(tmp_path), "nfs4", options)])
    found = root.filesystem_of(str(tmp_path))
    assert (found.is_remote, found.late_seconds) == (True, late)


def test_a_lease_that_another_host_may_not_see_renewed_is_refused(registry: Registry) -> None:
    """R-21: what is enough on a local filesystem is not, where a heartbeat may be seen a minute late."""
    late = Registry(registry.root, registry.keyring, late_ms=60_000)
    with pytest.raises(ConfigurationError, match="60000 ms"):
        register(late, "billing", lease_ms=75_000, heartbeat_ms=5_000)
    register(late, "billing", lease_ms=75_001, heartbeat_ms=5_000).remove()


def test_an_entry_that_the_system_fails_to_open_is_not_absent(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-5: or a live node would be evicted by one that cannot see it."""
    owner = registry.register("billing", **BRIEF)
    run_out(owner)  # nobody can see whether it was renewed
    with monkeypatch.context() as patched:
        _refuse_opening(patched, "billing.node")
        with pytest.raises(NameTakenError):
            reader.register("billing", **BRIEF)
    assert reader.newest_generation("billing") == 1
    owner.remove()


def test_a_rename_whose_answer_was_lost_counts_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-24"""
    (tmp_path / "old").write_text("x")
    _lose_answers(monkeypatch)
    put_in_place(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (tmp_path / "new").read_text() == "x"


def test_a_rename_that_failed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-24"""
    (tmp_path / "old").write_text("x")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="no"):
        put_in_place(str(tmp_path / "old"), str(tmp_path / "new"))


def test_a_batch_that_may_be_there_is_neither_replaced_nor_are_its_counters_used_again(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-24"""
    writer = lane.writer(mode="rename")
    writer.append(sealed(1))
    with monkeypatch.context() as patched:
        _lose_answers(patched, and_refuse_opening=".tmp-")
        with pytest.raises(StorageError) as refused:
            writer.append([sealed(2), sealed(3)])
    assert refused.value.envelopes_written == 2
    writer.append(sealed(4))
    got = lane.read_all(lane.reader())
    assert [one.header.sequence & 0xFF for one in got] == [1, 2, 3, 4]


def test_a_sound_segment_that_cannot_be_opened_is_not_put_aside(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10: too many open files, a failing disk: the next scan opens the lane again."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    with monkeypatch.context() as patched:
        _refuse_opening(patched, ".lane")
        with pytest.raises(OSError, match="no"):
            lane.read_all(reader)
    assert len(lane.read_all(reader)) == 1
    assert not reader.counts


def test_a_segment_that_a_long_listing_lacks_is_not_passed_over(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-17: what comes while a directory is read may be missing in the listing, and what came later be in it."""
    lane.raw_segment(sealed(1), 1)
    reader = lane.reader()
    lane.read_all(reader)
    lane.raw_segment(sealed(2), 2)
    lane.raw_segment(sealed(3), 3)
    listed = os.scandir
    missing = names.lane_file_name(1, 2)
    monkeypatch.setattr(os, "scandir", lambda place: _Without(listed(place), missing))
    got = lane.read_all(reader, scan=True)
    assert [one.header.sequence & 0xFF for one in got] == [2, 3]


def test_of_files_that_are_no_entries_few_are_remembered(registry: Registry) -> None:
    """R-22: of those that are as large as an entry some, of others none, and none that is gone."""
    owner = registry.register("billing", lease_ms=3_000_000, heartbeat_ms=5_000)
    place = Path(names.registry_dir(registry.root))
    for number in range(LARGE + SMALL):
        with open(place / f"junk-{number}.node", "wb") as file:
            file.truncate(MIN_ENTRY_BYTES if number < LARGE else 17)
    assert [entry.name for entry in registry.live_entries()] == ["billing"]
    assert len(registry._known) == MAX_REMEMBERED_JUNK + 1
    assert registry.is_unreadable("junk-1")
    assert registry.is_unreadable(f"junk-{LARGE}")
    for number in range(LARGE):
        (place / f"junk-{number}.node").unlink()
    assert [entry.name for entry in registry.live_entries()] == ["billing"]
    assert list(registry._known) == ["billing"]
    owner.remove()


class _Without:
    """A listing in which a name is missing."""

    def __init__(self, listing: object, missing: str) -> None:
        self._listing, self._missing = listing, missing

    def __enter__(self) -> list[os.DirEntry[str]]:
        with self._listing as entries:  # type: ignore[attr-defined]
            return [entry for entry in entries if entry.name != self._missing]

    def __exit__(self, *_: object) -> None:
        pass


def _lose_answers(monkeypatch: pytest.MonkeyPatch, and_refuse_opening: str = "") -> None:
    """Renames take place and report that the old name is not there."""
    rename = os.rename

    def lose(*arguments: str, **places: int | None) -> None:
        rename(*arguments, **places)
        raise FileNotFoundError(errno.ENOENT, "it was there")

    monkeypatch.setattr(os, "rename", lose)
    if and_refuse_opening:
        _refuse_opening(monkeypatch, and_refuse_opening)


def _refuse_opening(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Reading files with this in their names fails."""
    opened = os.open

    def refuse(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if part in str(path) and not flags & os.O_CREAT:
            raise OSError(errno.EMFILE, "no")
        return opened(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
