"""``speed journal``: what speedd recorded, read without a node."""

from __future__ import annotations

import datetime
import functools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from speed.cli.options import (
    Settings,
    as_json,
    common_options,
    echo,
    echo_json,
    echo_json_text,
    print_rows,
    print_value,
    shown_payload,
)
from speed.errors import JournalDamagedError, JournalError, JournalExpiredError, JournalTakenError, WireError
from speed.observe import bytes_text, seconds_text
from speed.wire.names import child_path, matches

if TYPE_CHECKING:
    from speed.journal import Journal, LaneInfo, Record


# Records of a journal for commands: which are chosen, where reading goes on, and how one is shown.


def moment(text: str) -> datetime.datetime:
    """A time as people write it, of this machine's zone unless it names one; BadParameter."""
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time such as 2026-07-01T12:00:00Z") from None


@dataclass(frozen=True)
class Wanted:
    """Which records a command is about. The patterns are those of grants: a name, or a family as ``orders.*``."""

    subject: str = "*"
    source: str = "*"
    since: datetime.datetime | None = None

    def covers(self, lane: LaneInfo) -> bool:
        """Whether a lane has such records."""
        return matches(self.subject, lane.subject) and matches(self.source, lane.source)

    def start(self, journal: Journal, lane: str) -> int:
        """The first offset in a lane; records before it are not wanted."""
        return journal.first(lane) if self.since is None else journal.offset_at(lane, self._since_ms)

    def has(self, record: Record) -> bool:
        """Whether a record behind ``start`` is wanted: a block also holds older ones."""
        return record.recorded_at_ms >= self._since_ms

    @property
    def _since_ms(self) -> int:
        return 0 if self.since is None else int(self.since.timestamp() * 1000)


def wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--subject, --source and --since; the command gets ``wanted`` instead."""

    @functools.wraps(command)
    def run(*args: Any, subject: str, source: str, since: datetime.datetime | None, **kwargs: Any) -> Any:
        return command(*args, wanted=Wanted(subject, source, since), **kwargs)

    time = click.option("--since", metavar="TIME", callback=_moment_or_none, help="From then on: 2026-07-01T12:00:00Z.")
    source = click.option("--source", metavar="PATTERN", default="*", help="Of these nodes only, such as etl.*")
    subject = click.option("--subject", metavar="PATTERN", default="*", help="Of these topics, inboxes or services.")
    return cast("Callable[..., Any]", subject(source(time(run))))


def _moment_or_none(_: click.Context, __: click.Parameter, text: str | None) -> datetime.datetime | None:
    return None if text is None else moment(text)


class JournalReading:
    """Reads lanes of a journal from where it was. Damage in one lane ends that one, and is told; not thread-safe.

    ``damaged`` counts the lanes that were left for their damage.
    """

    def __init__(self, journal: Journal, wanted: Wanted, *, skip_damaged: bool = False) -> None:
        self.damaged = 0
        self._journal = journal
        self._wanted = wanted
        self._skip_damaged = skip_damaged
        self._positions: dict[str, int] = {}
        self._left: set[str] = set()
        self._again = False

    def pass_over(self) -> None:
        """Begin behind all that is recorded now."""
        for info in self._lanes():
            with self._reporting(info):
                self._positions[info.id] = self._journal.end(info.id, skip_damaged=True)

    def records(self) -> Iterator[tuple[LaneInfo, Record]]:
        """What came since the last time, lane by lane."""
        for info in self._lanes():
            self._again = info.id not in self._left
            while self._again:
                self._again = False
                with self._reporting(info):
                    yield from self._of(info)

    def _lanes(self) -> list[LaneInfo]:
        """One that cannot tell what it holds is named once."""
        found, damaged = self._journal.survey()
        for lane, error in damaged.items():
            if lane not in self._left:
                self._leave(lane, error)
        return [one for one in found if self._wanted.covers(one)]

    def _leave(self, lane: str, error: JournalDamagedError) -> None:
        self.damaged += 1
        self._left.add(lane)
        echo(str(error), error=True)

    def _of(self, info: LaneInfo) -> Iterator[tuple[LaneInfo, Record]]:
        journal, lane = self._journal, info.id
        if lane not in self._positions:
            self._positions[lane] = self._wanted.start(journal, lane)
        end = journal.end(lane, skip_damaged=self._skip_damaged)
        for record in journal.read(lane, self._positions[lane], end, skip_damaged=self._skip_damaged):
            self._positions[lane] = record.offset + 1
            if self._wanted.has(record):
                yield info, record

    @contextmanager
    def _reporting(self, info: LaneInfo) -> Iterator[None]:
        """Report on standard error why a lane cannot be read, and go on with the others."""
        try:
            yield
        except JournalExpiredError as error:  # retention was quicker: what it kept is read
            self._again = error.first > self._positions.get(info.id, -1)
            self._positions[info.id] = error.first
        except JournalDamagedError as error:
            self._leave(info.id, error)


def described(info: LaneInfo, record: Record) -> dict[str, Any]:
    """One record as a JSON object."""
    recorded_at = datetime.datetime.fromtimestamp(record.recorded_at_ms / 1000, datetime.timezone.utc)
    row = {"offset": record.offset, "recordedAt": recorded_at, "source": record.source}
    if info.kind == "calls":
        from speed.journal.files import read_call

        return {**row, **read_call(record, info.subject)._asdict()}
    view = record.view
    travels_closed = view.is_encrypted or view.content_encoding != "none"
    is_shown = view.security.contains_pii or not travels_closed
    payload = shown_payload(view) if is_shown else view.payload_bytes  # as it travelled
    message = {"messageId": view.message_id, "topic": view.topic, "contentType": view.content_type}
    return {**row, "sequence": record.sequence, "redelivered": record.redelivered, **message, "payload": payload}


def located(info: LaneInfo, record: Record) -> dict[str, Any]:
    """One record as a JSON object that also says where it lies."""
    return {"lane": info.id, "kind": info.kind, "subject": info.subject, **described(info, record)}


COLUMNS = ("lane", "kind", "subject", "source", "first", "end")
_BEYOND = 1 << 62
"""A lane that is damaged is read as far as it goes."""
FOLLOW_SECONDS = 0.2
"""Pause between two looks at a journal that is followed."""
directory_option = click.option("--directory", metavar="DIR", help="The journal (default: <root>/journal).")
skip_option = click.option("--skip-damaged", is_flag=True, help="Go on behind damage.")


@click.group("journal")
def journal_command() -> None:
    """Look into the journal that speedd keeps."""


@journal_command.command("list")
@directory_option
@common_options
def list_command(settings: Settings, directory: str | None) -> None:
    """List the lanes: what is recorded, from whom, and which offsets are there."""
    journal = _journal(settings, directory)
    lanes, damaged = journal.survey()
    rows = [row for info in lanes for row in _row(journal, info)]
    if settings.as_json:
        print_value([dict(zip(COLUMNS, row, strict=True)) for row in rows], True)
    else:
        print_rows(COLUMNS, rows, empty=f"No lanes in {journal.directory}.")
    for error in damaged.values():
        echo(str(error), error=True)


@journal_command.command("read")
@click.argument("lane")
@click.option("--from", "start", type=click.IntRange(0), help="First offset (default: the first one kept).")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="How many records at most.")
@skip_option
@directory_option
@common_options
def read_command(
    settings: Settings, directory: str | None, lane: str, start: int | None, count: int, skip_damaged: bool
) -> None:
    """Print records of a lane, one JSON object a line. LANE is an id, or as much of its beginning as is unique."""
    journal = _journal(settings, directory)
    info = _chosen(journal, lane)
    first = journal.first(info.id) if start is None else start
    for record in journal.read(info.id, first, first + count, skip_damaged=skip_damaged):
        echo_json(described(info, record))


@journal_command.command("verify")
@directory_option
@common_options
def verify_command(settings: Settings, directory: str | None) -> int:
    """Open every block of every lane. Ends with status 1 if something is damaged, or was cut off."""
    from speed.journal import LaneInfo

    journal = _journal(settings, directory)
    lanes, unknown = journal.survey()
    found = [(info, *verified) for info in lanes for verified in _verified(journal, info)]
    found += [(LaneInfo(lane, "", "", ""), 0, str(error)) for lane, error in unknown.items()]
    damaged = sum(1 for *_, damage in found if damage)
    if settings.as_json:
        shown = [{"lane": info.id, "records": records, "damage": damage} for info, records, damage in found]
        print_value({"lanes": shown, "damaged": damaged}, True)
    else:
        rows = [(*info, records, damage or "whole") for info, records, damage in found]
        print_rows((*COLUMNS[:4], "records", "state"), rows, empty=f"No lanes in {journal.directory}.")
    return 1 if damaged else 0


@journal_command.command("reseal")
@click.option("--directory", metavar="DIR", help="A journal, or durable topics (default: both of the root).")
@common_options
def reseal_command(settings: Settings, directory: str | None) -> int:
    """Seal anew with the first key what older keys sealed, so that these can be retired.

    It works on the journal and the durable topics. While speedd runs, speedd does it by itself, and this only looks.
    Ends with status 1 while something is left. What is damaged cannot be sealed anew: it is named, and stays damaged.
    """
    found = [_resealed(place, settings.key) for place in _places(settings.root, directory)]
    if settings.as_json:
        print_value([one._asdict() for one in found], True)
    else:
        rows = [(one.directory, one.files, bytes_text(one.bytes), one.left, one.state) for one in found]
        print_rows(("directory", "sealed anew", "size", "left", "state"), rows, empty=f"No journal in {settings.root}.")
    return int(any(one.left for one in found))


class _Resealed(NamedTuple):
    """What was done in one place: files and bytes that were sealed anew, and files that are left."""

    directory: str
    files: int
    bytes: int
    left: int
    state: str


def _places(root: str, directory: str | None) -> list[str]:
    """Where journals lie. JournalError for one that is named and is none."""
    from speed.wire.names import JOURNAL_LOCK, journal_dir, topics_dir

    places = [os.path.abspath(directory)] if directory else [journal_dir(root), topics_dir(root)]
    there = [place for place in places if os.path.lexists(child_path(place, JOURNAL_LOCK))]
    if directory and not there:
        raise JournalError(f"there is no journal in {directory}: name the directory that speedd writes")
    return there


def _resealed(place: str, key: str) -> _Resealed:
    from speed.fs.keyfile import load_key_file
    from speed.journal.reseal import held_by
    from speed.journal.writer import JournalWriter

    files = size = 0
    state = "done"
    try:
        with JournalWriter(place, key) as writer:
            for one in writer.reseal():
                files, size = files + bool(one.size), size + one.size
                if one.trouble:
                    echo(f"{child_path(place, one.path)}: {one.trouble}", error=True)
    except JournalTakenError:
        state = "written by another process, such as speedd, which seals it anew by itself"
    ring = load_key_file(key)
    left = held_by(place, ring, ring.key_ids[1:]).files
    return _Resealed(place, files, size, left, state)


@journal_command.command("follow")
@wanted_options
@click.option("--count", type=click.IntRange(1), help="End after so many records.")
@directory_option
@common_options
def follow_command(
    settings: Settings,
    directory: str | None,
    wanted: Wanted,
    count: int | None,
) -> None:
    """Print what is recorded from now on, or since a time, one JSON object a line, until it is interrupted."""
    reading = JournalReading(_journal(settings, directory), wanted, skip_damaged=True)
    if wanted.since is None:
        reading.pass_over()
    pause, left = threading.Event(), count
    while left != 0:
        for info, record in reading.records():
            echo_json(located(info, record))
            left = None if left is None else left - 1
            if left == 0:
                return
        pause.wait(FOLLOW_SECONDS)


@journal_command.command("grep")
@click.argument("expression", metavar="EXPRESSION")
@click.option("--ignore-case", "-i", is_flag=True, help="Letters match whatever their case.")
@wanted_options
@skip_option
@directory_option
@common_options
def grep_command(
    settings: Settings,
    directory: str | None,
    wanted: Wanted,
    expression: str,
    ignore_case: bool,
    skip_damaged: bool,
) -> int:
    """Print the records whose line of JSON matches a regular expression. Ends with status 1 if none does."""
    try:
        matching = re.compile(expression, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.BadParameter(f"{expression!r} is no regular expression: {error}") from None
    reading = JournalReading(_journal(settings, directory), wanted, skip_damaged=skip_damaged)
    lines = (as_json(located(info, record)) for info, record in reading.records())
    found = 0
    for line in filter(matching.search, lines):
        echo_json_text(line)
        found += 1
    return 1 if reading.damaged or not found else 0


# ``speed trace``: what belongs to one trace, of all lanes.

MAX_TRACED = 10_000
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


@click.command("trace")
@click.argument("trace", metavar="ID")
@wanted_options
@directory_option
@common_options
def trace_command(settings: Settings, directory: str | None, wanted: Wanted, trace: str) -> int:
    """Print what the journal has of one trace, by time: messages, events and calls of speedd's services that carry it.

    ID is a trace id of 32 hexadecimal digits, or a whole traceparent. Ends with status 1 if nothing carries it.
    """
    wanted_id = _trace_id(trace)
    reading = JournalReading(_journal(settings, directory), wanted, skip_damaged=True)
    found: list[dict[str, Any]] = []
    for info, record in reading.records():
        carried = _carried(info, record)
        if carried and _trace_id_in(carried) == wanted_id:
            found.append({"traceparent": carried, **located(info, record)})
        if len(found) == MAX_TRACED:
            echo(f"Only the first {MAX_TRACED} are shown: see --since.", error=True)
            break
    found.sort(key=lambda row: row["recordedAt"])
    for row in found:
        if settings.as_json:
            echo_json(row)
        else:
            echo(_traced_line(row))
    if not found:
        echo(f"Nothing that is recorded carries the trace {wanted_id}.", error=True)
    return 1 if reading.damaged or not found else 0


def _trace_id(text: str) -> str:
    """BadParameter for what is none."""
    found = _trace_id_in(text) if "-" in text else text.lower()
    if not found or not _TRACE_ID.fullmatch(found):
        raise click.BadParameter(f"{text!r} is no trace id of 32 hexadecimal digits, and no traceparent")
    return found


def _trace_id_in(traceparent: str) -> str | None:
    from speed.wire.text import parse_traceparent

    try:
        return parse_traceparent(traceparent).trace_id
    except WireError:
        return None


def _carried(info: LaneInfo, record: Record) -> str | None:
    """The traceparent of a record; None of one that cannot be read as what it should be."""
    from speed.journal.files import read_call

    try:
        carried: Any = read_call(record, info.subject).traceparent if info.kind == "calls" else record.view.traceparent
    except WireError:
        return None
    return carried if isinstance(carried, str) else None


def _traced_line(row: dict[str, Any]) -> str:
    at = row["recordedAt"].astimezone()
    span = row["traceparent"][36:52]
    if row["kind"] == "calls":
        took = seconds_text(row["microseconds"] / 1e6)
        what = f"{row['caller']} called {row['source']} {row['subject']}: {row['outcome']}, {took}"
    else:
        to = "to" if row["kind"] == "inbox" else "published"
        what = f"{row['source']} {to} {row['subject']}: {row['messageId']}"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}  {span}  {what}"


@journal_command.command("export")
@click.argument("file", type=click.Path(dir_okay=False))
@wanted_options
@skip_option
@directory_option
@common_options
def export_command(
    settings: Settings,
    directory: str | None,
    wanted: Wanted,
    file: str,
    skip_damaged: bool,
) -> int:
    """Write records to FILE, one JSON object a line; it is in place when all are written. Status 1 after damage."""
    place = os.path.abspath(file)
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isfile(place)):
        raise click.BadParameter(
            f"{place} is no ordinary file; `speed journal grep .` prints records", param_hint="FILE"
        )
    reading = JournalReading(_journal(settings, directory), wanted, skip_damaged=skip_damaged)
    written = _write(place, reading)
    print_value({"file": place, "records": written, "damaged": reading.damaged}, settings.as_json)
    return 1 if reading.damaged else 0


def _write(place: str, reading: JournalReading) -> int:
    """Write all records into a file beside ``place``, and put it there; how many they are."""
    written = 0
    with tempfile.NamedTemporaryFile(
        "w", dir=os.path.dirname(place), prefix=".tmp-", delete=False, encoding="utf-8"
    ) as made:
        try:
            for info, record in reading.records():
                made.write(as_json(located(info, record)) + "\n")
                written += 1
            made.flush()
            os.fsync(made.fileno())
            os.replace(made.name, place)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(made.name)
            raise
    return written


def _journal(settings: Settings, directory: str | None) -> Journal:
    from speed.journal import Journal
    from speed.wire.names import journal_dir

    return Journal(directory or journal_dir(settings.root), settings.key)


def _chosen(journal: Journal, beginning: str) -> LaneInfo:
    found = [info for info in journal.survey()[0] if info.id.startswith(beginning)]
    if len(found) != 1:
        what = "several lanes begin" if found else "no lane begins"
        raise click.BadParameter(f"{what} with {beginning!r}; `speed journal list` shows all", param_hint="LANE")
    return found[0]


def _row(journal: Journal, info: LaneInfo) -> Iterator[tuple[str | int, ...]]:
    """Nothing of a lane that retention removed since it was listed."""
    with suppress(JournalExpiredError):
        yield (*info, journal.first(info.id), journal.end(info.id, skip_damaged=True))


def _verified(journal: Journal, info: LaneInfo) -> Iterator[tuple[int, str]]:
    """How many records can be read, and the first damage. Retention may take some, or all, meanwhile."""
    with suppress(JournalExpiredError):
        first, damage = journal.first(info.id), ""
        try:
            for _ in journal.read(info.id, first, journal.end(info.id)):
                pass
        except JournalDamagedError as error:
            damage = str(error)
        records = journal.read(info.id, first, _BEYOND if damage else journal.end(info.id), skip_damaged=True)
        yield sum(1 for _ in records), damage
