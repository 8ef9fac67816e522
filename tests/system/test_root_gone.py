"""A root, claims and lanes that are taken away under nodes that run (R-4, R-20, L-2)."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from tests.interop.harness import until

pytestmark = pytest.mark.system

Ask = Callable[[speed.Node], Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_key_file(str(tmp_path / "key"), (os.urandom(32),))
    return tmp_path / "root"


def take_away(root: Path) -> None:
    """At once: who still writes in it makes it no obstacle."""
    gone = root.rename(root.parent / "gone")
    shutil.rmtree(gone, ignore_errors=True)


@pytest.mark.parametrize("engine", ["python", "native"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda node: node.nodes(),
        lambda node: node.publish("news", 1),
        lambda node: node.send("billing", 1),
        lambda node: node.call("billing", "tax"),
        lambda node: node.services("billing"),
        lambda node: node.wait_for("billing", timeout=0.1),
        lambda node: node.send("nobody", 1),
    ],
    ids=["nodes", "publish", "send", "call", "services", "wait_for", "send to nobody"],
)
def test_a_node_whose_root_is_gone_says_so_and_what_to_do(place: Path, ask: Ask, engine: str) -> None:
    options = {"root": place, "key": place.parent / "key", "engine": engine}
    with speed.Node("billing", allow=["analytics"], **options) as billing, speed.Node("analytics", **options) as node:
        billing.subscribe("news", lambda _: None)
        assert until(lambda: node.publish("news", 1) == 1)
        take_away(place)
        with pytest.raises(speed.StorageError, match=f"{place}.*gone.*start"):
            ask(node)


def test_a_root_that_is_gone_is_logged_rarely(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    with speed.Node("billing", root=place, key=place.parent / "key", engine="python") as billing:
        take_away(place)
        with caplog.at_level(logging.WARNING, "speed.protocol"):
            assert until(lambda: billing.stats()["counters"].get("protocol_failures", 0) >= 3)
        assert len([one for one in caplog.records if "failed" in one.getMessage()]) <= 2


def claims(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "speed_registry/.claims").iterdir())


@pytest.mark.parametrize("engine", ["python", "native"])
def test_a_claim_that_is_removed_is_made_again_and_its_number_never_used_twice(place: Path, engine: str) -> None:
    options = {"root": place, "key": place.parent / "key", "engine": engine}
    with speed.Node("billing", lease_seconds=2, heartbeat_seconds=0.05, **options):
        (place / "speed_registry/.claims/billing.000001").unlink()
        assert until(lambda: claims(place) == ["billing.000001"])
    with speed.Node("billing", **options):
        (place / "speed_registry/.claims/billing.000002").unlink()
    with speed.Node("billing", **options):
        assert claims(place) == ["billing.000003"], "who leaves makes it again as well"


@pytest.mark.parametrize("engine", ["python", "native"])
@pytest.mark.parametrize("lane", ["billing/inbox/analytics", "analytics/inbox/billing"])
def test_a_lane_that_is_removed_is_made_anew_and_costs_no_later_call(place: Path, lane: str, engine: str) -> None:
    options = {"root": place, "key": place.parent / "key", "engine": engine}
    with speed.Node("billing", allow=["analytics"], **options) as billing, speed.Node("analytics", **options) as node:
        billing.register("echo", lambda number: number)
        assert node.call("billing", "echo", {"number": 0}, timeout=20) == 0
        shutil.rmtree(place / lane)
        assert [node.call("billing", "echo", {"number": number}, timeout=20) for number in range(5)] == [*range(5)]
