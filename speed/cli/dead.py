"""``speed dead``: messages that a node could not handle, for somebody to decide about."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from speed.cli.options import (
    Settings,
    bytes_text,
    common_options,
    echo,
    print_rows,
    print_value,
    registry_of,
    schemas_option,
    shown_payload,
)
from speed.errors import WireError
from speed.wire.names import is_node_name

if TYPE_CHECKING:
    from speed.fs.dead_letters import DeadLetter, DeadLetters, LetterFile

SHOWN_BYTES = 1 << 20
"""A larger payload is not printed; ``--output`` writes it."""
STATES = {"letter": "", "retry": "to be tried again", "trying": "being tried"}

numbers_argument = click.argument("numbers", nargs=-1, type=click.IntRange(1), metavar="[NUMBER]…")
all_option = click.option("--all", "everything", is_flag=True, help="All of them.")


@click.group("dead")
def dead_command() -> None:
    """List, show, retry and drop messages that a node could not handle."""


def _letters(settings: Settings, node: str) -> DeadLetters:
    from speed.fs.dead_letters import DeadLetters
    from speed.fs.keyfile import load_key_file

    settings.registry()  # says clearly what is missing
    return DeadLetters(settings.root, node, load_key_file(settings.key))


@dead_command.command("list")
@click.argument("node", required=False)
@common_options
def list_command(settings: Settings, node: str | None) -> None:
    """List the dead letters of NODE, or of all nodes."""
    rows = [row for name in ([node] if node else _nodes(settings)) for row in _rows(settings, name)]
    if settings.as_json:
        print_value(rows, True)
        return
    columns = ("node", "number", "type", "source", "deliveries", "died", "size", "state", "why")
    print_rows(columns, map(_cells, rows), empty="No dead letters.")


def _nodes(settings: Settings) -> list[str]:
    """Names of directories in the root that may hold dead letters."""
    settings.registry()
    with os.scandir(settings.root) as entries:
        return sorted(one.name for one in entries if is_node_name(one.name) and one.is_dir(follow_symlinks=False))


def _rows(settings: Settings, node: str) -> Iterator[dict[str, Any]]:
    letters = _letters(settings, node)
    for kept in letters.kept():
        yield {
            "node": node,
            "number": kept.number,
            "state": kept.state,
            "fileBytes": kept.size,
            **_known(letters, kept),
        }


def _known(letters: DeadLetters, kept: LetterFile) -> dict[str, Any]:
    """What a letter says of itself; ``damaged`` where it cannot be read."""
    try:
        letter, pieces = letters.read(kept.number)
    except WireError as error:
        return {"damaged": str(error)}
    pieces.close()  # type: ignore[attr-defined]
    return _fields(letter)


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "type": letter.type,
        "source": letter.source,
        "sequence": letter.sequence,
        "timestampMs": letter.timestamp_ms,
        "deliveries": letter.deliveries,
        "errorCode": letter.error_code,
        "errorMessage": letter.error_message,
        "diedAtMs": letter.died_at_ms,
        "payloadBytes": letter.payload_bytes,
    }


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    first, state = (row["node"], row["number"]), STATES[row["state"]]
    if "damaged" in row:
        return (*first, "", "", "", "", bytes_text(row["fileBytes"]), state, row["damaged"])
    why = f"{row['errorCode']}: {row['errorMessage']}"[:100]
    size = bytes_text(row["payloadBytes"])
    return (*first, row["type"], row["source"], row["deliveries"], _time(row["diedAtMs"]), size, state, why)


def _time(unix_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(unix_ms / 1000, datetime.timezone.utc)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


@dead_command.command("show")
@click.argument("node")
@click.argument("number", type=click.IntRange(1))
@click.option("--output", type=click.File("wb"), metavar="FILE", help="Write the message's bytes here.")
@schemas_option
@common_options
def show_command(settings: Settings, node: str, number: int, output: Any, schemas: str | None) -> None:
    """Show one dead letter of NODE, with its payload unless that is large."""
    letters = _letters(settings, node)
    _require(letters, node, [number])
    letter, pieces = letters.read(number)
    value = {"node": node, "number": number, **_fields(letter)}
    if output is not None:
        output.writelines(pieces)
    elif letter.payload_bytes <= SHOWN_BYTES:
        value |= _message_of(b"".join(pieces), schemas)
    print_value(value, settings.as_json)


def _message_of(data: bytes, schemas: str | None) -> dict[str, Any]:
    """The message of a letter, as far as it can be read and may be shown."""
    from speed.message.view import MessageView

    view = MessageView(data)
    try:
        view.validate()
        payload = shown_payload(view, registry_of(schemas))
        return {"topic": view.topic, "messageId": view.message_id, "payload": payload}
    except WireError as error:
        return {"payload": f"<{len(data)} bytes that are no message: {error}>"}


def _require(letters: DeadLetters, node: str, numbers: Iterable[int]) -> None:
    there = {one.number for one in letters.kept()}
    missing = [str(number) for number in numbers if number not in there]
    if missing:
        raise click.UsageError(f"{node} has no dead letter {', '.join(missing)}: see `speed dead list {node}`")


def _chosen(letters: DeadLetters, node: str, numbers: tuple[int, ...], everything: bool) -> list[int]:
    if everything == bool(numbers):
        raise click.UsageError("name the numbers of dead letters, or --all")
    _require(letters, node, numbers)
    return [one.number for one in letters.kept()] if everything else list(dict.fromkeys(numbers))


@dead_command.command("retry")
@click.argument("node")
@numbers_argument
@all_option
@common_options
def retry_command(settings: Settings, node: str, numbers: tuple[int, ...], everything: bool) -> None:
    """Have NODE handle dead letters once more: at once if it runs, else when it starts."""
    letters = _letters(settings, node)
    moved = [one for one in _chosen(letters, node, numbers, everything) if letters.move(one, "letter", "retry")]
    live = settings.registry().live(node) is not None
    if settings.as_json:
        print_value({"node": node, "retried": moved, "live": live}, True)
        return
    when = "now" if live else f"when {node} starts"
    echo(f"{_count(len(moved))} will be handled again {when}.")


@dead_command.command("drop")
@click.argument("node")
@numbers_argument
@all_option
@common_options
def drop_command(settings: Settings, node: str, numbers: tuple[int, ...], everything: bool) -> None:
    """Remove dead letters of NODE for ever."""
    letters = _letters(settings, node)
    dropped = [one for one in _chosen(letters, node, numbers, everything) if letters.drop(one)]
    if settings.as_json:
        print_value({"node": node, "dropped": dropped}, True)
    else:
        echo(f"{_count(len(dropped))} removed.")


def _count(number: int) -> str:
    return f"{number} dead letter{'' if number == 1 else 's'}"
