"""Compaction of topics: what stays of each key, how far it reaches, and where a pass may end (D-25)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import StorageError
from speed.journal.files import Record
from speed.journal.retention import Keeps
from speed.journal.writer import Closed
from speed.topics import storage
from speed.topics import topic as topic_module
from speed.topics.backend import Recorded
from speed.topics.catalogue import Catalogue
from speed.topics.storage import Plan, neighbours
from speed.topics.subscription import SubscriptionError
from speed.topics.topic import HostedTopic, Keeping
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, RecordHead, cursor_name, decode, encode, key_hash
from speed.wire.value import pack
from tests.fs.topics import Place, acknowledge, publish, publish_as, receive
from tests.system.topics import until

LATEST = Keeping(keep="latest")
NO_GRACE = Keeping(keep="latest", tombstone_seconds=0.0)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def keyed(key: str | None, value: object = 0, kind: int = MESSAGE) -> bytes:
    about = {"publisher": "p", **({} if key is None else {"key": key})}
    return encode(
        RecordHead(kind, key_hash=key_hash(key) if key else 0), about, b"" if kind == TOMBSTONE else pack(value)
    )


def put(topic: HostedTopic, *messages: bytes) -> None:
    """Publish, all in one volume of their own."""
    with topic.changed:
        topic.publish(None, [(0, message) for message in messages])
        topic.log.leave_volume()


def keys(topic: HostedTopic) -> list[tuple[int, str | None]]:
    """Offset and key of everything on the disk."""
    records = topic.log.records(topic.log.first, topic.log.end)
    return [(one.offset, decode(one.message).about.get("key")) for one in records]


def values(topic: HostedTopic) -> dict[str, int]:
    """What a reader of the latest sees: the last offset of each key that is not deleted."""
    found: dict[str, int] = {}
    for one in topic.log.records(topic.log.first, topic.log.end):
        message = decode(one.message)
        if message.head.type == TOMBSTONE:
            found.pop(message.about["key"], None)
        else:
            found[message.about["key"]] = one.offset
    return found


def compact(catalogue: Catalogue, *, asked: bool = True) -> str:
    if asked:
        with catalogue.lock:
            catalogue.ask_to_compact("orders")
    return catalogue.compact(lambda: False)


def opened(place: Place, keeping: Keeping = LATEST) -> tuple[Catalogue, HostedTopic]:
    topic = place.topic(keeping=keeping)
    assert place.current is not None
    return place.current, topic


# --- what stays ---


def test_of_each_key_the_last_message_stays_under_its_offset(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("b"), keyed("a"))
    put(topic, keyed("b"), keyed("c"))
    assert compact(catalogue) == ""
    assert keys(topic) == [(2, "a"), (3, "b"), (4, "c")]
    assert (topic.log.first, topic.log.end) == (0, 5)
    with topic.changed:
        assert [one.offset for one in place.topic(keeping=LATEST).log.read(0)] == [2, 3, 4]


def test_messages_without_a_key_and_dead_letters_all_stay(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed(None), keyed("a", kind=DEAD_LETTER), keyed(None), keyed("a"), keyed("a", kind=DEAD_LETTER))
    compact(catalogue)
    assert [offset for offset, _ in keys(topic)] == [0, 1, 2, 3, 4]


def test_keys_of_one_hash_are_two_keys(place: Place) -> None:
    one, other = "plumless", "buckeroo"
    assert key_hash(one) == key_hash(other)
    catalogue, topic = opened(place)
    put(topic, keyed(one), keyed(other), keyed(one), keyed("c"))
    compact(catalogue)
    assert keys(topic) == [(1, other), (2, one), (3, "c")]


def test_bytes_that_are_no_message_stay(place: Place) -> None:
    catalogue, topic = opened(place)
    topic.log.append([b"no head of a message"])
    put(topic, keyed("a"))
    compact(catalogue)
    assert len(list(topic.log.records(0, 2))) == 2


def test_a_topic_that_is_compacted_takes_less_room_and_says_so(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, *(keyed("a", bytes(1000)) for _ in range(1000)))
    before = topic.log.bytes
    compact(catalogue)
    assert topic.log.bytes < before / 500
    assert topic.described()["bytes"] == topic.log.bytes


def test_topics_that_keep_their_messages_are_not_compacted(place: Place) -> None:
    catalogue, topic = opened(place, Keeping())
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    assert catalogue.compact(lambda: False) == ""
    assert [offset for offset, _ in keys(topic)] == [0, 1, 2]
    with pytest.raises(SubscriptionError, match="keep = 'latest'") as refused:
        compact(catalogue)
    assert refused.value.code == "INVALID_ARGUMENTS"


# --- tombstones ---


def test_a_tombstone_stays_for_its_grace_and_goes_after_it(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a", kind=TOMBSTONE), keyed("b"))
    compact(catalogue)
    assert keys(topic) == [(1, "a"), (2, "b")]
    catalogue, topic = opened(place, NO_GRACE)
    compact(catalogue)
    assert keys(topic) == [(2, "b")]


@pytest.mark.parametrize("first", [0, 1])
def test_no_value_comes_back_where_retention_was_there_first(
    place: Place, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The value lies in a volume that cannot be rewritten then, its tombstone in one that could."""
    catalogue, topic = opened(place, NO_GRACE)
    for message in (keyed("b"), keyed("a"), keyed("a", kind=TOMBSTONE), keyed("c")):
        put(topic, message)
    monkeypatch.setattr(storage, "neighbours", lambda volumes, _: [volumes[first:2], volumes[2:]])
    real = topic.log._writer.rewrite

    def rewrite(lane: str, volumes: Sequence[Closed], keeps: Keeps) -> bool:
        def others_first(record: Record) -> bool:
            with topic.changed:
                topic.log.remove_before(1 + first)
            return keeps(record)

        return real(lane, volumes, others_first)

    monkeypatch.setattr(topic.log._writer, "rewrite", rewrite)
    assert compact(catalogue) == ""
    assert values(topic) == {"c": 3}
    assert (2, "a") in keys(topic)


