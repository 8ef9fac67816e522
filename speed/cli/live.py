"""What goes on, drawn anew: ``speed top``, ``stats``, ``flows`` and ``watch``."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import click

from speed import Node
from speed.cli.options import (
    SECONDS,
    Settings,
    answer_of,
    columns_that_fit,
    complete_node,
    echo,
    echo_json,
    node_options,
    print_rows,
    print_value,
    table_of,
)
from speed.core.scheduler import TIME_BOUNDS_SECONDS, time_quantile
from speed.observe import bytes_text, seconds_text
from speed.observe.backlogs import Backlog, LaneBacklog, LaneBacklogs, LaneWatch, together, waiting
from speed.observe.figures import SORTED_BY, Answers, ServiceLoad, ask_all, loads
from speed.observe.happenings import Happening, Watch
from speed.observe.traffic import FLOWS_BY, Flow, flows
from speed.wire.text import harmless

# A table that is drawn anew: in its place on a terminal, once more where output is piped.

HEAD_LINES = 6
"""Of a terminal that a table and its notes need beside its rows."""
ANSWER_SECONDS = 2.0
"""A node may take so long, however short the interval is."""
Rows = list[list[str]]


class Screen:
    """Shows one table after the other; tight, as ``print_rows`` means it."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def show(self, columns: Sequence[str], rows: Rows, empty: str, notes: Sequence[str] = ()) -> None:
        """``notes`` are lines below the table."""
        if self._live is None:
            print_rows(columns, rows, empty=empty, tight=True)
            for note in notes:
                echo(note)
            sys.stdout.flush()
            return
        from rich.console import Group
        from rich.text import Text

        console = self._live.console
        rows = rows[: max(1, console.height - HEAD_LINES - len(notes))] or [[empty]]
        shown = columns_that_fit(columns[: len(rows[0])], rows, console.width, tight=True)
        table = table_of(columns[:shown], [row[:shown] for row in rows], width=console.width, tight=True)
        self._live.update(Group(table, *(Text(harmless(note)) for note in notes)), refresh=True)


@contextmanager
def screen(settings: Settings, *, once: bool) -> Iterator[Screen]:
    """Where tables are shown until the command ends."""
    if once or settings.as_json or not sys.stdout.isatty():
        yield Screen(None)
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield Screen(live)


interval_option = click.option(
    "--interval", type=SECONDS, default=2.0, show_default=True, help="Seconds between two looks."
)
once_option = click.option("--once", is_flag=True, help="Show one interval, and end.")


# ``speed stats``: what one node, or each, counted since it started.

SERVICE_COLUMNS = ("service", "requests", "errors", "timed out", "ran p50", "ran p99", "waited p99", "last error")
ALL_COLUMNS = (
    "node",
    "up",
    "calls",
    "errors",
    "busy",
    "queued",
    "messages",
    "in lanes",
    "dead",
    "refused",
    "lanes",
    "pending",
)
LANE_COLUMNS = ("messages wait of", "messages", "bytes", "oldest")


@click.command("stats")
@click.argument("node", required=False, shell_complete=complete_node)
@click.option("--all", "every", is_flag=True, help="All nodes that this command may look at, a line each.")
@click.option("--watch", is_flag=True, help="Go on: again every interval, until interrupted.")
@interval_option
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def stats_command(
    settings: Settings, node: str | None, every: bool, watch: bool, interval: float, timeout: float
) -> None:
    """Show the counters of NODE since it started, by asking it, or a line of each node with --all.

    What waits in its lanes, by sender, is read from files: it is shown of a node that hangs, too. `speed top` shows the
    last seconds.
    """
    if (node is None) != every:
        raise click.UsageError("name a NODE, or --all")
    with settings.node() as own, screen(settings, once=not (watch and every)) as shown:
        lanes = lane_watch(settings, own)
        while True:
            found = lanes.look()
            if node is None:
                _show_all(settings, ask_all(own, timeout), found, shown, own.name)
            else:
                _show_one(settings, own, node, found.get(node, {}), timeout)
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(interval)


def lane_watch(settings: Settings, own: Node) -> LaneWatch:
    """What waits in lanes, but for those of this command."""
    return LaneWatch(own.root, settings.registry().keyring, own.name)


def _show_one(settings: Settings, own: Node, node: str, waits: dict[str, LaneBacklog], timeout: float) -> None:
    if not settings.as_json and waits:
        rows = [(sender, *_lane_texts(row)) for sender, row in waits.items()]
        print_rows(LANE_COLUMNS, rows)
    stats = own.stats(node, timeout=timeout)
    if settings.as_json:
        print_value(stats | {"inLanes": {sender: row.described() for sender, row in waits.items()}}, True)
        return
    with answer_of(node):
        _print_stats(node, stats)


