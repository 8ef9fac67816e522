"""The registry thread: lease, joins and leaves, nodes that died (RFC 2.2, R-n), and a share of sweeping (R-27)."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from time import monotonic

from speed.core import counters
from speed.core.access import Event, Joined, Left
from speed.core.log import logger
from speed.engine import threads
from speed.engine.python.context import Context
from speed.engine.threads import ProgramsCode
from speed.errors import (
    ConfigurationError,
    KeyFileError,
    LeaseLostError,
    RegistrationError,
    SpeedError,
    StorageError,
)
from speed.fs.claim import seal_anew
from speed.fs.registry import RegistryWatch
from speed.fs.root import observers_of
from speed.fs.sweep import Leftovers, sweep, written_within
from speed.wire.entry import Entry
from speed.wire.names import claims_dir

# A node's share of sweeping: what others left in the root, a little at a time.

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
            self._context.stats.count(counters.SWEEPS_FAILED)
            self._context.limiter.failed(log, "sweeping the root", error)

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


LIVENESS_SECONDS = 1.0
"""How often nodes with open calls are looked at, where the kernel does not tell of their death."""


class Registrar:
    """Renews the lease of one node and tells of other nodes. Callbacks run on workers."""

    def __init__(
        self,
        context: Context,
        heartbeat_seconds: float,
        lost: Callable[[SpeedError], None],
        left: Callable[[str], None],
        run: Callable[..., None],
        callers: Callable[[], list[str]],
        replaced: Callable[[str, int], None],
        looked: Callable[[str], None],
        sweeper: Sweeper,
    ) -> None:
        """``callers()`` are nodes whose requests wait or run here; ``replaced(name, generation)`` is told which life of
        one is there, ``looked(name)`` is called for each live node that is waited for."""
        self._context = context
        self._heartbeat_seconds = heartbeat_seconds
        self._lost = lost
        self._left = left
        self._run_task = run
        self._callers = callers
        self._replaced = replaced
        self._looked = looked
        self._sweeper = sweeper
        self._join_handlers: tuple[Callable[[Entry], object], ...] = ()
        self._leave_handlers: tuple[Callable[[Entry], object], ...] = ()
        self._lost_handlers: tuple[Callable[[SpeedError], object], ...] = ()
        self._refused: dict[str, str] = {}
        """What was said last of each file of keys."""
        self._shown = None if context.peers is None else context.peers.identity
        """The identity that the entry tells of."""
        self._observers_refused = ""
        """What was said last of the observers."""
        self._watch: RegistryWatch | None = None
        self._watch_lock = threads.lock("watch")
        self._thread = threading.Thread(target=self._run, name=f"speed-{context.name}-registry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stop watching and renewing; the caller has set ``context.stopping``."""
        with self._watch_lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    def on_join(self, handler: Callable[[Entry], object]) -> None:
        self._context.check_open()
        self._context.registry.check_there()
        self._join_handlers = (*self._join_handlers, handler)
        self._ensure_watch()

    def on_leave(self, handler: Callable[[Entry], object]) -> None:
        self._context.check_open()
        self._context.registry.check_there()
        self._leave_handlers = (*self._leave_handlers, handler)
        self._ensure_watch()

    def on_lost(self, handler: Callable[[SpeedError], object]) -> None:
        self._context.check_open()
        self._lost_handlers = (*self._lost_handlers, handler)

    def tell_lost(self, error: SpeedError) -> None:
        """Run the handlers on a thread of their own: the registry's and the workers end with the node."""
        if self._lost_handlers:
            name = f"speed-{self._context.name}-lost"
            threading.Thread(target=self._run_lost, args=(error,), name=name, daemon=True).start()

    def _run_lost(self, error: SpeedError) -> None:
        for handler in self._lost_handlers:
            try:
                with ProgramsCode():
                    handler(error)
            except BaseException:  # its own exit, too: the others are told
                log.exception("a handler of the lost lease failed")

    def _ensure_watch(self) -> None:
        with self._watch_lock:
            if self._watch is None:
                self._watch = RegistryWatch(self._context.registry, self._changed, self._context.stats.count)
                self._watch.start()

    def notice_left(self, name: str) -> None:
        """A leave notice came: nobody waits for that node any longer; the registry tells the handlers."""
        self._left(name)

    def _changed(self, change: Event) -> None:
        """One join or leave; the node's own entry, and what a node changes in its own, is no news."""
        if not isinstance(change, Joined | Left) or change.entry.name == self._context.name:
            return
        if isinstance(change, Left) and self._context.registry.live(change.entry.name) is None:
            self._left(change.entry.name)  # who calls a successor already must not hear of its predecessor's end
        handlers = self._join_handlers if isinstance(change, Joined) else self._leave_handlers
        for handler in handlers:
            self._run_task(handler, change.entry)

    def _run(self) -> None:
        next_heartbeat = monotonic() + self._heartbeat_seconds
        tick = min(LIVENESS_SECONDS, self._heartbeat_seconds)
        while not self._context.stopping.wait(min(tick, max(0.0, next_heartbeat - monotonic()))):
            if monotonic() >= next_heartbeat or self._context.registration.has_new_keys:
                next_heartbeat = monotonic() + self._heartbeat_seconds
                if not self._renew():
                    return
            self._guarded("looking after other nodes", self._check_others)
            self._guarded("sweeping", self._sweeper.turn)

    def _guarded(self, doing: str, do: Callable[[], None]) -> None:
        """Whatever of it fails, the lease is renewed: without this thread the name would be lost."""
        try:
            do()
        except Exception as error:
            self._context.stats.count(counters.REGISTRY_FAILURES)
            self._context.limiter.failed(log, doing, error)

    def _renew(self) -> bool:
        """One heartbeat; False once the name is lost. A failed write is tried again until the lease ends."""
        self._look_at_keys()
        self._guarded("looking at the observers", self._look_at_observers)
        self._guarded("looking at the identity file", self._look_at_identity)
        registration = self._context.registration
        restored = registration.claims_restored
        try:
            registration.heartbeat()
        except LeaseLostError as error:
            self._lost(error)
            return False
        except (OSError, RegistrationError, StorageError) as error:
            self._context.stats.count(counters.HEARTBEATS_FAILED)
            log.warning("lease of %s not renewed: %s", self._context.name, error)
        if registration.claims_restored > restored:
            self._context.stats.count(counters.CLAIMS_RESTORED)
            text = "the claim of %s was removed from %s and made again: nobody but the node may remove it"
            log.warning(text, self._context.name, claims_dir(self._context.root))
        return True

    def _look_at_keys(self) -> None:
        """Take keys that changed; what is wrong with their file is said once, and again after it was mended (W-20)."""
        self._tell_refused("key", self._context.keys.look())

    def _look_at_identity(self) -> None:
        """Likewise exchange keys that were renewed: others seal for what the entry says."""
        peers = self._context.peers
        if peers is None:
            return
        self._tell_refused("identity", peers.source.look())
        now = peers.identity
        if now is not self._shown:
            self._context.registration.update(identity=peers.card(self._context.name))
            self._shown = now

    def _tell_refused(self, file: str, error: KeyFileError | None) -> None:
        if error is not None:
            self._context.stats.count(counters.KEY_FILES_REFUSED)
        wrong = "" if error is None else str(error)
        if wrong and wrong != self._refused.get(file):
            log.warning("%s goes on with the keys that it has: %s", self._context.name, wrong)
        self._refused[file] = wrong

    def _look_at_observers(self) -> None:
        """Take observers that changed (A-7); a file that does not count names none, which is said once."""
        context, refused, found = self._context, "", tuple[str, ...]()
        try:
            found = observers_of(context.root)
        except ConfigurationError as error:
            refused = str(error)
            if refused != self._observers_refused:
                log.warning("%s", error)
        self._observers_refused = refused
        if found != context.registration.entry.observers:
            with context.lock, contextlib.suppress(OSError, SpeedError):  # the heartbeat that follows says it
                context.policy.observe(found)
                context.publish_grants()

    def _check_others(self) -> None:
        for target in self._context.pending.targets():
            entry = self._context.registry.live(target, sure=True)
            if entry is None:
                self._left(target)
            else:
                self._looked(target)
        for source in self._callers():
            entry = self._context.registry.live(source, sure=True)
            if entry is None:
                self._left(source)
            else:
                self._replaced(source, entry.generation)
