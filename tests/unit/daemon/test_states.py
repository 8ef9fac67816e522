"""The life of a supervised process: one table, tested without processes."""

from __future__ import annotations

import itertools

import pytest

from speed.daemon.supervisor import RESTARTS, TRANSITIONS, Action, Backoff, Event, ProcessState, step


def life(restart: str, *events: Event) -> tuple[ProcessState, list[Action]]:
    state, actions = ProcessState.STOPPED, []
    for event in events:
        state, action = step(state, event, restart)
        actions.append(action)
    return state, actions


def test_a_process_that_crashes_is_started_again_after_a_pause() -> None:
    state, actions = life("always", Event.START, Event.REGISTERED, Event.EXITED_BADLY, Event.PAUSE_OVER)
    assert state is ProcessState.STARTING
    assert actions == [Action.SPAWN, Action.NONE, Action.PAUSE, Action.SPAWN]


@pytest.mark.parametrize(
    ("restart", "event", "expected"),
    [
        ("always", Event.EXITED_WELL, ProcessState.WAITING),
        ("always", Event.EXITED_BADLY, ProcessState.WAITING),
        ("on-failure", Event.EXITED_WELL, ProcessState.ENDED),
        ("on-failure", Event.EXITED_BADLY, ProcessState.WAITING),
        ("never", Event.EXITED_WELL, ProcessState.ENDED),
        ("never", Event.EXITED_BADLY, ProcessState.ENDED),
    ],
)
def test_the_policy_decides_which_ends_are_followed_by_a_start(
    restart: str, event: Event, expected: ProcessState
) -> None:
    assert step(ProcessState.RUNNING, event, restart)[0] is expected


def test_stopping_is_bounded_by_a_kill() -> None:
    state, actions = life("always", Event.START, Event.STOP, Event.TOO_SLOW, Event.EXITED_BADLY)
    assert state is ProcessState.STOPPED
    assert actions == [Action.SPAWN, Action.TERMINATE, Action.KILL, Action.FORGET]


def test_a_process_that_is_stopped_while_it_waits_is_not_started_again() -> None:
    state, _ = life("always", Event.START, Event.EXITED_BADLY, Event.STOP, Event.PAUSE_OVER)
    assert state is ProcessState.STOPPED


def test_a_process_asked_to_stop_is_never_restarted_whatever_the_policy() -> None:
    for restart, end in itertools.product(RESTARTS, (Event.EXITED_WELL, Event.EXITED_BADLY)):
        assert life(restart, Event.START, Event.STOP, end)[0] is ProcessState.STOPPED


def test_a_process_that_hangs_is_ended_killed_if_need_be_and_started_again() -> None:
    state, actions = life("always", Event.START, Event.HUNG, Event.TOO_SLOW, Event.EXITED_BADLY, Event.PAUSE_OVER)
    assert state is ProcessState.STARTING
    assert actions == [Action.SPAWN, Action.TERMINATE, Action.KILL, Action.PAUSE, Action.SPAWN]


def test_a_process_that_hangs_is_not_started_again_where_the_policy_is_never() -> None:
    assert life("never", Event.START, Event.REGISTERED, Event.HUNG, Event.EXITED_BADLY)[0] is ProcessState.ENDED


def test_a_process_that_is_stopped_while_it_hangs_is_not_started_again() -> None:
    state, _ = life("always", Event.START, Event.HUNG, Event.STOP, Event.EXITED_BADLY, Event.PAUSE_OVER)
    assert state is ProcessState.STOPPED


def test_from_every_state_the_way_to_stopped_is_short() -> None:
    for state in ProcessState:
        for event in (Event.STOP, Event.TOO_SLOW, Event.EXITED_BADLY):
            state, _ = step(state, event, "always")
        assert state is ProcessState.STOPPED, state


def test_every_spawn_leads_to_starting() -> None:
    spawning = {following for following, action in TRANSITIONS.values() if action is Action.SPAWN}
    assert spawning == {ProcessState.STARTING}


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_stable_run() -> None:
    backoff = Backoff(first=0.5, longest=3.0, stable=10.0)
    assert [backoff.pause(0.1) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.pause(10.0) == 0.5
    assert backoff.pause(9.9) == 1.0
