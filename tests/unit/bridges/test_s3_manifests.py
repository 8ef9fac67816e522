"""Manifests in S3 (B-21)."""

from __future__ import annotations

import json

import pytest

from speed.backends.aws import Named, before, item_of, manifest_of, manifest_of_item, objects_of
from speed.backends.backend import Outgoing

KEY = "events/2026/01/31/orders/0190.bin"
MANIFEST = "manifests/2026/01/31/orders/0190.json"
BYTES = b"envelope"


def test_a_manifest_says_where_messages_lie_and_how_to_tell_them() -> None:
    written = manifest_of([Outgoing("orders", None, BYTES, "0190", 0, None)], [KEY])
    (one,) = json.loads(written)["objects"]
    assert (one["key"], one["size"], one["message_id"]) == (KEY, 8, "0190")
    assert objects_of(written, "orders") == [Named(KEY, one["sha256"])]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"objects": []}',
        '{"objects": 1}',
        '{"objects": [1]}',
        '{"objects": [{"key": 1, "sha256": ""}]}',
        f'{{"objects": [{{"key": "{KEY}"}}]}}',
        '{"objects": [{"key": "groups/billing/orders.json", "sha256": ""}]}',
        f'{{"objects": [{{"key": "{KEY.replace("orders", "secret")}", "sha256": ""}}]}}',
        "[" * 100_000,
    ],
)
def test_what_names_no_objects_of_the_topic_is_no_manifest(text: str) -> None:
    assert objects_of(text.encode(), "orders") is None


def test_a_place_inside_a_manifest_lies_behind_it_and_before_the_next() -> None:
    item = item_of(MANIFEST, 12)
    assert MANIFEST < item_of(MANIFEST, 2) < item < MANIFEST.replace("0190.json", "0191.json")
    assert manifest_of_item(item) == MANIFEST


def test_topics_may_be_called_as_manifests_are() -> None:
    manifest = MANIFEST.replace("orders", "orders.json")
    assert before(manifest) == manifest
    assert manifest[:-2] < before(item_of(manifest, 1)) < manifest


@pytest.mark.parametrize("place", ["manifests/", MANIFEST, item_of(MANIFEST, 12), item_of(MANIFEST, 12)[:-1]])
def test_the_manifest_in_which_a_place_lies_is_listed_again(place: str) -> None:
    assert (before(place) < MANIFEST) is (place != MANIFEST)
