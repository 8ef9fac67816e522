"""The keys of a node: sets by name, cached with a bound and an expiry, found by id (M-26). Thread-safe."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.message.algorithms import MAX_KEY_USES
from speed.message.errors import KeyExhaustedError, KeyRefusedError, KeyUnavailableError, MessageKeyError
from speed.message.keys import MessageKey, check_key_id
from speed.trust.providers import KeyProvider, provider_of

log = logger("speed.trust")

MAX_SETS = 1024
MAX_AGE_SECONDS = 300.0
RETRY_SECONDS = 5.0
"""A provider is not asked more often than that, whatever ids messages name."""
GRACE_SECONDS = 3600.0
"""How long keys are used on when their provider does not answer any more."""


@dataclass(slots=True)
class _Set:
    provider: KeyProvider
    keys: tuple[MessageKey, ...] = ()
    fetched: float = float("-inf")
    tried: float = float("-inf")
    problem: MessageKeyError | None = None


class KeyStore:
    """``sets`` maps names to URIs, providers or keys at hand. Seconds are of the monotonic clock.

    Raises ConfigurationError for a URI that cannot be. Providers are asked when their keys are first needed.
    """

    def __init__(
        self,
        sets: Mapping[str, str | KeyProvider | MessageKey],
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        max_uses: int = MAX_KEY_USES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(sets) > MAX_SETS:
            raise ConfigurationError(f"{len(sets)} key sets are too many; at most {MAX_SETS} are kept")
        self._sets = {check_key_id(name): _Set(_provider(given)) for name, given in sets.items()}
        self._max_age, self._max_uses, self._clock = max_age_seconds, max_uses, clock
        self._uses: Counter[str] = Counter()
        self._lock = threading.Lock()

    def current(self, name: str, namespace: str, topic: str, now_ms: int) -> MessageKey:
        """The key of set ``name`` to write with: the newest that has begun and may be used there.

        Raises KeyUnavailableError, KeyRefusedError, KeyExhaustedError.
        """
        with self._lock:
            found = self._sets.get(name)
            if found is None:
                raise KeyUnavailableError(f"no key set is called {name!r}; there are {', '.join(self._sets) or 'none'}")
            self._refresh(name, found, self._max_age)
            keys = sorted(found.keys, key=lambda key: key.not_before_ms, reverse=True)
            if not keys:
                raise found.problem or KeyUnavailableError(f"key set {name!r} is empty")
            return self._counted(_usable(keys, name, namespace, topic, now_ms))

    def find(self, key_id: str) -> MessageKey | None:
        """The key of that id in any set, to read with; None if there is none (asked of providers again at times).

        KeyUnavailableError while a provider that may have it does not answer.
        """
        with self._lock:
            for age in (self._max_age, RETRY_SECONDS):
                for name, found in self._sets.items():
                    self._refresh(name, found, age)
                    for key in found.keys:
                        if key.id == key_id:
                            return key
            for found in self._sets.values():
                if isinstance(found.problem, KeyUnavailableError):
                    raise KeyUnavailableError(f"key {key_id!r} cannot be looked for: {found.problem}")
        return None

    def all(self, name: str) -> tuple[MessageKey, ...]:
        """All keys of a set, such as those a receiver trusts."""
        with self._lock:
            found = self._sets.get(name)
            if found is None:
                raise KeyUnavailableError(f"no key set is called {name!r}; there are {', '.join(self._sets) or 'none'}")
            self._refresh(name, found, self._max_age)
            if not found.keys and found.problem is not None:
                raise found.problem
            return found.keys

    def counted(self, key: MessageKey) -> MessageKey:
        """``key``, used once more; KeyExhaustedError when it was used as often as it may be."""
        with self._lock:
            return self._counted(key)

    def _counted(self, key: MessageKey) -> MessageKey:
        if self._uses[key.id] >= self._max_uses:
            raise KeyExhaustedError(f"key {key.id!r} was used {self._max_uses} times: rotate it")
        self._uses[key.id] += 1
        return key

    def _refresh(self, name: str, found: _Set, max_age: float) -> None:
        """Ask the provider if its keys are older than that, and it was not just asked."""
        now = self._clock()
        if now - found.fetched < max_age or now - found.tried < min(RETRY_SECONDS, max_age):
            return
        found.tried = now
        try:
            found.keys, found.fetched, found.problem = found.provider.fetch(), now, None
        except KeyUnavailableError as error:
            log.warning("key set %s: %s", name, error)
            found.problem = error
            if now - found.fetched > max(GRACE_SECONDS, self._max_age):
                found.keys = ()
        except MessageKeyError as error:  # refused: what it gave before is not to be used on
            log.warning("key set %s: %s", name, error)
            found.keys, found.problem = (), error

    def __repr__(self) -> str:
        return f"<KeyStore of {len(self._sets)} sets>"


class _Given:
    """A key that the program already has, as a provider."""

    def __init__(self, key: MessageKey) -> None:
        self._key = key

    def fetch(self) -> tuple[MessageKey, ...]:
        return (self._key,)


def _provider(given: str | KeyProvider | MessageKey) -> KeyProvider:
    if isinstance(given, str):
        return provider_of(given)
    return _Given(given) if isinstance(given, MessageKey) else given


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
