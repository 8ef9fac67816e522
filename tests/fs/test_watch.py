"""Joins and departures are noticed, heartbeats wake nobody, inotify is not required (rule R-20)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from speed.core.view import Changed, Joined, Left
from speed.fs.registry import Registry
from speed.fs.watch import POLLED_SCAN_SECONDS, RegistryMonitor
from speed.wire.seal import Keyring

WITHOUT_INOTIFY = """
import logging, resource, sys
from speed.core.view import Joined
from speed.fs.registry import Registry
from speed.fs.watch import RegistryMonitor
from speed.wire.seal import Keyring
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s")
import watchdog.observers
registry = Registry(sys.argv[1], Keyring((bytes(range(32)),)))
monitor = RegistryMonitor(registry, lambda: None)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))  # as with an exhausted user limit
mode = monitor.watch.start(), monitor.watch.start()
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
registry.register("billing")
print(mode, monitor.watch.scan_seconds, [type(event).__name__ for event in monitor.poll()])
monitor.close()
"""


def test_joins_changes_and_departures_are_reported_once(registry: Registry):
    """R-20."""
    monitor = RegistryMonitor(registry, lambda: None)
    assert monitor.poll() == ()
    billing = registry.register("billing")
    joined = monitor.poll()
    assert [type(event) for event in joined] == [Joined]
    billing.heartbeat()
    assert monitor.poll() == ()
    billing.update(allow=("analytics",))
    changed = monitor.poll()
    assert [type(event) for event in changed] == [Changed]
    billing.remove()
    assert [type(event) for event in monitor.poll()] == [Left]
    assert monitor.poll() == ()


def test_a_restart_between_two_looks_is_a_departure_and_a_join(registry: Registry):
    """R-20: the generation tells."""
    monitor = RegistryMonitor(registry, lambda: None)
    billing = registry.register("billing")
    monitor.poll()
    billing.remove()
    registry.register("billing")
    assert [type(event) for event in monitor.poll()] == [Left, Joined]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_a_watch_wakes_on_join_and_leave_and_not_on_heartbeats(registry: Registry):
    """R-20."""
    woken = threading.Event()
    monitor = RegistryMonitor(registry, woken.set)
    try:
        assert monitor.watch.start() == "inotify"
        assert woken.is_set(), "the first scan follows the watch"
        woken.clear()
        billing = registry.register("billing")
        assert woken.wait(5)
        # A sentinel that is watched too proves that all earlier events have been delivered.
        sentinel = registry.register("sentinel")
        while not {"sentinel"} <= {event.entry.name for event in monitor.poll() if isinstance(event, Joined)}:
            assert woken.wait(5)
        while woken.wait(0.6):
            woken.clear()
        for _ in range(50):
            billing.heartbeat()
        assert not woken.wait(0.6)
        sentinel.remove()
        assert woken.wait(5)
    finally:
        monitor.close()


def test_a_closed_watch_leaves_no_thread_behind(registry: Registry):
    before = threading.active_count()
    monitor = RegistryMonitor(registry, lambda: None)
    monitor.watch.start()
    monitor.close()
    monitor.close()
    assert threading.active_count() == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_without_inotify_the_registry_is_polled_and_one_warning_says_so(root: pathlib.Path, keyring: Keyring):
    """R-20."""
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
    lines = run.stdout.splitlines()
    assert lines[0] == "WARNING speed.registry"
    assert lines[-1] == f"('polling', 'polling') {POLLED_SCAN_SECONDS} ['Joined']"
