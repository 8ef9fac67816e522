"""A node's share of sweeping: what others left in the root, a little at a time (R-27)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from time import monotonic

from speed.core.log import logger
from speed.errors import SpeedError
from speed.fs.floor import seal_anew
from speed.fs.sweep import Leftovers, sweep, written_within
from speed.runtime.context import Context

log = logger("speed.registry")

FIRST_SECONDS = 1.0
TURN_SECONDS = 0.1
"""How long is swept at most before the lease is looked after again."""
UNTOUCHED_SECONDS = 10.0
"""An entry that was written since is left to the next round."""
CROWD = 32
"""Each so many live nodes make everyone's pause one longer: however many there are, the root is swept as often."""
MAX_GONE = 65_536


class Sweeper:
    """Looks through the registry about once a lease, and soon at names that are said to be gone.

    ``gone`` may be called from any thread; ``turn`` is for the thread that renews the lease.
    """

    def __init__(
        self, context: Context, lease_seconds: float, each_lease: Callable[[], None], *, ephemeral: bool
    ) -> None:
        """``each_lease``: what to do once a lease, however many nodes there are.

        An ephemeral node is in no hurry: it may be gone before its first round.
        """
        self._is_first = True
        self._context = context
        self._each_lease = each_lease
        self._lease_seconds = lease_seconds
        self._next_lease = monotonic() + lease_seconds
        first = lease_seconds if ephemeral else min(FIRST_SECONDS, lease_seconds)
        self._next_round = monotonic() + random.uniform(0, first)
        self._leftovers = Leftovers(context.registry, UNTOUCHED_SECONDS)
        self._round: Iterator[str | None] = iter(())
        self._gone: dict[str, None] = {}

    def gone(self, name: str) -> None:
        """A node is gone, or its lane is: if its name does not come back, it is forgotten soon."""
        if len(self._gone) < MAX_GONE:
            self._gone[name] = None

    def turn(self) -> None:
        """Sweep for a short time; what is left is for the next turns."""
        now = monotonic()
        until = now + TURN_SECONDS
        try:
            if now >= self._next_lease:
                self._next_lease = now + self._lease_seconds
                self._each_lease()
            for name in self._due():
                if name is not None:
                    sweep(self._context.registry, name)
                if monotonic() >= until:
                    return
        except (OSError, SpeedError) as error:
            self._context.stats.count("sweeps_failed")
            self._context.said.failed(log, "sweeping the root", error)

    def _due(self) -> Iterator[str | None]:
        """Who left, then the rest of a round, or a new one if it is time; None for a name that is left alone."""
        while self._gone:
            name = next(iter(self._gone))
            del self._gone[name]
            yield name
        if monotonic() >= self._next_round:
            self._begin_round()
        for one in self._round:  # noqa: UP028 - `yield from` would end a round that a turn leaves
            yield one

    def _begin_round(self) -> None:
        """Look at the whole registry, unless this is the first time and enough of a crowd that just started do so."""
        is_first, self._is_first = self._is_first, False
        pause = random.uniform(0.5, 1.0) * self._lease_seconds
        self._next_round = monotonic() + pause  # also if this round fails
        crowd = written_within(self._context.registry, self._lease_seconds) / CROWD
        self._next_round += pause * crowd
        if is_first and random.uniform(0.0, crowd) > 1.0:
            return
        seal_anew(self._context.root, self._context.keyring)
        self._round = iter(self._leftovers)
