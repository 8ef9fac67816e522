"""Group commit: what threads append while a flush runs is in the next one, once for all of them (L-7)."""

from __future__ import annotations

import threading

import pytest

from speed.engine.python.outgoing import GroupFlush


class Device:
    """Its first flush lasts until the test lets it end."""

    def __init__(self) -> None:
        self.appended = 1
        self.flushes = 0
        self.begun, self.may_end = threading.Event(), threading.Event()

    def flush(self) -> int:
        covered, self.flushes = self.appended, self.flushes + 1
        self.begun.set()
        assert self.may_end.wait(20)
        return covered


def test_what_was_covered_already_is_not_flushed_again() -> None:
    device = Device()
    device.appended = 7
    device.may_end.set()
    flushes = GroupFlush(device.flush)
    for counter in (7, 3, 7):
        flushes.wait(counter)
    assert device.flushes == 1


def test_threads_that_append_while_a_flush_runs_share_the_next_one() -> None:
    device = Device()
    flushes = GroupFlush(device.flush)
    threads = [threading.Thread(target=flushes.wait, args=(counter,), daemon=True) for counter in range(1, 10)]
    threads[0].start()
    assert device.begun.wait(20)
    device.appended = 9
    for thread in threads[1:]:
        thread.start()
    device.may_end.set()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert device.flushes == 2


def test_a_flush_that_raises_keeps_nobody_waiting() -> None:
    fails = [True]

    def flush() -> int:
        if fails.pop():
            raise KeyboardInterrupt
        return 1

    flushes = GroupFlush(flush)
    with pytest.raises(KeyboardInterrupt):
        flushes.wait(1)
    fails.append(False)
    flushes.wait(1)
    assert fails == []
