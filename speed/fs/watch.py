"""Waking up when nodes come and go (rule R-20): inotify through watchdog, or polling.

Events are hints only: the reader scans after the watch was added, on each wake-up, and on a timer
(`RegistryWatch.scan_seconds`). Heartbeats rewrite entries in place and wake nobody.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from speed.core.view import Event, RegistryView
from speed.fs.registry import Registry

_log = logging.getLogger("speed.registry")

NOTIFIED_SCAN_SECONDS = 5.0
POLLED_SCAN_SECONDS = 0.5


class RegistryWatch:
    """Calls ``wake()`` from a thread of its own when an entry was made, replaced or removed.

    Threads: `start` and `stop` may be called from any thread; one lock makes them exclusive. ``wake``
    must only set a flag or an event.
    """

    def __init__(self, directory: str, wake: Callable[[], None]) -> None:
        """``directory``: the registry directory. Nothing starts here."""
        self._directory = directory
        self._wake = wake
        self._lock = threading.Lock()
        self._observer: Any = None
        self.mode = "polling"
        """``inotify`` while events arrive, else ``polling``."""

    @property
    def scan_seconds(self) -> float:
        """How long a reader may sleep without a wake-up before it must scan."""
        return NOTIFIED_SCAN_SECONDS if self.mode == "inotify" else POLLED_SCAN_SECONDS

    def start(self) -> str:
        """Add the watch, then wake the reader once so that it scans; returns the mode. May be repeated."""
        with self._lock:
            if self._observer is None and sys.platform.startswith("linux"):
                self._observer = self._notifier()
                self.mode = "polling" if self._observer is None else "inotify"
        self._wake()
        return self.mode

    def stop(self) -> None:
        """Remove the watch and join its threads. Harmless when repeated or never started."""
        with self._lock:
            observer, self._observer, self.mode = self._observer, None, "polling"
        if observer is not None:
            observer.stop()
            observer.join(timeout=5.0)

    def _notifier(self) -> Any:
        """A running watchdog observer, or None with one warning when the system refuses."""
        from watchdog.events import (
            FileCreatedEvent,
            FileDeletedEvent,
            FileMovedEvent,
            FileSystemEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer

        wake = self._wake

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if any(_is_entry(path) for path in (event.src_path, event.dest_path)):
                    wake()

        try:
            observer = Observer()
            observer.schedule(
                Handler(), self._directory, event_filter=[FileCreatedEvent, FileDeletedEvent, FileMovedEvent]
            )
            observer.start()
        except (OSError, RuntimeError) as error:  # out of instances, descriptors or threads
            _log.warning(
                "no inotify for %s (%s): polling every %.1f s; raise fs.inotify.max_user_instances",
                self._directory,
                error,
                POLLED_SCAN_SECONDS,
            )
            return None
        return observer


def _is_entry(path: str | bytes) -> bool:
    """Only entries matter; temporary files and claims do not."""
    name = os.path.basename(os.fsdecode(path))
    return name.endswith(".node") and not name.startswith(".")


class RegistryMonitor:
    """Joins and departures for one thread: a watch that wakes it, and the difference since its last look."""

    def __init__(self, registry: Registry, wake: Callable[[], None]) -> None:
        """``wake`` tells the owning thread to call `poll`."""
        self._registry = registry
        self._view = RegistryView()
        self.watch = RegistryWatch(registry.directory, wake)

    def poll(self) -> tuple[Event, ...]:
        """Scan now and return what happened since the last call."""
        return self._view.update(self._registry.nodes())

    def close(self) -> None:
        """Stop the watch."""
        self.watch.stop()
