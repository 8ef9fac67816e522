"""The options of the format ``speed``: each mistake is named, with what there is."""

from __future__ import annotations

import pytest

from speed.errors import ConfigurationError, InvalidNameError
from speed.spark.source.format import SpeedDataSource
from speed.spark.source.options import check_names, read_options, write_options


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nod": "billing"}, "there is no option 'nod' for writing; there are root, key, node"),
        ({"journal": "/j", "node": "a"}, "there is no option 'journal' for writing"),
        ({"node": "billing", "topic": "alerts"}, "node and topic are both given"),
        ({"node": "billing", "durability": "memory"}, "durability is 'memory': use process or disk"),
        ({"node": "billing", "engine": "java"}, "engine is 'java': use auto or native or python"),
        ({"node": "billing", "timeoutSeconds": "soon"}, "timeoutSeconds is 'soon': use a whole number of at least 1"),
        ({"durableTopic": "orders", "node": "billing"}, "durableTopic is given with node or topic"),
        ({"durableTopic": "orders", "host": "a host"}, "node name 'a host' is not allowed"),
        ({"topic": "alerts", "minSubscribers": "-1"}, "minSubscribers is '-1': use a whole number of at least 0"),
    ],
)
def test_a_mistake_in_the_options_for_writing_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        write_options(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"root": "/r", "node": "billing"}, "there is no option 'node' for reading; there are root, key, journal"),
        ({"root": "/r", "topic": "a", "inbox": "b"}, "topic and inbox are both given"),
        ({"root": "/r", "payload": "text"}, "payload is 'text': use binary or string"),
        ({"root": "/r", "payload": "string", "payloadSchema": "a int"}, "payload and payloadSchema are both given"),
        ({"root": "/r", "calls": "yes"}, "calls is 'yes': use true or false"),
        ({"root": "/r", "calls": "true", "topic": "a"}, "topic is given with calls"),
        ({"root": "/r", "calls": "true", "schemaFile": "a.avsc"}, "schemaFile is given with calls"),
        ({"root": "/r", "schemaMessage": "shop.Order"}, "schemaMessage is given: it is of a descriptor set"),
        ({"root": "/r", "schemaMessage": "a.B", "schemaFile": "a.avsc"}, "name that as schemaFile"),
        ({"root": "/r", "onError": "skip"}, "onError is 'skip': use raise or null"),
        ({"root": "/r", "maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger is '0'"),
        ({"root": "/r", "maxMessagesPerTrigger": "1e6"}, "maxMessagesPerTrigger is '1e6'"),
        ({"root": "/r", "startingOffsets": "newest"}, "startingOffsets is 'newest': use earliest or latest, or {"),
        ({"root": "/r", "startingOffsets": '{"a": -1}'}, "startingOffsets is '{\"a\": -1}': use earliest or latest"),
        ({"root": "/r", "startingOffsets": "[1]"}, r"startingOffsets is '\[1\]': use earliest or latest"),
        ({"root": "/r", "endingTimestamp": "5"}, "endingTimestamp is given for a stream: it is for read"),
        (
            {"root": "/r", "startingTimestamp": "yesterday"},
            "startingTimestamp is 'yesterday': use Unix milliseconds, or",
        ),
        ({"root": "/r", "startingTimestamp": "2026-01-31T12:00:00"}, "startingTimestamp is '2026-01-31T12:00:00': use"),
        ({"root": "/r", "startingTimestamp": "5", "startingOffsets": "latest"}, "both given: a query begins at one"),
        (
            {"root": "/r", "durableTopic": "orders", "inbox": "b"},
            "inbox is given with durableTopic: that is read alone",
        ),
        ({"root": "/r", "subscription": "s"}, "subscription is given: it is of one durable topic"),
        (
            {"root": "/r", "durableTopic": "a,b", "subscription": "s"},
            "subscription is given: it is of one durable topic",
        ),
        ({"root": "/r", "failOnDataLoss": "no"}, "failOnDataLoss is 'no': use true or false"),
    ],
)
def test_a_mistake_in_the_options_for_reading_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_options(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is 'latest': use earliest, or {"),
        ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest': use latest, or {"),
        ({"endingOffsets": "{}", "endingTimestamp": "5"}, "both given: a query ends at one place"),
    ],
)
def test_a_mistake_in_the_range_of_a_batch_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_options({"root": "/r", **given}, streaming=False)


def test_what_is_for_streams_only_is_refused_for_a_batch() -> None:
    with pytest.raises(ConfigurationError, match="maxMessagesPerTrigger is given for a batch: it is for readStream"):
        read_options({"root": "/r", "maxMessagesPerTrigger": "5"}, streaming=False)


@pytest.mark.parametrize("option", [{"endingOffsets": "{}"}, {"maxMessagesPerTrigger": "5"}])
def test_the_schema_is_told_before_it_is_known_whether_a_batch_or_a_stream_reads(option: dict[str, str]) -> None:
    assert "payload" in SpeedDataSource({"root": "/r", **option}).schema()


@pytest.mark.parametrize("given", [{"node": "../x"}, {"topic": "a..b"}, {"node": "a", "prefix": "a/b"}])
def test_names_are_checked_before_anything_runs(given: dict[str, str]) -> None:
    with pytest.raises(InvalidNameError):
        write_options(given)


def test_options_may_be_written_in_any_case_and_default_to_the_root() -> None:
    made = read_options({"ROOT": "/r", "MaxMessagesPerTrigger": "7"})
    assert (made.journal, made.max_messages_per_trigger, made.fail_on_data_loss) == ("/r/journal", 7, True)


@pytest.mark.parametrize("text", ["1769860800000", "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00Z"])
def test_a_time_is_given_as_unix_milliseconds_or_with_its_zone(text: str) -> None:
    assert read_options({"root": "/r", "startingTimestamp": text}).starting_ms == 1_769_860_800_000


def test_several_topics_are_separated_by_commas() -> None:
    assert read_options({"root": "/r", "topic": "a, b.*"}).topics == ("a", "b.*")
    with pytest.raises(InvalidNameError):
        read_options({"root": "/r", "topic": "a,,b"})


def test_an_option_that_exists_nowhere_is_refused_by_the_data_source_itself() -> None:
    with pytest.raises(ConfigurationError, match="there is no option 'jurnal' for the format speed"):
        SpeedDataSource({"jurnal": "/j"})
    check_names({"journal": "/j"})


def test_without_a_root_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEED_ROOT", "/run/speed")
    monkeypatch.setenv("SPEED_KEY", "/etc/speed.key")
    options = read_options({})
    assert (options.journal, options.key) == ("/run/speed/journal", "/etc/speed.key")
    assert write_options({"node": "billing"}).settings.root == "/run/speed"


def test_durable_topics_are_read_from_their_own_place() -> None:
    options = read_options({"root": "/r", "durableTopic": "orders, returns.*"})
    assert (options.journal, options.topics, options.durable) == ("/r/topics", ("orders", "returns.*"), True)
