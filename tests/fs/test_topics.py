"""Topics on disk: what is damaged, cut, removed, or cannot be written (D-1, D-2, D-6, D-16)."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.errors import StorageError
from speed.topics import storage as log_module
from speed.topics import storage as state_module
from speed.topics import topic as topic_module
from speed.topics.backend import ProducerIdentity, Recorded, unix_ms
from speed.topics.storage import RESERVE, FreeSpace
from speed.topics.subscription import SubscriptionError, Terms
from speed.topics.topic import Keeping
from speed.wire.limits import MAX_OWNER_PRODUCERS, MAX_SUBSCRIPTIONS, MAX_TOPIC_PRODUCERS, TOPIC_PRODUCER_SECONDS
from speed.wire.names import temporary_name
from speed.wire.topic import RecordHead, cursor_name, decode, encode
from speed.wire.value import pack
from tests.fs.topics import Place, acknowledge, publish, publish_as, receive


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def test_after_a_crash_all_goes_on_where_it_was(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0, 1, 2)
    assert receive(topic) == [(0, 1), (1, 1), (2, 1)]
    acknowledge(topic, 1)
    again = place.topic()
    assert receive(again) == [(0, 2), (2, 2)]
    assert publish(again, 3) == [3]
    assert decode(again.log.read(3)[0].data).payload == pack([3, b""])


def test_a_lost_answer_is_given_again(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0)
    with topic.changed:
        group = topic.subscribe("billing", "c", Terms("shared"), "earliest")
        number, messages = topic.receive(group, "c", 9, 0)
        assert topic.receive(group, "c", 9, 0) == (number + 1, messages)
        assert topic.receive(group, "c", 9, number + 1) == (number + 1, [])


def test_disk_durability_flushes_a_cursor_and_its_directory_before_an_acknowledgement_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-2, D-7."""
    topic = place.topic(durability="disk")
    publish(topic, 0)
    receive(topic)
    flushed: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd))[1])
    acknowledge(topic, 0)
    lane = place.directory / topic.log.lane
    assert flushed == [str(lane / temporary_name(cursor_name("billing"))), str(lane)]


@pytest.mark.parametrize("content", [b"", b"SPTS", secrets.token_bytes(300), None])
def test_a_damaged_cursor_stops_only_its_subscription(place: Place, content: bytes | None) -> None:
    topic = place.topic()
    publish(topic, 0)
    for name in ("billing", "audit"):
        receive(topic, name)
    file = place.directory / topic.log.lane / cursor_name("billing")
    if content is None:
        file.unlink()
        file.mkdir()  # what is no file
    else:
        file.write_bytes(content)
    again = place.topic()
    assert list(again.groups) == ["audit"]
    with pytest.raises(SubscriptionError, match="cannot be read") as refused:
        receive(again)
    assert refused.value.code == "DAMAGED"
    assert receive(again, "audit") == [(0, 2)]


def test_a_cursor_of_another_subscription_does_not_pass_for_it(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0)
    for name in ("billing", "audit"):
        receive(topic, name)
    state = place.directory / topic.log.lane
    (state / cursor_name("billing")).write_bytes((state / cursor_name("audit")).read_bytes())
    assert list(place.topic().groups) == ["audit"]


def test_a_cursor_that_is_ahead_of_a_copied_topic_acknowledges_nothing_that_is_published_later(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0, 1)
    receive(topic)
    state = place.directory / topic.log.lane
    kept = {file: file.read_bytes() for file in state.iterdir()}
    publish(topic, *range(2, 9))
    receive(topic)
    acknowledge(topic, 0, 1, 2, 3, 5)
    for file, data in kept.items():  # as from a copy that took the log before the cursor
        if not file.name.endswith(".cursor"):
            file.write_bytes(data)
    again = place.topic()
    assert again.log.end == 2
    publish(again, 10, 11, 12, 13)
    assert receive(again) == [(2, 1), (3, 1), (4, 1), (5, 1)]


def test_a_topic_that_was_cut_is_told_of_and_the_others_go_on(place: Place) -> None:
    catalogue = place.catalogue()
    for name in ("orders", "news"):
        publish(catalogue.make(name), 0)
        publish(catalogue.make(name), 1)
    lane = catalogue.topics["orders"].log.lane
    (segment,) = (place.directory / lane).glob("*.segment")
    os.truncate(segment, segment.stat().st_size // 2)
    again = place.catalogue()
    assert "cut" in again.broken["orders"]
    with pytest.raises(SubscriptionError) as refused:
        again.find("orders")
    assert refused.value.code == "DAMAGED"
    assert receive(again.find("news")) == [(0, 1), (1, 1)]
    again.remove("orders")
    assert publish(again.make("orders"), 5) == [0]


def test_what_is_not_in_memory_is_read_on_from_where_the_reading_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "RECENT_BYTES", 100)
    monkeypatch.setattr(log_module, "READ_RECORDS", 2)
    topic = place.topic()
    for number in range(7):
        publish(topic, number, size=50)
    assert receive(topic, most=5) == [(offset, 1) for offset in range(5)]
    publish(topic, *range(7, 12), size=50)
    acknowledge(topic, 0, 1)
    assert receive(topic, "audit", most=3) == [(0, 1), (1, 1), (2, 1)]
    with topic.changed:
        topic.leave(topic.group("audit"), "c")
    assert receive(topic) == [(offset, 1) for offset in range(5, 12)]