@pytest.mark.parametrize("ends", range(4))
def test_no_value_comes_back_wherever_a_pass_ends(place: Place, monkeypatch: pytest.MonkeyPatch, ends: int) -> None:
    """The value, its tombstone and the next value lie in volumes of their own."""
    catalogue, topic = opened(place, NO_GRACE)
    for message in (keyed("a"), keyed("b"), keyed("a", kind=TOMBSTONE), keyed("b")):
        put(topic, message)
    monkeypatch.setattr(storage, "neighbours", lambda volumes, _: [[one] for one in volumes])
    real, done = os.rename, list[str]()

    def fail(old: str, new: str, **where: int) -> None:
        if new.endswith(".segment"):
            if len(done) == ends:
                raise OSError(errno.EIO, "the disk failed")
            done.append(new)
        real(old, new, **where)

    monkeypatch.setattr(os, "rename", fail)
    assert "is not compacted" in compact(catalogue)
    monkeypatch.setattr(os, "rename", real)
    assert values(topic) == {"b": 3}
    catalogue, topic = opened(place, NO_GRACE)  # a crash
    assert values(topic) == {"b": 3}
    assert compact(catalogue) == ""
    assert values(topic) == {"b": 3}


# --- whatever happens, in whatever order ---

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcd")),
    st.tuples(st.just("delete"), st.sampled_from("abcd")),
    st.tuples(st.sampled_from(["leave", "compact", "stop", "crash"]), st.integers(0, 5)),
    st.tuples(st.just("consume"), st.sampled_from([2, 100])),
)


@given(st.lists(STEPS, min_size=20, max_size=50))
@settings(max_examples=40, deadline=None)
def test_values_are_those_of_the_log_and_a_subscription_gets_each_message(steps: list[tuple[str, Any]]) -> None:
    """Against a plain list of all that was published."""
    with TemporaryDirectory() as directory:
        place = Place(Path(directory))
        catalogue, topic = opened(place, NO_GRACE)
        published: list[tuple[str, int]] = []
        cursor = 0
        receive(topic)
        for what, which in steps:
            with topic.changed:
                if what in {"put", "delete"}:
                    kind = MESSAGE if what == "put" else TOMBSTONE
                    topic.publish(None, [(0, keyed(which, kind=kind))])
                    published.append((which, kind))
                elif what == "leave":
                    topic.log.leave_volume()
            if what == "compact":
                compact(catalogue)
            elif what == "stop":
                looks = iter(range(which))
                with catalogue.lock:
                    catalogue.ask_to_compact("orders")
                catalogue.compact(lambda looks=looks: next(looks, None) is None)
            elif what == "crash":
                catalogue, topic = opened(place, NO_GRACE)
            elif what == "consume":
                found = [offset for offset, _ in receive(topic, most=which)]
                assert found == list(range(cursor, min(cursor + which, len(published))))
                acknowledge(topic, *found)
                cursor += len(found)
        latest = {key: (offset, kind) for offset, (key, kind) in enumerate(published)}
        assert values(topic) == {key: offset for key, (offset, kind) in latest.items() if kind == MESSAGE}
        assert [offset for offset, _ in receive(topic)] == list(range(cursor, len(published)))
        place.close()


