"""The registry thread: lease, joins and leaves, nodes that died (RFC 2.2, R-n)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from speed.core.log import logger
from speed.core.view import Event, Joined, Left
from speed.errors import LeaseLostError, RegistrationError, SpeedError
from speed.fs.watch import RegistryWatch
from speed.runtime import locks
from speed.runtime.context import Context
from speed.runtime.sweeper import Sweeper
from speed.wire.entry import Entry

log = logger("speed.registry")

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
        self._refused = ""
        """What was said last of the key file."""
        self._watch: RegistryWatch | None = None
        self._watch_lock = locks.lock("watch")
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
        self._join_handlers = (*self._join_handlers, handler)
        self._ensure_watch()

    def on_leave(self, handler: Callable[[Entry], object]) -> None:
        self._leave_handlers = (*self._leave_handlers, handler)
        self._ensure_watch()

    def on_lost(self, handler: Callable[[SpeedError], object]) -> None:
        self._lost_handlers = (*self._lost_handlers, handler)

    def tell_lost(self, error: SpeedError) -> None:
        """Run the handlers on a thread of their own: the registry's and the workers end with the node."""
        if self._lost_handlers:
            name = f"speed-{self._context.name}-lost"
            threading.Thread(target=self._run_lost, args=(error,), name=name, daemon=True).start()

    def _run_lost(self, error: SpeedError) -> None:
        for handler in self._lost_handlers:
            try:
                handler(error)
            except BaseException:  # its own exit, too: the others are told
                log.exception("a handler of the lost lease failed")

    def _ensure_watch(self) -> None:
        with self._watch_lock:
            if self._watch is None:
                self._watch = RegistryWatch(self._context.registry, self._changed)
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
            self._context.stats.count("registry_failures")
            self._context.said.failed(log, doing, error)

    def _renew(self) -> bool:
        """One heartbeat; False once the name is lost. A failed write is tried again until the lease ends."""
        self._look_at_keys()
        try:
            self._context.registration.heartbeat()
        except LeaseLostError as error:
            self._lost(error)
            return False
        except (OSError, RegistrationError) as error:
            self._context.stats.count("heartbeats_failed")
            log.warning("lease of %s not renewed: %s", self._context.name, error)
        return True

    def _look_at_keys(self) -> None:
        """Take keys that changed; what is wrong with their file is said once, and again after it was mended (W-20)."""
        error = self._context.keys.look()
        if error is None:
            self._refused = ""
            return
        self._context.stats.count("key_files_refused")
        if str(error) != self._refused:
            self._refused = str(error)
            log.warning("%s goes on with the keys that it has: %s", self._context.name, error)

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
