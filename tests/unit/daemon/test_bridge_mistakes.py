"""Mistakes in ``[[bridge]]`` are reported with their line and what to do, and never with a password."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speed.bridges import BridgeSettings
from speed.daemon.config import Mistake
from speed.daemon.config_check import check_text

TOPICS = '[topics]\npublish = ["a"]\n'
JOURNAL = '[journal]\ntopics = ["orders.*"]\nallow = ["a"]\n'


def table(source: str = "topics", target: str = "kafka://h", more: str = "", topics: str = "orders.*") -> str:
    return f'[[bridge]]\nname = "b"\nsource = "{source}"\ntarget = "{target}"\ntopics = "{topics}"\n{more}'


def mistakes_in(text: str) -> list[Mistake]:
    return check_text(text, Path("/etc/speedd.toml"))[1]


def test_a_good_table_becomes_settings() -> None:
    more = """rename = "eu.orders.*"
filter = { "labels.region" = ["eu", "uk"], publisher = "shop.*" }
start = "earliest"
dead_letter = "lost"
give_up_seconds = 60
max_message_bytes = 4096
"""
    config, mistakes = check_text(TOPICS + table(more=more), Path("/etc/speedd.toml"))
    assert not mistakes
    assert config is not None
    (one,) = config.bridges
    assert one == BridgeSettings(
        name="b",
        source="topics",
        target="kafka://h",
        topics="orders.*",
        rename="eu.orders.*",
        filter={"labels.region": ("eu", "uk"), "publisher": ("shop.*",)},
        start="earliest",
        dead_letter="lost",
        give_up_seconds=60.0,
        max_message_bytes=4096,
    )
    assert one.backend == "kafka://h"


@pytest.mark.parametrize(
    "text",
    [
        TOPICS + table("kafka://h", "topics", 'group = "g"\nkeep = "message"\nmake_topics = true\n'),
        JOURNAL + table("events"),
        JOURNAL + table("events", topics="orders.made"),
        table("nats://h", "events"),
        TOPICS + table("redis://h?form=pubsub", "topics"),
    ],
    ids=["into topics", "out of events", "out of one event", "into events", "out of channels"],
)
def test_each_way_can_be_taken(text: str) -> None:
    assert mistakes_in(text) == []


@pytest.mark.parametrize(
    ("text", "line", "match"),
    [
        (table(), 3, "topics are hosted by"),
        (TOPICS + table("topics", "events"), 6, "one of source and target must be the root"),
        (TOPICS + table("kafka://h", "nats://h"), 6, "one of source and target must be the root"),
        (JOURNAL + table("events", topics="stock.*"), 8, "does not record 'stock.*'"),
        (JOURNAL + table("events", topics="*"), 8, "does not record"),
        (table("events"), 5, "does not record"),
        (table("kafka://h", "events", 'dead_letter = "lost"\n'), 6, "is a durable topic"),
        (TOPICS + table(more='keep = "message"\n'), 8, "is for bridges into topics"),
        (TOPICS + table(more="make_topics = true\n"), 8, "is for bridges into topics"),
        (TOPICS + table(more='group = "g"\n'), 8, "a group is of a backend"),
        (TOPICS + table("redis://h?form=pubsub", "topics", 'group = "g"\n'), 8, "a group is of a backend"),
        (table("kafka://h", "events", 'rename = "eu.*"\n'), 6, "events keep the topic"),
        (TOPICS + table(more='rename = "eu"\n'), 8, "have a '\\*'"),
        (TOPICS + table(more='filter = {payload = "x"}\n'), 8, "there is no field 'payload'"),
        (TOPICS + table(more="filter = 3\n"), 8, "expected a table"),
        (TOPICS + table(more="filter = {key = [3]}\n"), 8, "expected text"),
        (TOPICS + table(target="ftp://h"), 6, "begins with none of"),
        (TOPICS + table(target="kafka://h?nothing=1"), 6, "has one of the options"),
        (TOPICS + table(more="max_message_bytes = 1\n"), 8, "expected a whole number"),
        (TOPICS + table(more='start = "here"\n'), 8, "is not possible"),
        (TOPICS + table() + table(), 9, "already defined"),
        ('[[bridge]]\nname = "b"\n', 1, "has no source"),
        (TOPICS + table().replace('"kafka://h"', "3"), 6, "expected text"),
    ],
)
def test_a_mistake_has_its_line_and_what_to_do(text: str, line: int, match: str) -> None:
    found = mistakes_in(text)
    assert line in [one.line for one in found]
    (one,) = [one for one in found if one.line == line][:1]
    assert re.search(match, one.what), one.what
    assert one.todo


def test_a_password_is_in_no_mistake() -> None:
    text = TOPICS + table(target="kafka://me:hidden-word@h:x9") + 'keep = "hidden"\n'
    found = mistakes_in(text)
    assert found
    assert not any("hidden-word" in str(one) for one in found)


def test_settings_of_a_bridge_show_no_password() -> None:
    assert "hidden-word" not in repr(BridgeSettings("b", "kafka://me:hidden-word@h", "topics", "t"))


def test_topics_that_lie_in_pulsar_are_not_bridged() -> None:
    cluster = '[topics]\npublish = ["a"]\nbackend = "pulsar://h"\nadmin = "http://h"\n'
    assert any("lie in Pulsar" in one.what for one in mistakes_in(cluster + table()))


def test_bridges_are_bounded() -> None:
    many = "".join(table().replace('"b"', f'"b{number}"') for number in range(65))
    assert any("65 bridges are too many" in one.what for one in mistakes_in(TOPICS + many))


def test_the_service_and_the_node_of_bridges_are_taken() -> None:
    service = '[[service]]\nname = "bridges.list"\nentry = "a:b"\n'
    assert any("is of speedd itself" in one.what for one in mistakes_in(TOPICS + table() + service))
    process = '[[process]]\nname = "speedd.bridges"\ncommand = ["true"]\n'
    assert any("publishes events" in one.what for one in mistakes_in(table("nats://h", "events") + process))
