"""What addresses of requests ask for, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.gateway.requests import RequestAddress, TopicNames
from speed.gateway.settings import HandshakeError

NAMES = TopicNames("public/default")


def refused(target: str) -> int:
    with pytest.raises(HandshakeError) as error:
        NAMES.address(target)
    assert str(error.value)
    return error.value.status


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("public/default/orders", "orders"),
        ("public/default/orders.eu", "orders.eu"),
        ("public/default/orders/eu", "orders.eu"),
        ("public/default/orders%2Feu", "orders.eu"),
        ("public/default/%6Frders", "orders"),
        ("shop/default/orders", "shop.default.orders"),
        ("public/eu/orders", "public.eu.orders"),
    ],
)
def test_a_topic_has_its_own_name_in_the_namespace_and_all_three_elsewhere(topic: str, name: str) -> None:
    assert NAMES.address(f"/ws/v2/producer/persistent/{topic}") == RequestAddress("producer", (name,), "", {})
    assert NAMES.address(f"/ws/v2/reader/persistent/{topic}") == RequestAddress("reader", (name,), "", {})
    assert NAMES.address(f"/ws/v2/consumer/persistent/{topic}/s-1") == RequestAddress("consumer", (name,), "s-1", {})


def test_of_a_repeated_parameter_the_first_counts() -> None:
    address = NAMES.address("/ws/v2/reader/persistent/public/default/t?a=1&a=2&b=&c=x%20y")
    assert address.parameters == {"a": "1", "b": "", "c": "x y"}


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("", 400),
        ("ws/v2/producer/persistent/a/b/c", 400),
        ("/ws/v2/producer/persistent/a/b/%FF", 400),
        ("/ws/v2/producer/non-persistent/a/b/c", 400),
        ("/ws/v2/producer/persistent/a/b", 400),
        ("/ws/v2/producer/persistent/a/b/", 400),
        ("/ws/v2/producer/persistent//b/c", 400),
        ("/ws/v2/producer", 400),
        ("/ws/v2/consumer/persistent", 400),
        ("/ws/v2/consumer/persistent/a/b/c", 400),
        ("/ws/v2/consumer/persistent/a/b/c/", 400),
        ("/ws/v2/consumer/persistent/a/b/c/sub%20scription", 400),
        ("/ws/v2/consumer/persistent/a/b/c/" + "s" * 300, 400),
        ("/ws/v2/producer/persistent/a/b/" + "c" * 300, 400),
        ("/ws/v2/producer/persistent/a/b/..", 400),
        ("/ws/v2/producer/persistent/a/b/%2e%2e%2fc", 400),
        ("/ws/v2/producer/persistent/a/b/%25", 400),
        ("/ws/v2/producer/persistent/a/b/%0a", 400),
        ("/ws/v2/producer/persistent/a/b/%00", 400),
        ("/ws/v2/producer/persistent/a/b/gr%C3%BCn", 400),
        ("/ws/v2/sender/persistent/a/b/c", 404),
        ("/ws/v2", 404),
        ("/ws/v3/consumer/s/more", 404),
        ("/ws/v3/consumer/s", 400),
        ("/ws/v3/consumer/s?topics=a&topicsPattern=b", 400),
        ("/ws/v3/consumer/s?topics=a,,b", 400),
        ("/ws/v3/consumer/s?topics=persistent://a/b", 400),
        ("/ws/v3/consumer/s?topics=" + ",".join(f"t{number}" for number in range(65)), 400),
        ("/", 404),
    ],
)
def test_what_is_no_address_is_refused(target: str, status: int) -> None:
    assert refused(target) == status


def test_one_consumer_may_name_several_topics_each_once() -> None:
    address = NAMES.address("/ws/v3/consumer/s?topics=persistent://public/default/a,b,persistent://x/y/c,a")
    assert address == RequestAddress("consumer", ("a", "b", "x.y.c"), "s", address.parameters)
    assert NAMES.address("/ws/v3/consumer/s?topicsPattern=a.*").pattern == "a.*"
    assert NAMES.address("/ws/pingpong").role == "pingpong"


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("persistent://public/default/news.*", ["news", "news.eu", "newsletter"]),
        (r"news\..*", ["news.eu"]),
        ("news", ["news"]),
        ("n.ws", ["news"]),
        (".*eu", ["news.eu", "orders.eu"]),
        (".*e.*e.*", ["news.eu", "newsletter", "orders.eu"]),
        ("o.*d.*u", ["orders.eu"]),
        (".*", ["news", "news.eu", "newsletter", "orders.eu"]),
        ("news.*eu.*eu", []),
        ("xyz.*", []),
        ("news.*xyz.*", []),
        ("nobody", []),
    ],
)
def test_a_pattern_covers_what_it_says(pattern: str, covered: list[str]) -> None:
    assert NAMES.matching(pattern, ["news", "news.eu", "newsletter", "orders.eu"]) == tuple(covered)


@pytest.mark.parametrize("pattern", ["(a+)+", "a|b", "[a]", "a*", "a" * 257, "a\n", "^a", ""])
def test_a_pattern_that_could_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(HandshakeError):
        NAMES.matching(pattern, [])


@given(st.text())
def test_any_text_is_an_address_or_refused(target: str) -> None:
    for begin in ("", "/ws/v2/producer/persistent/", "/ws/v3/consumer/s?topics="):
        try:
            NAMES.address(begin + target)
        except HandshakeError:
            pass
