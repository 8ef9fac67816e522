"""R-25 to R-27: what is left of names that do not come back is removed, and nothing that anybody may need."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from speed.errors import NameTakenError
from speed.fs import claim, sweep
from speed.fs.claim import floor_of, forgotten_up_to, raise_floor
from speed.fs.committed import has_unopened_lanes
from speed.fs.identity import identity
from speed.fs.inbox import Inbox
from speed.fs.registration import hold, register
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.cursor import Cursor, encode_cursor
from speed.wire.seal import Keyring
from tests.fs.entries import LONG, now_ms, put, template
from tests.vectors import load

VECTORS = load("floors")
VECTOR_KEYS = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"])).registry_keys


@pytest.mark.parametrize("case", VECTORS["claims"], ids=lambda case: str(case["name"]))
def test_a_claim_tells_what_the_vectors_say(case: dict[str, Any]) -> None:
    read = claim.decode_claim(bytes.fromhex(case["hex"]), VECTOR_KEYS)
    assert (read is None) == (case["claim"] is None)
    if read is not None:
        told = (read.identity.pid, read.lease_ms, read.made_ms, read.above, read.ephemeral, read.sweeps)
        asked = ("pid", "lease", "made_monotonic_ms", "above", "ephemeral", "sweeps")
        assert told == tuple(case["claim"][field] for field in asked)


def make_ephemeral(registry: Registry, name: str = "worker") -> None:
    """An ephemeral node that ran and left."""
    registration = registry.register(name, ephemeral=True, **LONG)
    os.makedirs(names.inbox_dir(registry.root, name))
    registration.expire()


def files_of(registry: Registry, name: str) -> list[str]:
    """Everything in the root that bears a name."""
    found = []
    for directory, folders, files in os.walk(registry.root):
        found += [os.path.join(directory, one) for one in (*folders, *files) if one.startswith(name)]
    return found


def lane_in(registry: Registry, target: str, sender: str) -> pathlib.Path:
    path = pathlib.Path(names.lane_dir(registry.root, target, sender))
    path.mkdir(parents=True)
    return path


# --- forgetting ---


def test_all_that_is_left_of_an_ephemeral_name_goes(registry: Registry, keyring: Keyring) -> None:
    make_ephemeral(registry)
    assert sweep.sweep(registry, "worker")
    assert files_of(registry, "worker") == []
    assert floor_of(registry.root, "worker", keyring) == 1


def test_a_name_that_comes_back_begins_above_what_was_forgotten(registry: Registry) -> None:
    for life in range(1, 4):
        make_ephemeral(registry)
        assert registry.newest_generation("worker") == life
        assert sweep.sweep(registry, "worker")


def test_a_name_stays_while_an_inbox_holds_a_lane_of_it(registry: Registry) -> None:
    make_ephemeral(registry)
    lane = lane_in(registry, "billing", "worker")
    assert not sweep.sweep(registry, "worker")
    assert registry.newest_generation("worker") == 1
    assert not os.path.exists(names.node_dir(registry.root, "worker"))
    lane.rmdir()
    assert sweep.sweep(registry, "worker")


def test_a_live_ephemeral_node_is_left_alone(registry: Registry) -> None:
    registration = registry.register("worker", ephemeral=True, **LONG)
    assert not sweep.sweep(registry, "worker")
    assert registry.live("worker") == registration.entry


def test_an_ephemeral_node_whose_process_is_gone_is_forgotten_at_once(registry: Registry) -> None:
    registry.register("worker", ephemeral=True, **LONG).release()
    put(registry, dataclasses.replace(registry.read("worker"), pid_start=1))  # type: ignore[type-var]
    assert sweep.sweep(registry, "worker")
    assert files_of(registry, "worker") == []


def test_a_claim_whose_ephemeral_maker_died_before_it_published_goes(registry: Registry) -> None:
    take(registry, 1, pid_start=1, ephemeral=True)
    assert sweep.sweep(registry, "worker")
    assert files_of(registry, "worker") == []


def test_the_claim_of_an_ephemeral_node_that_starts_is_left_alone(registry: Registry) -> None:
    take(registry, 1, ephemeral=True)
    assert not sweep.sweep(registry, "worker")
    assert registry.newest_generation("worker") == 1


def test_what_a_sweeper_left_that_died_is_swept_by_the_next(registry: Registry) -> None:
    make_ephemeral(registry)
    take(registry, 2, pid_start=1, ephemeral=True, sweeps=True)
    assert sweep.sweep(registry, "worker")
    assert files_of(registry, "worker") == []


def test_an_ordinary_node_that_left_keeps_claim_and_directory(registry: Registry) -> None:
    registry.register("billing", **LONG).remove()
    os.makedirs(names.inbox_dir(registry.root, "billing"))
    assert not sweep.sweep(registry, "billing")
    assert len(files_of(registry, "billing")) == 2


def test_an_ordinary_life_after_an_ephemeral_one_is_not_forgotten(registry: Registry) -> None:
    make_ephemeral(registry)
    registry.register("worker", **LONG).remove()
    assert not sweep.sweep(registry, "worker")
    assert registry.newest_generation("worker") == 2


def test_a_directory_that_is_for_another_user_to_remove_keeps_the_name(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the root of a group, which is sticky."""

    def fails(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    make_ephemeral(registry)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", fails)
        assert not sweep.sweep(registry, "worker")
    assert registry.newest_generation("worker") == 1
    assert sweep.sweep(registry, "worker")


def test_an_inbox_that_cannot_be_looked_into_counts_as_one_with_a_lane(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.makedirs(names.inbox_dir(registry.root, "billing"))

    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.lstat", denied)
    assert sweep.has_lanes(registry.root, "worker")


# --- stale entries ---


def test_an_entry_goes_once_it_has_been_stale_for_a_lease(registry: Registry) -> None:
    mine = template(registry)
    put(registry, dataclasses.replace(mine, heartbeat_monotonic_ms=now_ms() - 2 * mine.lease - 1000))
    assert sweep.sweep(registry, "billing")
    assert registry.read("billing") is None


def test_one_that_became_stale_of_late_stays(registry: Registry) -> None:
    """Who asks for it is told when it was last heard of."""
    mine = template(registry)
    put(registry, dataclasses.replace(mine, heartbeat_monotonic_ms=now_ms() - mine.lease - 1000))
    assert not sweep.sweep(registry, "billing")
    assert registry.read("billing") is not None


def test_stale_entries_of_ephemeral_nodes_go_only_with_their_claims(registry: Registry) -> None:
    make_ephemeral(registry)
    assert registry.remove_stale() == []
    assert registry.read("worker") is not None


# --- holding a name ---


def take(registry: Registry, generation: int, **told: Any) -> None:
    maker = dataclasses.replace(identity(), pid_start=told.pop("pid_start", identity().pid_start))
    claimant = claim.Claimant(maker, 30_000, now_ms(), above=0, **told)
    assert claim.take(registry.root, "worker", generation, claimant, registry.keyring.registry_key)


def test_who_starts_waits_for_a_sweeper_and_then_begins(registry: Registry, reader: Registry) -> None:
    make_ephemeral(registry)
    begun = threading.Event()
    started: list[int] = []

    def start() -> None:
        begun.set()
        started.append(reader.register("worker", **LONG).entry.generation)

    thread = threading.Thread(target=start, name="start")
    with hold(registry, "worker"):
        thread.start()
        begun.wait()
        assert started == []
    thread.join()
    assert started == [2]


def test_a_sweeper_that_does_not_end_is_not_pushed_aside(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.fs.registration.SWEEP_SECONDS", 0.02)
    with hold(registry, "worker"), pytest.raises(NameTakenError, match="is removing what is left"):
        reader.register("worker", **LONG)


def test_a_sweeper_that_cannot_be_seen_holds_a_name_for_its_lease_only(registry: Registry) -> None:
    """It may have died in another pid namespace."""
    maker = dataclasses.replace(identity(), pid_namespace="elsewhere")
    for made, generation in ((now_ms() - 1001, 1), (now_ms(), 3)):
        claimant = claim.Claimant(maker, 1000, made, sweeps=True)
        assert claim.take(registry.root, "worker", generation, claimant, registry.keyring.registry_key)
        if generation == 1:
            registry.register("worker", **LONG).remove()
        else:
            with pytest.raises(NameTakenError), hold(registry, "worker"):
                pass


def test_an_entry_that_cannot_be_removed_keeps_its_claim(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    make_ephemeral(registry)
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "_remove", lambda *_: None)
        assert not sweep.sweep(registry, "worker")
    assert registry.newest_generation("worker") == 1


def test_a_name_that_somebody_holds_is_not_swept_by_another(registry: Registry, reader: Registry) -> None:
    make_ephemeral(registry)
    with hold(registry, "worker"):
        assert not sweep.sweep(reader, "worker")
    assert sweep.sweep(reader, "worker")


def test_a_name_that_was_taken_as_an_ordinary_one_meanwhile_is_not_forgotten(registry: Registry) -> None:
    make_ephemeral(registry)
    registry.register("worker", **LONG).remove()
    assert not sweep.forget(registry, "worker")
    assert registry.newest_generation("worker") == 2


def test_nobody_waits_to_sweep_a_name_that_another_boot_may_hold(registry: Registry) -> None:
    mine = template(registry, boot_id="elsewhere")
    put(registry, mine)
    with pytest.raises(NameTakenError), hold(registry, "billing"):
        pass


def test_nobody_waits_to_sweep_a_claim_of_another_boot(registry: Registry) -> None:
    maker = dataclasses.replace(identity(), boot_id="elsewhere")
    claimant = claim.Claimant(maker, 30_000, None)
    assert claim.take(registry.root, "billing", 1, claimant, registry.keyring.registry_key)
    with pytest.raises(NameTakenError, match="cannot be seen from here"), hold(registry, "billing"):
        pass


def test_many_who_sweep_and_start_at_once_never_use_a_generation_twice(registry: Registry, root: pathlib.Path) -> None:
    generations: list[int] = []
    lock = threading.Lock()

    def live(own: Registry) -> None:
        for _ in range(15):
            with contextlib.suppress(NameTakenError):
                registration = register(own, "worker", ephemeral=True, **LONG)
                with lock:
                    generations.append(registration.entry.generation)
                registration.expire()
            with contextlib.suppress(NameTakenError):
                sweep.sweep(own, "worker")

    threads = [
        threading.Thread(target=live, args=(Registry(str(root), registry.keyring),), name=f"live-{n}") for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(generations) == len(set(generations))
    assert generations


# --- what a lane without a cursor begins with ---


def test_nothing_is_forgotten_where_nobody_registered(tmp_path: pathlib.Path, keyring: Keyring) -> None:
    assert forgotten_up_to(str(tmp_path), "worker", keyring) == 0


def test_a_claim_tells_what_was_forgotten_before_its_name_was_claimed_again(
    registry: Registry, keyring: Keyring
) -> None:
    make_ephemeral(registry)
    sweep.sweep(registry, "worker")
    registry.register("worker", **LONG).remove()
    registry.register("worker", **LONG).remove()
    assert forgotten_up_to(registry.root, "worker", keyring) == 1


def test_of_a_name_without_a_claim_everything_up_to_the_floor_was_forgotten(
    registry: Registry, keyring: Keyring
) -> None:
    make_ephemeral(registry)
    sweep.sweep(registry, "worker")
    assert forgotten_up_to(registry.root, "worker", keyring) == 1


def test_a_claim_that_its_maker_has_yet_to_write_forgets_nothing(registry: Registry, keyring: Keyring) -> None:
    """Another name raised the floor that both have."""
    registry.register("worker", **LONG).remove()
    raise_floor(registry.root, "worker", 9, keyring)
    pathlib.Path(names.claim_path(registry.root, "worker", 10)).touch()
    assert forgotten_up_to(registry.root, "worker", keyring) == 0


def test_a_claim_that_cannot_be_read_says_so(
    registry: Registry, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("worker", **LONG).remove()

    def fails(*_: object, **__: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Too many"):
        patch.setattr("speed.fs.claim.os.open", fails)
        forgotten_up_to(registry.root, "worker", keyring)


def test_a_life_after_an_ephemeral_one_takes_nothing_of_it_where_all_lanes_were_opened(
    registry: Registry, keyring: Keyring
) -> None:
    """Its lane may be gone already while its name is not yet forgotten."""
    make_ephemeral(registry)
    lane_key = keyring.lane_key(names.node_id("worker"), names.node_id("billing"))
    cursor = lane_in(registry, "billing", "worker") / names.cursor_name(1)
    cursor.touch(mode=0o600)
    cursor.write_bytes(encode_cursor(Cursor(1, 1, 1, 0, 0), lane_key))
    registry.register("worker", **LONG).remove()
    assert forgotten_up_to(registry.root, "worker", keyring) == 1


def test_what_an_ephemeral_life_sent_is_kept_for_who_has_yet_to_open_its_lane(
    registry: Registry, keyring: Keyring
) -> None:
    make_ephemeral(registry)
    lane_in(registry, "billing", "worker")
    registry.register("worker", **LONG).remove()
    assert forgotten_up_to(registry.root, "worker", keyring) == 0


def test_a_name_that_was_forgotten_while_it_was_claimed_is_claimed_again(
    registry: Registry, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, raised = claim.take, []

    def slowly(root: str, name: str, *rest: Any) -> bool:
        if not raised:
            raised.append(raise_floor(root, name, 5, keyring))
        return real(root, name, *rest)

    monkeypatch.setattr("speed.fs.claim.take", slowly)
    assert registry.register("worker", **LONG).entry.generation == 6
    assert forgotten_up_to(registry.root, "worker", keyring) == 5


# --- looking through the registry ---


def test_a_round_names_stale_entries_and_claims_without_one(registry: Registry) -> None:
    registry.register("alive", **LONG)
    registry.register("left", **LONG).remove()
    take(registry, 1, pid_start=1, ephemeral=True)
    leftovers = sweep.Leftovers(registry)
    assert set(leftovers) == {"alive", "worker", None}


def test_what_was_looked_at_and_stays_is_not_read_again(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register("left", **LONG).remove()
    leftovers = sweep.Leftovers(registry)
    assert list(leftovers) == [None]
    monkeypatch.setattr("speed.fs.sweep.claim.read", None)
    assert list(leftovers) == []


def test_entries_that_were_just_written_wait_for_the_next_round(registry: Registry) -> None:
    registry.register("alive", **LONG)
    assert list(sweep.Leftovers(registry, 10.0)) == [None]


def test_what_is_no_claim_is_passed_by(registry: Registry, keyring: Keyring) -> None:
    registry.register("worker", **LONG).remove()
    raise_floor(registry.root, "worker", 9, keyring)
    os.symlink("elsewhere", names.claim_path(registry.root, "worker", 10))
    assert forgotten_up_to(registry.root, "worker", keyring) == 0


def test_a_link_in_the_place_of_a_lane_is_no_lane_that_has_yet_to_be_opened(registry: Registry) -> None:
    assert not has_unopened_lanes(registry.root, "worker", registry.keyring)
    os.makedirs(names.inbox_dir(registry.root, "billing"))
    lane = names.lane_dir(registry.root, "billing", "worker")
    os.symlink(lane, lane)
    assert not has_unopened_lanes(registry.root, "worker", registry.keyring)


def test_a_lane_that_cannot_be_looked_into_counts_as_unopened(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    os.makedirs(names.inbox_dir(registry.root, "billing"))
    monkeypatch.setattr("speed.fs.committed.open_directory", fails)
    assert has_unopened_lanes(registry.root, "worker", registry.keyring)


# --- the lane of a name that does not come back ---


def removed(registry: Registry, sender: str, changed_at: int | None = None) -> bool:
    inbox = Inbox(registry.root, "billing", 1, registry.keyring)
    at = settled(lambda: inbox.changed_at(sender)) if changed_at is None else changed_at
    return inbox.remove_lane(sender, at, registry)


def settled(look: Callable[[], int]) -> int:
    """The time of a directory, once no later change could have the same."""
    while (at := look()) < 0:
        time.sleep(0.001)
    return at


def test_the_lane_of_an_ephemeral_sender_that_is_gone_is_removed(registry: Registry) -> None:
    make_ephemeral(registry)
    lane = lane_in(registry, "billing", "worker")
    for filename in (names.cursor_name(1), names.lane_file_name(1, 1), names.slot_name(1, 1)):
        (lane / filename).touch()
    assert removed(registry, "worker")
    assert not lane.exists()


def test_a_lane_that_files_came_to_since_it_was_read_stays(registry: Registry) -> None:
    make_ephemeral(registry)
    lane = lane_in(registry, "billing", "worker")
    assert not removed(registry, "worker", changed_at=7)
    assert lane.exists()


def test_the_lane_of_an_ordinary_sender_stays(registry: Registry) -> None:
    """Its cursor keeps what was handled from being taken again."""
    registry.register("worker", **LONG).remove()
    lane = lane_in(registry, "billing", "worker")
    assert not removed(registry, "worker")
    assert lane.exists()


def test_the_lane_of_an_ephemeral_sender_that_lives_stays(registry: Registry) -> None:
    registry.register("worker", ephemeral=True, **LONG)
    lane = lane_in(registry, "billing", "worker")
    assert not removed(registry, "worker")
    assert lane.exists()
