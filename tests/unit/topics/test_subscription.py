"""A subscription as a machine (D-8 to D-13): the table of states, and a simple model of what must hold."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from speed.topics import subscription as subscription_module
from speed.topics.subscription import (
    ORDERED,
    TYPES,
    SubscriptionError,
    SubscriptionState,
    TakenMessage,
    Terms,
    back_off_ms,
)
from tests.thorough import examples


def subscription(
    kind: str = "shared", *, messages: int = 0, consumers: str = "a", **terms: object
) -> SubscriptionState:
    made = SubscriptionState(Terms(kind, **terms), 0)  # type: ignore[arg-type]
    for consumer in consumers:
        made.join(consumer)
    for offset in range(messages):
        made.offer(offset, 0, 0)
    return made


def offsets(taken: list[TakenMessage]) -> list[int]:
    return [one.offset for one in taken]


def test_messages_come_in_order_and_once() -> None:
    one = subscription(messages=3)
    assert one.take("a", 2, 0) == [TakenMessage(0, 1), TakenMessage(1, 1)]
    assert one.take("a", 2, 0) == [TakenMessage(2, 1)]
    assert one.take("a", 2, 0) == []


def test_what_is_acknowledged_out_of_order_leaves_ranges_above_the_cursor() -> None:
    one = subscription(messages=5)
    one.take("a", 5, 0)
    assert one.acknowledge([1, 3]) == 2
    assert (one.cursor, one.ranges) == (0, [(1, 2), (3, 4)])
    assert one.acknowledge([0, 2]) == 2
    assert (one.cursor, one.ranges) == (4, [])


def test_acknowledging_twice_counts_once() -> None:
    one = subscription(messages=1)
    one.take("a", 1, 0)
    assert (one.acknowledge([0]), one.acknowledge([0])) == (1, 0)


def test_what_was_never_delivered_cannot_be_acknowledged_and_nothing_beside_it_is() -> None:
    one = subscription(messages=2)
    one.take("a", 2, 0)
    with pytest.raises(SubscriptionError, match="was not delivered yet") as refused:
        one.acknowledge([0, 7])
    assert refused.value.code == "INVALID_ARGUMENTS"
    assert one.cursor == 0


def test_a_refused_message_comes_again_after_a_back_off_that_doubles() -> None:
    one = subscription(messages=1)
    one.take("a", 1, 0)
    assert one.reject("a", [0], 0) == 1
    assert one.take("a", 1, back_off_ms(1) - 1) == []
    assert one.take("a", 1, back_off_ms(1)) == [TakenMessage(0, 2)]
    one.reject("a", [0], 1000)
    assert one.next_event_ms(1000) == 1000 + 2 * back_off_ms(1)


def test_a_refusal_may_name_its_own_delay() -> None:
    one = subscription(messages=1)
    one.take("a", 1, 0)
    one.reject("a", [0], 0, delay_ms=7)
    assert one.take("a", 1, 6) == []
    assert one.take("a", 1, 7) == [TakenMessage(0, 2)]


def test_nobody_refuses_what_another_consumer_has() -> None:
    one = subscription(messages=1, consumers="ab")
    one.take("a", 1, 0)
    assert one.reject("b", [0], 0) == 0
    assert one.in_flight == 1


def test_what_a_consumer_had_that_left_goes_to_another_with_the_same_back_off() -> None:
    one = subscription(messages=2, consumers="ab")
    one.take("a", 2, 0)
    one.leave("a", 0)
    assert one.take("b", 2, 0) == []
    assert one.take("b", 2, back_off_ms(1)) == [TakenMessage(0, 2), TakenMessage(1, 2)]


def test_a_late_acknowledgement_counts_and_the_message_does_not_come_again() -> None:
    one = subscription(messages=1, ack_timeout_ms=50)
    one.take("a", 1, 0)
    one.look(49)
    assert one.in_flight == 1
    one.look(50)
    assert one.in_flight == 0
    assert one.acknowledge([0]) == 1
    assert one.take("a", 1, 10_000) == []


def test_a_lost_answer_is_given_again_at_once_and_does_not_count() -> None:
    one = subscription(messages=2)
    one.take("a", 2, 0)
    one.put_back("a", [0, 1])
    assert one.take("a", 2, 0) == [TakenMessage(0, 1), TakenMessage(1, 1)]


def test_a_message_with_a_time_waits_for_it_in_a_shared_subscription() -> None:
    one = subscription()
    one.offer(0, 0, 500)
    one.offer(1, 0, 0)
    assert offsets(one.take("a", 9, 0)) == [1]
    assert offsets(one.take("a", 9, 500)) == [0]


@pytest.mark.parametrize("kind", ORDERED)
def test_times_do_not_change_the_order_where_one_consumer_reads(kind: str) -> None:
    one = subscription(kind)
    one.offer(0, 0, 500)
    one.offer(1, 0, 0)
    assert offsets(one.take("a", 9, 0)) == [0, 1]


@pytest.mark.parametrize("kind", ORDERED)
def test_what_waits_to_come_again_holds_back_all_behind_it_where_order_counts(kind: str) -> None:
    one = subscription(kind, messages=3)
    one.take("a", 1, 0)
    one.reject("a", [0], 0)
    assert one.take("a", 9, 0) == []
    assert offsets(one.take("a", 9, back_off_ms(1))) == [0, 1, 2]


def test_an_exclusive_subscription_has_one_consumer() -> None:
    one = subscription("exclusive")
    one.join("a")
    with pytest.raises(SubscriptionError) as refused:
        one.join("b")
    assert refused.value.code == "TAKEN"


def test_the_next_consumer_takes_over_when_the_first_one_fails() -> None:
    one = subscription("failover", messages=2, consumers="ab")
    assert one.take("b", 2, 0) == []
    one.take("a", 1, 0)
    one.leave("a", 0)
    assert one.take("b", 2, back_off_ms(1)) == [TakenMessage(0, 2), TakenMessage(1, 1)]


def test_a_key_stays_with_its_consumer_until_it_is_drained() -> None:
    one = subscription("key-shared", consumers="ab")
    for offset, key in enumerate((7, 7, 8, 7)):
        one.offer(offset, key, 0)
    assert offsets(one.take("a", 1, 0)) == [0]
    assert offsets(one.take("b", 9, 0)) == [2]
    assert offsets(one.take("a", 1, 0)) == [1]
    one.acknowledge([0])
    assert one.take("b", 9, 0) == []
    one.acknowledge([1])
    assert offsets(one.take("b", 9, 0)) == [3]


def test_a_refused_message_holds_back_only_its_key() -> None:
    one = subscription("key-shared")
    for offset, key in enumerate((7, 7, 8)):
        one.offer(offset, key, 0)
    one.take("a", 1, 0)
    one.reject("a", [0], 0)
    assert offsets(one.take("a", 9, 0)) == [2]
    assert offsets(one.take("a", 9, back_off_ms(1))) == [0, 1]


def test_a_last_attempt_is_delivered_alone() -> None:
    one = subscription(messages=3, max_deliveries=2)
    one.take("a", 1, 0)
    one.reject("a", [0], 0, delay_ms=0)
    assert one.take("a", 9, 0) == [TakenMessage(0, 2)]
    assert one.take("a", 9, 0) == []
    one.acknowledge([0])
    assert offsets(one.take("a", 9, 0)) == [1, 2]


def test_who_has_something_in_flight_gets_nothing_more_until_the_last_attempt_has_its_turn() -> None:
    one = subscription(messages=3, max_deliveries=2)
    one.take("a", 2, 0)
    one.reject("a", [0], 0, delay_ms=0)
    assert one.take("a", 9, 0) == []
    one.acknowledge([1])
    assert one.take("a", 9, 0) == [TakenMessage(0, 2)]


def test_what_was_delivered_as_often_as_it_may_be_is_dead() -> None:
    one = subscription(messages=2, max_deliveries=1)
    assert one.take("a", 9, 0) == [TakenMessage(0, 1)]
    one.reject("a", [0], 0, delay_ms=0)
    assert one.dead() == [TakenMessage(0, 1)]
    assert offsets(one.take("a", 9, 0)) == [1]
    one.acknowledge([0])
    assert one.dead() == []


def test_at_its_bound_it_takes_nothing_new_and_goes_on_when_something_is_acknowledged() -> None:
    one = SubscriptionState(Terms("shared"), 0, room=2)
    one.join("a")
    one.offer(0, 0, 0)
    one.offer(1, 0, 0)
    assert one.room == 0
    one.take("a", 9, 0)
    assert one.room == 0
    one.acknowledge([1])
    assert one.room == 1


def test_all_up_to_a_message_are_acknowledged_where_one_consumer_reads() -> None:
    one = subscription("exclusive", messages=3)
    one.take("a", 3, 0)
    assert one.acknowledge_until(1) == 2
    assert one.cursor == 2


@pytest.mark.parametrize("kind", sorted(set(TYPES) - set(ORDERED)))
def test_where_several_consumers_read_nobody_acknowledges_for_others(kind: str) -> None:
    one = subscription(kind, messages=3)
    one.take("a", 3, 0)
    with pytest.raises(SubscriptionError, match="one by one"):
        one.acknowledge_until(1)


def test_a_restart_delivers_what_was_not_acknowledged_and_counts_on() -> None:
    one = subscription(messages=4)
    one.take("a", 3, 0)
    one.acknowledge([1])
    again = SubscriptionState(one.terms, one.cursor, one.ranges, one.attempts)
    again.join("a")
    for offset in range(again.next, 4):
        again.offer(offset, 0, 0)
    assert again.take("a", 9, 0) == [TakenMessage(0, 2), TakenMessage(2, 2), TakenMessage(3, 1)]


def test_what_was_delivered_before_a_restart_can_be_acknowledged_before_the_log_is_read_again() -> None:
    one = subscription(messages=3)
    one.take("a", 2, 0)
    again = SubscriptionState(one.terms, one.cursor, one.ranges, one.attempts)
    assert again.acknowledge([1]) == 1
    with pytest.raises(SubscriptionError, match="was not delivered yet"):
        again.acknowledge([2])
    again.join("a")
    for offset in range(again.next, 3):
        again.offer(offset, 0, 0)
    assert again.take("a", 9, 0) == [TakenMessage(0, 2), TakenMessage(2, 1)]


def test_numbers_that_the_log_left_out_count_as_acknowledged() -> None:
    one = subscription(messages=1)
    one.offer(5, 0, 0)
    one.take("a", 9, 0)
    one.acknowledge([0, 5])
    assert one.cursor == 6


def test_what_retention_took_counts_as_acknowledged() -> None:
    one = subscription(messages=4)
    one.take("a", 2, 0)
    one.skip(3)
    assert (one.cursor, one.unacknowledged) == (3, 1)
    assert offsets(one.take("a", 9, 0)) == [3]


def test_seeking_begins_anew() -> None:
    one = subscription(messages=3)
    one.take("a", 3, 0)
    one.acknowledge([0, 1, 2])
    one.seek(1)
    assert (one.cursor, one.next, one.attempts) == (1, 1, {})
    one.offer(1, 0, 0)
    assert one.take("a", 9, 0) == [TakenMessage(1, 1)]


class Model(RuleBasedStateMachine):
    """Nothing is lost, nothing acknowledged comes again, nobody holds what another one holds."""

    @initialize(kind=st.sampled_from(("shared", "key-shared", "failover")), most=st.sampled_from((0, 3)))
    def begin(self, kind: str, most: int) -> None:
        self.one = SubscriptionState(Terms(kind, max_deliveries=most, ack_timeout_ms=5000), 0, room=8)
        self.now = 0
        self.offered: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.held: dict[int, str] = {}
        self.counts: Counter[int] = Counter()

    @rule(key=st.integers(0, 3), delay=st.sampled_from((0, 0, 300)))
    def offer(self, key: int, delay: int) -> None:
        if self.one.room:
            offset = self.one.next
            self.one.offer(offset, key, self.now + delay)
            self.offered[offset] = key

    @rule(who=st.sampled_from("abc"), most=st.integers(1, 5))
    def take(self, who: str, most: int) -> None:
        self.one.join(who)
        for offset, attempts in self.one.take(who, most, self.now):
            assert offset not in self.acknowledged
            assert offset not in self.held
            self.counts[offset] += 1
            assert attempts == self.counts[offset]
            self.held[offset] = who

    @rule(chosen=st.lists(st.integers(0, 40), max_size=3))
    def acknowledge(self, chosen: list[int]) -> None:
        known = [offset for offset in chosen if offset in self.offered]
        assert self.one.acknowledge(known) == len(set(known) - self.acknowledged)
        self.acknowledged.update(known)
        for offset in known:
            self.held.pop(offset, None)

    @rule(who=st.sampled_from("abc"), chosen=st.lists(st.integers(0, 40), max_size=3))
    def reject(self, who: str, chosen: list[int]) -> None:
        his = {offset for offset in chosen if self.held.get(offset) == who}
        assert self.one.reject(who, chosen, self.now) == len(his)
        for offset in his:
            del self.held[offset]

    @rule(who=st.sampled_from("abc"))
    def leave(self, who: str) -> None:
        self.one.leave(who, self.now)
        self.held = {offset: holder for offset, holder in self.held.items() if holder != who}

    @rule(passed=st.sampled_from((10, 200, 6000)))
    def wait(self, passed: int) -> None:
        self.now += passed
        self.one.look(self.now)
        if passed > 5000:
            self.held.clear()

    @rule()
    def bury(self) -> None:
        for offset, attempts in self.one.dead():
            assert attempts == self.one.terms.max_deliveries
            self.one.acknowledge([offset])
            self.acknowledged.add(offset)

    @rule()
    def restart(self) -> None:
        old = self.one
        self.one = SubscriptionState(old.terms, old.cursor, old.ranges, old.attempts, room=8)
        for offset in range(self.one.next, old.next):
            self.one.offer(offset, self.offered[offset], 0)
        self.held.clear()

    @invariant()
    def all_are_accounted_for(self) -> None:
        if hasattr(self, "one"):
            assert self.one.unacknowledged == len(self.offered) - len(self.acknowledged)
            assert self.one.in_flight == len(self.held)
            assert self.one.delayed <= self.one.unacknowledged
            assert len(self.one.ranges) <= self.one.unacknowledged + 1

    @invariant()
    def a_key_in_flight_has_one_holder(self) -> None:
        if hasattr(self, "one") and self.one.terms.type == "key-shared":
            pairs = {(self.offered[offset], who) for offset, who in self.held.items() if self.offered[offset]}
            assert len(pairs) == len({key for key, _ in pairs})

    def teardown(self) -> None:
        """All that is left comes in the end."""
        if not hasattr(self, "one"):
            return
        for who in self.one.consumers:
            self.one.leave(who, self.now)
        self.one.join("z")
        self.held.clear()
        for _ in range(40):
            self.now += 1_000_000
            self.take("z", 5)
            self.acknowledge(list(self.held))
            self.bury()
        assert self.one.unacknowledged == 0


Model.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestModel = Model.TestCase


def test_what_was_delivered_before_a_restart_is_acknowledged_twice_without_harm() -> None:
    """D-12: the answer to the first acknowledgement may be lost."""
    machine = SubscriptionState(Terms("shared"), 5, attempts={5: 1, 6: 1})
    assert machine.acknowledge([5]) == 1
    assert machine.acknowledge([5]) == 0
    with pytest.raises(SubscriptionError):
        machine.acknowledge([7])


def test_what_was_delivered_before_a_restart_is_acknowledged_up_to_an_offset() -> None:
    """D-12."""
    machine = SubscriptionState(Terms("exclusive"), 5, attempts={5: 1, 6: 1, 7: 1})
    assert machine.acknowledge_until(6) == 2
    assert (machine.cursor, machine.attempts) == (7, {7: 1})
    with pytest.raises(SubscriptionError):
        machine.acknowledge_until(8)


def test_delayed_messages_take_no_room_and_hold_nobody_back() -> None:
    one = SubscriptionState(Terms("shared"), 0, room=4)
    one.join("a")
    for offset in range(100):
        assert one.room == 4
        one.offer(offset, 0, 1_000_000)
    one.offer(100, 0, 0)
    assert one.take("a", 9, 0) == [(100, 1)]
    assert (one.delayed, one.room, one.next_event_ms(0)) == (100, 3, 1_000_000)
    assert [offset for offset, _ in one.take("a", 9, 1_000_000)] == list(range(9)), "they come when it is time"


def test_so_many_messages_are_delayed_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_module, "MAX_TOPIC_DELAYED", 2)
    one = SubscriptionState(Terms("shared"), 0)
    for offset in range(2):
        one.offer(offset, 0, 50)
    assert one.room == 0
    assert one.acknowledge([0]) == 1
    assert one.room > 0


def test_a_delayed_message_holds_back_what_comes_behind_it_of_its_key_alone() -> None:
    one = SubscriptionState(Terms("key-shared"), 0)
    one.join("a")
    for offset, key, due in ((0, 7, 0), (1, 7, 500), (2, 7, 0), (3, 8, 0)):
        one.offer(offset, key, due)
    assert one.take("a", 9, 0) == [(0, 1), (3, 1)]
    one.acknowledge([0, 3])
    assert one.take("a", 9, 500) == [(1, 1), (2, 1)]


def test_a_delivery_counts_when_it_has_begun() -> None:
    one = SubscriptionState(Terms("shared"), 0)
    one.join("a")
    for offset in range(3):
        one.offer(offset, 0, 0)
    assert one.take("a", 9, 0, begun=1) == [(0, 1), (1, 1), (2, 1)]
    assert one.attempts == {0: 1}
    assert one.begin("a", [1, 9], 0) == [1]
    assert one.attempts == {0: 1, 1: 1}
    one.leave("a", 0)
    one.join("b")
    assert one.take("b", 9, 0) == [(2, 1)], "it comes at once, and as if it had never been delivered"
    assert one.take("b", 9, 100) == [(0, 2), (1, 2)]


def test_what_was_delivered_and_is_late_goes_to_others_begun_or_not() -> None:
    one = SubscriptionState(Terms("shared", ack_timeout_ms=100), 0)
    one.join("a")
    one.join("b")
    for offset in range(2):
        one.offer(offset, 0, 0)
    one.take("a", 9, 0, begun=1)
    one.look(100)
    assert one.take("b", 9, 200) == [(0, 2), (1, 1)]
    assert one.begin("a", [1], 200) == []
