"""`speed root doctor` and `speed root gc`: what they find, say and remove, and what they keep."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import load_key_file
from speed.fs.registration import hold
from speed.fs.registry import Registry
from speed.observe.leftovers import find_leftovers, remove_leftover
from speed.wire import names
from speed.wire.limits import RECONSTRUCTION_SECONDS
from tests.interop.harness import pause
from tests.system.commands import PATIENCE, Command, Result

pytestmark = pytest.mark.system


def test_the_doctor_finds_a_new_root_healthy(run: Command) -> None:
    healthy = run("root", "doctor", "--json")
    assert (healthy.status, healthy.value["healthy"]) == (0, True)
    checks = {finding["check"] for finding in healthy.value["findings"]}
    assert {"permissions", "filesystem", "wake-up", "clock", "watching", "key", "leftovers"} <= checks


def test_the_doctor_names_what_is_broken_and_what_to_do(run: Command) -> None:
    (run.root / "speed.key").chmod(0o644)
    run.root.chmod(0o777)
    sick = run("root", "doctor", "--json")
    assert sick.status == 1
    assert any("chmod 700" in finding["todo"] for finding in sick.value["findings"])
    run.root.chmod(0o700)
    sick = run("root", "doctor", "--json")
    assert any("chmod 600" in finding["found"] + finding["todo"] for finding in sick.value["findings"])


def test_the_doctor_reports_foreign_and_quarantined_files(run: Command) -> None:
    (run.root / "speed_registry" / "notes.txt").write_text("x")
    (run.root / "speed_registry" / "evil.node").write_text("{}\nAAAA\n")
    quarantine = Path(names.quarantine_dir(str(run.root), "gone"))
    quarantine.mkdir(parents=True)
    (quarantine / "0001").write_bytes(b"junk")
    found = run("root", "doctor", "--json").value["findings"]
    registry = [finding["found"] for finding in found if finding["check"] == "registry"]
    assert len(registry) == 2
    assert any(finding["check"] == "left: quarantined file" for finding in found)


def test_the_doctor_names_an_altered_floor_without_which_no_node_starts(run: Command) -> None:
    (run.root / "speed_registry" / ".claims" / "floor").write_bytes(b"SPDR")
    sick = run("root", "doctor", "--json")
    assert sick.status == 1
    assert any("no node can start" in finding["found"] for finding in sick.value["findings"])


def _die(root: Path, *, ephemeral: bool = False) -> None:
    """A process that makes a node and dies without leaving."""
    made = f"speed.Node('dead', root=sys.argv[1], key=sys.argv[2], ephemeral={ephemeral})"
    code = f"import os, sys, speed\nnode = {made}\nos._exit(1)"
    subprocess.run([sys.executable, "-c", code, str(root), str(root / "speed.key")], check=False)


def _left(result: Result) -> dict[str, set[str]]:
    states: dict[str, set[str]] = {}
    for leftover in result.value["leftovers"]:
        states.setdefault(leftover["state"], set()).add(leftover["kind"])
    return states


def test_gc_removes_what_a_dead_node_left_and_a_dry_run_removes_nothing(run: Command) -> None:
    _die(run.root)
    before = sorted(run.root.rglob("*"))
    dry = run("root", "gc", "--dry-run", "--json")
    assert sorted(run.root.rglob("*")) == before
    assert {"stale entry", "node directory"} <= _left(dry)["would go"]
    assert {"stale entry", "node directory"} <= _left(run("root", "gc", "--json"))["removed"]
    assert not (run.root / "dead").exists()
    assert names.parse_claim("dead.000001") == ("dead", 1)
    assert Path(names.claim_path(str(run.root), "dead", 1)).exists(), "the newest claim stays for ever"


def test_a_claim_that_was_old_only_beside_a_sweep_stays_the_newest(run: Command) -> None:
    """Or the next life of the name would have the number of the last one."""
    registry = Registry(str(run.root), load_key_file(run.root / "speed.key"))
    with speed.Node("once", root=run.root, key=run.root / "speed.key", engine="python"):
        pass
    with hold(registry, "once"):
        (old,) = (one for one in find_leftovers(registry) if one.kind == "old claim")
    assert not remove_leftover(registry, old)
    assert registry.newest_generation("once") == 1


def test_a_claim_below_the_entry_of_a_live_node_goes(run: Command) -> None:
    registry = Registry(str(run.root), load_key_file(run.root / "speed.key"))
    with speed.Node("live", root=run.root, key=run.root / "speed.key", engine="python"):
        pass
    with speed.Node("live", root=run.root, key=run.root / "speed.key", engine="python"):
        Path(names.claim_path(str(run.root), "live", 1)).write_bytes(b"")
        (old,) = (one for one in find_leftovers(registry) if one.kind == "old claim")
        assert remove_leftover(registry, old)
        assert not Path(old.path).exists()


@pytest.mark.parametrize("ephemeral", [False, True])
def test_nodes_start_beside_gc_as_if_it_were_not_there(run: Command, kind: str, ephemeral: bool) -> None:
    """Under names that it finds left behind."""
    registry = Registry(str(run.root), load_key_file(run.root / "speed.key"))
    stopping = threading.Event()

    def collect() -> None:
        while not stopping.is_set():
            for one in find_leftovers(registry):
                if one.removable:
                    remove_leftover(registry, one)

    collector = threading.Thread(target=collect, name="gc")
    collector.start()
    try:
        for number in range(120):
            name = f"n.{number % 5}"
            with speed.Node(name, root=run.root, key=run.root / "speed.key", engine=kind, ephemeral=ephemeral):
                assert (run.root / name / "inbox").is_dir()
                assert (run.root / name / "bell").exists()
    finally:
        stopping.set()
        collector.join()


def test_gc_removes_all_of_an_ephemeral_node_that_was_killed(run: Command) -> None:
    _die(run.root, ephemeral=True)
    assert {"ephemeral node"} <= _left(run("root", "gc", "--json"))["removed"]
    assert [one for one in run.root.rglob("*") if one.name.startswith("dead")] == []


def test_gc_keeps_segments_of_a_dead_node_as_long_as_they_may_be_put_together(run: Command) -> None:
    """G-15: then they go with the node's directory."""
    _die(run.root)
    segments = Path(names.segments_dir(str(run.root), "dead"))
    segments.mkdir(mode=0o700)
    (segments / names.SEGMENT_INDEX).write_bytes(b"x")
    (segments / names.shards_name(bytes(16))).write_bytes(b"x")
    assert "node directory" in _left(run("root", "gc", "--json"))["kept"]
    old = time.time() - RECONSTRUCTION_SECONDS - 1
    os.utime(segments, (old, old))
    assert "node directory" in _left(run("root", "gc", "--json"))["removed"]
    assert not (run.root / "dead").exists()