def _lane_texts(row: LaneBacklog) -> tuple[int, str, str]:
    return row.messages, bytes_text(row.size), seconds_text(row.oldest_seconds)


def _show_all(settings: Settings, answers: Answers, found: LaneBacklogs, shown: Screen, own: str) -> None:
    if settings.as_json:
        echo_json(answers)
        return
    rows = [_node_row(node, answer, found.get(node, {})) for node, answer in sorted(answers.items())]
    shown.show(ALL_COLUMNS, rows, f"There is no node that {own} may look at.")


def _node_row(node: str, answer: dict[str, Any] | None, waits: dict[str, LaneBacklog]) -> list[str]:
    in_lanes = str(together(waits.values()).messages) if waits else ""
    if answer is None:
        place = ALL_COLUMNS.index("in lanes")
        return [node, "silent", *[""] * (place - 2), in_lanes, *[""] * (len(ALL_COLUMNS) - place - 1)]
    services = answer["services"].values()
    refused = sum(answer.get("refusedSenders", {}).values()) + sum(answer.get("refusedBy", {}).values())
    return [
        node,
        seconds_text(max(0.0, answer["uptimeSeconds"])),
        str(sum(one["numRequests"] for one in services)),
        str(sum(one["numErrors"] for one in services) or ""),
        _busy_text(answer.get("runningRequests", 0), answer.get("workers", 0)),
        str(answer.get("queuedRequests", 0) or ""),
        str(answer.get("queuedMessages", 0) or ""),
        in_lanes,
        str(answer["counters"].get("dead_letters", 0) or ""),
        str(refused or ""),
        str(answer["lanes"]),
        str(answer["pendingCalls"] or ""),
    ]


def _print_stats(node: str, stats: dict[str, Any]) -> None:
    counters = dict(stats.get("counters", {}))
    counters |= {key: value for key, value in stats.items() if isinstance(value, (int, float))}
    print_rows(("counter", "value"), sorted(counters.items()), title=node, empty="Nothing counted yet.")
    rows = [_service_row(name, one) for name, one in stats.get("services", {}).items()]
    if rows:
        print_rows(SERVICE_COLUMNS, rows)
    refused = [(peer, number, "") for peer, number in stats.get("refusedSenders", {}).items()]
    refused += [(peer, "", number) for peer, number in stats.get("refusedBy", {}).items()]
    if refused:
        print_rows(("node", "it is refused here", "it refuses this one"), refused)


def _service_row(name: str, row: dict[str, Any]) -> list[Any]:
    run_times, queue_times = row.get("runTimes") or (), row.get("queueTimes") or ()
    times = [_quantile_text(run_times, 0.5), _quantile_text(run_times, 0.99), _quantile_text(queue_times, 0.99)]
    return [name, row["numRequests"], row["numErrors"], row.get("numTimedOut", ""), *times, row["lastError"]]


def _quantile_text(counts: Sequence[int], share: float) -> str:
    if not any(counts):
        return ""
    seconds = time_quantile(counts, share)
    return f"< {seconds_text(seconds)}" if isfinite(seconds) else f"> {seconds_text(TIME_BOUNDS_SECONDS[-1])}"


# ``speed top``: what they did in the last seconds.

MAX_WAITING = 5
"""So many subscriptions in which something waits are shown."""
LANES = "(lanes)"
"""Of a node that does nothing, but for which something waits."""
TOP_COLUMNS = ("service", "calls/s", "errors", "p50", "p99", "busy", "queue", "in lanes", "waited", "late", "messages")


def _load_row(load: ServiceLoad, answer: dict[str, Any]) -> list[str]:
    return [
        f"{load.node} {load.service}",
        f"{load.calls_per_second:,.1f}",
        f"{load.error_share:.0%}" if load.error_share else "",
        _short(load.run_times, 0.5),
        _short(load.run_times, 0.99),
        _busy_text(load.at_work, answer.get("workers", 0)),
        str(load.queued or ""),
        f"{load.waiting}, {seconds_text(load.waiting_seconds)}" if load.waiting else "",
        _short(load.queue_times, 0.99),
        str(load.timed_out or ""),
        str(answer.get("queuedMessages", 0) or ""),
    ]


