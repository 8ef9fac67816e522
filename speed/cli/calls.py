"""``speed call``, ``send``, ``listen``, ``publish`` and ``subscribe``: the verbs of a node, typed."""

from __future__ import annotations

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
    as_json,
    complete_argument,
    complete_node,
    complete_service,
    count_option,
    declared_arguments,
    echo,
    echo_json,
    encryption_option,
    for_option,
    node_options,
    parse_arguments,
    parse_value,
    print_value,
    registry_of,
    schemas_option,
    shown_payload,
)
from speed.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from speed import Message, SchemaRegistry


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