def test_gc_keeps_messages_that_wait_for_a_dead_node(run: Command) -> None:
    ready, told = os.pipe()
    code = (
        "import os, signal, sys, speed\n"
        "node = speed.Node('dead', root=sys.argv[1], key=sys.argv[2], allow=['sender'])\n"
        "os.write(int(sys.argv[3]), b'x')\nsignal.pause()"
    )
    victim = subprocess.Popen(
        [sys.executable, "-c", code, str(run.root), str(run.root / "speed.key"), str(told)], pass_fds=[told]
    )
    try:
        os.read(ready, 1)
        with speed.Node("sender", root=run.root, key=run.root / "speed.key") as sender:
            pause(victim.pid)  # it cannot read what is sent now
            sender.send("dead", "important")
            victim.kill()
            victim.wait()
    finally:
        victim.kill()
        os.close(ready)
        os.close(told)
    kept = [one for one in run("root", "gc", "--json").value["leftovers"] if one["state"] == "kept"]
    assert {one["kind"] for one in kept} == {"lane", "node directory"}
    assert any("wait for the node to come back" in one["reason"] for one in kept)
    with speed.Node("dead", root=run.root, key=run.root / "speed.key", allow=["sender"]) as reborn:
        message = reborn.receive(timeout=PATIENCE)
        assert message is not None
        assert message.payload == "important"


def test_gc_keeps_young_temporary_and_quarantined_files(run: Command) -> None:
    quarantine = Path(names.quarantine_dir(str(run.root), "node"))
    quarantine.mkdir(parents=True)
    young, old = quarantine / "young", quarantine / "old"
    stray, fresh = run.root / "speed_registry" / ".tmp-stray", run.root / "speed_registry" / ".tmp-fresh"
    for file in (young, old, stray, fresh):
        file.write_text("x")
    for file in (old, stray):
        os.utime(file, (time.time() - 100_000, time.time() - 100_000))
    run("root", "gc")
    assert [file.exists() for file in (young, old, stray, fresh)] == [True, False, False, True]
