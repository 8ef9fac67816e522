"""``speed topic``: durable topics, by their host."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from speed.cli.live import backlog_row, interval_option, screen
from speed.cli.options import (
    SECONDS,
    Settings,
    answer_of,
    as_json,
    count_option,
    echo,
    echo_json,
    for_option,
    node_options,
    parse_value,
    print_rows,
    print_value,
)
from speed.observe.backlogs import TOPICS, backlogs

if TYPE_CHECKING:
    from speed import Topic, TopicMessage


TOPIC_COLUMNS = ("topic", "first", "end", "bytes", "subscriptions")
SUBSCRIPTION_COLUMNS = (
    "subscription",
    "type",
    "cursor",
    "backlog",
    "in_flight",
    "waiting",
    "dead",
    "full",
    "consumers",
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
TYPES = ("exclusive", "failover", "shared", "key-shared")
host_option = click.option("--host", default=TOPICS, show_default=True, help="The node that hosts the topics.")
from_option = click.option(
    "--from", "start", default="earliest", metavar="PLACE", help="latest, earliest, an offset, or an ISO time."
)


@click.group("topic")
def topic_command() -> None:
    """Make, use and look after topics that keep their messages."""


@contextmanager
def _topic(settings: Settings, name: str, host: str) -> Iterator[Topic]:
    with settings.node() as node, answer_of(host):
        yield node.topic(name, host=host)


def _place(text: str) -> int | str | dict[str, int]:
    """``latest``, ``earliest``, an offset, or an ISO time. Raises click.BadParameter."""
    if text in ("latest", "earliest"):
        return text
    if text.isdigit():
        return int(text)
    try:
        at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        what = f"{text!r} is no place: use latest, earliest, an offset, or a time such as 2026-01-31T08:00:00+00:00"
        raise click.BadParameter(what) from None
    return {"at_ms": int(at.timestamp() * 1000)}


@topic_command.command("list")
@host_option
@node_options
def list_command(settings: Settings, host: str) -> None:
    """List the topics that you may use."""
    with settings.node() as node:
        topics = node.call(host, "topics.list")
    if settings.as_json:
        print_value(topics, True)
        return
    with answer_of(host):
        rows = [[topic.get(column, "") for column in TOPIC_COLUMNS] for topic in topics if "broken" not in topic]
        print_rows(TOPIC_COLUMNS, rows, empty="No topics that you may use.")
        for topic in topics:
            if "broken" in topic:
                echo(f"{topic['topic']} cannot be used: {topic['broken']}", error=True)


# ``speed topic overview``: all subscriptions, the worst first.

OVERVIEW_COLUMNS = ("topic, subscription", "state", "backlog", "oldest", "in flight", "consumers", "dead")


@topic_command.command("overview")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option("--watch", is_flag=True, help="Go on: again every interval, until interrupted.")
@interval_option
@host_option
@node_options
def overview_command(settings: Settings, topics: tuple[str, ...], watch: bool, interval: float, host: str) -> None:
    """Show what waits in all subscriptions of TOPICs, or of all that you may use, the worst first.

    Oldest is how long the oldest message that is not acknowledged has waited, where the host tells it.
    """
    with settings.node() as node, screen(settings, once=not watch) as shown:
        while True:
            with answer_of(host):
                found = backlogs(node, topics, host)
            if settings.as_json:
                echo_json([one.described() for one in found])
            else:
                shown.show(OVERVIEW_COLUMNS, list(map(backlog_row, found)), "No topics that you may use.")
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(interval)


@topic_command.command("describe")
@click.argument("topic")
@host_option
@node_options
def describe_command(settings: Settings, topic: str, host: str) -> None:
    """Print all about one topic."""
    with _topic(settings, topic, host) as found:
        print_value(found.describe(), settings.as_json)


@topic_command.command("subscriptions")
@click.argument("topic")
@host_option
@node_options
def subscriptions_command(settings: Settings, topic: str, host: str) -> None:
    """List the subscriptions of a topic, and what each has still to acknowledge."""
    with _topic(settings, topic, host) as found:
        described = found.describe()
        if settings.as_json:
            print_value(described["subscriptions"], True)
        else:
            rows = [[_cell(one[column]) for column in SUBSCRIPTION_COLUMNS] for one in described["subscriptions"]]
            print_rows(SUBSCRIPTION_COLUMNS, rows, empty=f"No subscriptions of {topic}.")
        for damaged in described["damaged"]:
            echo(f"damaged: {damaged['file']}: {damaged['why']}" if "file" in damaged else damaged["why"], error=True)


def _cell(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


@topic_command.command("create")
@click.argument("topic")
@click.option("--dead-letters-of", metavar="TOPIC", default="", help="It is for the dead letters of this topic.")
@host_option
@node_options
def create_command(settings: Settings, topic: str, dead_letters_of: str, host: str) -> None:
    """Make a topic unless it is there."""
    with _topic(settings, topic, host) as found:
        found.create(dead_letters_of=dead_letters_of)


@topic_command.command("delete")
@click.argument("topic")
@click.option("--yes", is_flag=True, help="Do not ask.")
@host_option
@node_options
def delete_command(settings: Settings, topic: str, yes: bool, host: str) -> None:
    """Remove a topic with its messages and subscriptions."""
    if not yes:
        click.confirm(f"Remove topic {topic} with everything in it?", abort=True)
    with _topic(settings, topic, host) as found:
        found.delete()


@topic_command.command("publish")
@click.argument("topic")
@click.argument("payloads", nargs=-1, metavar="PAYLOAD…")
@click.option("--message-key", metavar="KEY", help="The key of the messages.")
@click.option("--property", "properties", multiple=True, metavar="NAME=TEXT", help="Repeatable.")
@click.option("--after", type=SECONDS, metavar="SECONDS", help="Deliver no earlier.")
@host_option
@node_options
def topic_publish_command(
    settings: Settings,
    topic: str,
    payloads: tuple[str, ...],
    message_key: str | None,
    properties: tuple[str, ...],
    after: float | None,
    host: str,
) -> None:
    """Publish each PAYLOAD (JSON, else text), or each line of stdin without one, and print the offsets."""
    named = dict(_property(one) for one in properties)
    texts: Iterable[str] = payloads or (line.rstrip("\n") for line in sys.stdin)
    with _topic(settings, topic, host) as found:
        for text in texts:
            offset = found.publish(parse_value(text), key=message_key, properties=named, deliver_after=after)
            print_value({"offset": offset} if settings.as_json else str(offset), settings.as_json)


def _property(word: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{word!r} is no property; write name=text")
    return name, text


@topic_command.command("consume")
@click.argument("topic")
@click.argument("subscription")
@click.option("--type", "kind", type=click.Choice(TYPES), default="shared", show_default=True)
@from_option
@count_option
@for_option
@host_option
@node_options
def consume_command(
    settings: Settings,
    topic: str,
    subscription: str,
    kind: str,
    start: str,
    count: int | None,
    seconds: float | None,
    host: str,
) -> None:
    """Print and acknowledge messages of a subscription, which is made if it is not there."""
    place = _place(start)
    with (
        _topic(settings, topic, host) as found,
        found.consumer(subscription, type=kind, start=place) as consumer,
    ):

        def take() -> TopicMessage | None:
            return consumer.receive(timeout=seconds)

        _print_topic(take, settings, count, consumer.acknowledge)


@topic_command.command("peek")
@click.argument("topic")
@from_option
@click.option("-n", "--count", type=click.IntRange(1), default=10, show_default=True, help="How many at most.")
@host_option
@node_options
def peek_command(settings: Settings, topic: str, start: str, count: int, host: str) -> None:
    """Print messages without a subscription; nothing is acknowledged."""
    place = _place(start)
    with _topic(settings, topic, host) as found:
        reader = found.reader(place, prefetch=min(count, 100))
        _print_topic(lambda: reader.receive(timeout=0), settings, count)


@topic_command.command("tail")
@click.argument("topic")
@click.option("-n", "--count", type=click.IntRange(0), default=10, show_default=True, help="The last so many.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is published, until interrupted.")
@host_option
@node_options
def tail_command(settings: Settings, topic: str, count: int, follow: bool, host: str) -> None:
    """Print the last messages of a topic."""
    with _topic(settings, topic, host) as found:
        reader = found.reader({"last": count})
        _print_topic(lambda: reader.receive(timeout=None if follow else 0), settings, None)


@topic_command.command("seek")
@click.argument("topic")
@click.argument("subscription")
@click.argument("place")
@host_option
@node_options
def seek_command(settings: Settings, topic: str, subscription: str, place: str, host: str) -> None:
    """Have a subscription begin anew at PLACE: latest, earliest, an offset, or an ISO time."""
    to = _place(place)
    with _topic(settings, topic, host) as found:
        offset = found.seek(subscription, to)
    print_value({"offset": offset} if settings.as_json else f"{subscription} goes on at {offset}.", settings.as_json)


@topic_command.command("purge")
@click.argument("topic")
@click.option("--dry-run", is_flag=True, help="Only say how many messages that are.")
@host_option
@node_options
def purge_command(settings: Settings, topic: str, dry_run: bool, host: str) -> None:
    """Acknowledge everything in every subscription of a topic."""
    with _topic(settings, topic, host) as found:
        count = found.purge(dry_run=dry_run)
    text = f"{count} messages {'would be' if dry_run else 'are'} acknowledged."
    print_value({"messages": count, "dryRun": dry_run} if settings.as_json else text, settings.as_json)


@topic_command.command("redrive")
@click.argument("topic")
@click.option("-n", "--count", type=click.IntRange(1), help="How many at most; by default all that are there.")
@host_option
@node_options
def redrive_command(settings: Settings, topic: str, count: int | None, host: str) -> None:
    """Publish the dead letters in TOPIC anew where they came from, the oldest first.

    Each subscription there gets them, not only the one that could not handle them.
    """
    with _topic(settings, topic, host) as found:
        done = found.redrive(count)
    text = f"{done} dead letter{'' if done == 1 else 's'} published again."
    print_value({"messages": done} if settings.as_json else text, settings.as_json)


@topic_command.command("forget-producer")
@click.argument("topic")
@click.argument("producer")
@click.option("--owner", metavar="NODE", default="", help="Only of this node, or family of nodes.")
@host_option
@node_options
def forget_producer_command(settings: Settings, topic: str, producer: str, owner: str, host: str) -> None:
    """Have the sequences of a producer begin anew, as after one that was far too high."""
    with _topic(settings, topic, host) as found:
        count = found.forget_producer(producer, owner=owner)
    text = f"{count} producers of the name {producer} are forgotten."
    print_value({"forgotten": count} if settings.as_json else text, settings.as_json)


@topic_command.command("compact")
@click.argument("topic")
@host_option
@node_options
def compact_command(settings: Settings, topic: str, host: str) -> None:
    """Have only the last message of each key kept, soon; for topics with keep = "latest"."""
    with _topic(settings, topic, host) as found:
        until = found.compact()
    text = f"{topic} is being compacted up to offset {until}."
    print_value({"until": until} if settings.as_json else text, settings.as_json)


@topic_command.command("unsubscribe")
@click.argument("topic")
@click.argument("subscription")
@host_option
@node_options
def unsubscribe_command(settings: Settings, topic: str, subscription: str, host: str) -> None:
    """Remove a subscription that has no consumers."""
    with _topic(settings, topic, host) as found:
        found.unsubscribe(subscription)


def _print_topic(
    take: Callable[[], TopicMessage | None],
    settings: Settings,
    count: int | None,
    done: Callable[[TopicMessage], object] | None = None,
) -> None:
    printed = 0
    while (count is None or printed < count) and (message := take()) is not None:
        _print_topic_message(message, settings)
        if done is not None:
            done(message)
        printed += 1


def _print_topic_message(message: TopicMessage, settings: Settings) -> None:
    if settings.as_json:
        recorded_at = _EPOCH + datetime.timedelta(milliseconds=message.recorded_at_ms)
        line = {
            "offset": message.offset,
            "recordedAt": recorded_at,
            "publisher": message.publisher,
            "key": message.key,
            "properties": dict(message.properties),
            "attempts": message.attempts,
            "tombstone": message.is_tombstone,
            "payload": message.payload,
        }
        echo_json(line | ({"origin": message.origin} if message.origin else {}))
    else:
        text = message.payload if isinstance(message.payload, str) else as_json(message.payload)
        echo(f"{message.offset}  {message.publisher}  {'' if message.key is None else f'{message.key}  '}{text}")
    sys.stdout.flush()
