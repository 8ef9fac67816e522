"""What every receiver makes of a lane that it finds (L-12 to L-18): the vectors, with real files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.vectors.lanes import seen
from speed.errors import LeaseLostError
from speed.fs.lane_reader import LaneReader
from speed.fs.root import prepare_root
from speed.fs.slots import OpenedEnvelope
from speed.wire import names
from speed.wire.cursor import decode_cursor
from tests.fs.lanes import LANE_KEY, Lane
from tests.vectors import case_name, load

VECTORS = load("lanes")


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
