"""Damage to the files of a topic: whatever bit changes, it is refused or told, and never silent (D-2, D-26)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed.errors import JournalError
from speed.observe.storage import topics
from speed.topics.backend import Recorded
from speed.topics.storage import DamagedMessagesError
from speed.topics.subscription import SubscriptionError
from speed.topics.topic import HostedTopic
from tests.fs.topics import Place, acknowledge, publish, publish_as, receive


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def flip(file: Path, place: float = 0.5) -> None:
    """One bit of a file."""
    data = bytearray(file.read_bytes())
    data[int(len(data) * place)] ^= 1
    file.write_bytes(data)


def lane_of(place: Place, topic: HostedTopic) -> Path:
    return place.directory / topic.lane


def volume_of(place: Place, topic: HostedTopic) -> Path:
    (volume,) = lane_of(place, topic).glob("*.segment")
    return volume


def end_subscription(topic: HostedTopic) -> None:
    """The next consumer begins anew."""
    with topic.changed:
        topic.leave(topic.group("billing"), "c")
        topic.unsubscribe("billing")


def refusal(place: Place, name: str = "orders") -> str:
    with pytest.raises(SubscriptionError) as refused:
        place.catalogue().make(name)
    assert refused.value.code == "DAMAGED"
    return str(refused.value)


@pytest.mark.parametrize("name", ["description", "settings", "end"])
@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.99])
def test_a_topic_one_bit_of_which_changed_is_damaged_and_never_made_anew(place: Place, name: str, where: float) -> None:
    topic = place.topic()
    publish(topic, 0)
    before = sorted(place.directory.iterdir())
    flip(lane_of(place, topic) / name, where)
    refusal(place)
    assert "orders" in place.catalogue().broken
    place.catalogue().begin(["orders"])
    assert sorted(place.directory.iterdir()) == before, "nothing is made beside it"
    again = place.catalogue()
    again.remove("orders")
    assert publish(again.make("orders"), 5) == [0], "who may manage it begins anew"


def test_a_topic_whose_description_is_gone_is_damaged(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0)
    (lane_of(place, topic) / "description").unlink()
    assert "description" in refusal(place)


def test_no_topic_is_made_where_a_lane_does_not_say_whose_it_is(place: Place) -> None:
    catalogue = place.catalogue()
    publish(catalogue.make("orders"), 0)
    publish(catalogue.make("news"), 0)
    lane = lane_of(place, catalogue.topics["orders"])
    flip(lane / "description")
    flip(lane / "settings")
    again = place.catalogue()
    again.begin(["orders", "news"])
    assert lane.name in again.broken["orders"]
    assert receive(again.find("news")) == [(0, 1)], "others go on"
    with pytest.raises(SubscriptionError, match=lane.name):
        again.make("fresh")


def test_nothing_is_recorded_elsewhere_once_a_description_is_damaged_under_a_host(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0)
    flip(lane_of(place, topic) / "description")
    assert place.current is not None
    place.current._writer._know_lanes()  # as when the key file changes
    with pytest.raises(JournalError):
        publish(topic, 1)
    assert len([one for one in place.directory.iterdir() if one.is_dir()]) == 1


def test_messages_that_are_damaged_are_told_to_consumers_readers_the_log_and_whoever_looks(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    topic = place.topic()
    for number in range(40):
        publish(topic, number)
    data = bytearray(volume_of(place, topic).read_bytes())
    data[data.index(b"SPJB", len(data) // 2) + 100] ^= 1
    volume_of(place, topic).write_bytes(data)
    again = place.topic()
    got = receive(again)
    assert [offset for offset, _ in got] == list(range(len(got)))
    first = len(got)
    acknowledge(again, *range(first))
    with caplog.at_level(logging.ERROR), pytest.raises(DamagedMessagesError) as damage:
        receive(again)
    assert (damage.value.first, damage.value.end) == (first, first + 1)
    assert str(first) in caplog.text
    with pytest.raises(DamagedMessagesError), again.changed:
        again.read(first, 9)
    assert again.described()["damaged"][0]["first"] == first
    with again.changed:
        again.seek("billing", damage.value.end)
    assert [offset for offset, _ in receive(again)] == list(range(first + 1, 40)), "who seeks behind it goes on"


def test_any_bit_of_a_volume_is_told_of_before_what_is_behind_it_comes(place: Place) -> None:
    topic = place.topic()
    for number in range(5):
        publish(topic, number)
    volume = volume_of(place, topic)
    whole = volume.read_bytes()
    for position in range(0, len(whole), 17):
        volume.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        catalogue = place.catalogue()
        if "orders" in catalogue.broken:
            continue
        with pytest.raises(JournalError):
            for _ in range(3):
                acknowledge(catalogue.find("orders"), *(offset for offset, _ in receive(catalogue.find("orders"))))
        end_subscription(catalogue.find("orders"))


def test_damage_that_a_subscription_has_acknowledged_already_is_passed_by_it(place: Place) -> None:
    topic = place.topic()
    for number in range(3):
        publish(topic, number)
    receive(topic)
    acknowledge(topic, 1)
    data = bytearray(volume_of(place, topic).read_bytes())
    data[len(data) // 2] ^= 1
    volume_of(place, topic).write_bytes(data)
    assert receive(place.topic()) == [(0, 2), (2, 2)]


def test_producers_that_are_damaged_are_known_from_the_messages_and_that_is_told(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    topic = place.topic()
    publish_as("shop", topic, 1, 2)
    topic._save_producers()
    flip(lane_of(place, topic) / "producers")
    with caplog.at_level(logging.WARNING):
        assert publish_as("shop", place.topic(), 2, 3) == [Recorded(1, True), Recorded(2)]
    assert "producers" in caplog.text


@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.99])
def test_a_cursor_one_bit_of_which_changed_is_told_of_until_somebody_seeks(place: Place, where: float) -> None:
    topic = place.topic()
    publish(topic, 0, 1)
    receive(topic)
    acknowledge(topic, 0)
    (cursor,) = lane_of(place, topic).glob("*.cursor")
    flip(cursor, where)
    again = place.topic()
    with pytest.raises(SubscriptionError, match="seek"):
        receive(again)
    assert again.described()["damaged"]
    with again.changed:
        again.seek("billing", 1)
    assert receive(again) == [(1, 1)]


@pytest.mark.parametrize("name", ["description", "settings", "end", "producers", "*.cursor", "*.segment"])
def test_doctor_names_a_topic_one_bit_of_which_changed(place: Place, name: str) -> None:
    topic = place.topic()
    publish_as("shop", topic, 1)
    receive(topic)
    topic._save_producers()
    root = str(place.directory.parent)
    assert [one.state for one in topics(root, str(place.key))] == ["ok"]
    (file,) = lane_of(place, topic).glob(name)
    flip(file)
    findings = list(topics(root, str(place.key)))
    assert [one.state for one in findings] == ["broken"]
    assert findings[0].todo


def test_doctor_says_nothing_of_topics_where_there_are_none(tmp_path: Path) -> None:
    assert list(topics(str(tmp_path), "no key is needed")) == []
