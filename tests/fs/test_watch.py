"""Joins and departures are told, heartbeats wake nobody, inotify is not required (R-16, R-20)."""

from __future__ import annotations

import os
import pathlib
import queue
import subprocess
import sys
import threading

import pytest

from speed.core.access import Changed, Event, Joined, Left, RegistryView
from speed.fs.registry import Registry, RegistryWatch

LEASE = {"lease_ms": 30_000, "heartbeat_ms": 5_000}

WITHOUT_INOTIFY = """
import logging, queue, resource, sys
from speed.fs.registration import register
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.fs.registry import RegistryWatch
from speed.wire.seal import Keyring
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s")
import watchdog.observers
prepare_root(sys.argv[1])
registry = Registry(sys.argv[1], Keyring((bytes(range(32)),)), is_prepared=True)
events = queue.Queue()
counted = []
watch = RegistryWatch(registry, events.put, counted.append)
watch._view.update(registry.live_entries())  # whatever reading imports is imported
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, limit[1]))  # as with an exhausted user limit
watch.start()
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
register(registry, "billing", lease_ms=30000, heartbeat_ms=5000)
print(watch.mode, type(events.get(timeout=10)).__name__, *counted)
watch.stop()
"""


def test_joins_changes_and_departures_are_told_once(registry: Registry):
    """R-20."""
    view = RegistryView()

    def look() -> list[type[Event]]:
        return [type(event) for event in view.update(registry.live_entries())]

    billing = registry.register("billing", **LEASE)
    assert look() == [Joined]
    billing.heartbeat()
    assert look() == []
    billing.update(allow=("analytics",))
    assert look() == [Changed]
    billing.remove()
    assert look() == [Left]
    assert look() == []


def test_a_restart_between_two_looks_is_a_departure_and_a_join(registry: Registry):
    """R-20: the generation tells."""
    view = RegistryView()
    billing = registry.register("billing", **LEASE)
    view.update(registry.live_entries())
    billing.remove()
    registry.register("billing", **LEASE)
    assert [type(event) for event in view.update(registry.live_entries())] == [Left, Joined]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_a_watch_tells_of_nodes_that_come_and_go_after_it_started(registry: Registry, reader: Registry):
    """R-16."""
    registry.register("early", **LEASE)
    events: queue.Queue[Event] = queue.Queue()
    watch = RegistryWatch(reader, events.put)
    watch.start()
    try:
        assert watch.mode == "inotify"
        billing = registry.register("billing", **LEASE)
        joined = events.get(timeout=10)
        billing.remove()
        left = events.get(timeout=10)
    finally:
        watch.stop()
    assert isinstance(joined, Joined)
    assert isinstance(left, Left)
    assert joined.entry.name == left.entry.name == "billing"
    assert events.empty()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_heartbeats_wake_no_watcher(registry: Registry, reader: Registry):
    """R-16: a rewrite in place is neither a creation nor a move."""
    billing = registry.register("billing", **LEASE)
    watch = RegistryWatch(reader, lambda event: None)
    hint = threading.Event()
    watch._hint = hint
    observer = watch._observe()
    try:
        for _ in range(50):
            billing.heartbeat()
        assert not hint.wait(0.3)
        registry.register("other", **LEASE)
        assert hint.wait(10)
    finally:
        observer.stop()
        observer.join()


def test_a_stopped_watch_leaves_no_thread_behind(registry: Registry):
    """R-16."""
    before = threading.active_count()
    watch = RegistryWatch(registry, lambda event: None)
    watch.start()
    watch.stop()
    assert threading.active_count() == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_without_inotify_the_registry_is_polled_and_one_warning_says_so(root: pathlib.Path):
    """R-16."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_INOTIFY, str(root)],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["WARNING speed.registry", "polling Joined registry_polled"]
