"""Taking a name, keeping it, losing it (rules R-5 to R-13), with settable clocks and real files."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import pytest

from speed.core.lease import LeaseState, Verdict
from speed.errors import ConfigurationError, InvalidNameError, LeaseLostError, NameTakenError, RootError
from speed.fs import claim as claims
from speed.fs.clock import Clock
from speed.fs.entry_file import create_exclusively
from speed.fs.identity import identity
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry, encode_entry
from speed.wire.seal import Keyring

LEASE = {"lease_ms": 3000, "heartbeat_ms": 500}


@pytest.fixture
def own(root: pathlib.Path, keyring: Keyring, clock: Any) -> Registry:
    return Registry(root, keyring, clock.clock())


def put(registry: Registry, entry: Entry) -> None:
    """Install an entry as another process would."""
    path = names.entry_path(registry.root, entry.name)
    pathlib.Path(path + "~").write_bytes(encode_entry(entry, registry.keyring.registry_key))
    os.rename(path + "~", path)


def foreign(registry: Registry, **changes: Any) -> Entry:
    """The entry of a live node of another machine."""
    registration = registry.register("pattern", **LEASE)
    entry = dataclasses.replace(registration.entry, name="billing")
    registration.remove()
    return dataclasses.replace(entry, boot_id="elsewhere", host="far", **changes)


def test_a_registered_node_is_read_back_as_it_was_published(own: Registry):
    """R-5, R-6."""
    registration = own.register("billing", fabrics=("Finance",), allow=("etl.*",), **LEASE)
    entry = own.read("billing")
    assert entry == registration.entry
    assert entry is not None
    assert (entry.generation, entry.pid, entry.allow, entry.fabrics) == (
        1,
        os.getpid(),
        ("etl.*",),
        ("Finance",),
    )
    assert own.live("billing") == entry


def test_a_live_name_cannot_be_taken_and_the_error_says_who_holds_it(own: Registry):
    """R-5."""
    own.register("billing", **LEASE)
    with pytest.raises(NameTakenError, match=f"pid {os.getpid()} on"):
        own.register("billing", **LEASE)
    assert own.newest_generation("billing") == 1


def test_a_name_given_back_is_free_at_once_and_its_generation_grows(own: Registry):
    """R-6: the claim is settled, an absent entry means a free name."""
    assert own.register("billing", **LEASE).remove()
    again = own.register("billing", **LEASE)
    assert again.generation == 2
    assert claims.generations(own.root, "billing") == [2]


def test_generations_grow_even_when_the_claims_are_lost(own: Registry, clock: Any):
    """R-6: the entry knows its generation too."""
    own.register("billing", **LEASE)
    own.register("other", **LEASE).remove()
    os.unlink(claims.claim_path(own.root, "billing", 1))
    clock.pass_ms(3001)
    assert own.register("billing", **LEASE).generation == 2


def test_an_expired_lease_is_reclaimed_and_the_former_owner_loses_for_good(own: Registry, clock: Any):
    """R-9, R-12."""
    former = own.register("billing", **LEASE)
    clock.pass_ms(3001)
    assert former.must_stop()
    successor = own.register("billing", **LEASE)
    with pytest.raises(LeaseLostError):
        former.heartbeat()
    assert not former.remove()
    assert own.read("billing") == successor.entry
    assert former.state is LeaseState.LOST


def test_a_heartbeat_keeps_the_name(own: Registry, clock: Any):
    """R-13: and writes in place, so the inode stays."""
    registration = own.register("billing", **LEASE)
    inode = os.stat(names.entry_path(own.root, "billing")).st_ino
    for _ in range(10):
        clock.pass_ms(1000)
        registration.heartbeat()
    assert os.stat(names.entry_path(own.root, "billing")).st_ino == inode
    entry = own.read("billing")
    assert entry is not None
    assert entry.heartbeat_monotonic_ms == clock.monotonic_ms
    with pytest.raises(NameTakenError):
        own.register("billing", **LEASE)


@pytest.mark.parametrize("jump_ms", [-(10**10), 10**10])
def test_a_jump_of_the_wall_clock_neither_frees_nor_loses_a_name(own: Registry, clock: Any, jump_ms: int):
    """R-8: leases are timed by the monotonic clock."""
    registration = own.register("billing", **LEASE)
    clock.wall_ms += jump_ms
    with pytest.raises(NameTakenError):
        own.register("billing", **LEASE)
    registration.heartbeat()
    assert own.live("billing") is not None


def test_a_holder_on_another_boot_is_watched_for_a_whole_lease(own: Registry, clock: Any):
    """R-10: an old time stamp of another machine proves nothing; silence does."""
    put(own, foreign(own, last_heartbeat=0, heartbeat_monotonic_ms=0))
    began = clock.monotonic_ms
    assert own.live("billing") is not None
    assert own.register("billing", **LEASE).generation == 2
    assert clock.monotonic_ms - began > 3000


def test_a_holder_on_another_boot_that_renews_keeps_its_name(own: Registry, clock: Any):
    """R-10."""
    entry = foreign(own)
    put(own, entry)
    clock.during_pause = lambda: put(
        own, dataclasses.replace(entry, last_heartbeat=entry.last_heartbeat + 500)
    )
    with pytest.raises(NameTakenError, match="far"):
        own.register("billing", **LEASE)


def test_a_heartbeat_from_the_future_of_the_same_boot_is_watched(own: Registry, clock: Any):
    """R-10."""
    entry = own.register("billing", **LEASE).entry
    put(own, dataclasses.replace(entry, heartbeat_monotonic_ms=clock.monotonic_ms + 10**9))
    assert own.register("billing", **LEASE).generation == 2


def test_the_claim_of_a_dead_process_is_passed_at_once(own: Registry, clock: Any):
    """R-6: its maker died between claim and entry."""
    dead = identity()._replace(pid_start=1)
    began = clock.monotonic_ms
    assert claims.make_claim(own.root, claims.process_claim("billing", 1, dead, 3000, began), 0o600)
    assert own.register("billing", **LEASE).generation == 2
    assert clock.monotonic_ms == began


def test_the_fresh_claim_of_a_living_process_holds_the_name_for_one_lease(own: Registry, clock: Any):
    """R-6."""
    pending = claims.process_claim("billing", 1, identity(), 3000, clock.monotonic_ms)
    assert claims.make_claim(own.root, pending, 0o600)
    with pytest.raises(NameTakenError, match="being registered"):
        own.register("billing", **LEASE)
    clock.pass_ms(3001)
    assert own.register("billing", **LEASE).generation == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state":"settled"}', b"\xff" * 5000])
def test_an_unreadable_claim_is_watched_like_an_unknown_process(own: Registry, clock: Any, content: bytes):
    """R-6: as another language, or a torn write, may leave it."""
    create_exclusively(claims.claim_path(own.root, "billing", 1), content, 0o600)
    began = clock.monotonic_ms
    assert own.register("billing", **LEASE).generation == 2
    assert clock.monotonic_ms - began > claims.UNREADABLE_LEASE_MS


@pytest.mark.parametrize(("reading", "error"), [(2, NameTakenError), (3, LeaseLostError)])
def test_a_higher_claim_beats_a_slow_registrant_before_and_after_its_entry(
    root: pathlib.Path, keyring: Keyring, clock: Any, reading: int, error: type[Exception]
):
    """R-6: the clock is read before the claim (second reading) and before the entry (third)."""
    readings = 0

    def monotonic_ms() -> int:
        nonlocal readings
        readings += 1
        if readings == reading:
            higher = claims.process_claim("billing", 2, identity(), 3000, clock.monotonic_ms)
            claims.make_claim(str(root), higher, 0o600)
        return int(clock.monotonic_ms)

    slow = Registry(root, keyring, Clock(lambda: 0, monotonic_ms))
    with pytest.raises(error):
        slow.register("billing", **LEASE)
    assert slow.newest_generation("billing") == 2
    assert slow.read("billing") is None


def test_an_entry_removed_by_hand_is_put_back_by_the_next_heartbeat(own: Registry):
    """R-13."""
    registration = own.register("billing", **LEASE)
    os.unlink(names.entry_path(own.root, "billing"))
    registration.heartbeat()
    assert own.read("billing") == registration.entry


def test_an_older_generation_that_came_back_is_replaced_by_the_next_heartbeat(own: Registry, clock: Any):
    """R-13."""
    old = own.register("billing", **LEASE).entry
    clock.pass_ms(3001)
    current = own.register("billing", **LEASE)
    put(own, old)
    current.heartbeat()
    assert own.read("billing") == current.entry


def test_a_higher_generation_takes_the_name_away(own: Registry):
    """R-12, R-13."""
    registration = own.register("billing", **LEASE)
    put(own, dataclasses.replace(registration.entry, generation=9))
    with pytest.raises(LeaseLostError):
        registration.heartbeat()
    entry = own.read("billing")
    assert entry is not None
    assert entry.generation == 9


def test_a_root_removed_under_a_running_node_is_made_again(own: Registry):
    """R-13: with its claim, or the next start would repeat sequences."""
    import shutil

    registration = own.register("billing", **LEASE)
    shutil.rmtree(own.root)
    registration.heartbeat()
    assert own.read("billing") == registration.entry
    assert own.newest_generation("billing") == registration.generation


def test_published_fields_change_in_place_and_the_file_grows_when_it_must(own: Registry):
    """R-13."""
    registration = own.register("billing", **LEASE)
    path = names.entry_path(own.root, "billing")
    inode = os.stat(path).st_ino
    registration.update(allow=("analytics",), status="leaving")
    assert os.stat(path).st_ino == inode
    many = tuple(f"node-{i:0100d}" for i in range(40))
    registration.update(allow=many)
    assert os.stat(path).st_size == 8192
    entry = own.read("billing")
    assert entry is not None
    assert (entry.allow, entry.status) == (many, "leaving")
    registration.update(allow=())
    assert os.stat(path).st_size == 8192
    assert registration.remove()


def test_what_cannot_be_published_changes_nothing(own: Registry):
    """R-13: one bad pattern would make every reader ignore the entry."""
    registration = own.register("billing", allow=("analytics",), **LEASE)
    with pytest.raises(InvalidNameError):
        registration.update(allow=("*",))
    with pytest.raises(ConfigurationError):
        registration.update(allow=tuple(f"node-{i:0100d}" for i in range(1000)))
    registration.heartbeat()
    entry = own.read("billing")
    assert entry is not None
    assert entry.allow == ("analytics",)


def test_a_removed_registration_writes_nothing_any_more(own: Registry):
    """R-16."""
    registration = own.register("billing", **LEASE)
    assert registration.remove()
    assert not registration.remove()
    with pytest.raises(LeaseLostError):
        registration.heartbeat()
    assert own.read("billing") is None


def test_wrong_names_and_leases_are_refused_before_anything_is_written(own: Registry):
    """R-7."""
    with pytest.raises(InvalidNameError):
        own.register("../x", **LEASE)
    with pytest.raises(ConfigurationError):
        own.register("billing", lease_ms=1000, heartbeat_ms=500)
    assert own.newest_generation("billing") == 0


def test_stale_entries_are_removed_and_their_claims_stay(own: Registry, clock: Any):
    """R-16."""
    own.register("billing", **LEASE)
    clock.pass_ms(3001)
    live = own.register("analytics", **LEASE)
    assert own.live("billing") is None
    assert own.remove_stale() == ("billing",)
    assert [entry.name for entry in own.entries()] == ["analytics"]
    assert own.newest_generation("billing") == 1
    live.heartbeat()


def test_a_full_disk_is_a_typed_error_and_frees_the_name(own: Registry, monkeypatch: pytest.MonkeyPatch):
    """R-6: the claim of a failed registration is settled."""
    blocker = pathlib.Path(names.entry_path(own.root, "billing"))
    blocker.mkdir()  # a rename onto a directory fails, as ENOSPC would
    with pytest.raises(RootError):
        own.register("billing", **LEASE)
    blocker.rmdir()
    assert own.register("billing", **LEASE).generation == 2
    assert not [file for file in os.listdir(own.directory) if file.startswith(".tmp-")]


def test_watching_verdicts_count_as_live_for_senders(own: Registry):
    """R-11."""
    put(own, foreign(own))
    entry = own.read("billing")
    assert entry is not None
    assert own.verdict(entry, own.clock.monotonic_ms()) is Verdict.WATCH
    assert [node.name for node in own.nodes()] == ["billing"]
