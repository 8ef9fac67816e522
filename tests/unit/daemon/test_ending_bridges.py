"""Bridges that end together."""

from __future__ import annotations

import logging

import pytest

from speed.bridges import Filter
from speed.bridges.bridge import Bridge
from speed.bridges.running import close_all
from tests.unit.bridges.test_bridge import MemorySink, MemorySource


class _Refusing(MemorySink):
    def close(self) -> None:
        raise RuntimeError("secret")


def test_a_bridge_that_does_not_end_holds_up_no_other_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sinks = [_Refusing(), MemorySink()]
    bridges = [
        Bridge(f"b{number}", MemorySource(), sink, wanted=Filter({}), max_message_bytes=1024)
        for number, sink in enumerate(sinks)
    ]
    with caplog.at_level(logging.WARNING, "speed.bridges"):
        close_all(bridges)
    assert sinks[1].is_closed
    assert "b0 met an unexpected RuntimeError" in caplog.text
    assert "secret" not in caplog.text
