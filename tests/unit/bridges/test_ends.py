"""A backend as one end of a bridge, with a backend in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from speed.backends.address import parse_address
from speed.backends.backend import BackendAwayError, Checkpoint, Delivered, Outgoing, TakesAll
from speed.bridges import Route, read_hops
from speed.bridges.bridge import BATCH_BYTES, Load
from speed.bridges.ends import BackendHops, BackendSink, BackendSource
from speed.message.writing import encode_message, has_token, with_security

ADDRESS = parse_address("kafka://me:s3cret@127.0.0.1:9092")
HERE = BackendHops(ADDRESS)
ID = "0190163d-8694-739b-aea5-966c26f8ad90"
NOW_MS = 1_718_000_000_000
BEFORE = "0123456789abcdef"


def message(value: Any = "x", topic: str = "orders.made", **metadata: Any) -> bytes:
    return encode_message(
        value, topic=topic, **{"namespace": "n", "message_id": ID, "published_at_ms": NOW_MS, **metadata}
    )


class MemoryBackend(TakesAll):
    """Gives what is ``waiting``, keeps what is published."""

    has_groups = True
    max_at_once = 2000
    takes_ahead = True

    def __init__(self, *waiting: Delivered) -> None:
        self.waiting = deque(waiting)
        self.asked: list[int] = []
        self.joined: tuple[Any, ...] = ()
        self.acknowledged: list[Delivered] = []
        self.published: list[Outgoing] = []
        self.closed = 0

    def subscribe(self, pattern: str, group: str, start: str, *, alone: bool = False) -> MemoryBackend:
        self.joined = pattern, group, start, alone
        return self

    def receive(self, most: int, timeout: float) -> list[Delivered]:
        self.asked.append(most)
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        self.acknowledged += delivered

    def positions(self) -> dict[str, str]:
        return {}

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        self.published += messages
        return []

    def ping(self, timeout: float) -> None: ...

    def close(self) -> None:
        self.closed += 1


class PlacingMemory(MemoryBackend):
    """Keeps places as well, if it is told to."""

    keeps_places = True

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[tuple[str, str], int] = {}
        self.is_cut = False
        """Whether answers are lost."""

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], timeout: float) -> dict[str, int]:
        there = {one.lane: self.next_of(one, timeout) for one in places}
        if any(there[one.lane] != one.before for one in places):
            return there
        self.published += messages
        self.places.update({(one.bridge, one.lane): one.next for one in places})
        if self.is_cut:
            raise BackendAwayError("the answer is lost")
        return {}

    def next_of(self, place: Checkpoint, timeout: float) -> int:
        return self.places.get((place.bridge, place.lane), 0)


def source_of(*waiting: Delivered, pattern: str = "orders.*", rename: str = "", most: int = 1 << 20) -> BackendSource:
    return BackendSource(MemoryBackend(*waiting), ADDRESS, Route(pattern, rename), "b", "earliest", most)


def only(source: BackendSource) -> Load:
    (one,) = source.receive(10, 0.0)
    return one


def test_a_message_goes_on_under_its_new_name_with_its_key_and_one_hop_more() -> None:
    """B-12, B-16."""
    data = message()
    told = Delivered("orders.made", "k", data, "0:5", 5, lane="orders/0", hops=BEFORE)
    load = only(source_of(told, rename="eu.*"))
    hops = f"{BEFORE},{HERE.of('orders.made')}"
    assert load.message == Outgoing("eu.made", "k", data, ID, NOW_MS, None, hops)
    assert (load.lane, load.sequence, load.topic, load.position) == ("orders/0", 6, "orders.made", "0:5")
    assert load.hops == read_hops(hops)


def test_the_bridge_is_the_one_member_of_its_group() -> None:
    """B-14."""
    backend = MemoryBackend()
    BackendSource(backend, ADDRESS, Route("orders.*"), "b", "earliest", 1)
    assert backend.joined == ("orders.*", "b", "earliest", True)


def test_where_numbers_have_latecomers_there_is_no_sequence() -> None:
    """B-14."""
    load = only(source_of(Delivered("orders.made", None, message(), "5", 5)))
    assert (load.lane, load.sequence) == ("", 0)


def test_only_the_message_may_tell_its_topic() -> None:
    """B-2."""
    assert only(source_of(Delivered("", None, message(), "0:5"))).topic == "orders.made"


def test_a_token_is_taken_out() -> None:
    """B-1."""
    load = only(source_of(Delivered("orders.made", None, with_security(message(), b"\x1a\x05token"), "5")))
    assert load.message is not None
    assert not has_token(load.message.envelope)


@pytest.mark.parametrize(
    ("delivered", "code"),
    [
        (Delivered("orders.made", None, b"\xff garbage", "5"), "BAD_MESSAGE"),
        (Delivered("orders.made", None, b"", "5"), "BAD_MESSAGE"),
        (Delivered("orders.made", None, message("x" * 2000), "5"), "TOO_LARGE"),
        (Delivered("", None, message(topic="stock"), "5"), "filtered"),
        (Delivered("orders.made", None, message(ttl_seconds=1), "5"), "expired"),
        (Delivered("orders." + "a" * 240, None, message(), "5"), "BAD_NAME"),
    ],
    ids=["garbage", "nothing", "too large", "another topic", "expired", "a name that is too long"],
)
def test_what_is_not_carried_has_a_code(delivered: Delivered, code: str) -> None:
    """B-9, B-17."""
    load = only(source_of(delivered, rename=f"{'b' * 100}.*", most=1000))
    assert (load.code, load.message) == (code, None)
    assert load.data == delivered.envelope


def test_hops_that_cannot_be_read_are_none() -> None:
    """B-16."""
    load = only(source_of(Delivered("orders.made", None, message(), "5", hops="garbage")))
    assert load.hops == (HERE.of("orders.made"),)


def test_more_is_asked_for_as_long_as_messages_are_small() -> None:
    """B-11."""
    data = message()
    backend = MemoryBackend(*[Delivered("orders.made", None, data, str(number)) for number in range(5000)])
    source = BackendSource(backend, ADDRESS, Route("orders.*"), "b", "earliest", 1 << 30)
    for _ in range(8):
        source.receive(2000, 0.0)
    assert backend.asked == [64, 128, 256, 512, 1024, 2000, 2000, 2000]
    backend.waiting.append(Delivered("orders.made", None, b"x" * BATCH_BYTES, "0"))
    source.receive(2000, 0.0)
    source.receive(2000, 0.0)
    assert backend.asked[-1] == 1


def test_what_is_settled_is_acknowledged() -> None:
    """B-11."""
    backend = MemoryBackend(Delivered("orders.made", None, message(), "5"))
    source = BackendSource(backend, ADDRESS, Route("orders.*"), "b", "earliest", 1 << 20)
    loads = source.receive(10, 0.0)
    source.settle(loads)
    assert [one.position for one in backend.acknowledged] == ["5"]
    assert source.lag() is None
    source.close()
    assert backend.closed == 2  # the subscription, and the backend


def test_nothing_is_taken_ahead_where_that_would_hold_up_acknowledgements() -> None:
    """B-11: PostgreSQL commits once nothing is held."""
    backend = MemoryBackend(*[Delivered("orders.made", None, message(), str(number)) for number in range(100)])
    backend.takes_ahead = False
    source = BackendSource(backend, ADDRESS, Route("orders.*"), "b", "earliest", 1 << 20)
    loads = source.receive(10, 0.0)
    assert source.receive(10, 0.0) == []
    source.settle(loads)
    assert len(source.receive(10, 0.0)) == 10


# --- sinks ---


def load_of(number: int, topic: str = "orders", lane: str = "lane", hops: tuple[str, ...] = (BEFORE,)) -> Load:
    return Load(lane, number, topic, "", b"", Outgoing(topic, None, message(), ID, NOW_MS, None), hops=hops)


def test_without_places_messages_are_only_published() -> None:
    """B-14."""
    backend = MemoryBackend()
    sink = BackendSink(backend, ADDRESS, "b")
    assert sink.publish([load_of(1), load_of(2)]) == 0
    assert len(backend.published) == 2
    assert sink.next_of("lane", "orders") == 0
    sink.close()
    assert backend.closed == 1


def test_places_are_kept_with_the_messages_before_them() -> None:
    """B-14."""
    backend = PlacingMemory()
    sink = BackendSink(backend, ADDRESS, "b")
    sink.publish([load_of(1), load_of(7, lane="other"), load_of(2)])
    assert backend.places == {("b", "lane"): 2, ("b", "other"): 7}
    assert sink.next_of("lane", "orders") == 2
    assert sink.next_of("new", "orders") == 0


def test_what_was_kept_without_an_answer_is_not_published_again() -> None:
    """B-14."""
    backend = PlacingMemory()
    sink = BackendSink(backend, ADDRESS, "b")
    sink.publish([load_of(1)])
    backend.is_cut = True
    with pytest.raises(BackendAwayError):
        sink.publish([load_of(2), load_of(3), load_of(4), load_of(7, lane="other")])
    backend.is_cut = False
    assert sink.publish([load_of(2)]) == 1  # tried again with one message
    assert sink.publish([load_of(3)]) == 1
    assert sink.publish([load_of(4), load_of(5), load_of(7, lane="other"), load_of(8, lane="other")]) == 2
    assert sink.publish([load_of(6)]) == 0
    assert len(backend.published) == 8
    assert backend.places == {("b", "lane"): 6, ("b", "other"): 8}


def test_it_is_not_published_again_either_while_the_backend_is_away_once_more() -> None:
    """B-14."""
    backend = PlacingMemory()
    sink = BackendSink(backend, ADDRESS, "b")
    backend.is_cut = True
    for part in ([load_of(1), load_of(2)], [load_of(1), load_of(2), load_of(3)]):
        with pytest.raises(BackendAwayError):
            sink.publish(part)
    backend.is_cut = False
    assert sink.publish([load_of(1), load_of(2), load_of(3), load_of(4)]) == 3
    assert len(backend.published) == 4


def test_a_heir_takes_the_places_over() -> None:
    """B-14."""
    backend = PlacingMemory()
    BackendSink(backend, ADDRESS, "b").publish([load_of(1), load_of(2)])
    heir = BackendSink(backend, ADDRESS, "b")
    assert heir.publish([load_of(1), load_of(2), load_of(3)]) == 2
    assert len(backend.published) == 3


def test_of_very_many_lanes_places_are_forgotten_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-14."""
    monkeypatch.setattr("speed.bridges.ends._MAX_KNOWN", 2)
    backend = PlacingMemory()
    sink = BackendSink(backend, ADDRESS, "b")
    for lane in ("x", "y", "z", "x"):
        assert sink.publish([load_of(backend.places.get(("b", lane), 0) + 1, lane=lane)]) == 0
    assert len(backend.published) == 4
    assert backend.places == {("b", "x"): 2, ("b", "y"): 1, ("b", "z"): 1}


