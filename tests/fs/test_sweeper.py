"""R-27: a node sweeps a little at a time, loses no place in a round, and the more nodes there are the more seldom."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from typing import Any

import pytest

from speed.engine.python.context import Stats
from speed.engine.python.registrar import Sweeper
from speed.engine.tracing import LogLimiter
from speed.fs.registry import Registry
from speed.wire import names
from tests.fs.entries import LONG


@pytest.fixture
def context(registry: Registry) -> Any:
    made = {
        "registry": registry,
        "root": registry.root,
        "keyring": registry.keyring,
        "stats": Stats(),
        "limiter": LogLimiter(),
    }
    return types.SimpleNamespace(**made)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn ends after one name, and an entry that was just written is looked at."""
    monkeypatch.setattr("speed.engine.python.registrar.TURN_SECONDS", 0.0)
    monkeypatch.setattr("speed.engine.python.registrar.UNTOUCHED_SECONDS", 0.0)


def leave(registry: Registry, count: int) -> None:
    for number in range(count):
        registry.register(f"worker{number}", ephemeral=True, **LONG).expire()


def entries(registry: Registry) -> int:
    return sum(name.endswith(".node") for name in os.listdir(names.registry_dir(registry.root)))


@pytest.mark.usefixtures("at_once")
def test_a_round_goes_on_where_a_turn_left_it(registry: Registry, context: Any) -> None:
    leave(registry, 5)
    sweeper = Sweeper(context, 0.0, lambda: None, ephemeral=False)
    for left in (4, 3, 2, 1, 0):
        sweeper.turn()
        assert entries(registry) == left


def test_a_turn_ends_between_names_that_are_left_alone_too(
    registry: Registry, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many entries there are, the lease is looked after in time."""
    monkeypatch.setattr("speed.engine.python.registrar.TURN_SECONDS", 0.0)
    monkeypatch.setattr("speed.engine.python.registrar.written_within", lambda *_: 3)
    looked_at: list[str] = []
    monkeypatch.setattr("speed.fs.sweep._untouched_for", lambda path: looked_at.append(path) or 0.0)
    for number in range(3):
        registry.register(f"alive{number}", **LONG)
    sweeper = Sweeper(context, 1000.0, lambda: None, ephemeral=False)
    sweeper._next_round = 0.0
    for count in (1, 2, 3, 3):
        sweeper.turn()
        assert len(looked_at) == count


@pytest.mark.usefixtures("at_once")
def test_who_is_said_to_be_gone_is_forgotten_before_the_round(registry: Registry, context: Any) -> None:
    leave(registry, 3)
    sweeper = Sweeper(context, 1000.0, lambda: None, ephemeral=True)
    sweeper.gone("worker1")
    sweeper.turn()
    assert registry.read("worker1") is None
    assert entries(registry) == 2


class Crowd:
    """A registry that tells of so many nodes, and when it was looked through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, registry: Registry, chance: float) -> None:
        """``chance``: what the dice show, of 1."""
        self.now = 0.0
        self.rounds: list[float] = []
        monkeypatch.setattr("speed.engine.python.registrar.monotonic", lambda: self.now)
        monkeypatch.setattr(
            "speed.engine.python.registrar.random.uniform", lambda low, high: low + chance * (high - low)
        )
        monkeypatch.setattr("speed.engine.python.registrar.Leftovers", lambda *_: self)
        monkeypatch.setattr("speed.fs.sweep._untouched_for", lambda path: 0.0 if "alive" in path else 3600.0)
        monkeypatch.setattr(registry, "names", lambda: iter([f"alive{n}" for n in range(64)] + ["dead"] * 1000))

    def __iter__(self) -> Iterator[str]:
        self.rounds.append(self.now)
        return iter(())


def rounds(crowd: Crowd, context: Any, seconds: int) -> list[float]:
    sweeper = Sweeper(context, 10.0, lambda: None, ephemeral=False)
    for second in range(seconds):
        crowd.now = float(second)
        sweeper.turn()
    return crowd.rounds


def test_the_pause_grows_with_the_number_of_live_nodes_and_not_with_what_the_dead_left(
    registry: Registry, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(monkeypatch, registry, 0.5)
    assert rounds(crowd, context, 60) == [1.0, 24.0, 47.0]  # three quarters of a lease, times 1 + 64/32


def test_what_a_node_keeps_of_others_is_looked_after_once_a_lease_however_many_nodes_there_are(
    registry: Registry, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd, looks = Crowd(monkeypatch, registry, 0.5), list[float]()
    sweeper = Sweeper(context, 10.0, lambda: looks.append(crowd.now), ephemeral=False)
    for second in range(45):
        crowd.now = float(second)
        sweeper.turn()
    assert looks == [10.0, 20.0, 30.0, 40.0]


def test_of_many_nodes_that_start_together_some_leave_out_their_first_round(
    registry: Registry, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(monkeypatch, registry, 0.6)
    assert rounds(crowd, context, 30) == [25.0]


def test_what_fails_is_counted_and_done_another_time(
    registry: Registry, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(registry, 1)
    sweeper = Sweeper(context, 1000.0, lambda: None, ephemeral=True)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("speed.engine.python.registrar.sweep", fails)
        sweeper.gone("worker0")
        sweeper.turn()
    assert context.stats.value("sweeps_failed") == 1
    sweeper.gone("worker0")
    sweeper.turn()
    assert entries(registry) == 0
