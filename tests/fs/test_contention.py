"""Real processes compete for names, are killed and are stopped (rules R-5, R-8, R-12)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from speed.fs.registry import Registry
from speed.wire import names
from tests.representative import fewer

LEASE = {"lease_ms": 30_000, "heartbeat_ms": 5_000}


@pytest.mark.slow
def test_exactly_one_of_sixteen_processes_wins_each_of_thirty_names(contender: Callable[..., Any], registry: Registry):
    """R-5: the race is decided by O_EXCL, once."""
    processes = [contender(wait=False) for _ in range(16)]
    assert {process.answer() for process in processes} == {"ready"}
    for round_number in range(30):
        name = f"prize-{round_number}"
        start = time.monotonic_ns() + 5_000_000
        for process in processes:
            process.tell(f"register {name} {start}")
        answers = sorted(process.answer() for process in processes)
        assert answers[:15] == ["taken"] * 15, answers
        assert answers[15].startswith("won"), answers
        entry = registry.read(name)
        assert entry is not None
        assert entry.generation == int(answers[15].split()[1]) == registry.newest_generation(name)


@pytest.mark.slow
def test_exactly_one_of_eight_processes_reclaims_the_name_of_a_killed_one(
    contender: Callable[..., Any], registry: Registry
):
    """R-5, R-8: the newest claim of the dead is passed once."""
    processes = [contender(wait=False) for _ in range(8)]
    assert {process.answer() for process in processes} == {"ready"}
    for round_number in range(5):
        victim = contender()
        assert victim.register("prize").startswith("won")
        victim.process.kill()
        victim.process.wait()
        start = time.monotonic_ns() + 5_000_000
        for process in processes:
            process.tell(f"register prize {start}")
        answers = [process.answer() for process in processes]
        winners = [process for process, answer in zip(processes, answers, strict=True) if answer.startswith("won")]
        assert len(winners) == 1, (round_number, answers)
        assert winners[0].ask("remove prize") == "removed"


@pytest.mark.slow
def test_a_name_that_changes_hands_hundreds_of_times_never_has_two_holders(
    contender: Callable[..., Any], registry: Registry
):
    """R-5: taking and giving back race with each other at every step."""
    processes = [contender() for _ in range(4)]
    for process in processes:
        process.tell("churn ball 60")
    assert [process.answer() for process in processes] == ["intruders 0"] * 4
    assert registry.newest_generation("ball") >= 240


@pytest.mark.slow
def test_those_who_remove_stale_entries_never_remove_that_of_a_successor(
    contender: Callable[..., Any], registry: Registry
):
    """R-13: it is published at the very moment when they look at the entry that it replaces."""
    going_on = f"{registry.root}/going-on"
    open(going_on, "x").close()
    owner, sweeper = contender(), contender()
    sweeper.tell(f"sweep ball {going_on}")
    assert owner.ask(f"succeed ball {fewer(100, 30)}") == "vanished 0"
    os.unlink(going_on)
    assert sweeper.answer() != "removed 0", "the race did not take place"
    assert not [name for name in os.listdir(names.registry_dir(registry.root)) if name.startswith(".tmp-")]


def test_the_name_of_a_killed_process_is_free_at_once(contender: Callable[..., Any], registry: Registry):
    """R-8: although its lease has 30 seconds left, and although nobody has waited for the corpse yet."""
    victim = contender()
    assert victim.register("billing") == "won 1"
    os.kill(victim.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.process.pid, os.WEXITED | os.WNOWAIT)  # dead, but still a zombie
    assert registry.live("billing", sure=True) is None
    assert registry.register("billing", **LEASE).entry.generation == 2


def test_a_stopped_owner_is_replaced_and_its_entry_never_comes_back(contender: Callable[..., Any], registry: Registry):
    """R-12: it wakes up, notices and reports the loss instead of writing."""
    owner = contender(lease_ms=400, heartbeat_ms=100)
    assert owner.register("billing") == "won 1"
    os.kill(owner.process.pid, signal.SIGSTOP)
    successor = None
    while successor is None:  # ends when the lease of 0.4 s has run out
        if registry.live("billing", sure=True) is None:
            successor = registry.register("billing", **LEASE)
    owner.tell("heartbeat billing")
    os.kill(owner.process.pid, signal.SIGCONT)
    assert owner.answer() == "lost"
    assert owner.ask("remove billing") == "removed"
    assert registry.read("billing") == successor.entry


def test_a_killed_claimant_does_not_block_the_name(contender: Callable[..., Any], registry: Registry):
    """R-5: killed between claim and entry, as the claim without an entry shows."""
    victim = contender()
    assert victim.register("billing") == "won 1"
    os.unlink(names.entry_path(registry.root, "billing"))
    victim.process.kill()
    victim.process.wait()
    assert registry.register("billing", **LEASE).entry.generation == 2
