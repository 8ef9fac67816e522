"""A wrong type is refused where it is passed, as a SpeedError that says what was expected: nobody reads a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import speed
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (
            lambda node: node.call("a", "f", [1, 2]),
            "the arguments of a call must be a dict such as {'amount': 5}, not list",
        ),
        (lambda node: node.submit("a", "f", "text"), "the arguments of a call must be a dict .*, not str"),
        (lambda node: node.call(["a"], "f"), "the name of a node must be a str, not list"),
        (lambda node: node.call("a", 5), "the name of a service must be a str, not int"),
        (lambda node: node.send(None, 1), "the name of a node must be a str, not None"),
        (lambda node: node.ping(5), "the name of a node must be a str, not int"),
        (lambda node: node.allow(["a"]), r"allow takes names one by one, .* or allow\(\*names\), not list"),
        (lambda node: node.deny({"a"}), r"deny takes names one by one, .* or deny\(\*names\), not set"),
        (lambda node: node.register("f", print, allow="a"), r"allow must be .*, not one str: write allow=\['a'\]"),
        (lambda node: node.register("f", print, allow=5), "allow must be a list or set of str, not int"),
        (lambda node: node.on_message(5), "the handler of messages must be a function, not int"),
        (lambda node: node.subscribe("x", 5), "the handler of events must be a function, not int"),
        (lambda node: node.subscribe("x", dict, 5), "the handler of events must be a function, not int"),
        (lambda node: node.on_batch(print, "x.*"), r"topics must be .*, not one str: write topics=\['x.\*'\]"),
        (lambda node: node.on_join("f"), "the handler must be a function, not str"),
        (lambda node: node.receive("soon"), "timeout is 'soon'; use a number of seconds"),
        (lambda node: node.send_all("a", 5), "payloads must be a list, .*, not int"),
        (lambda node: node.send_batch("a", 5), "payloads must be a list, .*, not int"),
        (lambda node: node.publish_batch("a", 5), "payloads must be a list, .*, not int"),
        (lambda node: node.forward("a", 5), "messages must be a list, .*, not int"),
        (lambda node: node.close(drain_seconds="x"), "drain_seconds is 'x'; use a number of seconds"),
        (lambda node: node.segment("a", "64"), "segment_size must be a number, not str"),
        (lambda node: node.segment("a", 64, parity_rate=None), "parity_rate must be a number, not None"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_wrong_type_is_a_configuration_error_that_names_what_was_expected(
    node: Make, engine: str, use: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(speed.ConfigurationError, match=told):
        use(node("billing", engine=engine))


@pytest.mark.parametrize("option", ["allow", "fabrics"])
def test_one_str_for_a_list_of_names_is_refused_before_a_name_is_claimed(node: Make, option: str) -> None:
    with pytest.raises(speed.ConfigurationError, match=rf"{option} must be .*, not one str: write {option}=\['etl'\]"):
        node("billing", **{option: "etl"})
    node("billing")


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("root", 5, "root is 5; use a path"),
        ("key", 5, "key is 5; use a path"),
        ("namespace", 5, "namespace is 5; use text"),
        ("ephemeral", "no", "ephemeral is 'no'; use True or False"),
        ("segment_limits", 3, "segment_limits is 3; use speed.segment.Limits"),
        ("security", 5, "security is int; use speed.MessageSecurity"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_option_of_a_wrong_type_is_refused_before_a_name_is_claimed(
    root: str, engine: str, option: str, value: object, told: str
) -> None:
    with pytest.raises(speed.ConfigurationError, match=told):
        speed.Node("billing", **{"root": root, "engine": engine, option: value})
    assert not os.path.exists(f"{root}/billing")


def test_a_subscription_takes_a_plain_type_and_refuses_one_that_nobody_can_check(node: Make) -> None:
    billing, analytics = node("billing"), node("analytics", allow=["billing"])
    seen: list[Any] = []
    analytics.subscribe("numbers", list[int], lambda message: seen.append(message.payload))
    with pytest.raises(speed.ConfigurationError, match="the type hint complex, which cannot be checked"):
        analytics.subscribe("others", complex, seen.append)
    analytics.on_message(lambda message: None)  # acknowledges what came before, too
    billing.wait_for("analytics")
    assert billing.publish("numbers", [1, "2"]) == 1
    assert billing.publish("numbers", [1, 2]) == 1
    billing.send("analytics", "after", ack=True)
    assert seen == [[1, 2]]
