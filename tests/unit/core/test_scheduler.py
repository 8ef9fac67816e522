"""Who runs what next: the published steps (registry_spec/scheduling.md), and what must hold whatever comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.core.scheduler import Life, Overdue, Scheduler, Work, WorkState
from tests.vectors import case_name, load

CASES = load("scheduling")["cases"]


class Replay:
    """One Scheduler, and the work that the steps name."""

    def __init__(self, workers: int) -> None:
        self.scheduler = Scheduler(workers)
        self.works: dict[str, Work] = {}

    def do(self, step: dict[str, Any]) -> Any:
        return getattr(self, step["do"])(step)

    def name(self, work: Work | None) -> str | None:
        return None if work is None else str(work.item)

    def names(self, works: tuple[Work, ...]) -> list[str]:
        return [str(work.item) for work in works]

    def request(self, step: dict[str, Any]) -> str:
        said, work = self.scheduler.request(step["sender"], step["id"], step["id"], step["deadline"])
        if work is not None:
            self.works[step["id"]] = work
        return said.value

    def message(self, step: dict[str, Any]) -> str:
        work = self.scheduler.message(
            step["sender"],
            step["id"],
            step["now"],
            priority=step["priority"],
            order=step["order"],
            is_event=step["event"],
            claimed=step["claimed"],
        )
        if work is None:
            return "leaving"
        self.works[step["id"]] = work
        return work.state.value

    def task(self, step: dict[str, Any]) -> None:
        self.works[step["id"]] = self.scheduler.task(step["id"])

    def take(self, step: dict[str, Any]) -> str | None:
        return self.name(self.scheduler.take(step["now"]))

    def done(self, step: dict[str, Any]) -> None:
        self.scheduler.done(self.works[step["id"]])

    def again(self, step: dict[str, Any]) -> None:
        self.scheduler.again(self.works[step["id"]], step["at"])

    def blocked(self, step: dict[str, Any]) -> bool:
        return self.scheduler.blocked(self.works[step["id"]])

    def resumed(self, step: dict[str, Any]) -> None:
        self.scheduler.resumed(self.works[step["id"]])

    def claim(self, step: dict[str, Any]) -> int:
        return self.scheduler.claim(lambda item: item in step["takes"])

    def receive(self, _: dict[str, Any]) -> str | None:
        return self.name(self.scheduler.receive())

    def put_back(self, step: dict[str, Any]) -> None:
        self.scheduler.put_back(self.works[step["id"]])

    def withdraw(self, step: dict[str, Any]) -> str | None:
        work = self.scheduler.withdraw(step["sender"], step["id"])
        return None if work is None else "waiting" if work.state is WorkState.ENDED else "running"

    def forget(self, step: dict[str, Any]) -> dict[str, list[str]]:
        works = self.scheduler.forget(step["sender"])
        return {
            "waiting": self.names(tuple(work for work in works if work.state is WorkState.ENDED)),
            "running": self.names(tuple(work for work in works if work.state is not WorkState.ENDED)),
        }

    def expire(self, step: dict[str, Any]) -> dict[str, list[str]]:
        found: Overdue = self.scheduler.expire(step["now"])
        return {kind: self.names(getattr(found, kind)) for kind in ("waiting", "running", "unclaimed")}

    def next_time(self, _: dict[str, Any]) -> float | None:
        return self.scheduler.next_time()

    def leave(self, _: dict[str, Any]) -> None:
        self.scheduler.leave()

    def close(self, _: dict[str, Any]) -> list[str]:
        return self.names(self.scheduler.close())

    def settled(self, _: dict[str, Any]) -> bool:
        return self.scheduler.is_settled


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_published_steps_give_what_they_say(case: dict[str, Any]) -> None:
    """T-1 to T-13."""
    replay = Replay(case["workers"])
    for number, step in enumerate(case["steps"]):
        assert replay.do(step) == step.get("gives"), f"step {number}: {step}"


arrivals = st.lists(
    st.tuples(st.sampled_from(["request", "message", "task"]), st.sampled_from("abc"), st.integers(0, 10)), max_size=60
)


@given(arrivals, st.integers(1, 4), st.randoms(use_true_random=False))
def test_everything_accepted_is_taken_once_and_in_order(arrivals: list[Any], workers: int, choice: Any) -> None:
    """T-3 to T-6."""
    scheduler, running, taken = Scheduler(workers), [], []
    for number, (kind, sender, priority) in enumerate(arrivals):
        if kind == "request":
            scheduler.request(sender, number, (kind, sender, number), 1e9)
        elif kind == "message":
            scheduler.message(sender, (kind, sender, number), 0, priority=priority)
        else:
            scheduler.task((kind, "", number))
    while not scheduler.is_settled:
        work = scheduler.take(0)
        if work is not None:
            running.append(work)
            taken.append(work.item)
        else:
            scheduler.done(running.pop(choice.randrange(len(running))))
    assert sorted(taken, key=lambda item: item[2]) == [
        (kind, "" if kind == "task" else sender, number) for number, (kind, sender, _) in enumerate(arrivals)
    ]
    for kind in ("request", "message", "task"):
        for sender in ("", *"abc"):
            numbers = [number for one, who, number in taken if (one, who) == (kind, sender)]
            assert numbers == sorted(numbers)


@given(st.integers(2, 6), st.integers(1, 3))
def test_no_sender_waits_for_more_than_one_request_of_each_other(senders: int, workers: int) -> None:
    """T-4."""
    scheduler = Scheduler(workers)
    for sender in range(senders):
        for number in range(5):
            scheduler.request(str(sender), number, sender, 1e9)
    first = [scheduler.take(0) for _ in range(workers)]
    order = [work.item for work in first if work]
    while len(order) < senders:
        scheduler.done(next(work for work in first if work and work.state is WorkState.RUNNING))
        first.append(scheduler.take(0))
        order.append(first[-1].item)  # type: ignore[union-attr]
    assert sorted(order[:senders]) == list(range(senders))


def test_deadlines_of_ended_requests_are_not_kept() -> None:
    """T-9."""
    scheduler = Scheduler(1)
    for number in range(10_000):
        scheduler.request("a", number, number, 30)
        work = scheduler.take(0)
        assert work is not None
        scheduler.done(work)
    assert len(scheduler._deadlines) < 1_000


def test_nothing_is_kept_once_all_is_settled() -> None:
    """T-9."""
    scheduler = Scheduler(2)
    for number in range(200):
        scheduler.request(f"caller{number}", 1, number, 30)
        scheduler.message(f"sender{number}", number, 0)
    while (work := scheduler.take(0)) is not None:
        scheduler.done(work)
    kept = (scheduler._accepted, scheduler._requests, scheduler._queues, scheduler._busy, scheduler._ready)
    assert [len(one) for one in kept] == [0, 0, 0, 0, 0]


def test_an_event_that_the_table_does_not_have_changes_nothing() -> None:
    """T-2."""
    scheduler = Scheduler(1)
    _, work = scheduler.request("a", 1, 1, 30)
    assert work is not None
    scheduler.resumed(work)
    assert work.state is WorkState.WAITING
    assert not scheduler.blocked(work)
    scheduler.close()
    scheduler.leave()
    assert scheduler.life is Life.CLOSED


def test_one_of_several_withdrawn_leaves_the_others_waiting() -> None:
    """T-8."""
    scheduler = Scheduler(1)
    for key in (1, 2, 3):
        scheduler.request("a", key, key, 30)
    scheduler.withdraw("a", 2)
    assert [work.item for work in (scheduler.take(0), scheduler.take(0)) if work] == [1]


def test_the_deadline_of_what_was_claimed_means_nothing() -> None:
    """T-2, T-9."""
    scheduler = Scheduler(1)
    scheduler.message("a", "e", 0, is_event=True, claimed=False)
    scheduler.claim(lambda item: True)
    assert scheduler.expire(100) == Overdue()


def test_a_request_is_had_until_it_is_done() -> None:
    """S-21: waiting or running; by its own sender only."""
    scheduler = Scheduler(1)
    scheduler.request("a", 1, "item", 10.0)
    assert scheduler.has("a", 1)
    assert not scheduler.has("b", 1)
    work = scheduler.take(0.0)
    assert work is not None
    assert scheduler.has("a", 1)
    scheduler.done(work)
    assert not scheduler.has("a", 1)
