"""Records of a journal for commands: which are chosen, where reading goes on, and how one is shown."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from speed.cli.output import echo
from speed.cli.shown import shown_payload
from speed.errors import JournalDamagedError, JournalExpiredError
from speed.wire.names import matches

if TYPE_CHECKING:
    from speed.journal import Journal, LaneInfo, Record


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


class Reading:
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
            with self._told(info):
                self._positions[info.id] = self._journal.end(info.id, skip_damaged=True)

    def records(self) -> Iterator[tuple[LaneInfo, Record]]:
        """What came since the last time, lane by lane."""
        for info in self._lanes():
            self._again = info.id not in self._left
            while self._again:
                self._again = False
                with self._told(info):
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
    def _told(self, info: LaneInfo) -> Iterator[None]:
        """What keeps a lane from being read goes to standard error; the others are read."""
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
        from speed.journal.record import read_call

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
