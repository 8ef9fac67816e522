"""Claims on a name, of the living, the dead and the slow (R-4, R-5): real files, some put there as others would."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from speed.errors import LeaseLostError, NameTakenError
from speed.fs import claim
from speed.fs import registration as claiming
from speed.fs.identity import identity
from speed.fs.registry import Registry
from speed.wire import names
from tests.fs.entries import LONG, now_ms, put, template


def make_claim(registry: Registry, generation: int, **changes: Any) -> None:
    """A claim on billing that no entry follows, by this process unless said otherwise."""
    made = changes.pop("made_ms", now_ms())
    lease = changes.pop("lease_ms", 30_000)
    maker = dataclasses.replace(identity(), **changes)
    assert claim.take(
        registry.root, "billing", generation, claim.Claimant(maker, lease, made), registry.keyring.registry_key
    )


def test_the_claim_of_a_dead_process_is_passed_at_once(registry: Registry):
    """R-5: its maker died between claim and entry."""
    make_claim(registry, 1, pid_start=1)
    began = now_ms()
    assert registry.register("billing", **LONG).entry.generation == 2
    assert now_ms() - began < 1000


def test_the_fresh_claim_of_a_living_process_holds_the_name(registry: Registry):
    """R-5."""
    make_claim(registry, 1)
    with pytest.raises(NameTakenError, match="being claimed"):
        registry.register("billing", **LONG)


def test_the_claim_of_a_living_process_holds_the_name_for_one_lease_only(registry: Registry):
    """R-5: a stopped process, or one that gave up, does not keep a name for ever."""
    make_claim(registry, 1, lease_ms=1000, made_ms=now_ms() - 1001)
    assert registry.register("billing", **LONG).entry.generation == 2


def test_a_sweep_that_follows_another_under_the_same_number_is_waited_for_as_well(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5: or it would remove what the node makes."""

    def sweep() -> None:
        sweeper = claim.Claimant(identity(), 30_000, now_ms(), sweeps=True)
        assert claim.take(registry.root, "billing", 1, sweeper, registry.keyring.registry_key)

    waited = []

    def wait(_: Registry, name: str, generation: int, __: claim.Claimant) -> None:
        waited.append(generation)
        claim.remove(registry.root, name, generation)
        if len(waited) == 1:
            sweep()

    sweep()
    monkeypatch.setattr(claiming, "_wait_for_sweeper", wait)
    registry.register("billing", **LONG)
    assert waited == [1, 1]


