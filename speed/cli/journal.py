"""``speed journal``: what speedd recorded, read without a node."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from speed.cli.journal_records import Reading, Wanted, described, located, wanted_options
from speed.cli.options import Settings, common_options
from speed.cli.output import as_json, bytes_text, echo, echo_json, echo_json_text, print_rows, print_value
from speed.errors import JournalDamagedError, JournalError, JournalExpiredError, JournalTakenError
from speed.wire.names import child_path

if TYPE_CHECKING:
    from speed.journal import Journal, LaneInfo

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
    reading = Reading(_journal(settings, directory), wanted, skip_damaged=True)
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
    reading = Reading(_journal(settings, directory), wanted, skip_damaged=skip_damaged)
    lines = (as_json(located(info, record)) for info, record in reading.records())
    found = 0
    for line in filter(matching.search, lines):
        echo_json_text(line)
        found += 1
    return 1 if reading.damaged or not found else 0


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
    reading = Reading(_journal(settings, directory), wanted, skip_damaged=skip_damaged)
    written = _write(place, reading)
    print_value({"file": place, "records": written, "damaged": reading.damaged}, settings.as_json)
    return 1 if reading.damaged else 0


def _write(place: str, reading: Reading) -> int:
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
