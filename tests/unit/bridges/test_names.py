"""Names as backends have them: the vectors, and that no two topics meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.backends import backend
from speed.wire.names import matches
from tests.vectors import case_name, load

VECTORS = load("backend_names")
TOPICS = st.from_regex(r"[A-Za-z0-9_-]{1,9}(\.[A-Za-z0-9_-]{1,9}){0,3}", fullmatch=True)
LONG_TOPICS = st.from_regex(r"_{0,2}[ab]{180,250}(\.b)?", fullmatch=True).filter(lambda topic: len(topic) <= 255)


@pytest.mark.parametrize("case", VECTORS["kafka"], ids=case_name)
def test_a_topic_has_one_name_in_kafka(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.kafka_topic(case["topic"]) == case["name"]
    assert backend.topic_of_kafka(case["name"]) == case["read"]
    assert case["read"] in (case["topic"], None)
    assert len(case["name"]) <= backend.MAX_KAFKA_TOPIC


@pytest.mark.parametrize("case", VECTORS["kafka_foreign"], ids=case_name)
def test_a_name_of_others_in_kafka_is_no_topic(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.topic_of_kafka(case["name"]) is case["topic"] is None


@given(TOPICS | LONG_TOPICS, TOPICS | LONG_TOPICS)
def test_two_topics_have_two_names_in_kafka(one: str, other: str) -> None:
    """B-2."""
    assert (backend.kafka_topic(one) == backend.kafka_topic(other)) == (one == other)
    assert backend.topic_of_kafka(backend.kafka_topic(one)) in (one, None)


@pytest.mark.parametrize(
    ("pattern", "topic", "is_asked"),
    [
        ("orders.made", "orders.made", True),
        ("orders.made", "orders.paid", False),
        ("orders.made", f"shop.{'a' * 245}", False),
        ("orders.*", f"orders.{'a' * 245}", True),
        ("orders.*", f"shop.{'a' * 245}", False),
        (f"orders.{'a' * 245}", f"orders.{'a' * 245}", True),
        (f"orders.{'a' * 245}", f"orders.{'a' * 246}", False),
        ("*", f"shop.{'a' * 245}", True),
        ("__own.*", "__own.made", True),
    ],
)
def test_a_pattern_asks_topics_of_kafka_that_may_hold_its_own(pattern: str, topic: str, is_asked: bool) -> None:
    """B-2: those with a shortened name as well."""
    assert backend.may_hold_in_kafka(pattern, backend.kafka_topic(topic)) is is_asked


@pytest.mark.parametrize("pattern", ["*", "orders.*"])
def test_no_pattern_asks_what_kafka_keeps_for_itself(pattern: str) -> None:
    """B-2."""
    assert not backend.may_hold_in_kafka(pattern, "__consumer_offsets")


@pytest.mark.parametrize("case", VECTORS["nats_streams"], ids=case_name)
def test_a_stream_of_nats_is_for_a_first_part(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.nats_stream(case["topic"]) == case["stream"]
    assert backend.nats_subjects(case["topic"]) == case["subjects"]


@pytest.mark.parametrize("case", VECTORS["groups"], ids=case_name)
def test_a_group_is_called_by_its_namespace(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.group_name(case["group"], case["namespace"]) == case["name"]


@given(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9), TOPICS, TOPICS)
def test_groups_of_two_namespaces_never_meet(one: str, other: str, group: str, another: str) -> None:
    """B-2, B-22: nor do their consumers of NATS."""
    is_same = (one, group) == (other, another)
    named, named_other = backend.group_name(group, one), backend.group_name(another, other)
    assert (named == named_other) == is_same
    if "." not in group + another:
        assert (backend.nats_durable(named, "a.*") == backend.nats_durable(named_other, "a.*")) == is_same


@pytest.mark.parametrize("case", VECTORS["nats_durables"], ids=case_name)
def test_a_consumer_of_nats_is_for_group_and_pattern(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.nats_durable(case["group"], case["pattern"]) == case["durable"]
    assert not set(case["durable"]) & set(".*>% ")
    assert len(case["durable"]) <= backend.MAX_NATS_DURABLE


def test_no_two_subscriptions_of_nats_share_a_consumer() -> None:
    """B-2."""
    durables = [case["durable"] for case in VECTORS["nats_durables"]]
    assert len(set(durables)) == len(durables)


@pytest.mark.parametrize("case", VECTORS["nats_filters"], ids=case_name)
def test_a_pattern_is_a_filter_of_nats(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.nats_filter(case["pattern"]) == case["filter"]
    assert matches(case["pattern"], case["topic"]) is case["covers"]
    assert subject_matches(case["filter"], case["topic"]) is case["covers"]


def subject_matches(subjects: str, topic: str) -> bool:
    """As NATS does it: ``>`` is one part or more."""
    if subjects == ">":
        return True
    return topic.startswith(subjects[:-1]) if subjects.endswith(".>") else topic == subjects


@pytest.mark.parametrize("case", VECTORS["headers"], ids=case_name)
def test_a_header_is_visible_ascii(case: dict[str, Any]) -> None:
    """B-1."""
    assert backend.header_text(case["text"]) == case["header"]
    assert backend.text_of_header(case["header"]) == case["text"]
    assert case["header"].isascii() and case["header"].isprintable() and " " not in case["header"]


@pytest.mark.parametrize("case", VECTORS["s3"], ids=case_name)
def test_a_message_has_one_key_in_s3(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.s3_key(case["topic"], case["message_id"], case["published_at_ms"]) == case["key"]
    assert backend.s3_parts(case["key"]) == (case["topic"], case["message_id"])


def test_a_manifest_in_s3_is_no_message_and_says_its_topic() -> None:
    key = backend.s3_manifest("orders.made", "0190-7", 86_400_000)
    assert key == "manifests/1970/01/02/orders.made/0190-7.json"
    assert backend.s3_parts(key, backend.MANIFESTS) == ("orders.made", "0190-7")
    assert backend.s3_parts(key) is None


@pytest.mark.parametrize("case", VECTORS["s3_foreign"], ids=case_name)
def test_an_object_of_others_in_s3_is_no_message(case: dict[str, Any]) -> None:
    """B-2."""
    assert backend.s3_parts(case["key"]) is None
