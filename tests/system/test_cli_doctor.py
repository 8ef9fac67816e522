"""`speed root doctor` on roots that nodes cannot use: it names cause and cure, and writes nothing to find them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import speed
from tests.system.commands import Command, Result
from tests.system.confined import IS_ROOT, as_plain_user, on_a_mount

pytestmark = pytest.mark.system

NOBODY = 65534
SPEED = f"{shlex.quote(sys.executable)} -m speed.cli"
FILL = "head -c 16M /dev/zero >{root}/filler 2>/dev/null || true"
USE_UP = "i=0; while touch {root}/file.$i 2>/dev/null; do i=$((i+1)); done"
STOP_WRITING = "mount -o remount,ro {root}"


def broken(result: Result) -> list[dict[str, Any]]:
    assert result.out, result.err
    return [one for one in result.value["findings"] if one["state"] == "broken"]


@pytest.mark.parametrize(
    ("options", "spoil", "cause", "cure"),
    [
        ("size=1m", FILL, "is full", "make room"),
        ("size=4m,nr_inodes=60", USE_UP, "no inodes left", "remove files"),
        ("size=4m", STOP_WRITING, "is read-only", "for writing"),
    ],
    ids=["full", "no inodes", "read-only"],
)
def test_a_filesystem_that_takes_nothing_is_named_with_its_cure(
    run: Command, tmp_path: Path, options: str, spoil: str, cause: str, cure: str
) -> None:
    root = tmp_path / "mount"
    script = f"{SPEED} init --root {root} >/dev/null; {spoil.format(root=root)}; {SPEED} doctor --root {root} --json"
    sick = on_a_mount(run, root, options, script)
    assert sick.status == 8, sick.err
    assert [(cause in one["found"], cure in one["todo"], one["code"]) for one in broken(sick)] == [
        (True, True, "STORAGE")
    ]
    assert {"key", "nodes", "leftovers"} <= {one["check"] for one in sick.value["findings"]}


def test_a_directory_that_this_user_may_not_enter_is_named(run: Command) -> None:
    shut = run.root / "billing" / "inbox"
    shut.mkdir(parents=True, mode=0o700)
    shut.chmod(0)
    sick = as_plain_user(run, "root", "doctor", "--json")
    shut.chmod(0o700)
    assert sick.status == 8, sick.err
    (one,) = broken(sick)
    assert (str(shut) in one["found"], one["todo"]) == (True, f"chmod u+rwX {shut}")


def test_a_registry_that_cannot_be_listed_is_a_finding_and_not_the_end(run: Command) -> None:
    shut = run.root / "speed_registry"
    shut.chmod(0)
    sick = as_plain_user(run, "root", "doctor", "--json")
    shut.chmod(0o700)
    assert sick.status == 8, sick.err
    assert any(f"chmod u+rwX {shut}" == one["todo"] for one in broken(sick))
    assert "space" in {one["check"] for one in sick.value["findings"]}


def test_a_live_node_without_its_claim_is_named(run: Command) -> None:
    with speed.Node("billing", root=run.root, engine="python"):
        claim = run.root / "speed_registry/.claims/billing.000001"
        kept = claim.rename(claim.with_name(".tmp-kept"))
        found = run("root", "doctor", "--json").value["findings"]
        kept.rename(claim)
    assert [one["state"] for one in found if "the claim of billing, generation 1," in one["found"]] == ["warning"]


def test_the_root_of_another_user_is_named_as_such(run: Command) -> None:
    root = run.root
    if IS_ROOT:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, -1)
    else:
        root = Path("/usr")
    sick = as_plain_user(run, "root", "doctor", "--root", str(root), "--json")
    assert sick.status == 8, sick.err
    (one,) = [one for one in broken(sick) if one["check"] == "owner"]
    assert (f"{root} belongs to" in one["found"], "run as" in one["todo"]) == (True, True)


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
def test_files_that_another_user_left_in_the_root_are_named(run: Command) -> None:
    (run.root / "billing").mkdir(mode=0o700)
    os.chown(run.root / "billing", NOBODY, -1)
    sick = run("root", "doctor", "--json")
    assert sick.status == 8, sick.err
    (one,) = broken(sick)
    assert (one["check"], one["todo"]) == ("owner", f"chown -R root {run.root}")


def test_a_copy_of_a_root_is_told_from_the_original(run: Command, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy", speed.init_root(tmp_path / "other")
    # The process of the node is one of another root, too, under the same name.
    with speed.Node("billing", root=other), speed.Node("billing", root=run.root, key=run.root / "speed.key"):
        shutil.copytree(run.root, copy, ignore=shutil.ignore_patterns("bell"), copy_function=shutil.copy2)
        copy.chmod(0o700)
        sick = run("root", "doctor", "--root", str(copy), "--json")
        assert run("root", "doctor").status == 0
    assert sick.status == 1, sick.err
    (one,) = broken(sick)
    assert (one["check"], str(run.root) in one["found"]) == ("copy", True)
    assert one["todo"] == f"use {run.root}; here: `rm {copy}/speed_registry/billing.node`"


def test_looking_leaves_nothing_behind(run: Command) -> None:
    before = sorted(run.root.rglob("*"))
    assert run("root", "doctor").status == 0
    assert sorted(run.root.rglob("*")) == before
