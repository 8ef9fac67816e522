"""The loop of a bridge, with ends in memory: what is taken is carried, once, in its order, whatever fails."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

import pytest

from speed.backends.backend import BackendAwayError, BackendFullError, BackendRefusedError, Outgoing
from speed.bridges import MAX_HOPS, Filter
from speed.bridges.bridge import CARRYING, MAX_MESSAGES, TRYING, WAITING, Bridge, Load
from speed.errors import JournalError, PayloadTooLargeError, WireError
from speed.message.writing import encode_message

PATIENCE = 20.0
HEAD = {"namespace": "n", "message_id": "m", "published_at_ms": 1_718_000_000_000}


def load(number: int, topic: str = "orders", hops: tuple[str, ...] = ("a",), **metadata: Any) -> Load:
    data = encode_message(number, topic=topic, **HEAD, **metadata)
    message = Outgoing(topic, None, data, f"m{number}", 0, None)
    return Load("lane", number, topic, str(number), data, message, hops=hops)


class MemorySource:
    """Loads that wait; what fails is told by ``failures``, one for each call."""

    def __init__(self, loads: Sequence[Load] = ()) -> None:
        self.waiting = deque(loads)
        self.settled: list[int] = []
        self.failures: deque[Exception | None] = deque()
        self.not_settled: deque[Exception] = deque()
        self.away: Exception | None = None
        self.is_closed = False

    def receive(self, most: int, seconds: float) -> list[Load]:
        if self.failures and (error := self.failures.popleft()) is not None:
            raise error
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def settle(self, loads: Sequence[Load]) -> None:
        if self.not_settled:
            raise self.not_settled.popleft()
        self.settled += [one.sequence for one in loads]

    def check(self) -> None:
        if self.away is not None:
            raise self.away

    def lag(self) -> int | None:
        if self.is_closed:
            raise JournalError("closed")
        return len(self.waiting)

    def close(self) -> None:
        self.is_closed = True


class MemorySink:
    """What was published; ``fails`` may raise for a part, or change nothing."""

    limit = MAX_MESSAGES

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.fails: Callable[[list[int]], None] = lambda part: None
        self.there: set[str] = set()
        self.unfits: set[int] = set()
        self.is_closed = False

    def is_loop(self, one: Load) -> bool:
        return bool(self.there & set(one.hops))

    def unfit(self, one: Load) -> str:
        return "BAD_KEY" if one.sequence in self.unfits else ""

    def publish(self, loads: Sequence[Load]) -> int:
        part = [one.sequence for one in loads]
        self.fails(part)
        self.parts.append(part)
        return 0

    def check(self) -> None:
        self.fails([])

    @property
    def published(self) -> list[int]:
        return [number for part in self.parts for number in part]

    def close(self) -> None:
        self.is_closed = True


class Site:
    """A bridge whose turns a test takes itself."""

    def __init__(self, loads: Sequence[Load] = (), **how: Any) -> None:
        self.source, self.sink = MemorySource(loads), MemorySink()
        self.buried: list[tuple[int, str]] = []
        how = {"wanted": Filter({}), "max_message_bytes": 1 << 20, "bury": self.bury, **how}
        self.bridge = Bridge("b", self.source, self.sink, **how)

    def bury(self, one: Load, code: str) -> None:
        self.buried.append((one.sequence, code))

    def turn(self) -> None:
        assert self.bridge._breaker.wait(monotonic() + 100.0) == 0.0  # as if every pause were over
        self.bridge.turn(0.0)

    def row(self, *names: str) -> list[Any]:
        row = self.bridge.row()
        return [row[name] for name in names]


@pytest.fixture
def site_of() -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*arguments: Any, **how: Any) -> Site:
        made.append(Site(*arguments, **how))
        return made[-1]

    yield make
    for one in made:
        one.bridge.close()


SiteOf = Callable[..., Site]


def test_what_is_taken_is_published_and_then_settled(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(number) for number in range(1, 6)])
    site.turn()
    assert site.sink.published == site.source.settled == [1, 2, 3, 4, 5]
    assert site.row("state", "trouble", "lag", "carried", "failures") == ["carrying", "", 0, 5, 0]


def test_nothing_is_settled_before_it_is_confirmed(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(1), load(2)])
    site.sink.fails = _raise(BackendAwayError("gone"))
    site.turn()
    assert site.source.settled == []
    assert site.row("state", "trouble", "failures") == ["waiting", "BACKEND_AWAY: gone", 1]


def _raise(error: Exception) -> Callable[[list[int]], None]:
    def fail(part: list[int]) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [BackendAwayError("gone"), BackendFullError("full"), ValueError("a defect")])
def test_what_failed_is_tried_with_one_message_and_then_goes_on(site_of: SiteOf, error: Exception) -> None:
    """B-18."""
    site = site_of([load(number) for number in range(1, 4)])
    site.sink.fails = _raise(error)
    site.turn()
    assert site.bridge._breaker.state is WAITING
    site.sink.fails = lambda part: None
    site.turn()
    assert site.sink.parts == [[1], [2], [3]]
    assert site.source.settled == [1, 2, 3]
    assert site.bridge._breaker.state is CARRYING


def test_an_unexpected_error_is_told_without_its_text(site_of: SiteOf, caplog: pytest.LogCaptureFixture) -> None:
    """B-10."""
    site = site_of([load(1)])
    site.sink.fails = _raise(ValueError("hidden-word"))
    site.turn()
    assert "an unexpected ValueError" in caplog.text
    assert "hidden-word" not in caplog.text + str(site.bridge.row())


def test_the_next_batch_is_taken_while_one_is_published(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(number) for number in range(1, 2 * MAX_MESSAGES + 1)])
    seen: list[int] = []
    site.sink.fails = lambda part: seen.append(len(part))
    site.turn()
    assert len(site.source.waiting) == 0
    assert site.source.settled[-1] == MAX_MESSAGES
    site.turn()
    assert seen == [MAX_MESSAGES, MAX_MESSAGES]
    assert site.source.settled == list(range(1, 2 * MAX_MESSAGES + 1))


def test_a_source_that_is_away_is_waited_for(site_of: SiteOf) -> None:
    """B-18."""
    site = site_of([load(1)])
    site.source.failures.append(BackendAwayError("gone"))
    site.turn()
    assert site.row("state", "trouble") == ["waiting", "BACKEND_AWAY: gone"]
    site.turn()
    assert site.source.settled == [1]


def test_a_source_that_answers_again_ends_trouble_without_a_message(site_of: SiteOf) -> None:
    """B-18."""
    site = site_of()
    site.source.failures.append(BackendAwayError("gone"))
    site.turn()
    site.turn()
    assert site.row("state", "trouble") == ["carrying", ""]


def test_a_sink_that_is_away_is_noticed_though_nothing_is_to_be_carried(site_of: SiteOf) -> None:
    site = site_of([])
    site.sink.fails = _raise(BackendAwayError("gone"))
    site.turn()
    assert site.row("state", "trouble", "failures") == ["waiting", "BACKEND_AWAY: gone", 1]
    site.turn()
    assert site.row("state", "failures") == ["waiting", 2], "the source answers, which is not enough"
    site.sink.fails = lambda part: None
    site.turn()
    assert site.row("state", "trouble") == ["carrying", ""]


def test_a_source_that_hands_out_nothing_because_it_is_away_is_noticed(site_of: SiteOf) -> None:
    site = site_of([])
    site.source.away = BackendAwayError("gone")
    site.turn()
    assert site.row("state", "trouble") == ["waiting", "BACKEND_AWAY: gone"]
    site.source.away = None
    site.turn()
    assert site.row("state", "trouble") == ["carrying", ""]


def test_a_source_that_fails_beside_a_batch_keeps_it(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(1)])
    site.source.failures.extend([None, BackendAwayError("gone")])
    site.turn()
    assert site.sink.published == [1]
    assert site.source.settled == []
    site.turn()
    assert site.sink.published == [1]
    assert site.source.settled == [1]


def test_what_cannot_be_settled_is_settled_later_and_not_published_again(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(1)])
    site.source.not_settled.append(BackendAwayError("gone"))
    site.turn()
    assert site.source.settled == []
    site.turn()
    assert site.sink.published == site.source.settled == [1]


def test_one_message_that_is_too_large_is_a_dead_letter_and_the_others_are_carried(site_of: SiteOf) -> None:
    """B-17, B-18: the batch is tried in halves."""
    site = site_of([load(number) for number in range(1, 9)])

    def fail(part: list[int]) -> None:
        if 3 in part:
            raise PayloadTooLargeError("raise something")

    site.sink.fails = fail
    site.turn()
    assert site.sink.published == [1, 2, 4, 5, 6, 7, 8]
    assert site.buried == [(3, "PAYLOAD_TOO_LARGE")]
    assert site.source.settled == list(range(1, 9))
    assert site.row("state", "carried", "dead", "failures") == ["carrying", 7, 1, 0]


def test_a_refused_message_holds_up_what_is_behind_it(site_of: SiteOf) -> None:
    """B-15, B-18."""
    site = site_of([load(number) for number in range(1, 5)])

    def fail(part: list[int]) -> None:
        if 2 in part:
            raise BackendRefusedError("the key")

    site.sink.fails = fail
    site.turn()
    site.turn()
    assert site.sink.published == [1]
    assert site.buried == []
    assert site.row("state", "trouble") == ["waiting", "BACKEND_REFUSED: the key"]
    site.sink.fails = lambda part: None
    site.turn()
    assert site.sink.published == [1, 2, 3, 4]


def test_a_sink_that_takes_fewer_at_once_is_given_fewer(site_of: SiteOf) -> None:
    """B-11."""
    site = site_of([load(number) for number in range(1, 6)])
    site.sink.limit = 2
    site.turn()
    assert site.sink.parts == [[1, 2], [3, 4], [5]]


def test_after_trouble_fewer_are_published_at_once_and_then_more(site_of: SiteOf) -> None:
    """B-18."""
    site = site_of([load(number) for number in range(1, 14)])
    site.sink.fails = _raise(BackendAwayError("it took too long"))
    site.turn()
    site.sink.fails = lambda part: None
    site.turn()
    assert [len(part) for part in site.sink.parts] == [1, 6, 6]


def test_a_message_that_is_refused_for_so_long_is_given_up(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([load(1), load(2)], give_up_seconds=1e-9)

    def fail(part: list[int]) -> None:
        if 1 in part:
            raise BackendRefusedError("the key")

    site.sink.fails = fail
    site.turn()
    site.turn()
    assert site.buried == [(1, "BACKEND_REFUSED")]
    assert site.sink.published == [2]


def test_a_message_that_is_refused_is_not_given_up_before(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([load(1)], give_up_seconds=3600.0)
    site.sink.fails = _raise(BackendRefusedError("the key"))
    site.turn()
    site.turn()
    assert site.buried == []


def test_what_has_no_message_is_a_dead_letter_with_its_code(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([Load("lane", 1, "orders", "1", b"garbage", code="BAD_MESSAGE"), load(2)])
    site.turn()
    assert site.buried == [(1, "BAD_MESSAGE")]
    assert site.sink.published == [2]


def test_what_is_larger_than_the_bound_is_a_dead_letter(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([load(1)], max_message_bytes=10)
    site.turn()
    assert site.buried == [(1, "TOO_LARGE")]


def test_without_a_topic_for_them_dead_letters_are_counted(site_of: SiteOf, caplog: pytest.LogCaptureFixture) -> None:
    """B-17."""
    site = site_of([load(1)], max_message_bytes=10, bury=None)
    site.turn()
    assert site.row("dead", "dropped") == [0, 1]
    assert site.source.settled == [1]
    assert "orders at 1: TOO_LARGE" in caplog.text


def test_a_dead_letter_that_cannot_be_recorded_is_recorded_later(site_of: SiteOf) -> None:
    """B-17: before it is acknowledged."""
    failing = [BackendFullError("full")]
    buried: list[str] = []

    def bury(one: Load, code: str) -> None:
        if failing:
            raise failing.pop()
        buried.append(code)

    site = site_of([load(1)], max_message_bytes=10, bury=bury)
    site.turn()
    assert site.source.settled == []
    site.turn()
    assert buried == ["TOO_LARGE"]
    assert site.source.settled == [1]


def test_what_is_not_wanted_is_settled_and_counted(site_of: SiteOf) -> None:
    """B-19."""
    site = site_of([load(1, publisher_id="a"), load(2, publisher_id="b")], wanted=Filter({"publisher": ("b",)}))
    site.turn()
    assert site.sink.published == [2]
    assert site.source.settled == [1, 2]
    assert site.row("filtered", "carried") == [1, 1]


def test_a_message_does_not_come_back_where_it_was(site_of: SiteOf) -> None:
    """B-16."""
    site = site_of([load(1, hops=("a", "here", "b")), load(2, hops=("a",))])
    site.sink.there = {"here"}
    site.turn()
    assert site.sink.published == [2]
    assert site.row("looped", "carried") == [1, 1]


def test_a_message_of_too_many_hops_is_a_dead_letter(site_of: SiteOf) -> None:
    """B-16."""
    site = site_of([load(1, hops=("a",) * (MAX_HOPS + 1)), load(2, hops=("a",) * MAX_HOPS)])
    site.turn()
    assert site.buried == [(1, "TOO_MANY_HOPS")]
    assert site.sink.published == [2]


def test_a_message_that_can_never_be_there_is_a_dead_letter_at_once(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([load(1), load(2)])
    site.sink.unfits = {1}
    site.turn()
    assert site.buried == [(1, "BAD_KEY")]
    assert site.sink.published == [2]


def test_what_expired_is_settled_and_counted(site_of: SiteOf) -> None:
    """B-17."""
    one = load(1)
    one.code = "expired"
    site = site_of([one])
    site.turn()
    assert site.row("expired", "dead", "dropped") == [1, 0, 0]
    assert site.source.settled == [1]


def test_a_message_that_the_sink_finds_broken_is_a_dead_letter_under_that_code(site_of: SiteOf) -> None:
    """B-17."""
    site = site_of([load(1)])
    site.sink.fails = _raise(WireError("BAD_PAYLOAD", "no value"))
    site.turn()
    assert site.buried == [(1, "BAD_PAYLOAD")]


def test_a_started_bridge_carries_what_comes_until_it_is_closed() -> None:
    """B-11."""
    site = Site()
    came = threading.Event()
    site.sink.fails = lambda part: came.set()
    site.bridge.start()
    site.source.waiting.append(load(1))
    assert came.wait(PATIENCE)
    site.bridge.close()
    assert (site.sink.is_closed, site.source.is_closed) == (True, True)
    assert site.row("lag") == [None]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speed-bridge-b")]


def test_a_started_bridge_tries_again_by_itself() -> None:
    """B-18."""
    site = Site([load(1), load(2)])
    came = threading.Event()
    failures = [BackendAwayError("gone"), BackendAwayError("gone")]

    def fail(part: list[int]) -> None:
        if failures:
            raise failures.pop()
        if part[-1] == 2:
            came.set()

    site.sink.fails = fail
    site.bridge.start()
    assert came.wait(PATIENCE)
    site.bridge.close()
    assert site.sink.published == [1, 2]


@pytest.mark.parametrize("error", [PayloadTooLargeError("in halves"), ValueError("its connection is closed")])
def test_a_bridge_that_is_closed_while_it_carries_settles_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """B-11."""
    site = Site([load(1), load(2)])
    began, go_on = threading.Event(), threading.Event()

    def fail(part: list[int]) -> None:
        began.set()
        assert go_on.wait(PATIENCE)
        raise error

    site.sink.fails = fail
    site.bridge.start()
    assert began.wait(PATIENCE)
    closing = threading.Thread(target=site.bridge.close)
    closing.start()
    while not site.bridge._stopped.is_set():
        assert closing.is_alive()
    go_on.set()
    closing.join(PATIENCE)
    assert site.source.settled == []
    assert caplog.text == ""


def test_a_breaker_that_tries_is_not_asked_for_another_batch(site_of: SiteOf) -> None:
    """B-18."""
    site = site_of([load(number) for number in range(1, MAX_MESSAGES + 2)])
    site.sink.fails = _raise(BackendAwayError("gone"))
    site.turn()
    assert len(site.bridge._batches) == 2  # the second was taken while the first failed
    site.turn()
    assert site.bridge._breaker.state in (WAITING, TRYING)
    assert len(site.bridge._batches) == 2
