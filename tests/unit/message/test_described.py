"""What a program says of a message beside its payload, and what a received one says."""

from __future__ import annotations

import pytest

from speed.core.hints import is_type
from speed.message.algorithms import is_restricted
from speed.message.options import PublishOptions
from speed.message.protect import OpenedView
from speed.message.view import MessageView
from speed.message.writing import encode_message

IDS = {"message_id": "m", "namespace": "default", "topic": "message", "published_at_ms": 1}


def test_only_metadata_that_is_set_is_given() -> None:
    assert PublishOptions(priority=7, labels={"team": "a"}).metadata() == {"priority": 7, "labels": {"team": "a"}}


@pytest.mark.parametrize(
    ("options", "is_plain"),
    [
        (PublishOptions(priority=7, correlation_id="c"), True),
        (PublishOptions(schema="orders.created"), False),
        (PublishOptions(contains_pii=True), False),
        (PublishOptions(aad=b"bound"), False),
    ],
)
def test_options_are_plain_if_they_ask_for_nothing_but_metadata(options: PublishOptions, is_plain: bool) -> None:
    assert options.is_plain is is_plain


@pytest.mark.parametrize("is_personal", [False, True])
def test_a_message_whose_schema_marks_personal_data_says_so_whatever_its_publisher_said(is_personal: bool) -> None:
    data = encode_message(b"1", **IDS)
    view = OpenedView(data, b"1", "")
    view.is_personal = is_personal
    assert view.security.contains_pii is is_personal


def test_a_message_is_restricted_if_it_is_of_the_highest_class() -> None:
    assert not is_restricted(MessageView(encode_message(b"1", **IDS)))


@pytest.mark.parametrize("given", [int, list[int], int | None])
def test_a_class_and_a_form_of_classes_are_types(given: object) -> None:
    assert is_type(given)


def test_a_function_is_no_type() -> None:
    assert not is_type(print)
