"""The keys of a node: sets by name, each asked for and waited for by itself, found by id. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from speed.errors import ConfigurationError
from speed.message.algorithms import MAX_KEY_USES
from speed.message.errors import KeyExhaustedError, KeyRefusedError, KeyUnavailableError, MessageKeyError
from speed.message.keys import MessageKey, check_key_id
from speed.trust.keyset import MAX_AGE_SECONDS, WAIT_SECONDS, KeySet, Pace
from speed.trust.providers import KeyProvider, provider_of
from speed.wire.seconds import checked_seconds

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
        pace = Pace(max_age_seconds, checked_seconds("wait_seconds", wait_seconds), clock)
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
        asked = [one for one in sets if one.refresh()]
        key = _held(sets, key_id)
        if key is None:
            searched = [one for one in sets if one not in asked and one.search()]
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
