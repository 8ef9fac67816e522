"""What a caller reads of a server that is gone, or was replaced: the vectors, with real files (S-21)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speed.core.calls import RequestEnvelopes, RequestVerdict, verdict_of
from speed.fs.committed import deciding_cursor
from speed.wire.cursor import Cursor
from speed.wire.names import node_id
from speed.wire.seal import Keyring
from tests.vectors import case_name, load

VECTORS = load("settled")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
LANE_KEYS = RING.lane_keys(node_id(VECTORS["source"]), node_id(VECTORS["target"]))


@pytest.fixture
def lane(tmp_path: Path) -> Path:
    path = tmp_path / "lane"
    path.mkdir(mode=0o700)
    return path


def lay(lane: Path, files: dict[str, bytes]) -> None:
    for filename, content in files.items():
        (lane / filename).write_bytes(content)
        (lane / filename).chmod(0o600)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=case_name)
def test_a_caller_reads_whether_its_call_had_begun(lane: Path, case: dict[str, Any]) -> None:
    lay(lane, {filename: bytes.fromhex(content) for filename, content in case["files"].items()})
    has_ended = case["process"] in ("gone", "left")
    cursor = deciding_cursor(str(lane), LANE_KEYS, case["generation"], lambda: has_ended)
    sequences = [int(one, 16) for one in case["request"]]
    told = (
        RequestVerdict.MAY_HAVE_RUN
        if cursor is None
        else verdict_of(cursor, RequestEnvelopes(sequences, len(sequences)))
    )
    assert told.value == case["verdict"]


def test_nothing_decides_where_the_lane_is_gone(lane: Path) -> None:
    """The inbox of a node whose name does not come back is removed with its cursors."""
    assert deciding_cursor(str(lane / "none"), LANE_KEYS, 4, lambda: True) is None


def test_a_request_with_parity_may_have_begun_once_enough_of_its_segments_were_taken() -> None:
    cursor = Cursor(4, 2, 1, 600, 3)
    assert verdict_of(cursor, RequestEnvelopes([1, 2, 3, 4], 3)) is RequestVerdict.MAY_HAVE_RUN
    assert verdict_of(cursor, RequestEnvelopes([2, 3, 4, 5], 3)) is RequestVerdict.NOT_BEGUN
