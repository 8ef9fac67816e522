"""Streams and progress between nodes of the languages that have them (registry_spec/streams.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.harness import Agent, until
from tests.interop.languages import PAIRS

STREAMING = frozenset({"cpp", "java", "python"})
"""Languages whose programs give and take streams."""
CHOSEN = [pair for pair in PAIRS if STREAMING.issuperset(pair)]
stream_pairs = pytest.mark.parametrize(("source", "target"), CHOSEN, ids=[f"{one} calls {two}" for one, two in CHOSEN])

Between = Callable[..., tuple[Agent, Agent]]


@stream_pairs
def test_items_of_a_service_come_in_order_with_its_result(between: Between, source: str, target: str) -> None:
    """S-33."""
    caller, server = between(source, target)
    for count in (0, 1, 20_000):
        got = caller.ask("stream", target=server.name, service="numbers", arguments={"count": count})
        assert got == {"items": list(range(count)), "result": "over"}


@stream_pairs
def test_a_small_window_is_kept_to(between: Between, source: str, target: str) -> None:
    """S-29."""
    caller, server = between(source, target)
    for window in (1, 2, 7):
        got = caller.ask("stream", target=server.name, service="numbers", arguments={"count": 100}, window_items=window)
        assert got["items"] == list(range(100))


@stream_pairs
def test_a_service_takes_the_items_of_its_caller(between: Between, source: str, target: str) -> None:
    caller, server = between(source, target)
    for count in (0, 1, 10_000):
        got = caller.ask("stream", target=server.name, service="total", items=list(range(count)))
        assert got == {"items": [], "result": sum(range(count))}


@stream_pairs
def test_items_go_both_ways(between: Between, source: str, target: str) -> None:
    caller, server = between(source, target)
    got = caller.ask("stream", target=server.name, service="double", items=list(range(10_000)))
    assert got["items"] == list(range(0, 20_000, 2))


@stream_pairs
def test_who_stops_reading_ends_the_service(between: Between, tmp_path: Path, source: str, target: str) -> None:
    """S-34."""
    caller, server = between(source, target)
    file = tmp_path / "closed"
    got = caller.ask("stream", target=server.name, service="endless", arguments={"file": str(file)}, read=3)
    assert got == {"items": [0, 1, 2]}
    assert until(file.exists)


@stream_pairs
def test_progress_is_heard_and_its_end_never_lost(between: Between, source: str, target: str) -> None:
    """S-32."""
    caller, server = between(source, target)
    got = caller.ask("progress", target=server.name, count=1000)
    assert got["result"] == 1000
    assert got["heard"][-1] == [1000, 1000, "counting"]


@stream_pairs
def test_a_call_of_a_service_that_streams_is_refused(between: Between, source: str, target: str) -> None:
    """S-27."""
    caller, server = between(source, target)
    error = caller.refusal("call", target=server.name, service="numbers", arguments={"count": 1})
    assert error.code == "INVALID_ARGUMENTS"
    error = caller.refusal("stream", target=server.name, service="echo", arguments={"data": 1})
    assert error.code == "INVALID_ARGUMENTS"
