"""What nodes do, in figures, and what is wrong: ``speed status``, ``stats``, ``top``, ``metrics`` and ``ping``."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from speed.cli.options import SECONDS, Settings, echo, node_options, print_rows, print_value

if TYPE_CHECKING:
    pass

import sys
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from speed import Node
from speed.cli.options import (
    answer_of,
    complete_node,
    echo_json,
)
from speed.core.scheduler import TIME_BOUNDS_SECONDS, time_quantile
from speed.errors import SpeedError
from speed.observe import Finding, seconds_text
from speed.observe.figures import SORTED_BY, Answers, ServiceLoad, ask_all, loads
from speed.observe.metrics import metrics_text, write_textfile
from speed.observe.root import examine
from speed.observe.speedd import daemon_troubles
from speed.observe.troubles import troubles

if TYPE_CHECKING:
    pass


# ``speed stats`` and ``speed ping``: one node.

SERVICE_COLUMNS = ("service", "requests", "errors", "timed out", "ran p50", "ran p99", "waited p99", "last error")


@click.command("stats")
@click.argument("node", shell_complete=complete_node)
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait.")
@node_options
def stats_command(settings: Settings, node: str, timeout: float) -> None:
    """Show the counters of NODE since it started, by asking it. `speed top` shows the last seconds."""
    with settings.node() as own:
        stats = own.stats(node, timeout=timeout)
    if settings.as_json:
        print_value(stats, True)
        return
    with answer_of(node):
        _print_stats(node, stats)


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
    times = _times_texts(row.get("runTimes") or (), row.get("queueTimes") or ())
    return [name, row["numRequests"], row["numErrors"], row.get("numTimedOut", ""), *times, row["lastError"]]


def _times_texts(run_times: Sequence[int], queue_times: Sequence[int]) -> list[str]:
    """Half of all, and nearly all, ran no longer than this; nearly all waited no longer than that."""
    return [_quantile_text(run_times, 0.5), _quantile_text(run_times, 0.99), _quantile_text(queue_times, 0.99)]


def _quantile_text(counts: Sequence[int], share: float) -> str:
    if not any(counts):
        return ""
    seconds = time_quantile(counts, share)
    return f"< {seconds_text(seconds)}" if isfinite(seconds) else f"> {seconds_text(TIME_BOUNDS_SECONDS[-1])}"


@click.command("ping")
@click.argument("node", shell_complete=complete_node)
@click.option("-n", "--count", type=click.IntRange(1), default=4, show_default=True, help="How often.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait for each.")
@node_options
def ping_command(settings: Settings, node: str, count: int, timeout: float) -> None:
    """Measure the round trip to NODE."""
    times: list[float] = []
    with settings.node() as own:
        for number in range(count):
            if number:
                time.sleep(0.2)  # the pace of the measurement, not a wait for anything
            times.append(own.ping(node, timeout=timeout))
            if not settings.as_json:
                echo(f"{node}: {seconds_text(times[-1])}")
    if settings.as_json:
        print_value({"node": node, "seconds": times, "min": min(times), "max": max(times)}, True)


# ``speed top``: what they did in the last seconds.

TOP_COLUMNS = ("service", "calls/s", "errors", "ran p50", "ran p99", "waited p99", "timed out", "at work", "queued")


def _load_row(load: ServiceLoad) -> list[str]:
    return [
        f"{load.node} {load.service}",
        f"{load.calls_per_second:,.1f}",
        f"{load.error_share:.0%}" if load.error_share else "",
        *_times_texts(load.run_times, load.queue_times),
        str(load.timed_out or ""),
        str(load.at_work),
        str(load.queued),
    ]


@click.command("top")
@click.argument("nodes", nargs=-1, shell_complete=complete_node)
@click.option("--interval", type=SECONDS, default=2.0, show_default=True, help="Seconds between two looks.")
@click.option(
    "--sort", "order", type=click.Choice(list(SORTED_BY)), default="calls", show_default=True, help="By what."
)
@click.option("--once", is_flag=True, help="Show one interval, and end.")
@click.option("--all", "idle", is_flag=True, help="Services that did nothing as well.")
@node_options
def top_command(
    settings: Settings, nodes: tuple[str, ...], interval: float, order: str, once: bool, idle: bool
) -> None:
    """Show what services did in the last seconds: of NODES, or of all nodes that allow this command.

    Each says below which time half and 99 % of its calls ran, and 99 % waited for a worker. The last two columns are
    of the whole node: calls that run now, and calls that wait.
    """
    with settings.node() as own:
        for found in _looks(own, interval, nodes):
            shown = [one for one in found if idle or one.calls_per_second or one.timed_out or one.at_work]
            _show(settings, sorted(shown, key=SORTED_BY[order], reverse=True), own, once)
            if once:
                return


def _looks(own: Node, interval: float, nodes: tuple[str, ...]) -> Iterator[list[ServiceLoad]]:
    before, began = ask_all(own, interval), time.monotonic()
    while True:
        time.sleep(interval)
        now, ended = ask_all(own, interval), time.monotonic()
        yield [one for one in loads(before, now, ended - began) if not nodes or one.node in nodes]
        before, began = now, ended


def _show(settings: Settings, found: list[ServiceLoad], own: Node, once: bool) -> None:
    if settings.as_json:
        echo_json([one.described() for one in found])
        return
    if sys.stdout.isatty() and not once:
        click.clear()
    print_rows(TOP_COLUMNS, [_load_row(one) for one in found], empty=f"No service that allows {own.name} did anything.")


@click.command("metrics")
@click.option("--textfile", type=click.Path(dir_okay=False), help="Write them here instead, for node_exporter.")
@click.option("--every", "interval", type=SECONDS, help="Go on: again every so many seconds, until interrupted.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds that a node may take.")
@node_options
def metrics_command(settings: Settings, textfile: str | None, interval: float | None, timeout: float) -> None:
    """Print OpenMetrics of all nodes that allow this command, for Prometheus.

    --textfile writes a file as a whole, and never half of one: no port is needed. `speed metrics --textfile
    /var/lib/node_exporter/speed.prom --every 15` keeps it fresh.
    """
    with settings.node() as own:
        while True:
            text = metrics_text(ask_all(own, timeout))
            if textfile is None:
                sys.stdout.write(text)
                sys.stdout.flush()
            else:
                write_textfile(textfile, text)
            if interval is None:
                return
            time.sleep(interval)


# ``speed status``: what is wrong, in one screen.


@click.command("status")
@click.option("--interval", type=SECONDS, default=1.0, show_default=True, help="Seconds between two looks at nodes.")
@node_options
def status_command(settings: Settings, interval: float) -> int:
    """Show what is wrong here, the worst first, and what to do about it.

    Looks at the root, at its speedd, at nodes, topics and bridges that allow this command, and at what they did between
    two looks. Ends with status 8 when nodes cannot write or read here, with 1 when anything is wrong.
    """
    findings = [one for one in examine(settings.root, settings.key) if one.state != "ok"]
    nodes: Answers = {}
    if not any(one.check == "root" and one.state == "broken" for one in findings):
        findings += daemon_troubles(settings.root)
        if not any(one.check == "key" and one.state == "broken" for one in findings):
            nodes = _add_troubles_of_nodes(settings, interval, findings)
    findings.sort(key=lambda one: one.state != "broken")
    if settings.as_json:
        print_value({"healthy": not findings, "nodes": len(nodes), "troubles": [asdict(one) for one in findings]}, True)
    else:
        for one in findings:
            echo(f"{'!' if one.state == 'broken' else '-'} {one.check}: {one.found}")
            if one.todo:
                echo(f"    {one.todo}")
        answered = sum(answer is not None for answer in nodes.values())
        shown = "1 trouble" if len(findings) == 1 else f"{len(findings) or 'no'} troubles"
        echo(f"{settings.root}: {shown}, {answered} of {len(nodes)} nodes answer")
    return 8 if any(one.code for one in findings) else int(bool(findings))


def _add_troubles_of_nodes(settings: Settings, interval: float, findings: list[Finding]) -> Answers:
    """What nodes answer. Where not even this command can be a node, that is a trouble unless its reason is known."""
    try:
        with settings.node() as own:
            before = ask_all(own, interval)
            time.sleep(interval)
            nodes = ask_all(own, interval)
            findings += troubles(own, before, nodes)
            return nodes
    except SpeedError as error:
        if not any(one.state == "broken" for one in findings):
            findings.append(Finding("nodes", "broken", f"they cannot be asked: {error}", "see `speed root doctor`"))
        return {}
