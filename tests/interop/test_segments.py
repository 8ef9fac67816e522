"""Segments between every pair of languages: what one cuts, the others put together (segments.md)."""

from __future__ import annotations

import os
from time import monotonic

import pytest

import speed
from speed.engine.python.node import PythonEngine
from speed.message.writing import encode_message, new_message_id
from speed.segment import Splitter, write_segment
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT, EnvelopeType
from tests.interop.languages import PAIRS
from tests.interop.pool import Agents

SEGMENTING = ("python", "cpp", "java")
"""The languages whose agents know the op `segment`."""
BOTH = [(source, target) for source, target in PAIRS if source in SEGMENTING and target in SEGMENTING]
TARGETS = sorted({target for _, target in BOTH})
WAIT = 30.0
between_all = pytest.mark.parametrize(("source", "target"), BOTH, ids=[f"{a} cuts for {b}" for a, b in BOTH])


@between_all
@pytest.mark.parametrize(("size", "parity"), [(1000, 0.0), (640, 0.125), (8192, 1.0)])
def test_calls_and_messages_over_links_that_are_cut(
    private: Agents, source: str, target: str, size: int, parity: float
) -> None:
    """G-18: requests, responses and messages, of one segment and of many."""
    caller, server = private.shared("caller", source), private.shared("server", target)
    caller.ask("segment", target=server.name, size=size, parity=parity)
    server.ask("segment", target=caller.name, size=size, parity=parity)
    for count in (1, 999, 100_000):
        assert caller.ask("large", target=server.name, bytes=count) is True
        caller.ask("send", target=server.name, payload={"n": count, "x": "y" * count}, ack=True, timeout=WAIT)
        received = server.ask("receive", timeout=WAIT)
        assert received["payload"] == {"n": count, "x": "y" * count}
        server.ask("finish")
    caller.ask("segment", target=server.name, size=None, parity=0)
    assert caller.ask("large", target=server.name, bytes=10) is True


@pytest.mark.parametrize("target", TARGETS)
def test_a_large_payload_in_segments_that_nothing_takes_yet_is_acknowledged(private: Agents, target: str) -> None:
    """S-11, T-11: it waits for the program before it is put together."""
    caller, server = private.shared("caller", "python"), private.shared("server", target)
    caller.ask("segment", target=server.name, size=262_144, parity=0)
    caller.ask("send", target=server.name, payload="x" * 1_500_000, ack=True, timeout=WAIT)
    caller.ask("segment", target=server.name, size=None, parity=0)
    assert server.ask("receive", timeout=WAIT)["payload"] == "x" * 1_500_000
    server.ask("finish")


@pytest.mark.parametrize("target", TARGETS)
def test_lost_segments_are_recovered_and_the_length_with_them(private: Agents, target: str) -> None:
    """G-10, G-11, G-19: the last one of trailing zeros is among the lost; answered once."""
    server = private.shared("server", target)
    with speed.Node("caller.outsider", root=private.root, engine="python", allow=[server.name]) as outsider:
        outsider.wait_for(server.name, timeout=WAIT)
        assert isinstance(outsider._engine, PythonEngine)
        link = outsider._engine._parts.links.granted(server.name)
        payload = "x" * 1500 + "\0" * 30
        identifier = new_message_id(1_700_000_000_123, os.urandom(16))
        whole = encode_message(payload, topic="t", namespace="default", message_id=identifier, published_at_ms=1)
        segments = list(Splitter(64, 0.25).split(whole))
        count = segments[0].data_count
        for segment in reversed([*segments[2 : count - 1], *segments[count:]]):
            flags = FLAG_SEGMENT | FLAG_ACK_REQUESTED
            link.send(EnvelopeType.MESSAGE, flags, write_segment(segment), monotonic() + WAIT)
        assert server.ask("receive", timeout=WAIT)["payload"] == payload
        server.ask("finish")
        assert server.ask("receive", timeout=0) is None