def test_what_cannot_be_saved_is_not_delivered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = place.topic()
    publish(topic, 0)
    receive(topic, "other")

    def full(*_: object) -> None:
        raise StorageError("no space")

    with monkeypatch.context() as patch:
        group = topic.subscribe("billing", "c", Terms("shared"), "earliest")
        patch.setattr(topic._state, "put", full)
        with pytest.raises(StorageError):
            topic.receive(group, "c", 9, 0)
        assert group.machine.in_flight == 0
    assert topic.receive(group, "c", 9, 0)[1][0][:2] == [0, 1]


def test_a_producer_is_known_from_its_records_and_from_what_was_saved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "PRODUCERS_EVERY", 2)
    topic = place.topic()
    for sequence in (1, 2, 3):
        publish_as("shop", topic, sequence)
    saved = topic._state.get("producers")
    assert saved is not None
    assert saved["end"] == 2
    again = place.topic()
    assert publish_as("shop", again, 3) == [Recorded(2, True)]
    assert publish_as("shop", again, 4, 4) == [Recorded(3), Recorded(3, True)]


def test_a_repetition_is_told_with_the_offset_that_is_kept(place: Place) -> None:
    topic = place.topic()
    publish(topic, 0)
    publish_as("shop", topic, 10, 11, 12)
    publish_as("shop", topic, 20)
    for _ in range(2):
        assert publish_as("shop", topic, 11, 20) == [Recorded(2, True), Recorded(4, True)]
        assert publish_as("shop", topic, 5) == [Recorded(-1, True)], "it was never published, and is below the last one"
        topic = place.topic()


def test_the_sequences_of_one_publisher_say_nothing_of_another_ones(place: Place) -> None:
    topic = place.topic()
    publish_as("shop", topic, 2**63 - 1, owner="stranger")
    assert publish_as("shop", topic, 1, owner="shop.1") == [Recorded(1)]
    assert publish_as("shop", place.topic(), 2, owner="shop.1") == [Recorded(2)]


def test_a_producer_that_is_forgotten_begins_anew_also_after_a_crash(place: Place) -> None:
    topic = place.topic()
    publish_as("shop", topic, 2**63 - 1)
    assert publish_as("shop", topic, 1) == [Recorded(-1, True)]
    assert topic.forget_producer("shop", "another") == 0
    assert topic.forget_producer("shop") == 1
    again = place.topic()
    assert publish_as("shop", again, 1) == [Recorded(1)]
    (place.directory / again.lane / "producers").write_bytes(b"")
    assert publish_as("shop", place.topic(), 1, 2) == [Recorded(1, True), Recorded(2)], "also from the records alone"


def test_a_producer_in_excess_is_refused_until_another_one_of_its_owner_was_silent_for_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = place.topic()
    now = 1_700_000_000_000
    monkeypatch.setattr(topic_module, "unix_ms", lambda: now)
    for number in range(MAX_OWNER_PRODUCERS):
        topic._producers.note(ProducerIdentity("p", f"p{number}"), 1, number, now + number)
    with pytest.raises(SubscriptionError) as refused:
        publish_as("one.more", topic, 1)
    assert refused.value.code == "FULL"
    assert topic.log.end == 0, "it is not kept either"
    assert publish_as("one.more", topic, 1, owner="q") == [Recorded(0)], "others have their own"
    now += int(TOPIC_PRODUCER_SECONDS * 1000)
    assert publish_as("one.more", topic, 1) == [Recorded(1)]


def test_owners_of_many_producers_leave_room_for_another_one(place: Place) -> None:
    topic = place.topic()
    for number in range(MAX_TOPIC_PRODUCERS):
        topic._producers.note(ProducerIdentity(f"owner{number % 4}", f"p{number}"), 1, number, unix_ms())
    assert publish_as("shop", topic, 1, owner="late") == [Recorded(0)]
    assert publish_as("shop", topic, 1, owner="late") == [Recorded(0, True)]
    assert len(topic.described()["producers"]) == MAX_TOPIC_PRODUCERS


