"""``speed status``, ``refused``, ``metrics`` and ``ping``: what is wrong, figures for Prometheus, the way to a node."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import click

from speed.cli.options import SECONDS, Settings, complete_node, echo, node_options, print_value
from speed.errors import SpeedError
from speed.observe import Finding, seconds_text
from speed.observe.backlogs import BEHIND_SECONDS, LaneWatch
from speed.observe.figures import Answers, ask_all
from speed.observe.metrics import LaneMetrics, metrics_text, write_textfile
from speed.observe.root import examine
from speed.observe.speedd import daemon_troubles
from speed.observe.traffic import Refusal, refusals
from speed.observe.troubles import troubles

# ``speed ping``.


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


@click.command("metrics")
@click.option("--textfile", type=click.Path(dir_okay=False), help="Write them here instead, for node_exporter.")
@click.option("--every", "interval", type=SECONDS, help="Go on: again every so many seconds, until interrupted.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds that a node may take.")
@node_options
def metrics_command(settings: Settings, textfile: str | None, interval: float | None, timeout: float) -> None:
    """Print OpenMetrics of all nodes that this command may look at, for Prometheus.

    --textfile writes a file as a whole, and never half of one: no port is needed. `speed metrics --textfile
    /var/lib/node_exporter/speed.prom --every 15` keeps it fresh.
    """
    with settings.node() as own:
        watch = LaneWatch(own.root, settings.registry().keyring, own.name)
        while True:
            text = metrics_text(ask_all(own, timeout), LaneMetrics(watch.look()))
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
@click.option(
    "--behind",
    type=SECONDS,
    default=BEHIND_SECONDS,
    show_default=True,
    help="Messages that wait in lanes for longer are a trouble.",
)
@node_options
def status_command(settings: Settings, interval: float, behind: float) -> int:
    """Show what is wrong here, the worst first, and what to do about it.

    Looks at the root, at its speedd, at what waits in lanes, at nodes, topics and bridges that let it look, and at what
    they did between two looks. Ends with status 8 when nodes cannot write or read here, with 1 when anything is wrong.
    """
    # That a grant may be misspelt is a guess, for who asks the doctor.
    examined = examine(settings.root, settings.key, behind)
    findings = [one for one in examined if one.state != "ok" and one.check != "grants"]
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


# ``speed refused``: who is refused where.


@click.command("refused")
@click.option("--recent", is_flag=True, help="Only what goes on now: count for one interval.")
@click.option("--interval", type=SECONDS, default=2.0, show_default=True, help="Seconds between two looks.")
@click.option("--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds that a node may take.")
@node_options
def refused_command(settings: Settings, recent: bool, interval: float, timeout: float) -> int:
    """Show who is refused where, and what to do: what nodes that it may look at count, at both ends.

    Ends with status 1 when anybody is refused.
    """
    with settings.node() as own:
        before = ask_all(own, timeout) if recent else None
        if recent:
            time.sleep(interval)
        answers = ask_all(own, timeout)
        found = refusals(answers, own.nodes(), before)
    if settings.as_json:
        print_value([one.described() for one in found], True)
    else:
        for one in found:
            _print_refusal(one)
        answered = sum(answer is not None for answer in answers.values())
        echo(f"{settings.root}: {len(found) or 'nobody'} refused, {answered} of {len(answers)} nodes answer")
    return int(bool(found))


def _print_refusal(one: Refusal) -> None:
    counted = [f"{one.refused} refused there"] * bool(one.refused) + [f"{one.unsent} not sent"] * bool(one.unsent)
    echo(f"- {one.sender} to {one.receiver}: {', '.join(counted)}")
    echo(f"    {one.cure}")