def test_a_sweep_that_begins_while_one_that_ended_is_judged_is_waited_for(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5: under the same number, with the same words."""
    sweeper = claim.Claimant(identity(), 30_000, now_ms(), sweeps=True)

    def sweep() -> None:
        assert claim.take(registry.root, "billing", 1, sweeper, registry.keyring.registry_key)

    told: list[bool | None] = []

    def ended(root: str, name: str, generation: int) -> bool | None:
        if not told:
            claim.remove(root, name, generation)
        told.append(is_released(root, name, generation))
        if len(told) == 1:
            sweep()
        return told[-1]

    waited = []

    def wait(_: Registry, name: str, generation: int, __: claim.Claimant) -> None:
        waited.append(generation)
        claim.remove(registry.root, name, generation)

    is_released = claim.is_released
    sweep()
    monkeypatch.setattr(claim, "is_released", ended)
    monkeypatch.setattr(claiming, "_wait_for_sweeper", wait)
    registry.register("billing", **LONG)
    assert told[0] is None
    assert waited == [1]


def test_a_claim_that_took_the_place_of_the_one_that_was_judged_is_judged_anew(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5, step 3: a dead maker's claim was swept away, and another sweep began under its number."""
    make_claim(registry, 1, pid_start=1)
    waited = []

    def take(root: str, name: str, generation: int, claimant: claim.Claimant, key: bytes) -> bool:
        monkeypatch.setattr(claim, "take", taken)
        claim.remove(root, name, 1)
        assert taken(root, name, 1, claim.Claimant(identity(), 30_000, now_ms(), sweeps=True), key)
        return taken(root, name, generation, claimant, key)

    def wait(_: Registry, name: str, generation: int, __: claim.Claimant) -> None:
        waited.append(generation)
        claim.remove(registry.root, name, generation)

    taken = claim.take
    monkeypatch.setattr(claim, "take", take)
    monkeypatch.setattr(claiming, "_wait_for_sweeper", wait)
    registry.register("billing", **LONG)
    assert waited == [1]


def test_the_claim_of_another_boot_is_respected_for_its_lease(registry: Registry):
    """R-5."""
    make_claim(registry, 1, boot_id="elsewhere", lease_ms=120)
    began = now_ms()
    assert registry.register("billing", **LONG).entry.generation == 2
    assert now_ms() - began >= 120


def test_a_claim_of_a_later_version_with_more_fields_is_understood(registry: Registry):
    """R-4: unknown fields are ignored."""
    make_claim(registry, 1, pid_start=1)
    path = pathlib.Path(names.claim_path(registry.root, "billing", 1))
    path.write_bytes(path.read_bytes().replace(b"{", b'{"novelty": [1], ', 1))
    assert registry.register("billing", **LONG).entry.generation == 2


def test_a_claim_that_is_being_written_is_respected_although_the_entry_of_a_dead_owner_is_there(
    registry: Registry, in_each_pause: Callable[..., None]
):
    """R-5: that entry does not follow the claim; only one of its generation would."""
    put(registry, template(registry, generation=1, pid_start=1))
    path = pathlib.Path(names.claim_path(registry.root, "billing", 2))
    path.touch()

    def written() -> None:
        path.unlink()
        make_claim(registry, 2)

    in_each_pause(written)
    with pytest.raises(NameTakenError, match="being claimed"):
        registry.register("billing", **LONG)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"lease": 1}', b"\xff" * 5000, b"[" * 4000])
def test_an_unreadable_claim_is_waited_for_and_then_passed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, content: bytes
):
    """R-5: as another language, or a torn write, may leave it."""
    monkeypatch.setattr("speed.fs.registration.UNCLEAR_LEASE_MS", 60)
    pathlib.Path(names.claim_path(registry.root, "billing", 1)).write_bytes(content)
    began = now_ms()
    assert registry.register("billing", **LONG).entry.generation == 2
    assert now_ms() - began >= 60


@pytest.mark.parametrize("content", [b"", b'{"lease": 1}'])
def test_who_waits_for_a_claim_says_so_once_and_how_to_end_it(
    registry: Registry, caplog: pytest.LogCaptureFixture, content: bytes
):
    """R-5: the whole wait is half a minute."""
    path = pathlib.Path(names.claim_path(registry.root, "billing", 1))
    path.write_bytes(content)
    waiting = threading.Thread(target=registry.register, args=("billing",), kwargs=LONG)
    waiting.start()
    while not caplog.records:
        time.sleep(0.01)
    (said,) = [one.getMessage() for one in caplog.records]
    assert f"the claim {path} does not tell its maker" in said
    assert "chmod 400" in said
    time.sleep(0.2)
    assert waiting.is_alive()
    path.chmod(0o400)
    waiting.join()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_higher_claim_beats_a_slow_registrant(registry: Registry, moment: str):
    """R-5: seen before its entry, and after it at the next heartbeat that finds another file."""
    if moment == "before":
        with pytest.raises(LeaseLostError):
            registry.register("billing", before_publish=lambda generation: make_claim(registry, 2), **LONG)
    else:
        registration = registry.register("billing", **LONG)
        make_claim(registry, 2)
        os.unlink(names.entry_path(registry.root, "billing"))
        with pytest.raises(LeaseLostError):
            registration.heartbeat()
    assert registry.read("billing") is None
