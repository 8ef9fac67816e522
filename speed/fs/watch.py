"""Watching the registry for joins and leaves (R-16): watchdog where it works, polling elsewhere.

Heartbeats overwrite entries in place and wake nobody: only creations, moves and deletions are watched, and
events are hints. A scan after the watch is set, and one on a timer, find what an event did not tell.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from speed.core.log import logger
from speed.core.view import Event, RegistryView
from speed.errors import StorageError
from speed.fs.registry import Registry
from speed.wire import names

log = logger("speed.registry")

SCAN_SECONDS = 1.0
POLL_SECONDS = 0.25


class RegistryWatch:
    """Calls ``changed(event)`` for every join, leave and change, from a thread of its own."""

    def __init__(self, registry: Registry, changed: Callable[[Event], None]) -> None:
        self._registry = registry
        self._changed = changed
        self._view = RegistryView()
        self._hint = threading.Event()
        self._stopping = False
        self._observer: Any = None
        self._thread = threading.Thread(target=self._run, name="speed-registry-watch", daemon=True)

    @property
    def mode(self) -> str:
        """``inotify`` (or what the platform has) or ``polling``."""
        return "polling" if self._observer is None else "inotify"

    def start(self) -> None:
        """Set the watch, take the first reading without telling of it, start the thread."""
        self._observer = self._observe()
        with contextlib.suppress(StorageError):  # nothing was seen so far; the thread looks again
            self._view.update(self._registry.live_entries())
        self._thread.start()

    def _observe(self) -> Any:
        try:
            from watchdog.events import FileCreatedEvent, FileDeletedEvent, FileMovedEvent, FileSystemEventHandler
            from watchdog.observers import Observer

            hint = self._hint

            class Hint(FileSystemEventHandler):
                def on_any_event(self, event: Any) -> None:
                    hint.set()

            observer = Observer()
            observer.schedule(
                Hint(),
                names.registry_dir(self._registry.root),
                event_filter=[FileCreatedEvent, FileMovedEvent, FileDeletedEvent],
            )
            observer.daemon = True
            observer.start()
        except (OSError, ImportError, TypeError, RuntimeError) as error:
            log.warning("the registry is polled, since it cannot be watched: %s", error)
            return None
        return observer

    def _run(self) -> None:
        period = POLL_SECONDS if self._observer is None else SCAN_SECONDS
        is_blind = False
        while not self._stopping:
            self._hint.wait(period)
            self._hint.clear()
            began = time.monotonic()
            try:
                for event in self._view.update(self._registry.live_entries()):
                    self._changed(event)
                is_blind = False
            except StorageError as error:
                if not is_blind:
                    log.warning("what was seen last is kept: %s", error)
                is_blind = True
            except Exception:
                log.exception("reading the registry failed")
            time.sleep(min(time.monotonic() - began, SCAN_SECONDS))  # junk may make it long: half the time is others'

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """End the watch; returns after ``timeout_seconds`` at the latest."""
        self._stopping = True
        self._hint.set()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout_seconds)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)
