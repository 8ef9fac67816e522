"""``speed call``, ``send``, ``listen``, ``publish``, ``subscribe``; ``speed topic``: durable topics, by their host."""

from __future__ import annotations

import datetime
import json
import queue
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from speed.cli.options import (
    SECONDS,
    Settings,
    answer_of,
    as_json,
    complete_argument,
    complete_node,
    complete_service,
    declared_arguments,
    echo,
    echo_json,
    encryption_option,
    node_options,
    parse_arguments,
    parse_value,
    print_rows,
    print_value,
    registry_of,
    schemas_option,
    shown_payload,
)
from speed.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from speed import Message, SchemaRegistry, Topic, TopicMessage


# ``speed call``, ``send``, ``listen``, ``publish`` and ``subscribe``.

timeout_option = click.option("--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait.")


@click.command("call")
@click.argument("node", shell_complete=complete_node)
@click.argument("service", shell_complete=complete_service)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]…", shell_complete=complete_argument)
@click.option(
    "--json-args", "file", type=click.File("rb"), metavar="FILE", help="Arguments as one JSON object; - is stdin."
)
@click.option("--stream", "streams", is_flag=True, help="SERVICE gives many items: print each as a line of JSON.")
@click.option(
    "--progress/--no-progress", default=None, help="Show how far SERVICE says it is; without either, on a terminal."
)
@timeout_option
@node_options
def call_command(
    settings: Settings,
    node: str,
    service: str,
    arguments: tuple[str, ...],
    file: Any,
    streams: bool,
    progress: bool | None,
    timeout: float,
) -> None:
    """Call SERVICE of NODE and print the result.

    A VALUE is read as what the service declares: text, a number, a date, bytes in Base64, JSON for lists and maps.
    Where it declares nothing, a VALUE that is JSON is taken as JSON (5, true, [1, 2], "5"), anything else as text; text
    that looks like JSON needs quotes of its own, and the shell's around them: 'name="5"'.
    """
    from speed.node.streaming import ProgressBar

    values = _json_object(file) if file else {}
    parsed = parse_arguments(arguments)
    with settings.node() as own:
        values |= parsed | declared_arguments(own, node, service, arguments, timeout)
        shows = sys.stderr.isatty() if progress is None else progress
        show = ProgressBar(file=sys.stderr) if shows else None
        try:
            if streams:
                for item in own.stream(node, service, values, idle_timeout=timeout, on_progress=show):
                    echo_json(item)
                return
            result = own.call(node, service, values, timeout=timeout, on_progress=show)
        except InvalidArgumentsError as error:
            error.args = (f"{error}{_how_to_quote(error, arguments)}",)
            raise
    print_value(result, settings.as_json)


def _how_to_quote(error: InvalidArgumentsError, words: Iterable[str]) -> str:
    """What to write where a service wants text and got what JSON made of a word."""
    name = error.details.get("argument")
    for word in words:
        wanted, _, text = word.partition("=")
        is_text_wanted = "str" in str(error.details.get("expected")).split(" or ")
        if wanted == name and is_text_wanted and not isinstance(parse_value(text), str):
            return f"; {text} was read as JSON: for text write {shlex.quote(f'{name}={json.dumps(text)}')}"
    return ""


def _json_object(file: Any) -> dict[str, Any]:
    try:
        value = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"{file.name} must hold one JSON object, not {type(value).__name__}")
    return value


def _payload(text: str) -> Any:
    return parse_value(sys.stdin.read() if text == "-" else text)


@click.command("send")
@click.argument("node", shell_complete=complete_node)
@click.argument("payload", required=False)
@click.option("--file", type=click.File("rb"), help="Send the bytes of this file, of any size, as the payload.")
@click.option("--progress", is_flag=True, help="Show how much of a large file was written.")
@click.option("--ack", is_flag=True, help="Wait until the node has handled it, or has it wait for its program.")
@timeout_option
@node_options
@encryption_option
def send_command(
    settings: Settings, node: str, payload: str | None, file: Any, progress: bool, ack: bool, timeout: float
) -> None:
    """Send PAYLOAD (JSON, else text; - is stdin) to NODE, or the bytes of a file."""
    if (payload is None) == (file is None):
        raise click.UsageError("give a PAYLOAD, or --file FILE")
    value = _payload(payload) if payload is not None else file
    with settings.node() as own, _bar(progress) as on_progress:
        message_id = own.send(node, value, ack=ack, timeout=timeout, on_progress=on_progress)
    waiting = getattr(message_id, "waiting", False)
    if settings.as_json:
        print_value({"node": node, "messageId": message_id, "acknowledged": ack, "waiting": waiting}, True)
    else:
        done = "Accepted, and waits until the node's program takes it" if waiting else "Handled"
        echo(f"{done if ack else 'Handed over'}: {message_id}")


