"""Reading the registry: entries as they are now, stale ones removed (R-1 to R-12), joins and leaves watched (R-16).

Heartbeats overwrite entries in place and wake nobody: only creations, moves and deletions are watched, and
events are hints. A scan after the watch is set, and one on a timer, find what an event did not tell.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from speed.core import counters
from speed.core.access import Event, RegistryView, Verdict, judge
from speed.core.log import logger
from speed.errors import StorageError, WireError
from speed.fs import claim
from speed.fs.claim import check_reachable, read_entry_file, remove_entry_file
from speed.fs.identity import boot_id, monotonic_ms, process_alive
from speed.fs.root import registry_gone
from speed.wire import lazily, names
from speed.wire.entry import Entry, decode_entry, is_capacity
from speed.wire.limits import MAX_REMEMBERED_JUNK
from speed.wire.seal import Keyring, Keys

_RACY_NS = 20_000_000
"""A file read so soon after its mtime may have changed again under the same mtime (coarse clocks)."""
TORN_READS = 3
_OWN_FILES = frozenset((names.CLAIMS, names.STATEMENTS, names.OBSERVERS))
"""What lies beside the entries, and is none."""
_NO_ENTRY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)
"""No file is there, or a link, socket or other user's; any other failure tells nothing about the entry (R-20)."""


@dataclass(slots=True)
class _KnownEntry:
    """What was read under one stamp (inode, mtime, size) of an entry file, and since when it is unchanged."""

    stamp: tuple[int, int, int]
    settled: bool
    """Whether the stamp was already old when the file was read: only then can no write hide behind it."""
    entry: Entry | None
    since_ms: int
    seen_ms: int
    """When it was last looked at: by that time it is judged while it cannot be."""
    keys: Keys
    """It was judged by these, and is read again once there are others."""
    gone: bool = False
    """Whether the process was looked for and not found: it never comes back."""


def listed(root: str) -> Iterator[str]:
    """Node names that have a file where their entry would be, one at a time. OSError."""
    with os.scandir(names.registry_dir(root)) as files:
        yield from (name for file in files if (name := names.parse_entry_file(file.name)))


