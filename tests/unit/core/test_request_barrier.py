"""What names requests overtakes none that is still being put together (G-14)."""

from __future__ import annotations

from speed.engine.python.segments import RequestBarrier
from speed.wire.limits import MAX_DEFERRED_CONTROLS


def nothing() -> None:
    raise AssertionError("it is only compared")


def test_nothing_waits_while_no_request_is_put_together() -> None:
    barrier = RequestBarrier()
    barrier.end("analytics", barrier.begin("analytics"))
    assert not barrier.wait("analytics", nothing)


def test_it_waits_for_all_requests_that_came_before_it_and_for_no_later_one() -> None:
    barrier = RequestBarrier()
    first, second = barrier.begin("analytics"), barrier.begin("analytics")
    assert barrier.wait("analytics", nothing)
    third = barrier.begin("analytics")
    assert barrier.end("analytics", second) == []
    assert barrier.end("analytics", first) == [nothing]
    assert barrier.end("analytics", third) == []


def test_what_waits_is_done_in_the_order_in_which_it_came() -> None:
    barrier = RequestBarrier()
    done: list[int] = []
    ticket = barrier.begin("analytics")
    for number in range(3):
        assert barrier.wait("analytics", lambda number=number: done.append(number))  # type: ignore[misc]
    for do in barrier.end("analytics", ticket):
        do()
    assert done == [0, 1, 2]


def test_other_senders_do_not_wait() -> None:
    barrier = RequestBarrier()
    barrier.begin("analytics")
    assert not barrier.wait("billing", nothing)


def test_only_so_much_waits_of_one_sender() -> None:
    barrier = RequestBarrier()
    ticket = barrier.begin("analytics")
    assert all(barrier.wait("analytics", nothing) for _ in range(MAX_DEFERRED_CONTROLS))
    assert not barrier.wait("analytics", nothing)
    assert len(barrier.end("analytics", ticket)) == MAX_DEFERRED_CONTROLS
