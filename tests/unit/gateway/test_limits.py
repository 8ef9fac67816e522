"""Rates, connections and windows: what clients can make grow, and how far."""

from __future__ import annotations

import pytest

from speed.gateway.connection import DeliveryWindow
from speed.gateway.frames import MessageId
from speed.gateway.settings import Clients, Counters, HandshakeError, RateLimit, refused
from speed.topics.subscription import SubscriptionError


def test_one_seconds_worth_is_free_and_more_is_owed() -> None:
    pace = RateLimit(10)
    for _ in range(10):
        pace.count(100.0)
    assert pace.owed(100.0) == 0
    pace.count(100.0)
    assert pace.owed(100.0) == pytest.approx(0.1)
    assert pace.owed(100.2) == 0


def test_what_was_not_used_is_not_saved_up() -> None:
    pace = RateLimit(10)
    pace.count(100.0)
    for _ in range(12):
        pace.count(500.0)
    assert pace.owed(500.0) == pytest.approx(0.2)


def test_connections_are_bounded_together_and_for_each_client() -> None:
    clients = Clients(3, 2, 10)
    clients.enter("a")
    assert clients.enter("a") is not None
    with pytest.raises(HandshakeError, match="of this client") as error:
        clients.enter("a")
    assert error.value.status == 429
    clients.enter("b")
    with pytest.raises(HandshakeError) as error:
        clients.enter("c")
    assert error.value.status == 503
    assert (clients.connections, len(clients)) == (3, 2)


def test_a_client_without_connections_is_forgotten() -> None:
    clients = Clients(3, 2, 10)
    clients.enter("a")
    clients.hold("token x")
    clients.release("token x")
    clients.leave("a")
    assert (clients.connections, len(clients)) == (0, 0)


def ids(count: int) -> list[MessageId]:
    return [MessageId(1, number) for number in range(count)]


def test_a_queue_is_full_until_something_is_settled() -> None:
    window = DeliveryWindow(2, is_pulling=False)
    for one in ids(2):
        window.sent(one, 0.0)
    assert window.room(0.0) == 0
    assert window.until_late(0.0) is None
    assert window.settle(MessageId(1, 0))
    assert not window.settle(MessageId(1, 0))
    assert window.room(0.0) == 1


def test_a_message_that_comes_again_is_counted_once() -> None:
    window = DeliveryWindow(2, is_pulling=False)
    for _ in range(3):
        window.sent(MessageId(1, 0), 0.0)
    assert window.room(0.0) == 1


def test_what_is_late_is_not_counted_any_more() -> None:
    window = DeliveryWindow(2, is_pulling=False, late_seconds=5.0)
    assert window.until_late(0.0) is None
    for number, one in enumerate(ids(2)):
        window.sent(one, float(number))
    assert (window.room(4.0), window.until_late(4.0)) == (0, 1.0)
    assert window.room(5.0) == 1
    assert window.until_late(9.0) == 0


def test_who_pulls_is_bound_by_its_permits_alone_and_little_is_remembered() -> None:
    window = DeliveryWindow(2, is_pulling=True)
    assert window.room(0.0) == 0
    window.permit(5)
    window.permit(-9)
    for one in ids(4):
        window.sent(one, 0.0)
    assert window.room(0.0) == 1
    assert [window.settle(one) for one in ids(4)] == [False, False, True, True]
    window.permit(1 << 60)
    window.permit(1 << 60)
    assert window.room(0.0) == 1 << 31


@pytest.mark.parametrize(
    ("code", "status"),
    [("INVALID_ARGUMENTS", 400), ("DENIED", 403), ("UNKNOWN_TOPIC", 404), ("TAKEN", 409), ("FULL", 429), ("?", 500)],
)
def test_what_the_host_refuses_has_a_status(code: str, status: int) -> None:
    assert refused(SubscriptionError(code, "why")).status == status


def test_counters_are_written_for_prometheus() -> None:
    counters = Counters()
    counters.count("gateway_messages_published", 2)
    assert counters["gateway_messages_published"] == 2
    assert counters.text(clients=1) == "speed_gateway_messages_published_total 2\nspeed_gateway_clients 1\n"