class Registry:
    """The registry of one root as seen by one process. Thread-safe: its caches are replaced as a whole.

    ``late_ms`` tells how long after a change on another host it may be seen here. A registry whose directories were
    there when it was made (``is_prepared``) has lost its root when they are gone.
    """

    def __init__(self, root: str, keyring: Keyring, *, late_ms: int = 0, is_prepared: bool = False) -> None:
        self.root = root
        self.keyring = keyring
        self.late_ms = late_ms
        self._is_prepared = is_prepared
        self._boot_id = boot_id()
        self._known: dict[str, _KnownEntry] = {}
        self._junk: set[str] = set()
        """Those known names under which lies no entry."""

    # --- reading ---

    def read(self, name: str) -> Entry | None:
        """The entry of ``name`` as it is on disk now, live or stale; None if there is no authentic one."""
        known = self._look(name)
        return known.entry if known else None

    def _look(self, name: str) -> _KnownEntry | None:
        """What stands at the place of an entry; what was seen last where the system does not tell (R-20)."""
        path = names.entry_path(self.root, names.check_node_name(name))
        now = monotonic_ms()  # before anything is read: see ``judge``
        known = self._known.get(name)
        try:
            status = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(name)
            return None
        except OSError:
            return known
        stamp, keys = (status.st_ino, status.st_mtime_ns, status.st_size), self.keyring.now
        if known is not None and known.settled and known.stamp == stamp and known.keys is keys:
            known.seen_ms = now
            return known
        if not is_capacity(status.st_size):  # its size tells that it is none: nothing to remember
            self._forget(name)
            return _KnownEntry(stamp, True, None, 0, now, keys)
        settled = time.time_ns() - stamp[1] > _RACY_NS
        try:
            fresh = self._read_entry(name, path)
        except OSError as error:
            if known is not None and error.errno not in _NO_ENTRY:
                return known
            fresh, settled = None, False  # the same file may be readable the next time
        if known is not None and known.entry == fresh:
            now_known = _KnownEntry(stamp, settled, fresh, known.since_ms, now, keys, known.gone)
        else:
            now_known = _KnownEntry(stamp, settled, fresh, monotonic_ms(), now, keys)
        self._remember(name, now_known)
        return now_known

    def _remember(self, name: str, known: _KnownEntry) -> None:
        """Entries, and of what is none so much that most registries are read once only (R-22)."""
        if known.entry is not None:
            self._junk.discard(name)
        elif len(self._junk) < MAX_REMEMBERED_JUNK:
            self._junk.add(name)
        elif name not in self._junk:
            self._forget(name)
            return
        self._known[name] = known

    def _forget_all_but(self, seen: set[str]) -> None:
        """Files that are gone need no memory."""
        for name in set(self._known) - seen:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._junk.discard(name)

    def _read_entry(self, name: str, path: str) -> Entry | None:
        """The authentic entry of a node; new keys are looked for where the present ones do not fit."""
        keys = self.keyring.now
        entry = self._try_entry(name, path)
        if entry is None:
            self.keyring.look()
            entry = self._try_entry(name, path) if self.keyring.now is not keys else None
        return entry

    def _try_entry(self, name: str, path: str) -> Entry | None:
        for _ in range(TORN_READS):
            try:
                entry = decode_entry(read_entry_file(path), self.keyring.registry_keys)
            except WireError:
                continue  # a heartbeat may be half written: look again
            if entry.name == name:
                return entry
            break
        return None

    def verdict(self, name: str) -> tuple[Entry | None, Verdict]:
        """The entry of ``name`` and whether it holds (R-8)."""
        known = self._look(name)
        if known is None or known.entry is None:
            return None, Verdict.STALE
        return known.entry, self._judge(known, known.seen_ms)

    def _judge(self, known: _KnownEntry, now: int) -> Verdict:
        entry = known.entry
        assert entry is not None
        if known.gone:
            return Verdict.STALE
        fresh = judge(entry, self._boot_id, now, None, now - known.since_ms)
        if fresh is not Verdict.LIVE or now - entry.heartbeat_monotonic_ms < entry.heartbeat_interval:
            return fresh
        alive = process_alive(entry.pid, entry.pid_start, entry.pid_namespace, entry.boot_id)
        return judge(entry, self._boot_id, now, alive, now - known.since_ms)

    def live(self, name: str, *, sure: bool = False) -> Entry | None:
        """The entry of ``name`` if its node may be alive; ``sure`` looks at its process as well."""
        entry, verdict = self.verdict(name)
        if entry is None or verdict is Verdict.STALE or (sure and self._has_died(entry)):
            return None
        return entry

    def _has_died(self, entry: Entry) -> bool:
        """Whether its process was looked for and is not there, which is remembered."""
        if not self.process_gone(entry):
            return False
        known = self._known.get(entry.name)
        if known is not None and known.entry == entry:
            known.gone = True
        return True

    def is_abandoned(self, name: str) -> bool:
        """Whether an entry has been stale for a lease (R-27)."""
        known = self._look(name)
        if known is None or known.entry is None or self._judge(known, known.seen_ms) is not Verdict.STALE:
            return False
        age = known.seen_ms - known.entry.heartbeat_monotonic_ms
        is_neighbour = known.entry.boot_id == self._boot_id and age >= 0
        return (age if is_neighbour else known.seen_ms - known.since_ms) > 2 * known.entry.lease

    def process_gone(self, entry: Entry) -> bool:
        return process_alive(entry.pid, entry.pid_start, entry.pid_namespace, entry.boot_id) is False

    def names(self) -> Iterator[str]:
        """Node names that have a file where their entry would be, one at a time: there may be a million.

        StorageError if they cannot be listed (R-20).
        """
        try:
            yield from listed(self.root)
        except FileNotFoundError:
            self.check_there()
        except OSError as error:
            raise StorageError(
                f"the registry of {self.root} cannot be listed: {error.strerror}; see `speed root doctor`"
            ) from error

    def check_there(self) -> None:
        """StorageError if the registry that was prepared is gone; before that, nobody has registered yet."""
        if self._is_prepared and (gone := registry_gone(self.root)):
            raise gone

    def entries(self) -> list[tuple[Entry, Verdict]]:
        """All authentic entries with their verdicts, sorted by name. StorageError if they cannot be listed."""
        rows = []
        seen = set()
        for name in self.names():
            entry, verdict = self.verdict(name)
            if entry is not None:
                rows.append((entry, verdict))
            if name in self._known:
                seen.add(name)
        self._forget_all_but(seen)
        return sorted(rows, key=lambda row: row[0].name)

    def live_entries(self, *, sure: bool = False) -> list[Entry]:
        """Entries of nodes that may be alive, sorted by name; ``sure`` looks at their processes as well."""
        live = [entry for entry, verdict in self.entries() if verdict is not Verdict.STALE]
        return [entry for entry in live if not self._has_died(entry)] if sure else live

    def is_unreadable(self, name: str) -> bool:
        """Whether there is a file that should be the entry of ``name``, but is not authentic."""
        known = self._look(name)
        return known is not None and known.entry is None

    def absence(self, name: str) -> str:
        """Why there is no live node of this name, and what to do. StorageError if the system keeps from knowing it."""
        self.check_readable(name)
        if self.is_unreadable(name):
            return f"the entry of {name!r} is not authentic: use the key of {self.root}, or see `speed root doctor`"
        entry = self.read(name)
        if entry is None:
            return f"no live node named {name!r} in {self.root}: start it, or see `speed nodes`"
        beat = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(entry.last_heartbeat / 1000))
        return (
            f"no live node named {name!r} in {self.root}: the entry of process {entry.pid} on {entry.host} is stale, "
            f"its last heartbeat was at {beat}: start it, or see `speed nodes`"
        )

    def check_readable(self, name: str) -> None:
        """StorageError if the system keeps from knowing whether there is an entry: then it is not absent."""
        self.check_there()
        try:
            check_reachable(self.root, name)
        except OSError as error:
            raise StorageError(
                f"the entry of {name!r} in {self.root} cannot be read: {error.strerror}; nothing was sent, "
                "free what this process holds open or raise its limits, or see `speed root doctor`"
            ) from error

    def problems(self) -> dict[str, str]:
        """Foreign and corrupt things in the registry directory, by file name, as of now."""
        rows: dict[str, str] = {}
        for filename in sorted(os.listdir(names.registry_dir(self.root))):
            name = names.parse_entry_file(filename)
            if name is not None and self.read(name) is None:
                rows[filename] = self._problem(name)
            elif name is None and filename not in _OWN_FILES and not filename.startswith(names.TEMPORARY_PREFIX):
                rows[filename] = "is no entry of a node"
        return rows

    def _problem(self, name: str) -> str:
        """What is wrong with the file of an entry."""
        try:
            entry = decode_entry(read_entry_file(names.entry_path(self.root, name)), self.keyring.registry_keys)
        except WireError as error:
            return str(error)
        except FileNotFoundError:
            return "is gone again"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return f"is the entry of {entry.name!r}"

    # --- writing ---

    def newest_generation(self, name: str) -> int:
        """The highest claimed generation of ``name``; 0 if it was never claimed."""
        return claim.newest(self.root, name)

    def remove_stale(self, *, dry_run: bool = False) -> list[Entry]:
        """Remove entries of nodes that are gone, never their claims (R-13); returns them.

        Those of names that do not come back stay: all that is left of such a name goes together (`forget`).
        """
        stale = [entry for entry, verdict in self.entries() if self._is_over(entry, verdict) and not entry.ephemeral]
        for entry in () if dry_run else stale:
            self._remove(entry)
        return stale

    def remove_stale_entry(self, name: str) -> bool:
        """The same for one node, whatever it says of its name."""
        entry, verdict = self.verdict(name)
        if entry is None or not self._is_over(entry, verdict):
            return False
        self._remove(entry)
        return True

    def _is_over(self, entry: Entry, verdict: Verdict) -> bool:
        return verdict is Verdict.STALE or self.process_gone(entry)

    def _remove(self, entry: Entry) -> None:
        """Remove a stale entry unless its owner changed it, or a new one published, meanwhile (R-13)."""

        def is_unchanged(path: str) -> bool:
            try:
                return decode_entry(read_entry_file(path), self.keyring.registry_keys) == entry
            except (OSError, WireError):
                return False

        try:
            remove_entry_file(self.root, entry.name, is_unchanged)
        except OSError:
            pass  # it stays and is stale: the next one to look tries again


log = logger("speed.registry")

SCAN_SECONDS = 1.0
POLL_SECONDS = 0.25


class RegistryWatch:
    """Calls ``changed(event)`` for every join, leave and change, from a thread of its own."""

    def __init__(
        self,
        registry: Registry,
        changed: Callable[[Event], None],
        count: Callable[[str], object] = lambda counter: None,
    ) -> None:
        self._registry = registry
        self._changed = changed
        self._count = count
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
            self._view.update(self._registry.live_entries(sure=True))
        self._thread.start()

    def _observe(self) -> Any:
        try:
            with lazily.guard:
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
            self._count(counters.REGISTRY_POLLED)
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
                for event in self._view.update(self._registry.live_entries(sure=True)):
                    self._changed(event)
                is_blind = False
            except StorageError as error:
                self._count(counters.REGISTRY_UNLISTED)
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
