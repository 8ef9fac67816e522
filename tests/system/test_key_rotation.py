"""What the command line says of keys while they change, and nodes whose key file is spoiled (W-20)."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import read_keys, write_key_file
from speed.journal.writer import JournalWriter
from tests.fs.journals import SUBJECT, incoming
from tests.system.commands import Command


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20.0
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.fixture
def billing(run: Command, kind: str) -> Iterator[speed.Node]:
    with node(run, "billing", kind) as made:
        yield made


def node(run: Command, name: str, kind: str = "python") -> speed.Node:
    return speed.Node(
        name,
        root=run.root,
        key=key_of(run),
        allow=["billing", "analytics"],
        engine=kind,
        heartbeat_seconds=0.2,
        lease_seconds=20,
    )


def key_of(run: Command) -> str:
    return f"{run.root}/speed.key"


def step(run: Command, name: str) -> None:
    assert run("key", "rotate", "--step", name).status == 0
    assert eventually(lambda: run("key", "status").status == 0)


def findings(run: Command, check: str) -> list[str]:
    return [one["found"] for one in run("root", "doctor", "--json").value["findings"] if one["check"] == check]


def test_a_rotation_is_followed_by_its_status_without_a_restart(run: Command, billing: speed.Node) -> None:
    first = run("key", "status", "--json").value
    assert [one["keyIds"] for one in first["nodes"]] == [first["accepted"]]
    for name in ("add", "promote", "retire"):
        step(run, name)
    last = run("key", "status", "--json").value
    assert [one["keyIds"] for one in last["nodes"]] == [last["accepted"]] != [first["accepted"]]
    assert [one["keyIds"] for one in run("nodes", "--json").value] == [last["accepted"]]
    assert findings(run, "keys") == ["all nodes have those of the key file"]
    with node(run, "analytics") as analytics:
        assert analytics.ping("billing") > 0


def test_a_node_with_another_key_file_is_named_and_not_called_junk(run: Command, tmp_path: Path) -> None:
    other = str(tmp_path / "other.key")
    write_key_file(other, read_keys(key_of(run)))
    with speed.Node("forgotten", root=run.root, key=other, heartbeat_seconds=0.2):
        old = run("key", "id", "--json").value["keyId"]
        assert run("key", "rotate", "--step", "now").status == 0
        assert eventually(lambda: run("key", "status").status == 1)
        assert "forgotten has the keys" in findings(run, "keys")[0]
        assert run("key", "rotate", "--step", "retire").status == 3
        assert run("key", "rotate", "--step", "retire", "--force").status == 0
        said = f"forgotten is sealed with key {old}, which this key file does not have"
        assert findings(run, "keys") == [said]
        assert findings(run, "registry") == []
        assert said in run("nodes").err


def test_keys_that_dead_letters_need_are_not_retired_unasked(run: Command, billing: speed.Node) -> None:
    def fail(message: speed.Message) -> None:
        raise ValueError("no")

    with node(run, "analytics") as analytics:
        billing.on_message(fail)
        analytics.send("billing", {"n": 1})
        assert eventually(lambda: billing.stats()["counters"].get("dead_letters", 0) > 0 or len(letters(run)) > 0)
        step(run, "add")
        step(run, "promote")
        refused = run("key", "rotate", "--step", "retire")
        assert refused.status == 3
        assert "1 dead letters of billing" in refused.err
        assert run("key", "rotate", "--step", "retire", "--force").status == 0


@pytest.mark.parametrize("directory", ["journal", "topics"])
def test_keys_that_a_journal_needs_are_not_retired_before_it_is_sealed_anew(
    run: Command, billing: speed.Node, directory: str
) -> None:
    with JournalWriter(f"{run.root}/{directory}", key_of(run)) as writer:
        writer.record(SUBJECT, incoming([1]))
    step(run, "add")
    step(run, "promote")
    refused = run("key", "rotate", "--step", "retire")
    assert refused.status == 3
    assert f"3 files in {run.root}/{directory}, " in refused.err
    assert "`speed journal reseal` seals them anew" in refused.err
    assert run("journal", "reseal").status == 0
    assert run("key", "rotate", "--step", "retire").status == 0
    (lane,) = run("journal", "list", "--directory", f"{run.root}/{directory}", "--json").value
    assert lane["end"] == 1


def test_keys_that_a_journal_needs_are_retired_if_that_is_wanted(run: Command) -> None:
    with JournalWriter(f"{run.root}/journal", key_of(run)) as writer:
        writer.record(SUBJECT, incoming([1]))
    assert run("key", "rotate").status == 0
    assert run("key", "rotate", "--step", "retire").status == 3
    assert run("key", "rotate", "--step", "retire", "--force").status == 0
    assert run("journal", "list").status == 3


def test_retiring_looks_at_a_journal_elsewhere_that_is_named(run: Command, tmp_path: Path) -> None:
    """Also for a key file that is of no root."""
    key, elsewhere = str(tmp_path / "other.key"), str(tmp_path / "elsewhere")
    write_key_file(key, (os.urandom(32),))
    with JournalWriter(elsewhere, key) as writer:
        writer.record(SUBJECT, incoming([1]))
    assert run("key", "rotate", key).status == 0
    retire = ("--root", str(tmp_path / "no root"), "key", "rotate", key, "--step", "retire", "--directory", elsewhere)
    refused = run(*retire)
    assert (refused.status, elsewhere in refused.err) == (3, True)
    assert run("--key", key, "journal", "reseal", "--directory", elsewhere).status == 0
    assert run(*retire).status == 0


def letters(run: Command) -> list[Path]:
    return list(Path(run.root).glob("billing/dead/*.letter"))


def spoil_cut(path: str) -> None:
    os.truncate(path, 30)


def spoil_emptied(path: str) -> None:
    os.truncate(path, 0)


def spoil_removed(path: str) -> None:
    os.unlink(path)


def spoil_given_away(path: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make the file of somebody else")
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("spoil", [spoil_cut, spoil_emptied, spoil_removed, spoil_given_away])
def test_a_spoiled_key_file_changes_nothing_and_is_said_once(
    run: Command, kind: str, spoil: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    with node(run, "billing", kind) as billing, node(run, "analytics", kind) as analytics:
        billing.register("echo", lambda value: value)
        with caplog.at_level(logging.WARNING):
            keys = read_keys(key_of(run))
            spoil(key_of(run))
            assert eventually(lambda: refused(billing) >= 3 and refused(analytics) >= 3)
            assert analytics.call("billing", "echo", {"value": 1}) == 1
            assert eventually(lambda: len(said(caplog)) >= 2)
        assert sorted(line.split()[0].strip("':") for line in said(caplog)) == ["analytics", "billing"]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(key_of(run))
        write_key_file(key_of(run), (os.urandom(32), *keys))
        before = refused(billing)
        assert eventually(lambda: run("key", "status").status == 0)
        assert analytics.call("billing", "echo", {"value": 2}) == 2
        assert refused(billing) <= before + 1


def refused(one: speed.Node) -> int:
    return int(one.stats()["counters"].get("key_files_refused", 0))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "goes on with the keys" in record.getMessage()]


def test_a_root_whose_floor_was_made_by_an_older_key_starts_nodes_after_it_was_retired(run: Command) -> None:
    """Nobody ran meanwhile who would have made it anew."""
    with speed.Node("worker", root=run.root, key=key_of(run), ephemeral=True):
        pass
    assert (run.root / "speed_registry" / ".claims" / "floor").exists()
    for step in ("add", "promote", "retire"):
        assert run("key", "rotate", "--step", step).status == 0
    with node(run, "billing") as billing:
        assert billing.nodes()