def _short(counts: Sequence[int], share: float) -> str:
    """As ``_quantile_text``, in few columns."""
    if not any(counts):
        return ""
    seconds = min(time_quantile(counts, share), TIME_BOUNDS_SECONDS[-1])
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.0f} s"


def _busy_text(at_work: int, workers: int) -> str:
    return f"{at_work}/{workers}" if workers else str(at_work)


@click.command("top")
@click.argument("words", nargs=-1, metavar="[WORD]…", shell_complete=complete_node)
@interval_option
@click.option(
    "--sort", "order", type=click.Choice(list(SORTED_BY)), default="calls", show_default=True, help="By what."
)
@once_option
@click.option("--all", "idle", is_flag=True, help="Services that did nothing as well.")
@node_options
def top_command(
    settings: Settings, words: tuple[str, ...], interval: float, order: str, once: bool, idle: bool
) -> None:
    """Show what services and handlers did in the last seconds, of all nodes that this command may look at.

    Handlers are (messages), (batches) and patterns of events. With WORDS only those whose node or service has one of
    them in its name. Each line says below which time half (p50) and 99 % (p99) of the calls ran, 99 % waited for a
    worker, and how many were late. Busy and queue are of the whole node: workers that run calls, and calls that wait;
    so are messages that wait for a handler, and what stands in its lanes, with the age of the oldest: sent to it, and
    not handled. A node that does nothing, though that waits for longer than the interval, has a line (lanes). Below
    stand the subscriptions of topics in which most waits. With --json each interval is a line, without those.
    """
    with settings.node() as own, screen(settings, once=once) as shown:
        for found, answers in _looks(own, interval, lane_watch(settings, own)):
            chosen = [one for one in found if _is_chosen(one, words) and (idle or _did_something(one))]
            chosen.sort(key=SORTED_BY[order], reverse=True)
            if settings.as_json:
                echo_json([_line(one, answers.get(one.node) or {}) for one in chosen])
                sys.stdout.flush()
            else:
                rows = [_load_row(one, answers.get(one.node) or {}) for one in chosen]
                notes = [_waiting_text(one) for one in waiting(own, interval)[:MAX_WAITING]]
                empty = f"No service did anything, of the nodes that {own.name} may look at."
                shown.show(TOP_COLUMNS, rows, empty, notes)
            if once:
                return


def _waiting_text(one: Backlog) -> str:
    """A subscription in which something waits, as a line."""
    since = "" if one.oldest_seconds is None else f", the oldest for {seconds_text(one.oldest_seconds)}"
    return f"{one.topic} {one.subscription}: {one.backlog} messages wait{since}{', ' * bool(one.state)}{one.state}"


def backlog_row(one: Backlog) -> list[str]:
    """A subscription as a row: of a topic, how it is, how much waits and how long, and who works at it."""
    oldest = "" if one.oldest_seconds is None else seconds_text(one.oldest_seconds)
    numbers = [str(number or "") for number in (one.in_flight, one.consumers, one.dead)]
    return [f"{one.topic} {one.subscription}".rstrip(), one.state, str(one.backlog or ""), oldest, *numbers]


def _is_chosen(load: ServiceLoad, words: Sequence[str]) -> bool:
    return not words or any(word in f"{load.node} {load.service}" for word in words)


def _did_something(load: ServiceLoad) -> bool:
    return bool(load.calls_per_second or load.timed_out or load.at_work or load.queued or load.service == LANES)


def _line(load: ServiceLoad, answer: dict[str, Any]) -> dict[str, Any]:
    of_node = {key: answer.get(key) for key in ("workers", "queuedMessages")}
    return load.described() | of_node | {"inLanes": load.waiting, "inLanesSeconds": load.waiting_seconds}


def _looks(own: Node, interval: float, lanes: LaneWatch) -> Iterator[tuple[list[ServiceLoad], Answers]]:
    for before, now, seconds in _pairs_of_looks(own, interval):
        found = list(loads(_with_handlers(before), _with_handlers(now), seconds))
        yield list(_with_lanes(found, lanes.look(), interval)), now


def _with_lanes(found: list[ServiceLoad], waiting: LaneBacklogs, patience: float) -> Iterator[ServiceLoad]:
    """With what waits for each node; also of one that tells of no service that did something."""
    of_nodes = {node: together(rows.values()) for node, rows in waiting.items()}
    at_work = set()
    for load in found:
        if _did_something(load):
            at_work.add(load.node)
        row = of_nodes.get(load.node)
        yield load._replace(waiting=row.messages, waiting_seconds=row.oldest_seconds) if row else load
    for node, row in of_nodes.items():
        if node not in at_work and row.oldest_seconds > patience:
            yield ServiceLoad(node, LANES, 0.0, 0.0, 0, (), (), 0, 0, row.messages, row.oldest_seconds)


