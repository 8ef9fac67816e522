"""The keys of a node: sets by name, each asked for by itself, found by id; the next key in time (M-26)."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from speed.core.hints import checked_seconds
from speed.core.log import logger
from speed.errors import ConfigurationError, SpeedError, fresh
from speed.fs.keyfile import alone_with
from speed.fs.open import replace_private
from speed.message.algorithms import MAX_KEY_USES
from speed.message.errors import KeyExhaustedError, KeyRefusedError, KeyUnavailableError, MessageKeyError
from speed.message.keys import MAX_SET_KEYS, MessageKey, check_key_id, generate_key
from speed.message.providers import FileProvider, KeyProvider, provider_of

# The next key of a set: two keys overlap while both sides learn of the new one (M-26).


def is_due(keys: Sequence[MessageKey], now_ms: int, period_ms: int) -> bool:
    """Whether the newest key is older than the period."""
    return max(key.not_before_ms for key in keys) + period_ms <= now_ms


def rotated(keys: Sequence[MessageKey], now_ms: int, overlap_ms: int, ahead_ms: int = 0) -> tuple[MessageKey, ...]:
    """The set with a new key that begins ``ahead_ms`` from now; older ones end ``overlap_ms`` after that.

    Keys that have ended are dropped. The new key's bounds are those of the newest one, after which it begins. Its id is
    that one's, up to the last dot, with the time it begins. KeyRefusedError for a set that has no room for it.
    """
    if not keys:
        raise KeyRefusedError("a set without keys cannot be rotated: make its first key")
    newest = max(keys, key=lambda key: key.not_before_ms)
    kept = [key for key in keys if key.not_after_ms is None or key.not_after_ms >= now_ms]
    if len(kept) >= MAX_SET_KEYS:
        raise KeyRefusedError(f"the set has {len(kept)} keys, and no more are read: wait until one has ended")
    begins = max(now_ms + ahead_ms, newest.not_before_ms + 1)  # no two keys begin at once, or have one id
    fresh = generate_key(
        f"{newest.id.rpartition('.')[0] or newest.id}.{_stamp(begins)}",
        newest.algorithm.name,
        namespaces=newest.namespaces,
        topics=newest.topics,
        publishers=newest.publishers,
        not_before_ms=begins,
    )
    return (*(_ending(key, begins + overlap_ms) for key in kept), fresh)


def _stamp(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y%m%dT%H%M%S") + f"{milliseconds:03}"


def _ending(key: MessageKey, at_ms: int) -> MessageKey:
    return replace(key, not_after_ms=at_ms if key.not_after_ms is None else min(key.not_after_ms, at_ms))


# The next key of a file of keys: added when it is due, while no other process changes the file (M-26).


def rotate_file(path: str, period_ms: int, overlap_ms: int) -> MessageKey | None:
    """Add a new key, and let older ones end; the new key, None if the newest is younger than the period.

    Raises MessageKeyError and KeyFileError; OSError where the file cannot be written.
    """
    with alone_with(path):
        now_ms = time.time_ns() // 1_000_000
        keys = FileProvider(path).fetch()
        if not is_due(keys, now_ms, period_ms):
            return None
        fresh = rotated(keys, now_ms, overlap_ms)
        write_keys(path, fresh)
    return fresh[-1]


def write_keys(file: str, keys: Sequence[MessageKey]) -> None:
    """The whole set at once, private to this user."""
    replace_private(file, json.dumps([key.to_record() for key in keys], indent=1).encode())


# One set of keys and who provides it, asked by threads of its own and waited for within a bound.

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
    began: float
    deadline: float
    """Of the real clock."""
    done: threading.Event = field(default_factory=threading.Event)
    is_given_up: bool = False


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """When keys are old, how long a provider is waited for, and by which clock (seconds)."""

    max_age: float = MAX_AGE_SECONDS
    wait: float = WAIT_SECONDS
    clock: Callable[[], float] = time.monotonic


class KeySet:
    """A set by its name; of a key at hand, that key for ever. Thread-safe."""

    def __init__(self, name: str, given: KeyProvider | MessageKey, pace: RefreshPolicy) -> None:
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
            self._keys, self._fetched, self._tried = keys, call.began, self._pace.clock()
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


MAX_SETS = 1024


class KeyStore:
    """The keys of a node, in named sets.

    Providers are asked when their keys are first needed, each in a thread of its own. One that does not answer is
    away, and holds up no other set. Thread-safe.

    Args:
        sets: maps names to a key, a provider, or a URI: ``file://``, ``env://``, ``vault://``, ``awskms://``, ``k8s://``.
        max_age_seconds: how long keys are kept before their provider is asked again.
        wait_seconds: how long a provider may take to answer.
        max_uses: how often a key writes before it has to be rotated.
        clock: a monotonic clock in seconds.

    Raises ConfigurationError for a URI that cannot be.
    """

    def __init__(
        self,
        sets: Mapping[str, str | KeyProvider | MessageKey],
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
        max_uses: int = MAX_KEY_USES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(sets) > MAX_SETS:
            raise ConfigurationError(f"{len(sets)} key sets are too many; at most {MAX_SETS} are kept")
        checked_seconds("max_age_seconds", max_age_seconds)
        pace = RefreshPolicy(max_age_seconds, checked_seconds("wait_seconds", wait_seconds), clock)
        self._sets = {check_key_id(name): KeySet(name, _provider(given), pace) for name, given in sets.items()}
        self._max_uses = max_uses
        self._uses: Counter[str] = Counter()
        self._lock = threading.Lock()

    def current(self, name: str, namespace: str, topic: str, now_ms: int) -> MessageKey:
        """The key of set ``name`` to write with: the newest that has begun and may be used there.

        Raises KeyUnavailableError, KeyRefusedError, KeyExhaustedError.
        """
        keys = sorted(self._set(name).required(), key=lambda key: key.not_before_ms, reverse=True)
        return self.counted(_usable(keys, name, namespace, topic, now_ms))

    def find(self, key_id: str, names: Sequence[str] | None = None) -> MessageKey | None:
        """The key of that id in any set, or in those of ``names``, to read with; None if there is none.

        For an id that is not here providers are asked again at once, within a number. KeyUnavailableError while one
        that may have it does not answer.
        """
        sets = list(self._sets.values()) if names is None else [self._set(name) for name in names]
        refreshed = [one for one in sets if one.refresh()]
        key = _held(sets, key_id)
        if key is None:
            searched = [one for one in sets if one not in refreshed and one.search()]
            key = _held(searched, key_id)
        if key is None:
            away = next((one.problem for one in sets if isinstance(one.problem, KeyUnavailableError)), None)
            if away is not None:
                raise KeyUnavailableError(f"key {key_id[:64]!r} cannot be looked for: {away}")
        return key

    def _set(self, name: str) -> KeySet:
        found = self._sets.get(name)
        if found is None:
            raise KeyUnavailableError(f"no key set is called {name!r}; there are {', '.join(self._sets) or 'none'}")
        return found

    def all(self, name: str) -> tuple[MessageKey, ...]:
        """All keys of a set, such as those a receiver trusts; raises as ``current`` does."""
        return self._set(name).required()

    def counted(self, key: MessageKey) -> MessageKey:
        """``key``, used once more; KeyExhaustedError when it was used as often as it may be."""
        with self._lock:
            if self._uses[key.id] >= self._max_uses:
                raise KeyExhaustedError(f"key {key.id!r} was used {self._max_uses} times: rotate it")
            self._uses[key.id] += 1
        return key

    def __repr__(self) -> str:
        return f"<KeyStore of {len(self._sets)} sets>"


def _provider(given: str | KeyProvider | MessageKey) -> KeyProvider | MessageKey:
    return provider_of(given) if isinstance(given, str) else given


def _held(sets: Iterable[KeySet], key_id: str) -> MessageKey | None:
    """The key of that id; sets that wait for their provider are looked at last."""
    for one in sorted(sets, key=lambda one: one.is_asking):
        for key in one.settled():
            if key.id == key_id:
                return key
    return None


def _usable(keys: list[MessageKey], name: str, namespace: str, topic: str, now_ms: int) -> MessageKey:
    problem: MessageKeyError | None = None
    for key in keys:
        try:
            key.check_use(namespace, topic, now_ms)
        except KeyRefusedError as error:
            problem = problem or error
        else:
            return key
    raise KeyRefusedError(f"key set {name!r} has no key for that: {problem}")
