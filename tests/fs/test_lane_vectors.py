"""What every receiver makes of a lane that it finds (L-12 to L-18): the vectors, with real files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.vectors.lanes import seen
from speed.core.access import AccessPolicy
from speed.engine.python.context import Stats
from speed.engine.python.lanes import InboundLanes
from speed.errors import LeaseLostError
from speed.fs.lane_reader import LaneReader
from speed.fs.root import prepare_root
from speed.fs.slots import OpenedEnvelope, SlotWriter
from speed.wire import names
from speed.wire.cursor import SlotPieces, decode_cursor
from speed.wire.seal import Keyring
from tests.fs.lanes import LANE_KEY, Lane
from tests.vectors import case_name, load

VECTORS = load("lanes")
SENDING = load("sending")


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    prepare_root(str(tmp_path))
    opened = Lane(tmp_path)
    yield opened
    opened.close()


def lay(lane: Lane, case: dict[str, Any]) -> None:
    """Put the files of a case where they belong."""
    lane.path.mkdir(mode=0o700)
    for directory, listed in ((str(lane.path), "files"), (names.claims_dir(lane.root), "claims")):
        for filename, content in case.get(listed, {}).items():
            path = Path(directory, filename)
            path.write_bytes(bytes.fromhex(content))
            path.chmod(0o600)


def take(lane: Lane, reader: LaneReader, finished: list[str]) -> list[OpenedEnvelope]:
    """Read to the end, scan twice, and finish what is to be finished."""
    received = []
    for scan in (False, True, True):
        for one in lane.read_all(reader, finish=False, scan=scan):
            received.append(one)
            if f"{one.header.sequence:016x}" in finished:
                reader.finish(one.token)
    return received


def reasons(lane: Lane) -> list[str]:
    return [json.loads(path.read_text())["reason"] for path in sorted(lane.quarantine.glob("*.reason"))]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=case_name)
def test_a_receiver_goes_on_where_the_contract_says(lane: Lane, case: dict[str, Any]) -> None:
    lay(lane, case)
    received = take(lane, lane.reader(case["generation"]), case["finished"])
    handed = [{"sequence": f"{one.header.sequence:016x}", "redelivered": one.redelivered} for one in received]
    assert handed == case["dispatched"]
    own = lane.path / names.cursor_name(case["generation"])
    assert seen(decode_cursor(own.read_bytes(), (LANE_KEY,))) == case["cursor"]
    assert sorted(os.listdir(lane.path)) == case["left"]
    assert reasons(lane) == case["quarantine"]


@pytest.mark.parametrize("case", VECTORS["replaced"], ids=case_name)
def test_a_receiver_that_was_replaced_does_not_begin(lane: Lane, case: dict[str, Any]) -> None:
    lay(lane, case)
    with pytest.raises(LeaseLostError):
        lane.reader(case["generation"])


@pytest.mark.parametrize("case", VECTORS["requests"], ids=case_name)
def test_a_receiver_tells_which_calls_it_may_have_run(lane: Lane, case: dict[str, Any]) -> None:
    """S-8: a lane that failed is opened again by the same process."""
    lay(lane, case)
    received = lane.read_all(lane.reader(case["generation"]), finish=False)
    assert case["requests"] == [
        {"sequence": f"{one.header.sequence:016x}", "redelivered": one.redelivered, "may_have_run": one.unsure}
        for one in received
    ]


@pytest.mark.parametrize("case", SENDING["rooms"], ids=case_name)
def test_a_sender_finds_the_room_that_the_contract_leaves(lane: Lane, case: dict[str, Any]) -> None:
    """L-6."""
    lane.path.mkdir(mode=0o700)
    for filename, content in case["files"].items():
        path = lane.path / filename
        path.write_bytes(bytes(content) if isinstance(content, int) else bytes.fromhex(content))
        path.chmod(0o600)
    assert lane.writer(3, window_bytes=case["window"]).room(case["size"]) is case["room"]


@pytest.mark.parametrize("case", SENDING["free"], ids=case_name)
def test_a_sender_uses_the_slots_again_that_the_receiver_is_done_with(tmp_path: Path, case: dict[str, Any]) -> None:
    """L-29: sizes that are powers of two tell which slots are held."""
    slots = SlotWriter(1, durable=False)
    directory = os.open(tmp_path, os.O_DIRECTORY)
    try:
        for number, *place, _sequence in case["slots"]:
            head = slots.begin(directory, 1 << (8 + number), 1 << 20)
            assert head is not None and head.number == number
            slots.write(bytes(head.payload_bytes), (place[0], place[1], place[2]))
    finally:
        os.close(directory)
    sizes = {number: SlotPieces(bytes(32), 1 << (8 + number)).slot_bytes for number, *_ in case["slots"]}
    slots.commit(decode_cursor(bytes.fromhex(case["cursor"]), (LANE_KEY,)))
    assert slots.held == sum(size for number, size in sizes.items() if number not in case["free"])


@pytest.mark.parametrize("case", load("first_scan")["cases"], ids=case_name)
def test_a_lane_that_was_there_waits_for_a_grant(lane: Lane, case: dict[str, Any]) -> None:
    """L-21."""
    policy, source = AccessPolicy(case["allow"]), case["source"]
    policy.deny(*case["deny"])
    policy.observe(case["observers"])
    context: Any = SimpleNamespace(
        keyring=Keyring((bytes(32),)), max_open_lanes=8, stats=Stats(), id=names.node_id("billing")
    )
    lanes = InboundLanes(
        context, lane.inbox, lambda name: policy.publishes(name) or case["wrote"], lambda _: None, lambda _: None
    )
    path = Path(names.lane_dir(lane.root, "billing", source))
    began = 1000.0
    if case["there"]:
        path.mkdir(mode=0o700)
    lanes.learn(began)
    path.mkdir(mode=0o700, exist_ok=True)
    lanes.learn(began)
    opened = lanes.of(names.node_id(source), began + case["seconds"])
    assert (opened is not None) is case["opened"]
    lanes.abandon()
