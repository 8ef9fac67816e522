"""``speed nodes``, ``services``, ``describe``, ``hosts``, ``bridge`` and ``dead``."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from speed.cli.options import (
    SECONDS,
    Settings,
    answer_of,
    columns_that_fit,
    common_options,
    complete_node,
    complete_service,
    echo,
    echo_json,
    node_options,
    print_rows,
    print_value,
    registry_of,
    schemas_option,
    shown_payload,
    table_of,
)
from speed.errors import WireError
from speed.observe import bytes_text, seconds_text
from speed.wire.identities import fingerprint_in
from speed.wire.names import GATEWAY, is_node_name

if TYPE_CHECKING:
    from speed.core.signatures import Description
    from speed.fs.dead_letters import DeadLetter, DeadLetters, LetterFile
    from speed.fs.registry import Registry
    from speed.wire.entry import Entry


NODE_COLUMNS = ("name", "pid", "up", "last heartbeat", "allows", "subscribes", "fabrics", "host", "language", "key")
WATCH_SECONDS = 1.0
_NO_KEYS: Mapping[str, tuple[str, ...]] = {}


@click.command("nodes")
@click.option("--fabric", metavar="F", help="Only nodes of this fabric.")
@click.option("--watch", is_flag=True, help="Go on: show changes as they come, until interrupted.")
@common_options
def nodes_command(settings: Settings, fabric: str | None, watch: bool) -> None:
    """List live nodes. Reads the registry; takes no part in it."""
    from speed.observe.holders import holders

    registry = settings.registry()
    if watch:
        _watch(registry, fabric, settings.as_json)
        return
    entries = _live(registry, fabric)
    known = holders(registry)
    keys = {one.name: one.ids for one in known}
    if settings.as_json:
        print_value([described(entry) | {"keyIds": keys.get(entry.name, ())} for entry in entries], True)
    else:
        print_rows(
            NODE_COLUMNS, (_node_row(entry, keys) for entry in entries), empty=f"No live nodes in {settings.root}."
        )
    for one in known:
        if one.state == "foreign":
            echo(f"{one.found}: {one.todo}", error=True)


def _live(registry: Registry, fabric: str | None) -> list[Entry]:
    entries = registry.live_entries(sure=True)
    return sorted((e for e in entries if fabric is None or fabric in e.fabrics), key=lambda entry: entry.name)


def _watch(registry: Registry, fabric: str | None, use_json: bool) -> None:
    """In a terminal a table that is drawn anew; else a table, or with --json a line, whenever something changes."""
    if sys.stdout.isatty() and not use_json:
        _watch_in_terminal(registry, fabric)
    shown: Any = None
    while True:
        entries = _live(registry, fabric)
        stable = [replace(entry, last_heartbeat=0, heartbeat_monotonic_ms=0) for entry in entries]
        if stable != shown:
            shown = stable
            if use_json:
                echo_json([described(entry) for entry in entries])
            else:
                print_rows(NODE_COLUMNS[:-1], (_node_row(entry)[:-1] for entry in entries), empty="No live nodes.")
        time.sleep(WATCH_SECONDS)


def _watch_in_terminal(registry: Registry, fabric: str | None) -> NoReturn:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            rows = [_node_row(entry)[:-1] for entry in _live(registry, fabric)]
            shown = columns_that_fit(NODE_COLUMNS[:-1], rows, live.console.width)
            live.update(table_of(NODE_COLUMNS[:shown], (row[:shown] for row in rows)), refresh=True)
            time.sleep(WATCH_SECONDS)


def described(entry: Entry) -> dict[str, Any]:
    """An entry with the field names of the registry."""
    return {
        "name": entry.name,
        "nodeId": entry.id.hex(),
        "generation": entry.generation,
        "status": entry.status,
        "pid": entry.pid,
        "host": entry.host,
        "startupTimestamp": entry.startup_timestamp,
        "lastHeartbeat": entry.last_heartbeat,
        "lease": entry.lease,
        "fabrics": list(entry.fabrics),
        "allow": list(entry.allow),
        "deny": list(entry.deny),
        "identity": fingerprint_in(entry),
        "identities": list(entry.identities),
        "subscriptions": list(entry.subscriptions),
        "shared": list(entry.shared),
        "language": entry.language,
        "version": entry.version,
    }


def _grants(entry: Entry) -> str:
    """Whom it allows, and who is excepted."""
    excepted = f" but not {' '.join(entry.deny)}" if entry.deny else ""
    return (" ".join((*entry.allow, *entry.identities)) or "nobody") + excepted


def _node_row(entry: Entry, keys: Mapping[str, tuple[str, ...]] = _NO_KEYS) -> list[str]:
    now = time.time()
    return [
        entry.name,
        str(entry.pid),
        seconds_text(max(0.0, now - entry.startup_timestamp / 1000)) if entry.status == "online" else entry.status,
        f"{seconds_text(max(0.0, now - entry.last_heartbeat / 1000))} ago",
        _grants(entry),
        " ".join(entry.subscriptions) or "-",
        " ".join(entry.fabrics) or "-",
        entry.host,
        entry.language,
        next(iter(keys.get(entry.name, ())), "-"),
    ]


@click.command("services")
@click.argument("node", shell_complete=complete_node)
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def services_command(settings: Settings, node: str, timeout: float) -> None:
    """List the services of NODE that you may call, by asking it."""
    with settings.node() as own:
        names = own.services(node, timeout=timeout)
    if settings.as_json:
        print_value({"node": node, "services": names}, True)
    else:
        for line in names or [f"{node} offers no service to this node."]:
            echo(line)


@click.command("describe")
@click.argument("node", shell_complete=complete_node)
@click.argument("service", required=False, shell_complete=complete_service)
@click.option("--openapi", is_flag=True, help="Print a document of OpenAPI 3.1.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def describe_command(settings: Settings, node: str, service: str | None, openapi: bool, timeout: float) -> None:
    """Show what the services of NODE take and give that you may call, or SERVICE alone, by asking it.

    With --json each has its parameters and its result as JSON Schema, where the service declares them. With --openapi
    each is a path, /NODE/SERVICE, for tools that read that: no server of SPEED answers there.
    """
    with settings.node() as own:
        found = own.describe(node, service, timeout=timeout)
    if openapi:
        print_value(openapi_of(node, found), True)
    elif settings.as_json:
        print_value({"node": node, "services": [one.travelling() for one in found]}, True)
    elif not found:
        echo(f"{node} offers no service to this node.")
    else:
        print_rows(("service", "takes and gives", "summary", "is"), map(_description_row, found), empty="")


def openapi_of(node: str, described: Iterable[Description]) -> dict[str, Any]:
    """A document of OpenAPI 3.1: a call is a POST of its arguments."""
    paths = {f"/{node}/{one.name}": {"post": _operation(node, one)} for one in described}
    return {"openapi": "3.1.0", "info": {"title": node, "version": "1"}, "paths": paths}


def _operation(node: str, one: Description) -> dict[str, Any]:
    """Each schema keeps its own definitions: its ``$id`` is what references in it begin at."""

    def content(schema: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
        whole = {"$id": f"urn:speed:{node}:{one.name}:{what}", **(schema or {})}
        return {"application/json": {"schema": whole}}

    return {
        "operationId": one.name,
        "summary": one.summary,
        "requestBody": {"required": True, "content": content(one.parameters or {"type": "object"}, "parameters")},
        "responses": {"200": {"description": "The result.", "content": content(one.result, "result")}},
    }


def _description_row(one: Description) -> list[str]:
    marks = [name for name in ("idempotent", "columns", "streaming") if getattr(one, name)]
    if one.version:
        marks.insert(0, f"version {one.version}")
    return [one.name, one.signature(), one.summary, ", ".join(marks)]


@click.command("stub")
@click.argument("node", shell_complete=complete_node)
@click.option("--language", type=click.Choice(["python", "java", "cpp"]), default="python", show_default=True)
@click.option("--name", "class_name", metavar="NAME", help="Of the class, maybe with a package or namespace before it.")
@click.option("--output", type=click.Path(dir_okay=False, writable=True), metavar="FILE", help="Write it here.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def stub_command(
    settings: Settings, node: str, language: str, class_name: str | None, output: str | None, timeout: float
) -> None:
    """Write a client with types for the services of NODE that you may call, by asking it.

    Python: a Protocol for `node.client`. Java: a class with records. C++: a header with structs.
    """
    from speed.cli.stub import CLASS_NAME, stub_of

    if class_name is not None and not CLASS_NAME.fullmatch(class_name):
        raise click.UsageError(f"--name {class_name!r} is no name of a class")
    with settings.node() as own:
        described = own.describe(node, timeout=timeout)
    text = stub_of(node, described, language, class_name)
    if output is None:
        for line in text.rstrip("\n").split("\n"):
            echo(line)
        return
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


# ``speed hosts``: the hosts that this one is joined with, as the gateway of the root sees them.

HOST_COLUMNS = ("host", "state", "round trip", "waiting", "key")


@click.command("hosts")
@node_options
def hosts_command(settings: Settings) -> None:
    """List other hosts, whether they answer, and how many calls to them wait.

    speedd must have [hosts], and allow this command there.
    """
    with settings.node() as node:
        answer = node.call(GATEWAY, "list")
    if settings.as_json:
        print_value(answer, True)
        return
    with answer_of(GATEWAY):
        print_rows(HOST_COLUMNS, [_host_row(one) for one in answer["hosts"]], empty="No other hosts.")
        echo(f"This host is {answer['name']}. NATS: {answer['broker']}.", error=True)


def _host_row(one: dict[str, Any]) -> list[Any]:
    state, round_trip = ("up", f"{one['roundTripMs']:.1f} ms") if one["up"] else ("away", "")
    return [one["host"], state, round_trip, one["waiting"], one["keyId"]]


BRIDGE_COLUMNS = ("bridge", "source", "target", "topics", "state", "lag", "carried", "dead", "dropped")


@click.group("bridge")
def bridge_command() -> None:
    """See messages on their way between a root and backends."""


@bridge_command.command("list")
@click.option("--host", default="speedd", show_default=True, help="The node of the speedd that has the bridges.")
@node_options
def bridges_command(settings: Settings, host: str) -> None:
    """List bridges with their state, how many messages wait, and what is wrong."""
    with settings.node() as node:
        bridges = node.call(host, "bridges.list")
    if settings.as_json:
        print_value(bridges, True)
        return
    with answer_of(host):
        print_rows(
            BRIDGE_COLUMNS, [[_cell(one[column]) for column in BRIDGE_COLUMNS] for one in bridges], empty="No bridges."
        )
        for one in bridges:
            if one["trouble"]:
                echo(f"{one['bridge']}: {one['trouble']}", error=True)


def _cell(value: Any) -> Any:
    return "" if value is None else value


# Messages that a node could not handle, for somebody to decide about.

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
def dead_letters_command(settings: Settings, node: str | None) -> None:
    """List the dead letters of NODE, or of all nodes."""
    rows = list(_rows(settings, node) if node else letters_of_all(settings))
    if settings.as_json:
        print_value(rows, True)
        return
    columns = ("node", "number", "type", "source", "deliveries", "died", "size", "state", "why")
    print_rows(columns, map(_cells, rows), empty="No dead letters.")


def letters_of_all(settings: Settings) -> Iterator[dict[str, Any]]:
    """The dead letters of all nodes, as ``--json`` prints them."""
    for name in _nodes(settings):
        yield from _rows(settings, name)


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