def test_what_the_host_remembers_of_producers_fits_into_its_file(place: Place) -> None:
    topic = place.topic()
    for number in range(MAX_TOPIC_PRODUCERS):
        for sequence in range(2**62, 2**62 + 20, 2):
            topic._producers.note(ProducerIdentity("o" * 128, f"{number:0128}"), sequence, 2**61 + sequence, unix_ms())
    topic._save_producers()
    assert len(place.topic().described()["producers"]) == MAX_TOPIC_PRODUCERS


def test_subscriptions_are_bounded(place: Place) -> None:
    topic = place.topic()
    for number in range(MAX_SUBSCRIPTIONS):
        topic.subscribe(f"s{number}", "c", Terms("shared"), "latest")
    with pytest.raises(SubscriptionError) as refused:
        topic.subscribe("more", "c", Terms("shared"), "latest")
    assert refused.value.code == "FULL"


def test_what_all_have_acknowledged_is_removed_where_that_is_wanted(place: Place) -> None:
    topic = place.topic(keeping=Keeping(max_bytes=1 << 20, keep="unacknowledged", backlog="refuse"))
    for name in ("billing", "audit"):
        receive(topic, name)
    for number in range(10):
        publish(topic, number, size=50_000)
    acknowledge(topic, *(offset for offset, _ in receive(topic)))
    topic.retain()
    assert topic.log.first == 0, "audit needs them"
    acknowledge(topic, *(offset for offset, _ in receive(topic, "audit")), subscription="audit")
    topic.retain()
    assert topic.log.first > 5
    assert publish(topic, 10) == [10]


def test_what_is_too_old_is_removed_and_counts_as_acknowledged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = place.topic(keeping=Keeping(max_bytes=1 << 20, max_age_seconds=60))
    for number in range(10):
        publish(topic, number, size=50_000)
    receive(topic, most=3)
    real = topic_module.unix_ms()
    monkeypatch.setattr(topic_module, "unix_ms", lambda: real + 120_000)
    topic.retain()
    assert topic.log.first > 3
    assert topic.group("billing").machine.cursor == topic.log.first
    assert receive(topic)[0] == (topic.log.first, 1)


def test_delayed_messages_of_a_topic_are_bounded_and_refused_beyond(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "MAX_TOPIC_DELAYED", 2)
    topic = place.topic()
    now = 1_700_000_000_000
    monkeypatch.setattr(topic_module, "unix_ms", lambda: now)
    later = (0, encode(RecordHead(due_ms=now + 1000), {"publisher": "p"}, b""))
    with topic.changed:
        topic.publish(None, [later, later])
        with pytest.raises(SubscriptionError) as refused:
            topic.publish(None, [later])
        assert refused.value.code == "FULL"
        publish(topic, 1)
        now += 1000
        assert topic.publish(None, [later])


def test_publishing_leaves_room_for_who_consumes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-27."""
    topic = place.topic()
    publish(topic, 0)
    monkeypatch.setattr(topic_module, "room_at", lambda path: FreeSpace(100_000, 100_000))
    with pytest.raises(StorageError, match="left for consumers"):
        publish(topic, 1)
    assert receive(topic) == [(0, 1)]
    assert acknowledge(topic, 0) == 1


def test_acknowledging_works_on_a_full_file_system(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-27: the reserve is given up for it."""
    topic = place.topic()
    publish(topic, 0)
    receive(topic)
    reserve = place.directory / RESERVE
    real = state_module.replace_file

    def full(*arguments: Any, **options: Any) -> int:
        if reserve.stat().st_size:
            raise OSError(errno.ENOSPC, "no space")
        return real(*arguments, **options)

    monkeypatch.setattr(state_module, "replace_file", full)
    assert reserve.stat().st_size > 0
    assert acknowledge(topic, 0) == 1
    monkeypatch.undo()
    assert place.current is not None
    place.current.retain()
    assert reserve.stat().st_size > 0, "it is taken again when there is room"
    assert receive(place.topic()) == []


def test_an_answer_is_as_large_as_fits_and_a_message_that_does_not_is_told(place: Place) -> None:
    """D-27."""
    topic = place.topic()
    publish(topic, 0, 1, 2, size=1000)
    with topic.changed:
        group = topic.subscribe("billing", "c", Terms("shared"), "earliest")
        number, messages = topic.receive(group, "c", 9, 0, max_bytes=2500)
        assert [one[0] for one in messages] == [0, 1]
        with pytest.raises(SubscriptionError) as refused:
            topic.receive(group, "c", 9, number, max_bytes=500)
        assert refused.value.code == "STORAGE"
        assert [one[:2] for one in topic.receive(group, "c", 9, number)[1]] == [[2, 1]], "it was not delivered"
