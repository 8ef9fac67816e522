"""One set of keys and who provides it, asked by threads of its own and waited for within a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from speed.core.log import logger
from speed.errors import SpeedError, fresh
from speed.message.errors import KeyUnavailableError
from speed.message.keys import MessageKey
from speed.trust.providers import KeyProvider

log = logger("speed.trust")

MAX_AGE_SECONDS = 300.0
RETRY_SECONDS = 5.0
"""How long a provider that failed is left alone; no ids make it be asked more often in the long run."""
SEARCHES = 3
"""How often unknown ids make a provider be asked at once; each takes RETRY_SECONDS to come back."""
GRACE_SECONDS = 3600.0
"""How long keys are used on when their provider does not answer any more."""
WAIT_SECONDS = 10.0
MAX_HANGING = 3
"""Calls that were given up and have not returned; with so many, a provider is not asked again."""


@dataclass(eq=False, slots=True)
class _Call:
    number: int
    asked: float
    deadline: float
    """Of the real clock."""
    done: threading.Event = field(default_factory=threading.Event)
    is_given_up: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """When keys are old, how long a provider is waited for, and by which clock (seconds)."""

    max_age: float = MAX_AGE_SECONDS
    wait: float = WAIT_SECONDS
    clock: Callable[[], float] = time.monotonic


class KeySet:
    """A set by its name; of a key at hand, that key for ever. Thread-safe."""

    def __init__(self, name: str, given: KeyProvider | MessageKey, pace: Pace) -> None:
        self._name, self._pace = name, pace
        self._provider: KeyProvider | None = None
        self._keys: tuple[MessageKey, ...] = ()
        self._fetched = float("inf")
        if isinstance(given, MessageKey):
            self._keys = (given,)
        else:
            self._provider, self._fetched = given, float("-inf")
        self._tried = float("-inf")
        self._problem: SpeedError | None = None
        self._call: _Call | None = None
        self._calls = self._answered = self._hanging = 0
        self._searches, self._counted = float(SEARCHES), pace.clock()
        self._lock = threading.Lock()

    # --- asking, which does not wait ---

    def refresh(self) -> bool:
        """Ask if the keys are old and nobody was just asked; whether that was begun."""
        with self._lock:
            now, age = self._pace.clock(), self._pace.max_age
            is_due = now - self._fetched >= age and now - self._tried >= min(RETRY_SECONDS, age)
            return is_due and self._begin(now)

    def search(self) -> bool:
        """Ask for a key that is not here, if that was not done too often; whether that was begun."""
        with self._lock:
            now = self._pace.clock()
            self._searches = min(SEARCHES, self._searches + (now - self._counted) / RETRY_SECONDS)
            self._counted = now
            failed = self._problem is not None and now - self._tried < RETRY_SECONDS
            if self._searches < 1 or failed or not self._begin(now):
                return False
            self._searches -= 1
            return True

    def _begin(self, now: float) -> bool:
        if self._provider is None or self._call is not None or self._hanging >= MAX_HANGING:
            return False
        self._calls += 1
        self._call = _Call(self._calls, now, time.monotonic() + self._pace.wait)
        arguments = (self._provider, self._call)
        threading.Thread(target=self._ask, args=arguments, name=f"speed-keys-{self._name}", daemon=True).start()
        return True

    # --- answers ---

    @property
    def is_asking(self) -> bool:
        return self._call is not None

    @property
    def problem(self) -> SpeedError | None:
        """Why the last call gave no keys."""
        return self._problem

    def settled(self) -> tuple[MessageKey, ...]:
        """The keys, once the call that was begun has ended or its time is over."""
        call = self._call
        if call is not None and not call.done.wait(max(0.0, call.deadline - time.monotonic())):
            self._give_up(call)
        return self._keys

    def required(self) -> tuple[MessageKey, ...]:
        """The keys as they are now; raises what is wrong with the set if there are none."""
        self.refresh()
        keys = self.settled()
        if not keys:
            raise KeyUnavailableError(f"key set {self._name!r} is empty") if not self._problem else fresh(self._problem)
        return keys

    def _ask(self, provider: KeyProvider, call: _Call) -> None:
        keys: tuple[MessageKey, ...] = ()
        problem: SpeedError | None = None
        try:
            keys = provider.fetch()
        except SpeedError as error:
            problem = error
        except BaseException as error:  # of a provider of the program's own; its exit, too: others wait for the keys
            problem = KeyUnavailableError(f"key set {self._name!r}: its provider failed ({type(error).__name__})")
        with self._lock:
            self._hanging -= call.is_given_up
            if call.number > self._answered:
                self._answered = call.number
                self._take(call, keys, problem)
            if self._call is call:
                self._call = None
        call.done.set()

    def _take(self, call: _Call, keys: tuple[MessageKey, ...], problem: SpeedError | None) -> None:
        self._problem = problem
        if problem is None:
            self._keys, self._fetched, self._tried = keys, call.asked, self._pace.clock()
            return
        self._failed(problem)
        if not isinstance(problem, KeyUnavailableError):  # refused: what it gave before is not to be used on
            self._keys = ()

    def _give_up(self, call: _Call) -> None:
        with self._lock:
            if self._call is not call:  # it ended, or another waiter was first
                return
            self._call, call.is_given_up = None, True
            self._hanging += 1
            self._failed(
                KeyUnavailableError(f"key set {self._name!r}: no answer of its provider within {self._pace.wait} s")
            )

    def _failed(self, problem: SpeedError) -> None:
        log.warning("key set %s: %s", self._name, problem)
        self._problem, self._tried = problem, self._pace.clock()
        if self._tried - self._fetched > max(GRACE_SECONDS, self._pace.max_age):
            self._keys = ()
