"""``speed journal``: what speedd recorded, read without a node."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from speed.cli.options import Settings, common_options
from speed.cli.output import echo, echo_json, print_rows, print_value
from speed.cli.shown import shown_payload
from speed.errors import JournalDamagedError, JournalExpiredError

if TYPE_CHECKING:
    from speed.journal import Journal, LaneInfo, Record

COLUMNS = ("lane", "kind", "subject", "source", "first", "end")
_BEYOND = 1 << 62
"""A lane that is damaged is read as far as it goes."""
directory_option = click.option("--directory", metavar="DIR", help="The journal (default: <root>/journal).")


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
@click.option("--skip-damaged", is_flag=True, help="Go on behind damage.")
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
        echo_json(_described(info, record))


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


def _described(info: LaneInfo, record: Record) -> dict[str, Any]:
    recorded_at = datetime.datetime.fromtimestamp(record.recorded_at_ms / 1000, datetime.timezone.utc)
    row = {"offset": record.offset, "recordedAt": recorded_at, "source": record.source}
    if info.kind == "calls":
        from speed.journal.record import read_call

        return {**row, **read_call(record, info.subject)._asdict()}
    view = record.view
    travels_closed = view.is_encrypted or view.content_encoding != "none"
    is_shown = view.security.contains_pii or not travels_closed
    payload = shown_payload(view) if is_shown else view.payload_bytes  # as it travelled
    message = {"messageId": view.message_id, "topic": view.topic, "contentType": view.content_type}
    return {**row, "sequence": record.sequence, "redelivered": record.redelivered, **message, "payload": payload}
