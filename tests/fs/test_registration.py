"""Taking a name, keeping it, losing it (R-4 to R-14): real files; what another process wrote is put there."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable

import pytest

from speed.core.access import Verdict
from speed.errors import ConfigurationError, LeaseLostError, NameTakenError, StorageError
from speed.fs.claim import remove_entry_file
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.wire import names
from tests.fs.entries import LONG, SHORT, hold_shortly, now_ms, put, run_out, template


def test_a_registered_node_is_read_back_as_it_was_published(registry: Registry, reader: Registry):
    """R-5."""
    registration = registry.register("billing", fabrics=("Finance",), allow=("etl.*",), **LONG)
    entry = reader.read("billing")
    assert entry == registration.entry
    assert entry is not None
    assert (entry.generation, entry.pid, entry.allow, entry.fabrics) == (1, os.getpid(), ("etl.*",), ("Finance",))
    assert reader.live("billing") == entry


def test_a_live_name_cannot_be_taken_and_the_error_says_who_holds_it(registry: Registry, reader: Registry):
    """R-5."""
    registry.register("billing", **LONG)
    with pytest.raises(NameTakenError, match="a node of this very process"):
        reader.register("billing", **LONG)
    assert registry.newest_generation("billing") == 1


def test_a_name_given_back_is_free_at_once_and_its_generation_grows(registry: Registry, reader: Registry):
    """R-4: a released claim without an entry means a free name."""
    registry.register("billing", **LONG).remove()
    assert reader.register("billing", **LONG).entry.generation == 2
    assert os.listdir(names.claims_dir(registry.root)) == ["billing.000002"]


def test_an_expired_lease_is_reclaimed_and_the_former_owner_loses_for_good(registry: Registry, reader: Registry):
    """R-8, R-12: although the former owner's process is alive."""
    former = hold_shortly(registry)
    run_out(former)
    successor = reader.register("billing", **LONG)
    for refused in (former.heartbeat, former.check_held):
        with pytest.raises(LeaseLostError):
            refused()
    former.remove()
    assert registry.read("billing") == successor.entry


def test_an_owner_whose_lease_ran_out_stops_although_nobody_took_the_name(registry: Registry):
    """R-12."""
    registration = hold_shortly(registry)
    run_out(registration)
    with pytest.raises(LeaseLostError):
        registration.check_held()
    with pytest.raises(LeaseLostError):
        registration.heartbeat()


def test_a_heartbeat_keeps_the_name_and_the_file(registry: Registry, reader: Registry):
    """R-7."""
    registration = registry.register("billing", **LONG)
    path = names.entry_path(registry.root, "billing")
    inode = os.stat(path).st_ino
    before = registration.entry.heartbeat_monotonic_ms
    while registration.entry.heartbeat_monotonic_ms == before:
        registration.heartbeat()
    assert os.stat(path).st_ino == inode
    entry = reader.read("billing")
    assert entry is not None
    assert entry.heartbeat_monotonic_ms > before


@pytest.mark.parametrize("wall", [0, 10**14])
def test_wall_clock_fields_decide_nothing(registry: Registry, wall: int):
    """R-8: the wall clock may jump."""
    put(registry, template(registry, last_heartbeat=wall, startup_timestamp=wall, heartbeat_monotonic_ms=now_ms()))
    assert registry.verdict("billing")[1] is Verdict.LIVE
    put(registry, template(registry, last_heartbeat=wall, heartbeat_monotonic_ms=now_ms() - 30_100))
    assert registry.verdict("billing")[1] is Verdict.STALE


@pytest.mark.parametrize("heartbeat", [0, 10**15])
def test_a_silent_holder_on_another_boot_is_watched_for_its_lease_and_then_replaced(registry: Registry, heartbeat: int):
    """R-10: no time stamp of another machine proves anything; silence does."""
    put(registry, template(registry, boot_id="elsewhere", heartbeat_monotonic_ms=heartbeat, lease=120))
    assert registry.live("billing") is not None
    began = now_ms()
    assert registry.register("billing", **LONG).entry.generation >= 1
    assert now_ms() - began >= 120


def test_a_holder_on_another_boot_that_renews_keeps_its_name(registry: Registry, in_each_pause: Callable[..., None]):
    """R-10."""
    entry = template(registry, boot_id="elsewhere", host="far")
    put(registry, entry)
    renewed = dataclasses.replace(entry, last_heartbeat=entry.last_heartbeat + 5000)
    in_each_pause(lambda: put(registry, renewed))
    with pytest.raises(NameTakenError, match="far"):
        registry.register("billing", **LONG)


def test_a_heartbeat_from_the_future_of_the_same_boot_is_watched(registry: Registry):
    """R-9."""
    put(registry, template(registry, heartbeat_monotonic_ms=now_ms() + 10**9, lease=100))
    assert registry.verdict("billing")[1] is Verdict.WATCH
    began = now_ms()
    registry.register("billing", **LONG)
    assert now_ms() - began >= 100


def test_a_registration_that_fails_gives_the_name_back(registry: Registry):
    """R-4: or the process would keep the name from itself."""

    def no_bell(generation: int) -> None:
        raise ConfigurationError("no bell")

    with pytest.raises(ConfigurationError):
        registry.register("billing", before_publish=no_bell, **LONG)
    assert registry.register("billing", **LONG).entry.generation == 2


def test_a_registration_that_took_longer_than_its_lease_is_given_up(registry: Registry):
    """R-5: others may have passed its claim by then."""

    def slow(generation: int) -> None:
        began = now_ms()
        while now_ms() - began <= SHORT["lease_ms"] + 1:
            time.sleep(0.001)

    with pytest.raises(LeaseLostError):
        registry.register("billing", before_publish=slow, **SHORT)
    assert registry.read("billing") is None
    assert registry.register("billing", **LONG).entry.generation == 2