@contextmanager
def _bar(shown: bool) -> Iterator[Callable[[int, int], object] | None]:
    """What draws a bar on stderr while a payload is written."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    with Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("send", total=None)
        yield lambda written, total: bar.update(task, completed=written, total=total)


@click.command("publish")
@click.argument("topic")
@click.argument("payload")
@timeout_option
@node_options
@encryption_option
def publish_command(settings: Settings, topic: str, payload: str, timeout: float) -> int:
    """Publish PAYLOAD (JSON, else text; - is stdin) to all who subscribe to TOPIC and allow this node.

    Ends with status 5 if a subscriber does not allow this command, with 8 if one could not be written to.
    """
    value = _payload(payload)
    with settings.node() as own:
        reached = own.publish(topic, value, timeout=timeout)
    failed = dict(reached.failed)
    if settings.as_json:
        print_value({"topic": topic, "nodes": int(reached), "failed": failed}, True)
    else:
        echo(f"Reached {int(reached)} node{'' if reached == 1 else 's'}.")
        for node, code in failed.items():
            echo(f"speed: {code}: {node} subscribes to {topic} and did not get it", error=True)
    return _status_of(failed.values())


def _status_of(codes: Iterable[str]) -> int:
    """Exit status of an event that not all subscribers got."""
    return max((5 if code == "ACCESS_DENIED" else 8 for code in codes), default=0)


allow_option = click.option(
    "--allow", multiple=True, required=True, metavar="NAME", help="Who may write to this node; repeatable."
)
count_option = click.option("-n", "--count", type=click.IntRange(1), help="End after this many.")
for_option = click.option("--for", "seconds", type=SECONDS, help="End after this many seconds without one.")


@click.command("listen")
@allow_option
@count_option
@for_option
@schemas_option
@node_options
@encryption_option
def listen_command(
    settings: Settings, allow: tuple[str, ...], count: int | None, seconds: float | None, schemas: str | None
) -> None:
    """Print messages sent to this node (give it a name with --as), until interrupted."""
    with settings.node(*allow) as own:
        _announce(own.name)
        _print_all(lambda: own.receive(timeout=seconds), settings, count, registry_of(schemas))


@click.command("subscribe")
@click.argument("topic")
@allow_option
@count_option
@for_option
@schemas_option
@node_options
@encryption_option
def subscribe_command(
    settings: Settings,
    topic: str,
    allow: tuple[str, ...],
    count: int | None,
    seconds: float | None,
    schemas: str | None,
) -> None:
    """Print events whose topic is TOPIC (or matches it: `orders.*`, `*`), until interrupted."""
    arrived: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def take() -> Message | None:
        try:
            return arrived.get(timeout=seconds)
        except queue.Empty:
            return None

    with settings.node(*allow) as own:
        own.subscribe(topic, arrived.put)
        _announce(own.name)
        _print_all(take, settings, count, registry_of(schemas))


def _announce(name: str) -> None:
    """Who this command is: senders must know it. On stderr, so that stdout holds messages only."""
    echo(f"Listening as {name}", error=True)


def _print_all(
    take: Callable[[], Message | None], settings: Settings, count: int | None, schemas: SchemaRegistry | None
) -> None:
    printed = 0
    while count is None or printed < count:
        message = take()
        if message is None:
            return
        _print_message(message, settings, schemas)
        printed += 1


def _print_message(message: Message, settings: Settings, schemas: SchemaRegistry | None) -> None:
    value = shown_payload(message.metadata, schemas)
    if hasattr(value, "read"):
        value = {"bytes": len(value)}  # too large to print
    if settings.as_json:
        line = {
            "source": message.source,
            "topic": message.topic,
            "messageId": message.message_id,
            "timestampMs": message.timestamp_ms,
            "redelivered": message.redelivered,
            "payload": value,
        }
        echo_json(line)
    else:
        text = value if isinstance(value, str) else as_json(value)
        echo(f"{message.source}  {message.topic}  {text}")
    sys.stdout.flush()


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
host_option = click.option("--host", default="speedd.topics", show_default=True, help="The node that hosts the topics.")
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