def _with_handlers(answers: Answers) -> Answers:
    """What handles messages counted as services are: ``(messages)``, ``(batches)``, and patterns of events."""
    found: Answers = {}
    for node, answer in answers.items():
        handlers = (answer or {}).get("handlers") or {}
        rows = {name: {**row, "numRequests": row["numHandled"]} for name, row in handlers.items()}
        found[node] = answer and {**answer, "services": {**answer["services"], **rows}}
    return found


def _pairs_of_looks(own: Node, interval: float) -> Iterator[tuple[Answers, Answers, float]]:
    """What nodes answered, what they answered an interval later, and the seconds between."""
    timeout = max(interval, ANSWER_SECONDS)
    before, began = ask_all(own, timeout), time.monotonic()
    while True:
        time.sleep(interval)  # the pace of the measurement, not a wait for anything
        now, ended = ask_all(own, timeout), time.monotonic()
        yield before, now, ended - began
        before, began = now, ended


# ``speed flows``: who writes to whom.

FLOW_COLUMNS = ("from, to", "messages/s", "bytes/s", "refused")


@click.command("flows")
@click.argument("words", nargs=-1, metavar="[WORD]…", shell_complete=complete_node)
@interval_option
@click.option(
    "--sort", "order", type=click.Choice(list(FLOWS_BY)), default="messages", show_default=True, help="By what."
)
@once_option
@node_options
def flows_command(settings: Settings, words: tuple[str, ...], interval: float, order: str, once: bool) -> None:
    """Show who wrote to whom in the last seconds, and how much: messages, events, calls, and answers the other way.

    With WORDs only pairs of which a name has one of them in it. Nodes that this command may look at tell it, of
    whom they write to and who writes to them; * stands for all beyond the names that a node counts. With --json each
    interval is a line.
    """
    with settings.node() as own, screen(settings, once=once) as shown:
        for before, now, seconds in _pairs_of_looks(own, interval):
            found = [one for one in flows(before, now, seconds) if _is_flow_chosen(one, words, own.name)]
            found.sort(key=FLOWS_BY[order], reverse=True)
            if settings.as_json:
                echo_json([one.described() for one in found])
                sys.stdout.flush()
            else:
                shown.show(
                    FLOW_COLUMNS,
                    list(map(_flow_row, found)),
                    f"Nobody wrote anything, of the nodes that {own.name} may look at.",
                )
            if once:
                return


def _is_flow_chosen(flow: Flow, words: Sequence[str], own: str) -> bool:
    """Without what this command itself causes."""
    names = flow.sender, flow.receiver
    return own not in names and (not words or any(word in name for word in words for name in names))


def _flow_row(flow: Flow) -> list[str]:
    return [
        f"{flow.sender} {flow.receiver}",
        f"{flow.messages_per_second:,.1f}",
        f"{bytes_text(flow.bytes_per_second)}",
        str(flow.refused or ""),
    ]


# ``speed watch``: what happens, a line each.


@click.command("watch")
@click.option("--interval", type=SECONDS, default=1.0, show_default=True, help="Seconds between two looks.")
@click.option("--for", "seconds", type=SECONDS, help="End after so many seconds.")
@node_options
def watch_command(settings: Settings, interval: float, seconds: float | None) -> None:
    """Print what happens, a line each, until interrupted: nodes that come, go, die or hang, refusals, dead letters.

    Refusals and nodes that hang are seen of those that this command may look at. With --json each is an object.
    """
    ends = None if seconds is None else time.monotonic() + seconds
    with settings.node() as own:
        watch, timeout = Watch(settings.registry(), own), max(interval, ANSWER_SECONDS)
        watch.news(timeout)
        number = len(watch.live)
        echo(f"Watching {settings.root}: {number} node{' is' if number == 1 else 's are'} there.", error=True)
        while ends is None or time.monotonic() < ends:
            time.sleep(interval)
            for one in watch.news(timeout):
                _print_happening(one, settings)


def _print_happening(one: Happening, settings: Settings) -> None:
    at = datetime.datetime.now(datetime.timezone.utc)
    if settings.as_json:
        echo_json({"at": at, **one.described()})
    else:
        echo(f"{at.astimezone():%H:%M:%S}  {one.what:8}  {one.node}  {one.text}".rstrip())
    sys.stdout.flush()
