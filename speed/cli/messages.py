"""``speed message envelope``, ``keys`` and ``schema``: messages in files and backends, their keys and schemas."""

from __future__ import annotations

import base64
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from speed.cli.options import echo, print_rows, print_value, registry_of, schemas_option, shown_payload, span
from speed.errors import ConfigurationError
from speed.fs.keyfile import alone_with
from speed.message.algorithms import ALGORITHMS, FIPS_MODES, fips_report
from speed.message.keys import generate_key
from speed.message.keystore import rotate_file, write_keys
from speed.message.old_forms import FORMS, OldMessage, is_envelope, recognise, why_no_envelope
from speed.message.providers import FileProvider
from speed.message.reader import outline
from speed.message.schemas import MODES, incompatibilities
from speed.message.schemas.registry import Use, read_schema, read_usage
from speed.message.view import MessageView
from speed.wire.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from speed.backends.address import Address
    from speed.backends.backend import Backend
    from speed.backends.migrating import Compared, Judge, Migration, MigrationState


# ``speed message envelope migrate``: the messages of one backend into another, old forms as envelopes (M-39).

_NOT_TAKEN = ("unknown", "too large")
_RENEWED_SECONDS = 5.0
"""More than a lease: what a killed run held is given out again then."""


@dataclass(frozen=True)
class _MigrationOptions:
    """The options."""

    source: str
    target: str | None
    topics: str
    forms: tuple[str, ...]
    namespace: str
    group: str
    state: str
    resumes: bool
    dry_run: bool
    compares: bool
    follows: bool
    idle: float
    most: int
    as_json: bool