def test_an_entry_removed_by_hand_is_put_back_by_the_next_heartbeat(registry: Registry):
    """R-14."""
    registration = registry.register("billing", **LONG)
    os.unlink(names.entry_path(registry.root, "billing"))
    registration.heartbeat()
    assert registry.read("billing") == registration.entry


def test_an_older_generation_that_came_back_is_replaced_by_the_next_heartbeat(registry: Registry):
    """R-14."""
    registry.register("billing", **LONG).remove()
    current = registry.register("billing", **LONG)
    put(registry, dataclasses.replace(current.entry, generation=1))
    current.heartbeat()
    assert registry.read("billing") == current.entry


def test_published_fields_change_in_place_and_the_file_grows_when_it_must(registry: Registry, reader: Registry):
    """R-7, R-14."""
    registration = registry.register("billing", **LONG)
    path = names.entry_path(registry.root, "billing")
    inode = os.stat(path).st_ino
    registration.update(allow=("analytics",), status="leaving")
    assert os.stat(path).st_ino == inode
    many = tuple(f"node-{i:0100d}" for i in range(40))
    registration.update(allow=many)
    entry = reader.read("billing")
    assert entry is not None
    assert (entry.allow, entry.status) == (many, "leaving")
    registration.update(allow=())
    assert os.stat(path).st_size == 8192
    registration.remove()
    assert reader.read("billing") is None


def test_an_entry_that_became_too_large_changes_nothing(registry: Registry, reader: Registry):
    """R-2."""
    registration = registry.register("billing", allow=("analytics",), **LONG)
    with pytest.raises(ConfigurationError):
        registration.update(allow=tuple(f"node-{i:0100d}" for i in range(1000)))
    registration.heartbeat()
    entry = reader.read("billing")
    assert entry is not None
    assert entry.allow == ("analytics",)


@pytest.mark.parametrize(("lease", "heartbeat"), [(1000, 500), (0, 0)])
def test_a_wrong_lease_is_refused_before_anything_is_written(registry: Registry, lease: int, heartbeat: int):
    """R-7."""
    with pytest.raises(ConfigurationError):
        registry.register("billing", lease_ms=lease, heartbeat_ms=heartbeat)
    assert registry.newest_generation("billing") == 0


def test_stale_entries_are_removed_and_their_claims_stay(registry: Registry, reader: Registry):
    """R-13."""
    gone = hold_shortly(registry)
    kept = registry.register("analytics", **LONG)
    run_out(gone)
    assert [entry.name for entry in reader.remove_stale(dry_run=True)] == ["billing"]
    assert [entry.name for entry in reader.remove_stale()] == ["billing"]
    assert [entry.name for entry in reader.live_entries()] == ["analytics"]
    assert reader.newest_generation("billing") == gone.entry.generation
    kept.heartbeat()


def test_an_entry_published_while_a_stale_one_is_removed_is_put_back(registry: Registry, reader: Registry):
    """R-13."""
    run_out(hold_shortly(registry))
    successors: list[Registration] = []

    def is_meant(path: str) -> bool:
        if not successors:  # it was looked at, and is replaced before it is removed
            successors.append(registry.register("billing", **LONG))
            return True
        return False

    assert not remove_entry_file(registry.root, "billing", is_meant)
    assert reader.read("billing") == successors[0].entry
    inode = os.stat(names.entry_path(registry.root, "billing")).st_ino
    successors[0].heartbeat()
    assert os.stat(names.entry_path(registry.root, "billing")).st_ino == inode
    assert set(os.listdir(names.registry_dir(registry.root))) == {"billing.node", ".claims"}


def test_an_entry_put_back_never_replaces_a_newer_one(registry: Registry, reader: Registry):
    """R-14."""
    first = registry.register("billing", **LONG)
    asked: list[str] = []

    def is_meant(path: str) -> bool:
        asked.append(path)
        if len(asked) == 2:
            first.update(allow=("analytics",))  # its owner misses it and publishes again
        return len(asked) == 1

    assert not remove_entry_file(registry.root, "billing", is_meant)
    entry = reader.read("billing")
    assert entry is not None
    assert entry.allow == ("analytics",)


def test_leaving_removes_no_successors_entry(registry: Registry, reader: Registry):
    """R-15."""
    former = hold_shortly(registry)
    run_out(former)
    successor = registry.register("billing", **LONG)
    former.remove()
    assert reader.read("billing") == successor.entry


def test_a_name_whose_stale_entry_was_removed_is_free_although_its_process_lives(registry: Registry, reader: Registry):
    """R-5, R-13: as after a laptop slept, or in a debugger."""
    stale = hold_shortly(registry)
    run_out(stale)
    reader.remove_stale()
    assert registry.register("billing", **LONG).entry.generation == stale.entry.generation + 1


def test_undecidable_nodes_count_as_live_for_senders(registry: Registry):
    """R-10."""
    put(registry, template(registry, boot_id="elsewhere"))
    assert registry.verdict("billing")[1] is Verdict.WATCH
    assert [entry.name for entry in registry.live_entries()] == ["billing"]


def test_a_failed_write_of_the_entry_leaves_no_litter(registry: Registry):
    """R-5: a rename onto a directory fails, as a full disk would."""
    blocker = pathlib.Path(names.entry_path(registry.root, "billing"))
    blocker.mkdir()
    with pytest.raises(StorageError):
        registry.register("billing", **LONG)
    blocker.rmdir()
    assert not [name for name in os.listdir(names.registry_dir(registry.root)) if name.startswith(".tmp-")]
    assert registry.register("billing", **LONG).entry.generation == 2
