"""What the system keeps from seeing is not absent: processes, entries, the registry's directory (R-5, R-6, R-20)."""

from __future__ import annotations

import dataclasses
import errno
import os
import pathlib
import queue
import time

import pytest

from speed.core.access import Event, Joined, Verdict
from speed.errors import NameTakenError, StorageError
from speed.fs.identity import identity, process_alive, start_of
from speed.fs.registry import Registry, RegistryWatch
from speed.wire import names
from speed.wire.limits import MAX_REMEMBERED_JUNK
from tests.fs.entries import LONG, now_ms, put, template
from tests.fs.limits import no_descriptors


def is_alive() -> bool | None:
    me = identity()
    return process_alive(me.pid, me.pid_start, me.pid_namespace, me.boot_id)


def test_nobody_can_tell_of_a_process_while_no_file_can_be_opened():
    """R-6."""
    me = identity()
    with no_descriptors():
        answer = process_alive(me.pid, me.pid_start, me.pid_namespace, me.boot_id)
    assert answer is None
    assert is_alive() is True
    assert process_alive(me.pid, me.pid_start + 1, me.pid_namespace, me.boot_id) is False


def test_a_process_does_not_publish_a_start_that_it_could_not_read():
    """R-6: with another start it would count as gone."""
    with no_descriptors(), pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        identity()


def test_a_live_name_stays_taken_while_its_process_cannot_be_looked_at(
    registry: Registry, reader: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-8: nothing but the look at the process fails here, so that every other step of a claim would succeed."""
    owner = os.getppid()
    put(registry, template(registry, pid=owner, pid_start=start_of(owner), heartbeat_monotonic_ms=now_ms()))
    real = open

    def failing(path: str, *rest: object, **options: object) -> object:
        if path == f"/proc/{owner}/stat":
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        return real(path, *rest, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("speed.fs.identity.open", failing, raising=False)
    with pytest.raises(NameTakenError):
        reader.register("billing", **LONG)
    assert reader.remove_stale() == []


def test_an_entry_counts_as_it_was_read_last_while_it_cannot_be_opened(registry: Registry, reader: Registry):
    """R-20, S-7, A-3: who calls it is not told that it left."""
    owner = registry.register("billing", allow=("analytics",), **LONG)
    before = reader.live("billing", sure=True)
    owner.update(allow=("analytics", "etl.*"))
    with no_descriptors():
        entry, sure = reader.live("billing"), reader.live("billing", sure=True)
        unknown = reader.live("nobody")
    assert before is not None
    assert entry == sure == before
    assert unknown is None
    fresh = reader.live("billing")
    assert fresh is not None
    assert fresh.allow == ("analytics", "etl.*")


def test_an_entry_that_cannot_be_opened_is_judged_by_the_time_it_was_read(registry: Registry):
    """R-20: its owner may have renewed it ever since."""
    put(registry, template(registry, heartbeat_monotonic_ms=now_ms(), lease=100, heartbeat_interval=30))
    first = registry.verdict("billing")[1]
    put(registry, dataclasses.replace(template(registry, lease=100), heartbeat_monotonic_ms=now_ms() + 100))
    until = now_ms() + 250
    with no_descriptors():
        while now_ms() < until:
            time.sleep(0.001)
        during = registry.verdict("billing")[1]
    assert (first, during) == (Verdict.LIVE, Verdict.LIVE)
    assert registry.verdict("billing")[1] is Verdict.STALE


def test_an_entry_that_is_gone_is_gone_although_nothing_can_be_opened(registry: Registry, reader: Registry):
    """R-20: that it is absent is no failure."""
    owner = registry.register("billing", **LONG)
    assert reader.live("billing") is not None
    owner.remove()
    with no_descriptors():
        entry = reader.live("billing")
    assert entry is None


def test_a_registry_that_cannot_be_listed_is_told_and_not_empty(registry: Registry, reader: Registry):
    """R-20."""
    registry.register("billing", **LONG)
    for ask in (reader.live_entries, reader.entries, reader.remove_stale, lambda: list(reader.names())):
        with no_descriptors(), pytest.raises(StorageError, match="cannot be listed: Too many open files"):
            ask()
    assert [entry.name for entry in reader.live_entries()] == ["billing"]


def test_a_registry_that_nobody_made_is_empty(tmp_path: pathlib.Path, registry: Registry):
    """R-20: absence is no failure."""
    assert Registry(str(tmp_path / "none"), registry.keyring).live_entries() == []


def test_a_watch_keeps_what_it_saw_while_the_registry_cannot_be_listed(registry: Registry, reader: Registry):
    """R-16, R-20: nobody left, so nobody comes back."""
    registry.register("billing", **LONG)
    listed: queue.Queue[bool] = queue.Queue()
    look = reader.live_entries

    def watched_look(*, sure: bool = False) -> list[object]:
        try:
            found = look(sure=sure)
        except StorageError:
            listed.put(False)
            raise
        listed.put(bool(found))
        return list(found)

    reader.live_entries = watched_look  # type: ignore[method-assign, assignment]
    events: queue.Queue[Event] = queue.Queue()
    counted: list[str] = []
    watch = RegistryWatch(reader, events.put, counted.append)
    watch.start()
    try:
        assert listed.get(timeout=20)
        with no_descriptors():
            failed = [listed.get(timeout=20) for _ in range(2)]
        while not listed.get(timeout=20):
            pass
        registry.register("analytics", **LONG)
        event = events.get(timeout=20)
    finally:
        watch.stop()
    assert failed[-1] is False
    assert set(counted) == {"registry_unlisted"}
    assert isinstance(event, Joined)
    assert event.entry.name == "analytics"
    assert events.empty()


def test_names_that_are_gone_fill_no_memory_for_junk(registry: Registry):
    """R-22: however many ghosts there were, junk is remembered afterwards."""
    for name in ("ghost", "smaller"):
        path = pathlib.Path(names.entry_path(registry.root, name))
        path.write_bytes(bytes(2048))
        assert registry.read(name) is None
        assert name in registry._junk
        if name == "ghost":
            path.unlink()
        else:
            path.write_bytes(b"no capacity")
        assert registry.read(name) is None
    assert len(registry._junk) == 0 < MAX_REMEMBERED_JUNK
