"""`speed root purge`: all that is left of one node goes, and nothing of a node that lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import speed
from tests.interop.harness import pause
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system

KILLED = """
import signal, sys, speed
node = speed.Node('gone', root=sys.argv[1], key=sys.argv[2], allow=['sender'], max_deliveries=1)
node.on_message(lambda message: 1 / 0)
print('up', flush=True)
signal.pause()
"""


@pytest.fixture
def gone(run: Command) -> str:
    """A node that was killed, with a dead letter and a message that it did not read."""
    words = [sys.executable, "-c", KILLED, str(run.root), str(run.root / "speed.key")]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as victim,
        speed.Node("sender", root=run.root, key=run.root / "speed.key") as sender,
    ):
        try:
            assert victim.stdout is not None
            victim.stdout.readline()
            with pytest.raises(speed.ExecutionFailedError):
                sender.send("gone", "bad", ack=True, timeout=PATIENCE)
            pause(victim.pid)  # it cannot read what is sent now
            sender.send("gone", "waits")
        finally:
            victim.kill()
    return "gone"


def test_what_is_left_is_counted_and_goes_when_that_is_said(run: Command, gone: str) -> None:
    counted = run("root", "purge", gone, "--dry-run", "--json").value
    assert {"waiting messages", "dead letters", "entry"} <= {one["what"] for one in counted["left"]}
    assert (run.root / gone).is_dir()
    done = run("root", "purge", gone, "--yes", "--json")
    assert (done.status, done.value["left"]) == (0, counted["left"])
    assert not (run.root / gone).exists()
    assert not (run.root / "speed_registry" / f"{gone}.node").exists()
    assert run("root", "purge", gone, "--dry-run").out == f"Nothing is left of {gone}.\n"


def test_a_node_starts_anew_in_a_later_generation_with_nothing_behind_it(run: Command, gone: str) -> None:
    assert run("root", "purge", gone, "--yes").status == 0
    with speed.Node(gone, root=run.root, key=run.root / "speed.key", allow=["sender"]) as reborn:
        assert reborn.generation > 1
        assert reborn.receive(timeout=0.5) is None
        with speed.Node("sender", root=run.root, key=run.root / "speed.key") as sender:
            sender.send(gone, "new")
            message = reborn.receive(timeout=PATIENCE)
            assert message is not None
            assert message.payload == "new"


def test_nothing_goes_unless_the_question_is_answered_with_yes(run: Command, gone: str) -> None:
    assert run("root", "purge", gone, text="n\n").status == 130
    assert run("root", "purge", gone, text="").status == 130
    assert run("root", "purge", gone, "--json").status == 2
    assert (run.root / gone).is_dir()
    assert run("root", "purge", gone, text="y\n").status == 0
    assert not (run.root / gone).exists()


def test_a_live_node_is_refused(run: Command) -> None:
    with speed.Node("alive", root=run.root, key=run.root / "speed.key"):
        refused = run("root", "purge", "alive", "--yes")
        assert (refused.status, "is alive" in refused.err) == (3, True)
        assert (run.root / "alive").is_dir()


def test_a_node_that_starts_meanwhile_is_refused(run: Command) -> None:
    """Its claim stands and its entry does not yet."""
    from speed.fs import claim
    from speed.fs.identity import identity
    from speed.fs.keyfile import load_key_file

    (run.root / "starting").mkdir(mode=0o700)
    (run.root / "starting" / "bell").touch()
    key = load_key_file(run.root / "speed.key").registry_key
    assert claim.take(str(run.root), "starting", 1, claim.Claimant(identity(), 30_000, None), key)
    refused = run("root", "purge", "starting", "--yes")
    assert (refused.status, "being claimed" in refused.err) == (3, True)
    assert (run.root / "starting").is_dir()


def test_neither_links_nor_journals_nor_other_names_are_followed(run: Command, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    os.symlink(outside, run.root / "link")
    refused = run("root", "purge", "link", "--yes")
    assert (refused.status, "cannot be removed: it is a link" in refused.err) == (8, True)
    for name, status in (("records", 2), ("journal", 3)):
        (run.root / name).mkdir()
        (run.root / name / "journal.lock").touch()
        assert run("root", "purge", name, "--yes").status == status
    assert run("root", "purge", "../outside", "--yes").status == 3
    assert (outside / "precious").exists()
    assert (run.root / "journal").is_dir() and (run.root / "records").is_dir()
