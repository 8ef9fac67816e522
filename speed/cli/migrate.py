"""``speed envelope migrate``: the messages of one backend into another, old forms as envelopes (M-39)."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from speed.cli.options import span
from speed.cli.output import echo, print_rows, print_value
from speed.errors import ConfigurationError
from speed.message.old_forms import FORMS

if TYPE_CHECKING:
    from speed.bridges.address import Address
    from speed.bridges.backend import Backend
    from speed.bridges.comparing import Compared
    from speed.bridges.migrating import Judge, Migration, State

_NOT_TAKEN = ("unknown", "too large")
_RENEWED_SECONDS = 5.0
"""More than a lease: what a killed run held is given out again then."""


@dataclass(frozen=True)
class _Asked:
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
    asked = _Asked(**options)
    if asked.target is None and not asked.dry_run:
        raise click.UsageError("--to is missing: name the address to copy to, or use --dry-run")
    context.exit(_run(asked))


def _run(asked: _Asked) -> int:
    from speed.bridges import open_backend
    from speed.bridges.address import parse_address
    from speed.bridges.migrating import Judge

    source_address = parse_address(asked.source)
    source = open_backend(source_address, asked.most)
    judge = Judge(source_address.backend, frozenset(asked.forms or FORMS), asked.namespace, asked.most)
    try:
        if asked.target is None or asked.dry_run:
            return _tell(asked, _counted(asked, source, judge), [], None)
        target_address = parse_address(asked.target)
        if _where(source_address) == _where(target_address):
            raise ConfigurationError("--from and --to are the same place: messages would be copied for ever")
        target = open_backend(target_address, asked.most)
        try:
            state = _state(asked, source_address, target_address)
            lease = float(source_address.options.get("lease_seconds", 0.0))
            migration = _migrate(asked, source, target, judge, state, lease)
            was_interrupted = migration.is_stopped and not asked.follows
            compared = _compared(asked, source, target, judge) if asked.compares and not was_interrupted else None
            status = _tell(asked, state.counts, migration.refused, compared)
            return 130 if was_interrupted else status
        finally:
            target.close()
    finally:
        source.close()


def _where(address: Address) -> tuple[Any, ...]:
    return address.backend, address.hosts, address.place, address.options.get("table"), address.options.get("endpoint")


def _state(asked: _Asked, source: Address, target: Address) -> State:
    """That of the file. Another transactional_id is another migration: it would not shut out what a killed run left."""
    from speed.bridges.migrating import State

    what = {"from": str(source), "to": str(target), "topics": asked.topics, "group": asked.group}
    transaction = str(target.options.get("transactional_id", ""))
    state = State(asked.state, what | ({"transactional_id": transaction} if transaction else {}))
    if asked.resumes:
        state.read()
    elif state.is_there:
        raise ConfigurationError(f"{asked.state} is there: go on with --resume, or name another --state")
    return state


def _migrate(asked: _Asked, source: Backend, target: Backend, judge: Judge, state: State, lease: float) -> Migration:
    """Run it. The state is as the last batch left it."""
    from speed.bridges.migrating import Migration
    from speed.bridges.scans import count

    subscription = source.subscribe(asked.topics, asked.group, "earliest")
    migration = Migration(subscription, target, judge, state)
    idle = max(asked.idle, lease + _RENEWED_SECONDS) if asked.resumes else asked.idle
    total = None if asked.follows else count(source, asked.topics)
    try:
        with _stopping(migration), _bar(asked, "copied", total, state.counts) as told:
            migration.run(None if asked.follows else idle, told)
    finally:
        subscription.close()
    return migration


def _counted(asked: _Asked, source: Backend, judge: Judge) -> Counter[str]:
    """What there is, read without a group."""
    from speed.bridges.scans import count, scan

    counts: Counter[str] = Counter()
    with _bar(asked, "read", count(source, asked.topics), counts) as told:
        for page in scan(source, asked.topics):
            counts.update(judge.judge(one).form for one in page)
            told(len(page))
    return counts


def _compared(asked: _Asked, source: Backend, target: Backend, judge: Judge) -> Compared:
    from speed.bridges.comparing import compare

    with _bar(asked, "compared", None, {}) as told:
        return compare(source, target, asked.topics, judge, told)


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
def _bar(asked: _Asked, word: str, total: int | None, counts: Mapping[str, int]) -> Iterator[Callable[[int], None]]:
    """What draws a bar on stderr, with how many there are of what."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(word),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[of]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=asked.as_json) as bar:
        task = bar.add_task(word, total=total, of="")
        yield partial(_advance, bar, task, counts)


def _advance(bar: Any, task: Any, counts: Mapping[str, int], number: int) -> None:
    of = ", ".join(f"{form} {many}" for form, many in sorted(counts.items()))
    bar.update(task, advance=number, of=of)


def _tell(asked: _Asked, counts: Mapping[str, int], refused: list[tuple[str, str, str]], compared: Any) -> int:
    """Print what came of it; returns the exit status."""
    if asked.as_json:
        told = {"counts": dict(counts), "refused": refused}
        print_value(told | ({} if compared is None else {"compared": compared._asdict()}), True)
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
