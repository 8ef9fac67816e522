"""What names requests overtakes none that is still being put together (G-14)."""

from __future__ import annotations

from speed.engine.python.segments import RequestBarrier
from speed.wire.limits import MAX_BEHIND


def nothing() -> None:
    raise AssertionError("it is only compared")


def test_nothing_waits_while_no_request_is_put_together() -> None:
    behind = RequestBarrier()
    behind.end("analytics", behind.begin("analytics"))
    assert not behind.wait("analytics", nothing)


def test_it_waits_for_all_requests_that_came_before_it_and_for_no_later_one() -> None:
    behind = RequestBarrier()
    first, second = behind.begin("analytics"), behind.begin("analytics")
    assert behind.wait("analytics", nothing)
    third = behind.begin("analytics")
    assert behind.end("analytics", second) == []
    assert behind.end("analytics", first) == [nothing]
    assert behind.end("analytics", third) == []


def test_what_waits_is_done_in_the_order_in_which_it_came() -> None:
    behind = RequestBarrier()
    done: list[int] = []
    ticket = behind.begin("analytics")
    for number in range(3):
        assert behind.wait("analytics", lambda number=number: done.append(number))  # type: ignore[misc]
    for do in behind.end("analytics", ticket):
        do()
    assert done == [0, 1, 2]


def test_other_senders_do_not_wait() -> None:
    behind = RequestBarrier()
    behind.begin("analytics")
    assert not behind.wait("billing", nothing)


def test_only_so_much_waits_of_one_sender() -> None:
    behind = RequestBarrier()
    ticket = behind.begin("analytics")
    assert all(behind.wait("analytics", nothing) for _ in range(MAX_BEHIND))
    assert not behind.wait("analytics", nothing)
    assert len(behind.end("analytics", ticket)) == MAX_BEHIND
