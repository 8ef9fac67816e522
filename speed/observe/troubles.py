"""What is wrong with nodes, topics and bridges, told from what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from speed.errors import SpeedError
from speed.observe import Finding, seconds_text
from speed.observe.figures import Answers, loads, quantile
from speed.topics.backend import cure_of_unread, unread_text

if TYPE_CHECKING:
    from speed import Node

from speed.wire.names import matches, observers_path

STATUS_SECONDS = 3.0
"""Hosts of topics and bridges may take so long."""
MANY_MESSAGES = 100
"""So many that wait for a handler are worth a word."""
MANY_NODES = 16
SLOWER = 8
"""A service that takes so many times as long as it did is worth a word,"""
SLOW_SECONDS = 0.05
"""if that is as long as this,"""
SLOW_CALLS = 2
KNOWN_CALLS = 20
"""and if so many calls were seen, now and before."""
TOPICS, BRIDGES = "speedd.topics", "speedd"


def troubles(own: Node, before: Answers, now: Answers) -> Iterator[Finding]:
    """All that is wrong, from two looks of ``own`` at all nodes, and from what topics and bridges tell it."""
    yield from work_troubles(own, before, now)
    if now.get(TOPICS, {}) is not None:  # one that is silent would be waited for
        yield from _topics(own)
    if now.get(BRIDGES, {}) is not None:
        yield from _bridges(own)


def work_troubles(own: Node, before: Answers, now: Answers) -> Iterator[Finding]:
    """What is wrong with the work of nodes, and which tell nothing."""
    yield from _busy(before, now)
    yield from _slow(before, now)
    yield from _hidden(own, now)


def _busy(before: Answers, now: Answers) -> Iterator[Finding]:
    """What nodes tell of their work."""
    for node, answer in now.items():
        if answer is None:
            todo = f"its process is stopped, hung or very busy: see `speed root doctor --node {node}`, then restart it"
            yield Finding(node, "broken", "it does not answer, though its lease is held", todo)
            continue
        queued, workers = answer.get("queuedRequests", 0), answer.get("workers", 0)
        if queued and answer.get("runningRequests", 0) >= workers:
            found = f"all {workers} workers are at work, and {queued} calls wait"
            yield Finding(node, "warning", found, "see `speed top`; give it more workers, or run more processes")
        if answer.get("queuedMessages", 0) >= MANY_MESSAGES:
            found = f"{answer['queuedMessages']} messages wait for its handler"
            yield Finding(node, "warning", found, "its handler is slow, hangs, or is not there")
        yield from _since(node, before.get(node) or {}, answer)


def _slow(before: Answers, now: Answers) -> Iterator[Finding]:
    """Services that take far longer than they did: half of their calls are compared with half of those of before."""
    for load in loads(before, now, 1.0):
        past = (before.get(load.node) or {}).get("services", {}).get(load.service, {}).get("runTimes") or ()
        if sum(load.run_times) < SLOW_CALLS or sum(past) < KNOWN_CALLS:
            continue
        takes, took = quantile(load.run_times, 0.5) or 0.0, quantile(past, 0.5) or 0.0
        if takes >= SLOW_SECONDS and took * SLOWER <= takes:
            found = f"{load.service} takes up to {seconds_text(takes)} a call, and took {seconds_text(took)} before"
            yield Finding(load.node, "warning", found, "see what it waits for: its log, and `speed top --sort p99`")


_EVENTS = {
    "dead_letters": ("messages were put aside, since they could not be handled", "see `speed dead list {}`"),
    "payloads_lost": ("large payloads did not arrive as a whole", "their senders were told, and may send again"),
    "key_files_refused": ("key files were changed and are not sound", "see `speed key status`"),
}


_REFUSALS = (
    (
        "refusedSenders",
        "it refuses what {} sends: that has no grant",
        "allow {} in it, or in its service; or end who sends",
    ),
    ("refusedBy", "{} does not allow it, and it goes on trying", "allow it in {}, or end who tries"),
)


def _since(node: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[Finding]:
    """What went wrong between two looks."""
    past, counters = before.get("counters", {}), now.get("counters", {})
    for event, (what, todo) in _EVENTS.items():
        number = counters.get(event, 0) - past.get(event, 0)
        if number > 0:
            yield Finding(node, "warning", f"{number} {what}", todo.format(node))
    for key, what, todo in _REFUSALS:
        for peer, number in now.get(key, {}).items():
            if number > before.get(key, {}).get(peer, 0):
                yield Finding(node, "warning", what.format(peer), todo.format(peer))
    rows = before.get("services", {})
    for service, row in now.get("services", {}).items():
        late = row.get("numTimedOut", 0) - rows.get(service, {}).get("numTimedOut", 0)
        if late > 0:
            found = f"{late} calls of {service} were not done in time"
            yield Finding(node, "warning", found, "see `speed top --sort p99`; allow more time, or more workers")


def _hidden(own: Node, seen: Answers) -> Iterator[Finding]:
    """Nodes that tell this command nothing, though they do not deny it."""
    unseen = [entry for entry in own.nodes() if entry.name not in seen and entry.name != own.name]
    hidden = [entry.name for entry in unseen if not any(matches(one, own.name) for one in entry.deny)]
    if hidden:
        shown = ", ".join(sorted(hidden)[:MANY_NODES])
        nodes = "1 node shows nothing of its" if len(hidden) == 1 else f"{len(hidden)} nodes show nothing of their"
        found = f"{nodes} work: {shown}"
        family = f"{own.name.rsplit('.', 1)[0]}.*" if "." in own.name else own.name
        todo = f"name {family} in {observers_path(own.root)}, to see how they do, or allow it in them"
        yield Finding("nodes", "warning", found, todo)


def _listed(own: Node, host: str, service: str) -> Iterable[dict[str, Any]]:
    """What a host tells, if it is there and tells this command."""
    try:
        found = own.call(host, service, timeout=STATUS_SECONDS)
    except SpeedError:
        return ()
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()


def _topics(own: Node) -> Iterator[Finding]:
    """Subscriptions that nobody reads."""
    for listed in _listed(own, TOPICS, "topics.list"):
        name = str(listed.get("topic"))
        if "broken" in listed:
            yield Finding(f"topic {name}", "broken", f"cannot be used: {listed['broken']}", "see `speed root doctor`")
            continue
        try:
            described = own.topic(name).describe(timeout=STATUS_SECONDS)
        except SpeedError:
            continue
        for one in described.get("subscriptions", ()):
            if one.get("backlog") and not one.get("consumers"):
                found, todo = unread_text(one["backlog"]), cure_of_unread(name, one["subscription"])
                yield Finding(f"subscription {name} {one['subscription']}", "warning", found, todo)


def _bridges(own: Node) -> Iterator[Finding]:
    for one in _listed(own, BRIDGES, "bridges.list"):
        if one.get("trouble"):
            yield Finding(f"bridge {one.get('bridge')}", "broken", str(one["trouble"]), "see `speed bridge list`")
