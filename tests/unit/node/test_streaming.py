"""What a stream says of its end, where the channel that an engine brings has ended otherwise than by an answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from speed.engine.streams import Reserved, Taken, TakenKind
from speed.errors import Execution, InboxFullError
from speed.node.streaming import Stream


class FullChannel:
    """Gives credit, and has no room for what is then sent; it has no outcome."""

    request_id = "01a22815-2c15-7169-8d7a-877046471976"
    wants_items, sends_items, wants_progress = False, True, False
    broken = ""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def take(self, timeout: float) -> Taken:
        return (TakenKind.OVER if self._closed.wait(timeout) else TakenKind.NOTHING, None, 0, 0)

    def reserve(self, size: int, timeout: float) -> int:
        return Reserved.OVER if self._closed.is_set() else Reserved.CREDIT

    def write(self, payload: bytes) -> None:
        raise InboxFullError("there is no room")

    def close(self) -> None:
        self._closed.set()

    def withdraw(self) -> None:
        """Nobody is there."""

    def outcome(self) -> Any:
        return None

    process = open = report = write


def test_a_stream_whose_items_cannot_be_sent_ends_with_the_reason_and_never_with_a_result() -> None:
    for _ in range(50):  # two threads find it: whichever is first
        stream = Stream(FullChannel(), idle=None, callee=("billing", "total"))  # type: ignore[arg-type]
        stream.send(range(10))
        with pytest.raises(InboxFullError) as full:
            stream.wait()
        assert (full.value.node, full.value.execution) == ("billing", Execution.MAY_HAVE_RUN)
