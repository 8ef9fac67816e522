"""The life of a supervised process as one table, and its restart pauses. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """Where a process is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to restart"
    STOPPING = "stopping"
    KILLING = "killing"
    ENDED = "ended"


class Event(Enum):
    """What can happen to a process."""

    START = auto()
    REGISTERED = auto()
    """Its node is in the registry."""
    EXITED_WELL = auto()
    EXITED_BADLY = auto()
    PAUSE_OVER = auto()
    STOP = auto()
    TOO_SLOW = auto()
    """The stop timeout passed."""


class Action(Enum):
    """What the supervisor does on a transition."""

    NONE = auto()
    SPAWN = auto()
    PAUSE = auto()
    TERMINATE = auto()
    KILL = auto()
    FORGET = auto()
    """The process is gone; nothing more to do."""


S, E, A = State, Event, Action

TRANSITIONS: dict[tuple[State, Event], tuple[State, Action]] = {
    (S.STOPPED, E.START): (S.STARTING, A.SPAWN),
    (S.ENDED, E.START): (S.STARTING, A.SPAWN),
    (S.STARTING, E.REGISTERED): (S.RUNNING, A.NONE),
    (S.STARTING, E.EXITED_WELL): (S.WAITING, A.PAUSE),
    (S.STARTING, E.EXITED_BADLY): (S.WAITING, A.PAUSE),
    (S.STARTING, E.STOP): (S.STOPPING, A.TERMINATE),
    (S.RUNNING, E.EXITED_WELL): (S.WAITING, A.PAUSE),
    (S.RUNNING, E.EXITED_BADLY): (S.WAITING, A.PAUSE),
    (S.RUNNING, E.STOP): (S.STOPPING, A.TERMINATE),
    (S.WAITING, E.PAUSE_OVER): (S.STARTING, A.SPAWN),
    (S.WAITING, E.STOP): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.EXITED_WELL): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.EXITED_BADLY): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.TOO_SLOW): (S.KILLING, A.KILL),
    (S.KILLING, E.EXITED_WELL): (S.STOPPED, A.FORGET),
    (S.KILLING, E.EXITED_BADLY): (S.STOPPED, A.FORGET),
    (S.ENDED, E.STOP): (S.STOPPED, A.FORGET),
}
"""(state, event) -> (next state, action). What is not listed changes nothing."""

RESTARTS: dict[str, frozenset[Event]] = {
    "always": frozenset({E.EXITED_WELL, E.EXITED_BADLY}),
    "on-failure": frozenset({E.EXITED_BADLY}),
    "never": frozenset(),
}
"""Restart policy -> the exits after which a process is started again."""


def step(state: State, event: Event, restart: str) -> tuple[State, Action]:
    """The next state and what to do. ``restart`` is a policy of RESTARTS."""
    following, action = TRANSITIONS.get((state, event), (state, Action.NONE))
    if following is State.WAITING and event not in RESTARTS[restart]:
        return State.ENDED, Action.FORGET
    return following, action


@dataclass
class Backoff:
    """Pauses before a restart: doubled each time, from the start again after a stable run. In seconds."""

    first: float = 0.5
    longest: float = 30.0
    stable: float = 10.0
    _next: float = 0.0

    def pause(self, ran_seconds: float) -> float:
        """How long to wait before the next start, after a run of ``ran_seconds``."""
        if ran_seconds >= self.stable or not self._next:
            self._next = self.first
        pause = self._next
        self._next = min(self._next * 2, self.longest)
        return pause
