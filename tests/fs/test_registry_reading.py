"""Reading what others write: caching, torn and hostile files, many entries (R-1, R-3, R-11)."""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import threading
import time

import pytest

from speed.fs.claim import check_reachable
from speed.fs.registration import register
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.seal import Keyring

LEASE = {"lease_ms": 30_000, "heartbeat_ms": 5_000}


def path_of(registry: Registry, name: str) -> pathlib.Path:
    return pathlib.Path(names.entry_path(registry.root, name))


def test_a_changed_grant_is_seen_by_the_very_next_read(registry: Registry, reader: Registry):
    """R-11: also when the change falls into the clock tick of the read before it."""
    owner = registry.register("billing", **LEASE)
    for i in range(300):
        owner.update(allow=(f"node-{i:03d}",))  # same length, hence the same size
        entry = reader.read("billing")
        assert entry is not None
        assert entry.allow == (f"node-{i:03d}",)


def test_an_unchanged_entry_is_not_read_again(registry: Registry):
    """R-11: the same object comes back once its time stamp is no longer young."""
    registry.register("billing", **LEASE)
    past = time.time_ns() - 10**9
    os.utime(path_of(registry, "billing"), ns=(past, past))
    first = registry.read("billing")
    assert registry.read("billing") is first


def test_a_write_that_hides_behind_the_mtime_of_a_young_file_is_seen_later(registry: Registry, reader: Registry):
    """R-11: on a filesystem with coarse clocks two writes of one tick have the same mtime."""
    owner = registry.register("billing", allow=("a",), **LEASE)
    stamp = time.time_ns()
    os.utime(path_of(registry, "billing"), ns=(stamp, stamp))
    assert reader.live("billing") is not None
    owner.update(allow=("b",))
    os.utime(path_of(registry, "billing"), ns=(stamp, stamp))
    while time.time_ns() - stamp <= 25_000_000:
        time.sleep(0.001)
    entry = reader.read("billing")
    assert entry is not None
    assert entry.allow == ("b",)


def test_a_time_stamp_from_the_future_is_not_trusted(registry: Registry):
    """R-11: clocks of servers and clients differ."""
    registry.register("billing", **LEASE)
    future = time.time_ns() + 10**12
    os.utime(path_of(registry, "billing"), ns=(future, future))
    assert registry.read("billing") is not registry.read("billing")


def test_a_node_that_is_not_there_is_none(registry: Registry):
    assert registry.read("nobody") is None
    assert registry.live("nobody") is None


def test_a_torn_or_altered_entry_is_never_believed(registry: Registry):
    """R-3: half of a new and half of an old entry fails its check value."""
    registry.register("billing", **LEASE)
    path = path_of(registry, "billing")
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"billing"', b'"Billing"', 1))
    assert registry.read("billing") is None
    assert registry.entries() == []
    assert list(registry.problems()) == ["billing.node"]
    path.write_bytes(data)
    assert registry.read("billing") is not None


def test_readers_always_see_a_whole_entry_while_its_owner_rewrites_it(registry: Registry, reader: Registry):
    """R-3: at full speed, both ways of writing."""
    owner = registry.register("billing", **LEASE)
    stop = threading.Event()

    def rewrite() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            owner.update(allow=tuple(f"n{number}-{i}" for i in range(number % 60)))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        seen = [reader.read("billing") for _ in range(2000)]
    finally:
        stop.set()
        writer.join()
    missing = seen.count(None)
    assert missing == 0, f"{missing} of {len(seen)} readings failed"


def test_an_entry_under_another_key_is_ignored_and_listed(registry: Registry, root: pathlib.Path):
    """R-1."""
    register(Registry(str(root), Keyring((b"\x01" * 32,))), "stranger", **LEASE).release()
    registry.register("billing", **LEASE)
    assert [entry.name for entry, verdict in registry.entries()] == ["billing"]
    assert list(registry.problems()) == ["stranger.node"]


def test_an_entry_copied_to_another_name_is_ignored(registry: Registry):
    """R-1: the name inside counts."""
    registry.register("billing", **LEASE)
    path_of(registry, "mallory").write_bytes(path_of(registry, "billing").read_bytes())
    assert registry.read("mallory") is None


def test_junk_in_the_registry_neither_blocks_nor_breaks_a_listing(registry: Registry, tmp_path: pathlib.Path):
    """R-1: links, FIFOs, sockets, directories, huge and foreign files."""
    registry.register("billing", **LEASE)
    outside = tmp_path / "outside"
    outside.write_bytes(path_of(registry, "billing").read_bytes())
    path_of(registry, "link").symlink_to(outside)
    path_of(registry, "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(path_of(registry, "fifo"))
    path_of(registry, "directory").mkdir()
    with open(path_of(registry, "sparse"), "wb") as file:
        file.truncate(1 << 40)
    path_of(registry, "empty").touch()
    (pathlib.Path(names.registry_dir(registry.root)) / "README.txt").write_text("hello")
    (pathlib.Path(names.registry_dir(registry.root)) / os.fsdecode(b"\xff\xfe.node")).touch()
    (pathlib.Path(names.registry_dir(registry.root)) / ".tmp-x").touch()
    here = os.getcwd()
    os.chdir(names.registry_dir(registry.root))  # socket paths are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.node")
    finally:
        os.chdir(here)
    assert [entry.name for entry, verdict in registry.entries()] == ["billing"]
    problems = registry.problems()
    expected = {"link", "dangling", "fifo", "directory", "sparse", "empty", "socket"}
    assert {f"{name}.node" for name in expected} | {"README.txt", os.fsdecode(b"\xff\xfe.node")} == set(problems)
    assert registry.remove_stale() == []
    assert registry.register("fifo", **LEASE).entry.generation == 1


def test_two_hundred_entries_are_listed(registry: Registry):
    """R-1."""
    for i in range(200):
        registry.register(f"node-{i:03d}", fabrics=("F",), **LEASE)
    assert [entry.name for entry in registry.live_entries()] == [f"node-{i:03d}" for i in range(200)]
    assert registry.problems() == {}


def test_an_entry_that_could_not_be_read_once_is_looked_at_again(registry: Registry, monkeypatch: pytest.MonkeyPatch):
    """R-11: out of descriptors for a moment, and the file is the same afterwards."""
    registry.register("billing", **LEASE)
    past = time.time_ns() - 10**9
    os.utime(path_of(registry, "billing"), ns=(past, past))

    def refuse(path: str) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as broken:
        broken.setattr("speed.fs.registry.read_entry_file", refuse)
        assert registry.read("billing") is None
        assert registry.problems() == {"billing.node": f"cannot be read: {os.strerror(errno.EMFILE)}"}
    assert registry.read("billing") is not None


def test_an_entry_that_the_system_hides_is_not_taken_for_an_absent_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    """R-5."""
    check_reachable(registry.root, "billing")

    def failing(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "no descriptors")

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match="no descriptors"):
        check_reachable(registry.root, "billing")
