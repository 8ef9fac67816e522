"""What counts as silence of a process; without processes and without waiting."""

from __future__ import annotations

import os
import threading
import time

from speed.daemon.pulse import LONGEST_PING_SECONDS, LOOK_SECONDS, Pulse, Silence
from speed.errors import AccessDeniedError, CallTimeoutError

PATIENCE = 30.0


class Node:
    """Answers as it is told, and says when it was asked."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = threading.Semaphore(0)

    def ping(self, _name: str, _seconds: float) -> float:
        self.asked.release()
        if self.error:
            raise self.error
        return 0.0


def silence_after(pulse: Pulse, node: Node, looks: int) -> float:
    """How long node ``one`` is silent after so many pings."""
    for _ in range(looks):
        pulse.look({"one": 15.0})
        assert node.asked.acquire(timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while pulse._pinged["one"].is_under_way:
            assert time.monotonic() < deadline
            time.sleep(0.001)  # the ping is over a moment after it was heard
    return pulse.look({"one": 15.0})["one"]


def test_silence_grows_with_each_ping_without_an_answer_and_ends_with_one() -> None:
    node = Node()
    pulse = Pulse(node.ping)
    node.error = CallTimeoutError("no answer")
    assert 0 < silence_after(pulse, node, 1) < silence_after(pulse, node, 3)
    node.error = None
    assert silence_after(pulse, node, 3) == 0.0
    pulse.close()


def test_a_node_that_allows_no_ping_is_not_silent() -> None:
    node = Node()
    pulse = Pulse(node.ping)
    node.error = AccessDeniedError("no grant")
    assert silence_after(pulse, node, 2) == 0.0
    pulse.close()


def test_a_process_that_is_started_anew_is_judged_anew() -> None:
    node = Node()
    pulse = Pulse(node.ping)
    node.error = CallTimeoutError("no answer")
    assert silence_after(pulse, node, 2) > 0
    node.error = None
    pulse.look({})
    assert pulse.look({"one": 15.0})["one"] == 0.0
    pulse.close()


def test_an_hour_between_two_looks_is_not_an_hour_of_silence() -> None:
    silence = Silence()
    silence.look(os.getpid(), 0.0, now=0.0)
    silence.look(os.getpid(), LOOK_SECONDS, now=3600.0)
    assert silence.seconds <= LONGEST_PING_SECONDS


def test_a_process_that_is_not_there_is_not_frozen() -> None:
    silence = Silence()
    for now in range(5):
        silence.look(1 << 30, 0.0, now=float(now))
    assert silence.seconds == 0.0
    assert not silence.is_trouble