# --- how far it reaches ---


def test_what_a_subscription_has_still_to_get_stays(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"))
    put(topic, keyed("a"), keyed("a"))
    put(topic, keyed("a"), keyed("a"))
    receive(topic)
    acknowledge(topic, 0, 1, 2)
    compact(catalogue)
    assert [offset for offset, _ in keys(topic)] == [1, 2, 3, 4, 5], "a volume with something of it stays as it is"
    assert receive(place.topic(keeping=LATEST)) == [(3, 2), (4, 2), (5, 2)]


def test_a_cursor_that_cannot_be_read_holds_everything(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    receive(topic)
    acknowledge(topic, 0, 1, 2)
    (place.directory / topic.log.lane / cursor_name("billing")).write_bytes(b"")
    catalogue, topic = opened(place)
    compact(catalogue)
    assert [offset for offset, _ in keys(topic)] == [0, 1, 2]


def test_a_subscription_gets_what_is_left_and_is_then_done(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("b"), keyed("a"), keyed("b"))
    compact(catalogue)
    topic = place.topic(keeping=LATEST)
    assert receive(topic) == [(2, 1), (3, 1)]
    acknowledge(topic, 2, 3)
    assert topic.backlog(topic.group("billing")) == 0


def test_a_producer_is_known_whose_records_went(place: Place) -> None:
    """D-6, also after a crash."""
    catalogue, topic = opened(place, NO_GRACE)
    publish_as("shop", topic, 1, 2, 3)
    put(topic, keyed("a"), keyed("a"))
    compact(catalogue)
    topic = place.topic(keeping=NO_GRACE)
    assert publish_as("shop", topic, 2, 3, 4) == [Recorded(1, True), Recorded(2, True), Recorded(5)]


def test_nothing_is_removed_while_producers_cannot_be_saved(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))

    def fail(*_: object) -> None:
        raise StorageError("full")

    monkeypatch.setattr(topic._state, "put", fail)
    assert "not compacted: full" in compact(catalogue)
    assert [offset for offset, _ in keys(topic)] == [0, 1, 2]


def test_a_topic_with_damage_is_left_as_it_is(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"))
    put(topic, keyed("a"), keyed("b"))
    segment = min((place.directory / topic.log.lane).glob("*.segment"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    assert "'orders' is not compacted: lane" in compact(catalogue)
    assert segment.read_bytes() == data


def test_trouble_is_told_until_it_is_over(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    segment = min((place.directory / topic.log.lane).glob("*.segment"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:100] + b"?" + whole[101:])
    catalogue.begin([])
    until(lambda: "is not compacted" in catalogue.retain())
    segment.write_bytes(whole)
    with catalogue.lock:
        catalogue.ask_to_compact("orders")
    until(lambda: len(keys(topic)) == 2 and catalogue.retain() == "")
    catalogue.close()


# --- passes ---


def test_a_pass_is_due_when_as_much_is_new_as_the_last_one_left() -> None:
    volumes = [Closed(0, 10, 100), Closed(10, 20, 60), Closed(20, 30, 40)]
    assert Plan(volumes, 10, 0).is_due
    assert not Plan(volumes[:2], 10, 0).is_due
    assert not Plan(volumes, 30, 0).is_due
    assert not Plan([], 0, 0).is_due


def test_what_is_due_is_compacted_without_being_asked_for(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    assert compact(catalogue, asked=False) == ""
    assert keys(topic) == [(1, "a"), (2, "b")]
    put(topic, keyed("c"))
    put(topic, *(keyed("d", bytes(100)) for _ in range(9)))
    compact(catalogue, asked=False)
    assert keys(topic) == [(1, "a"), (2, "b"), (3, "c"), (12, "d")]
    put(topic, keyed("c"))
    compact(catalogue, asked=False)
    assert (3, "c") in keys(topic), "too little is new"


def test_a_pass_notes_no_more_keys_than_it_has_room_for_and_the_next_one_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue, topic = opened(place)
    for number in range(3):
        put(topic, *(keyed(f"{number}-{one}") for one in (0, 0, 1, 1, 2, 2)))
    put(topic, keyed("0-0"))
    monkeypatch.setattr(storage, "MAX_KEYS", 3)
    compact(catalogue)
    assert len(keys(topic)) == 3 + 6 + 6 + 1
    for _ in range(3):
        compact(catalogue)
    assert len(keys(topic)) == 3 + 3 + 3, "the old value of 0-0 as well"
    monkeypatch.setattr(storage, "MAX_KEYS", 1000)
    monkeypatch.setattr(storage, "MAX_KEY_BYTES", 1)
    put(topic, keyed("0-1"))
    put(topic, keyed("0-2"))
    compact(catalogue)
    assert len(keys(topic)) == 10, "one volume at a time"


def test_a_pass_that_is_stopped_has_removed_nothing_that_is_needed_and_is_begun_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue, topic = opened(place)
    monkeypatch.setattr(storage, "neighbours", lambda volumes, _: [[one] for one in volumes])
    for _ in range(4):
        put(topic, keyed("a"), keyed("b"))
    lane = place.directory / topic.log.lane
    before = [one.read_bytes() for one in sorted(lane.glob("*.segment"))]
    for most in range(12):
        looks = iter(range(most))
        with catalogue.lock:
            catalogue.ask_to_compact("orders")
        assert catalogue.compact(lambda looks=looks: next(looks, None) is None) == ""
        assert values(topic) == {"a": 6, "b": 7}
        changed = [one.read_bytes() != was for one, was in zip(sorted(lane.glob("*.segment")), before, strict=True)]
        assert sum(changed) <= max(0, most - 4), "none behind the one at which it was stopped"
    assert keys(topic) == [(1, "b"), (3, "b"), (5, "b"), (6, "a"), (7, "b")], "the last one of each volume stays"


@pytest.mark.parametrize("content", [b"", b"SPTS" + bytes(100)])
def test_how_far_it_is_compacted_is_found_anew_if_that_cannot_be_read(place: Place, content: bytes) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    compact(catalogue)
    (place.directory / topic.log.lane / "compacted").write_bytes(content)
    catalogue, topic = opened(place)
    put(topic, keyed("a"))
    compact(catalogue)
    assert keys(topic) == [(2, "b"), (3, "a")]


def test_what_is_said_of_offsets_that_are_not_there_is_of_another_copy(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    topic.note_compacted(1000)
    compact(catalogue)
    assert keys(topic) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("step", ["tidy", "prepare_compaction", "records", "rewrite", "measure"])
def test_a_topic_that_is_removed_meanwhile_is_no_trouble(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    directory = place.directory / topic.log.lane
    owner = topic if hasattr(topic, step) else topic.log
    real = getattr(owner, step)

    def removed_before(*arguments: object) -> object:
        if "orders" in catalogue.topics:
            with catalogue.lock:
                catalogue.remove("orders")
        return real(*arguments)

    monkeypatch.setattr(owner, step, removed_before)
    assert compact(catalogue) == ""
    assert not directory.exists()


def test_publishers_and_consumers_go_on_while_a_volume_is_rewritten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is free then."""
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("a"), keyed("b"))
    real = topic.log.rewrite

    def rewrite(*arguments: object) -> None:
        assert not catalogue.lock._is_owned()  # type: ignore[attr-defined]
        publish(topic, 7)
        assert receive(topic) == [(0, 1), (1, 1), (2, 1), (3, 1)]
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(topic.log, "rewrite", rewrite)
    assert compact(catalogue) == ""
    assert acknowledge(topic, 0, 1, 2, 3) == 4


def test_neighbours_are_put_together_as_far_as_they_fit() -> None:
    volumes = [Closed(at, at + 1, size) for at, size in enumerate((40, 40, 40, 200, 10))]
    assert [[one.first for one in some] for some in neighbours(volumes, 100)] == [[0, 1], [2], [3], [4]]
    assert list(neighbours([], 100)) == []


def test_a_topic_is_removed_with_what_compaction_noted(place: Place) -> None:
    catalogue, topic = opened(place)
    put(topic, keyed("a"), keyed("b"))
    compact(catalogue)
    directory = place.directory / topic.log.lane
    assert (directory / "compacted").exists()
    with catalogue.lock:
        catalogue.remove("orders")
    assert not directory.exists()


def test_old_tombstones_are_known_by_when_they_were_recorded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, topic = opened(place, Keeping(keep="latest", tombstone_seconds=60.0))
    put(topic, keyed("a", kind=TOMBSTONE), keyed("b"))
    later = topic_module.unix_ms() + 61_000
    monkeypatch.setattr(topic_module, "unix_ms", lambda: later)
    compact(catalogue)
    assert keys(topic) == [(1, "b")]
