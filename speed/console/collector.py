"""Asks all nodes now and then, on one thread, whoever looks: every two seconds while somebody does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from speed.console.history import History
from speed.core.log import logger
from speed.errors import SpeedError
from speed.observe import Finding
from speed.observe.figures import Answers, ServiceLoad, ask_all, loads
from speed.observe.troubles import work_troubles

if TYPE_CHECKING:
    from speed import Node
    from speed.wire.entry import Entry

WATCHED_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 2.0
"""A node that takes longer does not answer."""
FIRST_PAUSE_SECONDS: Final = 0.5
"""Between the first two looks: one alone tells of nothing that happens."""
MAX_LOADS: Final = 5_000
"""Services that are shown, of all nodes together."""

log = logger("speed.console")


@dataclass(frozen=True)
class Look:
    """What all nodes answered at one time, and what happened since the time before."""

    number: int = 0
    at: float = 0.0
    """Unix seconds."""
    entries: tuple[Entry, ...] = ()
    answers: Answers = field(default_factory=dict)
    loads: tuple[ServiceLoad, ...] = ()
    findings: tuple[Finding, ...] = ()


class Collector:
    """Looks until ``close``; ``look`` is the newest one, for any thread.

    Args:
        node: who asks.
        others: what else is wrong, from what speedd itself knows.
        history: to which each look is added.
    """

    def __init__(self, node: Node, others: Callable[[], list[Finding]], history: History) -> None:
        self.look = Look()
        self._node, self._others, self._history = node, others, history
        self._before: tuple[Answers, float] = {}, time.monotonic()
        self._lock = threading.Lock()
        self._watching = 0
        self._listeners: list[Callable[[], None]] = []
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed-console-look", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self, new_look: Callable[[], None]) -> Iterator[None]:
        """Look often meanwhile, and call ``new_look``, on the collector's thread, after each look."""
        with self._lock:
            self._watching += 1
            self._listeners.append(new_look)
        self._wake.set()
        try:
            yield
        finally:
            with self._lock:
                self._watching -= 1
                self._listeners.remove(new_look)

    def close(self) -> None:
        """Look no more; one that is under way ends first."""
        self._closing.set()
        self._wake.set()
        self._thread.join(2 * ANSWER_SECONDS)
        self._history.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._look()
            except (SpeedError, OSError) as error:
                log.warning("the console cannot look: %s", error)
            except Exception as error:  # answers are of others: a defect of ours does not end looking
                log.error("the console met an unexpected error", exc_info=error)
            self._rest(began)

    def _rest(self, began: float) -> None:
        """Until the next look is due; who begins to watch shortens that."""
        while not self._closing.is_set():
            pause = FIRST_PAUSE_SECONDS if self.look.number == 1 else self._pause()
            left = began + pause - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()

    def _pause(self) -> float:
        with self._lock:
            return WATCHED_SECONDS if self._watching else IDLE_SECONDS

    def _look(self) -> None:
        answers, now = ask_all(self._node, ANSWER_SECONDS), time.monotonic()
        (before, then), self._before = self._before, (answers, now)
        found = tuple(_bounded(loads(before, answers, max(now - then, 1e-3)))) if before else ()
        findings = (*self._others(), *work_troubles(self._node, before, answers))
        entries = tuple(sorted(self._node.nodes(), key=lambda entry: entry.name))
        self.look = Look(self.look.number + 1, time.time(), entries, answers, found, _worst_first(findings))
        self._history.add(self.look.at, now - then, found)
        with self._lock:
            listeners = list(self._listeners)
        for new_look in listeners:
            new_look()


def _bounded(found: Iterator[ServiceLoad]) -> Iterator[ServiceLoad]:
    return (load for _, load in zip(range(MAX_LOADS), found, strict=False))


_WORST = ("broken", "warning")


def _worst_first(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Each once."""
    once = dict.fromkeys(findings)
    return tuple(sorted(once, key=lambda one: _WORST.index(one.state) if one.state in _WORST else len(_WORST)))


def figures_of(answer: dict[str, Any] | None) -> dict[str, Any]:
    """What a node counts of itself, without its services; empty where it did not answer."""
    return {key: value for key, value in (answer or {}).items() if isinstance(value, int | float)}