def test_who_seeks_back_gets_all_again() -> None:
    """B-14: the bridge's subscription is the position."""
    backend = PlacingMemory()
    sink = BackendSink(backend, ADDRESS, "b")
    sink.publish([load_of(1), load_of(2)])
    backend.is_cut = True
    with pytest.raises(BackendAwayError):
        sink.publish([load_of(3), load_of(4)])
    backend.is_cut = False
    assert sink.publish([load_of(3), load_of(4)]) == 2
    for number in (1, 2, 3, 4, 5):
        assert sink.publish([load_of(number)]) == 0
    assert len(backend.published) == 9


def test_a_backend_says_what_it_can_never_take() -> None:
    """B-17."""
    backend = MemoryBackend()
    backend.unfit = lambda message: "BAD_KEY"  # type: ignore[method-assign]
    assert BackendSink(backend, ADDRESS, "b").unfit(load_of(1)) == "BAD_KEY"
    assert BackendSink(MemoryBackend(), ADDRESS, "b").unfit(load_of(1)) == ""


def test_a_place_is_told_by_its_hop() -> None:
    """B-16."""
    sink = BackendSink(MemoryBackend(), ADDRESS, "b")
    assert sink.is_loop(load_of(1, hops=(BEFORE, HERE.of("orders"))))
    assert not sink.is_loop(load_of(1, hops=(BEFORE, HERE.of("stock"))))


def test_what_came_over_a_bridge_does_not_go_on_to_channels() -> None:
    """B-16."""
    backend = MemoryBackend()
    backend.has_groups = False
    sink = BackendSink(backend, parse_address("redis://h?form=pubsub"), "b")
    assert not sink.is_loop(load_of(1, hops=(BEFORE,)))
    assert sink.is_loop(load_of(1, hops=(BEFORE, BEFORE)))


def test_hops_of_backends_know_no_credentials_and_no_more_than_they_need() -> None:
    """B-10, B-16."""
    assert BackendHops(parse_address("kafka://127.0.0.1:9092?lease_seconds=5")).of("orders") == HERE.of("orders")
    table = BackendHops(parse_address("postgres://h/shop?table=a")).of("orders")
    assert table != BackendHops(parse_address("postgres://h/shop?table=b")).of("orders")
    for number in range(5000):
        HERE.of(f"t{number}")
    assert len(HERE._known) <= 4096