@click.command("migrate")
@click.option("--from", "source", required=True, metavar="ADDRESS", help="As redis://host:6379.")
@click.option("--to", "target", metavar="ADDRESS", help="As kafka://host:9092.")
@click.option("--topics", default="*", show_default=True, metavar="PATTERN", help="Which, as orders.*.")
@click.option("--form", "forms", multiple=True, type=click.Choice(FORMS), help="Old forms to take over; default all.")
@click.option("--namespace", default="default", show_default=True, help="Of what is taken over.")
@click.option("--group", default="speed-migrate", show_default=True, help="Keeps the position in the source.")
@click.option("--state", default="speed-migrate.json", show_default=True, metavar="FILE", help="Keeps the rest.")
@click.option("--resume", "resumes", is_flag=True, help="Go on where a run with this FILE ended.")
@click.option("--dry-run", is_flag=True, help="Count what is recognised as what, and change nothing.")
@click.option("--compare", "compares", is_flag=True, help="Look afterwards that nothing is lost or there twice.")
@click.option("--follow", "follows", is_flag=True, help="Go on until interrupted.")
@click.option(
    "--idle", default=10.0, show_default=True, type=span("seconds", 0), help="Seconds of nothing that end it."
)
@click.option("--max-message-bytes", "most", default=1 << 20, show_default=True, help="Bound of a message.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def migrate(context: click.Context, /, **options: Any) -> None:
    """Copy messages from one backend into another, those in older forms as envelopes.

    Producers may go on. Nothing is removed from the source. After a kill or a failure, --resume goes on: what has
    arrived is not published again. Exit status 1 if some messages were not recognised, or --compare found one lost or
    twice.
    """
    settings = _MigrationOptions(**options)
    if settings.target is None and not settings.dry_run:
        raise click.UsageError("--to is missing: name the address to copy to, or use --dry-run")
    context.exit(_run(settings))


def _run(options: _MigrationOptions) -> int:
    from speed.backends import open_backend
    from speed.backends.address import parse_address
    from speed.backends.migrating import Judge

    source_address = parse_address(options.source)
    source = open_backend(source_address, options.most)
    judge = Judge(source_address.backend, frozenset(options.forms or FORMS), options.namespace, options.most)
    try:
        if options.target is None or options.dry_run:
            return _tell(options, _counted(options, source, judge), [], None)
        target_address = parse_address(options.target)
        if _where(source_address) == _where(target_address):
            raise ConfigurationError("--from and --to are the same place: messages would be copied for ever")
        target = open_backend(target_address, options.most)
        try:
            state = _state(options, source_address, target_address)
            lease = float(source_address.options.get("lease_seconds", 0.0))
            migration = _migrate(options, source, target, judge, state, lease)
            was_interrupted = migration.is_stopped and not options.follows
            compared = _compared(options, source, target, judge) if options.compares and not was_interrupted else None
            status = _tell(options, state.counts, migration.refused, compared)
            return 130 if was_interrupted else status
        finally:
            target.close()
    finally:
        source.close()


def _where(address: Address) -> tuple[Any, ...]:
    return address.backend, address.hosts, address.place, address.options.get("table"), address.options.get("endpoint")


def _state(options: _MigrationOptions, source: Address, target: Address) -> MigrationState:
    """The state in the file. Another transactional_id is another migration: it would not fence off a killed run."""
    from speed.backends.migrating import MigrationState

    what = {"from": str(source), "to": str(target), "topics": options.topics, "group": options.group}
    transaction = str(target.options.get("transactional_id", ""))
    state = MigrationState(options.state, what | ({"transactional_id": transaction} if transaction else {}))
    if options.resumes:
        state.read()
    elif state.is_there:
        raise ConfigurationError(f"{options.state} is there: go on with --resume, or name another --state")
    return state


def _migrate(
    options: _MigrationOptions, source: Backend, target: Backend, judge: Judge, state: MigrationState, lease: float
) -> Migration:
    """Run it. The state is as the last batch left it."""
    from speed.backends.migrating import Migration
    from speed.backends.scans import count

    subscription = source.subscribe(options.topics, options.group, "earliest")
    migration = Migration(subscription, target, judge, state)
    idle = max(options.idle, lease + _RENEWED_SECONDS) if options.resumes else options.idle
    total = None if options.follows else count(source, options.topics)
    try:
        with _stopping(migration), _bar(options, "copied", total, state.counts) as on_batch:
            migration.run(None if options.follows else idle, on_batch)
    finally:
        subscription.close()
    return migration


def _counted(options: _MigrationOptions, source: Backend, judge: Judge) -> Counter[str]:
    """Count the messages of each form, without a group."""
    from speed.backends.scans import count, scan

    counts: Counter[str] = Counter()
    with _bar(options, "read", count(source, options.topics), counts) as on_page:
        for page in scan(source, options.topics):
            counts.update(judge.judge(one).form for one in page)
            on_page(len(page))
    return counts


def _compared(options: _MigrationOptions, source: Backend, target: Backend, judge: Judge) -> Compared:
    from speed.backends.migrating import compare

    with _bar(options, "compared", None, {}) as on_page:
        return compare(source, target, options.topics, judge, on_page)


@contextmanager
def _stopping(migration: Migration) -> Iterator[None]:
    """An interrupt, or SIGTERM, ends it after the messages in hand; the second one at once."""

    def stop(number: int, _: object) -> None:
        migration.stop()
        signal.signal(number, before[number])

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bar(
    options: _MigrationOptions, word: str, total: int | None, counts: Mapping[str, int]
) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on stderr, with the counts of the forms."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(word),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[of]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=options.as_json) as bar:
        task = bar.add_task(word, total=total, of="")
        yield partial(_advance, bar, task, counts)


def _advance(bar: Any, task: Any, counts: Mapping[str, int], number: int) -> None:
    of = ", ".join(f"{form} {many}" for form, many in sorted(counts.items()))
    bar.update(task, advance=number, of=of)


def _tell(
    options: _MigrationOptions, counts: Mapping[str, int], refused: list[tuple[str, str, str]], compared: Any
) -> int:
    """Print the outcome; returns the exit status."""
    if options.as_json:
        summary = {"counts": dict(counts), "refused": refused}
        print_value(summary | ({} if compared is None else {"compared": compared._asdict()}), True)
    else:
        print_rows(["form", "messages"], sorted(counts.items()), empty="there is no message")
        if refused:
            print_rows(["topic", "position", "not copied"], refused, title="The first that were not copied")
        if compared is not None:
            _tell_compared(compared)
    is_bad = any(counts.get(form) for form in _NOT_TAKEN) or (compared is not None and not compared.is_whole)
    return 1 if is_bad else 0


def _tell_compared(compared: Compared) -> None:
    echo(
        f"{compared.messages} messages in the source: {compared.arrived} arrived, {compared.missing} missing, "
        f"{compared.twice} twice"
    )
    for word, places in (("missing", compared.missing_places), ("twice", compared.twice_ids)):
        for place in places:
            echo(f"  {word}: {place}")


# ``speed message envelope inspect|check|migrate``: what is in a message, and whether messages can be read (M-36).

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_MAX_BYTES = MAX_PAYLOAD_BYTES
_METADATA = (
    *("message_id", "topic", "namespace", "published_at_ms", "content_type", "content_encoding", "priority"),
    *("ttl_seconds", "correlation_id", "causality_parent", "uncompressed_bytes"),
)
_SECURITY = (
    *("publisher_id", "publisher_team", "signature_algorithm", "signature_key_id", "contains_pii"),
    "data_classification",
)
_WOULD_LACK = {"message_id": "a message id", "topic": "a topic", "published_at_ms": "a time"}
"""What an old message need not have, and an envelope must: who takes it over gives it one."""


class Found(NamedTuple):
    """One message of a file: its form is ``envelope``, an old form, or ``unknown``; ``summary`` describes it."""

    place: str
    form: str
    summary: str


@click.group("envelope")
def envelope_command() -> None:
    """Look into messages that lie in files, and migrate those of backends."""


envelope_command.add_command(migrate)


@envelope_command.command("inspect")
@click.argument("file", type=click.File("rb"))
@schemas_option
@_json_option
@click.pass_context
def inspect(context: click.Context, file: BinaryIO, schemas: str | None, as_json: bool) -> None:
    """Print what the message in FILE (- for standard input) says of itself, and its payload.

    The file holds the bytes of one envelope, or one message in an older form. Personal data is masked; tokens and
    signatures are never printed. Exit status 1 for what is neither.
    """
    data = _bytes_of(file)
    if not is_envelope(data):
        _inspect_other(context, data, as_json)
        return
    view = MessageView(data)
    fields = _fields(view)
    fields["payload"] = shown_payload(view, registry_of(schemas))
    print_value(fields, as_json)


@envelope_command.command("check")
@click.argument("file", type=click.File("rb"))
@_json_option
@click.pass_context
def check(context: click.Context, file: BinaryIO, as_json: bool) -> None:
    """Say of each message in FILE whether it is an envelope, an older form that can be taken over, or neither.

    The file holds one envelope, or one message a line: JSON of an older form, or an envelope in Base64. Exit status 0
    if all of them can be read, 1 if not.
    """
    found = list(_checked(_bytes_of(file)))
    if as_json:
        print_value([one._asdict() for one in found], True)
    else:
        print_rows(["message", "form", "remark"], found, empty="there is no message")
    context.exit(1 if not found or any(one.form == "unknown" for one in found) else 0)


def _bytes_of(file: BinaryIO) -> bytes:
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise click.UsageError(f"the file is larger than {_MAX_BYTES} bytes: split it")
    return data


def _inspect_other(context: click.Context, data: bytes, as_json: bool) -> None:
    old = recognise(data)
    if old is not None:
        print_value(_of_old(old), as_json)
        return
    print_value({"form": "unknown", "why": why_no_envelope(data), "parts": outline(data)}, as_json)
    context.exit(1)


def _fields(view: MessageView) -> dict[str, Any]:
    """All fields but the payload's content. Of bytes it shows their number."""
    security = view.security
    fields: dict[str, Any] = {"form": "envelope", "bytes": view.size, "payload_bytes": len(view.payload_bytes)}
    fields["metadata"] = {name: getattr(view, name) for name in _METADATA}
    fields["type_url"] = view.type_url
    fields["security"] = {name: getattr(security, name) for name in _SECURITY if security.HasField(name)}
    fields["security"]["signature_bytes"] = len(security.signature)
    if view.is_encrypted:
        ids = [one.key_id for one in security.encryption.recipients] or [security.encryption.key_id]
        fields["security"]["encryption"] = {"algorithm": security.encryption.algorithm, "recipients": ids}
    fields["observability"] = {"traceparent": view.traceparent, "labels": view.labels, "baggage": view.baggage}
    fields["schema"] = {found.name: _plain(value) for found, value in view.schema.ListFields()}
    fields["extensions"] = {name: f"{len(value)} bytes" for name, value in view.extensions.items()}
    return fields


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _of_old(old: OldMessage) -> dict[str, Any]:
    """Of the payload only its kind: no schema says here what of it is personal."""
    kind = f"{len(old.payload)} bytes" if isinstance(old.payload, bytes) else type(old.payload).__name__
    extensions = {name: f"{len(value)} bytes" for name, value in old.metadata.get("extensions", {}).items()}
    metadata = {name: value for name, value in old.metadata.items() if name != "extensions"}
    return {"form": old.form, "payload": kind, "metadata": metadata, "schema": old.schema, "extensions": extensions}


def _checked(data: bytes) -> Iterator[Found]:
    if is_envelope(data):
        yield _judged("1", data)
        return
    whole = recognise(data)
    if whole is not None:
        yield Found("1", whole.form, _remark(whole))
        return
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield _judged(str(number), _decoded(line))


def _judged(place: str, data: bytes) -> Found:
    if is_envelope(data):
        return Found(place, "envelope", MessageView(data).message_id)
    old = recognise(data)
    return Found(place, "unknown", why_no_envelope(data) or "") if old is None else Found(place, old.form, _remark(old))


def _decoded(line: bytes) -> bytes:
    """The bytes of an envelope in Base64; any other line as it is."""
    try:
        return base64.b64decode(line, validate=True)
    except ValueError:
        return line


def _remark(old: OldMessage) -> str:
    missing = [name for field, name in _WOULD_LACK.items() if field not in old.metadata]
    return f"can be taken over; it needs {', '.join(missing)}"


# ``speed message keys new|public|show|rotate|algorithms``: files for ``file://`` providers (M-26).

_DAY_MS = 86_400_000
_many = {"multiple": True, "metavar": "PATTERN"}


@click.group("keys")
def message_keys_command() -> None:
    """Keys that sign and encrypt messages. A secret is never printed."""


@message_keys_command.command("new")
@click.argument("file", type=click.Path())
@click.argument("algorithm")
@click.option("--id", "key_id", required=True, help="Such as orders.1: what stands in messages.")
@click.option("--topic", "topics", help="Topics it is for; repeatable, default all.", **_many)  # type: ignore[arg-type]
@click.option("--publisher", "publishers", help="Who signs with it; repeatable.", **_many)  # type: ignore[arg-type]
def new(file: str, algorithm: str, key_id: str, topics: tuple[str, ...], publishers: tuple[str, ...]) -> None:
    """Write a new key of ALGORITHM (x-wing, ed25519, aes-256-gcm, …) to FILE, which must not exist."""
    key = generate_key(key_id, algorithm, topics=topics or ("*",), publishers=publishers)
    with alone_with(file):
        if os.path.lexists(file):
            raise ConfigurationError(f"{file} exists: rotate it, or choose another name")
        write_keys(file, (key,))
    echo(f"{file}: {key.id} ({key.algorithm.name})")


@message_keys_command.command("public")
@click.argument("file", type=click.Path())
def public(file: str) -> None:
    """Print the public parts of the keys in FILE, to be given to who encrypts or verifies."""
    print_value([key.public_part().to_record() for key in FileProvider(file).fetch()], False)


@message_keys_command.command("show")
@click.argument("file", type=click.Path())
@_json_option
def show(file: str, as_json: bool) -> None:
    """List the keys in FILE: ids, algorithms and bounds."""
    keys = FileProvider(file).fetch()
    rows = [
        {"id": key.id, "algorithm": key.algorithm.name, "secret": key.secret is not None, "topics": list(key.topics)}
        | {"notBeforeMs": key.not_before_ms, "notAfterMs": key.not_after_ms}
        for key in keys
    ]
    if as_json:
        print_value(rows, True)
    else:
        print_rows(list(rows[0]), [list(row.values()) for row in rows])


@message_keys_command.command("rotate")
@click.argument("file", type=click.Path())
@click.option("--period-days", type=span("days", 0), default=0.0, help="Only if the newest key is as old as that.")
@click.option(
    "--overlap-days", type=span("days", 0), default=7.0, show_default=True, help="How long older keys are still read."
)
def rotate(file: str, period_days: float, overlap_days: float) -> None:
    """Add a new key to FILE and let the others end; those that ended are removed."""
    fresh = rotate_file(file, int(period_days * _DAY_MS), int(overlap_days * _DAY_MS))
    if fresh is None:
        echo(f"{file}: not due")
        return
    echo(f"{file}: {fresh.id} from now on; give its public part to who needs it")


@message_keys_command.command("algorithms")
@click.option("--fips-mode", type=click.Choice(FIPS_MODES), default="off", show_default=True)
@_json_option
def algorithms(fips_mode: str, as_json: bool) -> None:
    """List algorithms, and what is known of FIPS 140-3 here."""
    report = fips_report(fips_mode)
    if as_json:
        print_value(report._asdict(), True)
        return
    rows = [
        (name, "yes" if name in report.allowed else "no", "yes" if row.strict else "no")
        for name, row in ALGORITHMS.items()
    ]
    print_rows(["algorithm", f"allowed ({fips_mode})", "approved by NIST"], rows)
    echo(f"{report.openssl}; FIPS provider enabled: {report.provider_enabled}")
    echo(f"module validated: {report.module_validated}")


_ENDING = ".json"


@click.group("schema")
def schema_command() -> None:
    """Compare schemas of payloads, and see who uses old ones."""


@schema_command.command("check")
@click.argument("old", type=click.Path(exists=True, dir_okay=False))
@click.argument("new", type=click.Path(exists=True, dir_okay=False))
@click.option("--mode", type=click.Choice(MODES), default="backward", show_default=True, help="who must read what")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check_command(context: click.Context, old: str, new: str, mode: str, as_json: bool) -> None:
    """Say whether NEW is compatible with OLD: exit status 0 if it is, 1 if not.

    backward: readers of NEW read what writers of OLD wrote. forward: readers of OLD read what writers of NEW write.
    Files end in .json (JSON Schema), .avsc (Avro) or .desc (protobuf, made by protoc -o).
    """
    problems = incompatibilities(read_schema(old), read_schema(new), mode)
    if as_json:
        print_value({"mode": mode, "compatible": not problems, "problems": problems}, True)
    else:
        for problem in problems:
            echo(problem)
        echo(f"{'NOT compatible' if problems else 'compatible'} ({mode})")
    context.exit(1 if problems else 0)


@schema_command.command("usage")
@click.argument("places", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def usage_command(places: tuple[str, ...], as_json: bool) -> None:
    """List who wrote or read deprecated fields and old versions of schemas.

    PLACES are files of a SchemaUsage, or directories with such files. A row without a field is about a version; one
    without a consumer about what a node wrote.
    """
    rows = _listed(_merged(_files(places)))
    if as_json:
        print_value(rows, True)
        return
    columns = [*Use._fields, "messages", "last"]
    print_rows(columns, [[row[name] for name in columns] for row in rows], empty="nothing old was used")


def _files(places: Iterable[str]) -> list[str]:
    found: list[str] = []
    for place in places:
        if os.path.isdir(place):
            found += sorted(entry.path for entry in os.scandir(place) if entry.name.endswith(_ENDING))
        else:
            found.append(place)
    return found


def _merged(files: Iterable[str]) -> dict[Use, tuple[int, int]]:
    """What several processes counted, added up."""
    merged: dict[Use, tuple[int, int]] = {}
    for file in files:
        for use, (messages, last_ms) in read_usage(file).items():
            before, last = merged.get(use, (0, 0))
            merged[use] = before + messages, max(last, last_ms)
    return merged


def _listed(uses: dict[Use, tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {**use._asdict(), "messages": messages, "last": _time(last_ms)}
        for use, (messages, last_ms) in sorted(uses.items())
    ]


def _time(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, timezone.utc).isoformat(timespec="seconds")
