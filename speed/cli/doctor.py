"""``speed root doctor`` and ``speed status``: examine a root, this machine and the nodes here, and say what to do."""

from __future__ import annotations

import os
import platform
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from speed.cli.figures import Answers, ask_all
from speed.cli.gc import KINDS, find_leftovers
from speed.cli.keys import Holder, holders
from speed.cli.options import SECONDS, Settings, bytes_text, echo, node_options, print_rows, print_value, seconds_text
from speed.cli.storage import Finding, access, copies, mounted, owned, refused, space, topics, unusable
from speed.errors import SpeedError, StorageError, WireError
from speed.fs.claim import floor_of, newest_of_all
from speed.fs.keyfile import load_key_file
from speed.fs.open import Trust
from speed.fs.registry import Registry
from speed.fs.root import UntrustedPathError, filesystem_of, trust_of
from speed.wire import names
from speed.wire.entry import Entry

if TYPE_CHECKING:
    from speed import Node

# The examinations of ``speed root doctor``, one function each.

CLOCK_TOLERANCE_SECONDS = 2.0
FEW_INSTANCES = 16


def examine(settings: Settings) -> list[Finding]:
    """All findings; what one examination cannot look at is a finding, and the others go on."""
    root = settings.root
    findings = list(_root(root))
    if any(one.check == "root" and one.state == "broken" for one in findings):
        return findings
    for check, look in (("filesystem", mounted), ("space", space), ("access", access)):
        findings += _seen(check, root, partial(look, root))
    findings += _writing(root, is_known=any(one.code for one in findings))
    findings += _inotify()
    key = list(_key(settings.key))
    findings += key
    if all(one.state != "broken" for one in key):
        registry = Registry(root, load_key_file(settings.key))
        for check, see in (("registry", _registry), ("copy", copies), ("leftovers", _leftovers)):
            findings += _seen(check, root, partial(see, registry))
        findings += _seen("topics", root, partial(topics, root, settings.key))
    return findings


def _seen(check: str, root: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What an examination finds; the system's refusal in its place."""
    try:
        yield from look()
    except OSError as error:
        yield refused(check, error, root)
    except StorageError as error:
        cause = error.__cause__
        yield refused(check, cause, root) if isinstance(cause, OSError) else unusable(check, str(error), "")


def _root(root: str) -> Iterator[Finding]:
    try:
        status = os.stat(root)
    except FileNotFoundError:
        yield Finding("root", "broken", f"there is no {root}", f"speed root init --root {root}")
        return
    except OSError as error:
        yield refused("root", error, root)
        return
    if not stat.S_ISDIR(status.st_mode):
        yield Finding("root", "broken", f"{root} is no directory", "choose another root")
        return
    yield from _seen("permissions", root, partial(_permissions, root, stat.S_IMODE(status.st_mode)))
    yield from owned(root, status)
    try:
        os.stat(names.claims_dir(root))
    except FileNotFoundError:
        yield Finding("root", "broken", "there is no registry in it", f"speed root init --root {root}")
    except OSError:
        pass  # why it cannot be looked at is found by others


def _permissions(root: str, mode: int) -> Iterator[Finding]:
    """Who can change the root, and what lies above it."""
    try:
        trust = trust_of(root)
    except UntrustedPathError as error:
        yield Finding("permissions", "broken", str(error), error.cure or "choose another root")
        return
    if trust is Trust.GROUP:
        yield Finding("permissions", "ok", f"a group's (mode {mode:04o})")
    elif mode & 0o077:
        yield Finding("permissions", "warning", f"others can look in (mode {mode:04o})", f"chmod 700 {root}")
    else:
        yield Finding("permissions", "ok", f"private (mode {mode:04o})")


def _key(path: str) -> Iterator[Finding]:
    try:
        keyring = load_key_file(path)
    except SpeedError as error:
        yield Finding("key", "broken", str(error), "make one with `speed key new`, or name one with --key")
        return
    yield Finding("key", "ok", f"{path}, id {keyring.key_id.hex()}")


def _writing(root: str, *, is_known: bool) -> Iterator[Finding]:
    """What only writing tells; where it fails, that itself is found unless its reason is known."""
    try:
        away = _clock_away(root)
    except OSError as error:
        if not is_known:
            yield refused("writing", error, root)
        return
    yield from _seen("filesystem", root, partial(_filesystem, root))
    if abs(away) > CLOCK_TOLERANCE_SECONDS:
        yield Finding("clock", "warning", f"the filesystem's clock is {away:+.1f} s away", "set both clocks by NTP")
    else:
        yield Finding("clock", "ok", "agrees with the filesystem's")


def _clock_away(root: str) -> float:
    """Our clock compared with that of the filesystem, which may be another machine's."""
    before = time.time()
    with tempfile.TemporaryFile(dir=root, prefix=names.temporary_name("clock-")) as file:
        file.write(b"0")
        file.flush()
        return os.fstat(file.fileno()).st_mtime - before


def _filesystem(root: str) -> Iterator[Finding]:
    found = filesystem_of(root)
    where = "in memory" if found.is_memory else "remote" if found.is_remote else "on a disk"
    yield Finding("filesystem", "ok", f"{found.kind}, {where}")
    if found.is_memory:
        yield Finding("durability", "ok", "'process' only: this root does not outlive the machine")
    else:
        yield Finding("durability", "ok", "'process' and 'disk'")
    if found.is_remote:
        yield Finding(
            "wake-up", "warning", "polling: a remote filesystem has no local bells", "use a local root for speed"
        )
    elif not found.supports_fifo:
        yield Finding("wake-up", "warning", "polling: this filesystem has no FIFOs", "use tmpfs or a Linux filesystem")
    else:
        yield Finding("wake-up", "ok", "bells (FIFOs)")


def _inotify() -> Iterator[Finding]:
    if platform.system() != "Linux":
        yield Finding("watching", "ok", "by the means of this system")
        return
    limit = _number("/proc/sys/fs/inotify/max_user_instances")
    if limit is None:
        yield Finding("watching", "warning", "no inotify here", "nodes poll the registry; nothing must be done")
        return
    used = _inotify_instances()
    text = f"{used} of {limit} inotify instances of this user in use"
    if limit - used < FEW_INSTANCES:
        todo = "sysctl fs.inotify.max_user_instances=1024; nodes poll until then"
        yield Finding("watching", "warning", text, todo)
    else:
        yield Finding("watching", "ok", text)


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _inotify_instances() -> int:
    """Inotify descriptors of this user's processes, as far as they may be seen."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        directory = f"/proc/{pid}/fd"
        try:
            if os.stat(directory).st_uid != os.geteuid():
                continue
            descriptors = os.listdir(directory)
        except OSError:
            continue
        count += sum(_is_inotify(f"{directory}/{fd}") for fd in descriptors)
    return count


def _is_inotify(path: str) -> bool:
    try:
        return os.readlink(path) == "anon_inode:inotify"
    except OSError:
        return False


def _registry(registry: Registry) -> Iterator[Finding]:
    live = registry.live_entries(sure=True)
    yield Finding("nodes", "ok", f"{len(live)} live")
    known = holders(registry)
    yield from _keys(known)
    foreign = {names.entry_name(one.name) for one in known if one.state == "foreign"}
    for filename, reason in sorted(registry.problems().items()):
        if filename not in foreign:
            todo = "it is ignored; remove it if it is not a node's"
            yield Finding("registry", "warning", f"{filename}: {reason}", todo)
    yield from _floor(registry)
    yield from _claims(registry, live)
    now = time.time()
    for entry in live:
        ahead = entry.last_heartbeat / 1000 - now
        if ahead > CLOCK_TOLERANCE_SECONDS:
            found = f"{entry.name} on {entry.host} is {seconds_text(ahead)} ahead"
            yield Finding("clock", "warning", found, "set both clocks by NTP; leases are not affected")


def _claims(registry: Registry, live: Iterable[Entry]) -> Iterator[Finding]:
    """Live nodes whose claims somebody removed."""
    newest = newest_of_all(registry.root)
    for entry in live:
        if newest.get(entry.name, 0) < entry.generation:
            found = f"the claim of {entry.name}, generation {entry.generation}, was removed from {registry.root}"
            todo = "leave speed_registry/.claims alone; the node makes it again at its next heartbeat, else restart it"
            yield Finding("registry", "warning", found, todo)


def _floor(registry: Registry) -> Iterator[Finding]:
    """Whether generations go on: without that no node starts."""
    try:
        floor_of(registry.root, "any", registry.keyring)
    except (WireError, OSError) as error:
        found = f"no node can start: {names.floor_path(registry.root)}: {error}"
        yield Finding("registry", "broken", found, "use the key of this root, or restore that file from a backup")


def _keys(known: Iterable[Holder]) -> Iterator[Finding]:
    """Nodes whose keys are not those of the file (W-20)."""
    others = [one for one in known if one.state != "current"]
    for one in others:
        yield Finding("keys", "warning", one.found, one.todo)
    if not others:
        yield Finding("keys", "ok", "all nodes have those of the key file")


def _leftovers(registry: Registry) -> Iterator[Finding]:
    found = find_leftovers(registry)
    counts = Counter(one.kind for one in found)
    sizes: Counter[str] = Counter()
    for one in found:
        sizes[one.kind] += one.size
    for kind in KINDS:
        if counts[kind]:
            # Lanes and directories of stopped nodes are everyday things; the rest tells of a crash or a refusal.
            state = "ok" if kind in ("lane", "node directory", "old claim", "ephemeral node") else "warning"
            todo = "read its .reason file; " if kind == "quarantined file" else ""
            yield Finding(
                f"left: {kind}", state, f"{counts[kind]}, {bytes_text(sizes[kind])}", f"{todo}`speed root gc`"
            )
    if not found:
        yield Finding("leftovers", "ok", "none")


@click.command("doctor")
@click.option("--node", metavar="NAME", help="Ping, call and examine this node instead; for who writes one.")
@node_options
def doctor_command(settings: Settings, node: str | None) -> int:
    """Examine filesystem, bells, permissions, clock, inotify limits, registry and leftovers.

    With --node: one node's entry, claim, heartbeat, lanes, cursors and quarantine, held to the contract. It is pinged
    and called, and sent one message of the topic `speed.doctor`, so it must allow this command.

    Ends with status 8 when nodes cannot write or read here, with 1 when something else is broken; warnings alone do
    not fail.
    """
    findings = _findings(settings, node)
    broken = any(finding.state == "broken" for finding in findings)
    if settings.as_json:
        print_value({"healthy": not broken, "findings": [asdict(finding) for finding in findings]}, True)
    else:
        rows = [(one.state, one.check, one.found, one.todo) for one in findings]
        print_rows(("", "check", "found", "what to do"), rows, title=node or settings.root)
    return 8 if any(finding.code for finding in findings) else int(broken)


def _findings(settings: Settings, node: str | None) -> list[Finding]:
    if node is not None:
        from speed.cli.node_checks import examine_node

        return examine_node(settings, node)

    return examine(settings)


# ``speed status``: what is wrong, in one screen.

STATUS_SECONDS = 3.0
"""Hosts of topics and bridges may take so long."""
MANY_MESSAGES = 100
"""So many that wait for a handler are worth a word."""
TOPICS, BRIDGES = "speedd.topics", "speedd"


@click.command("status")
@click.option("--interval", type=SECONDS, default=1.0, show_default=True, help="Seconds between two looks at nodes.")
@node_options
def status_command(settings: Settings, interval: float) -> int:
    """Show what is wrong here, the worst first, and what to do about it.

    Looks at the root, at nodes, topics and bridges that allow this command, and at what they did between two looks.
    Ends with status 8 when nodes cannot write or read here, with 1 when anything is wrong. `speedd status` tells of
    speedd's processes.
    """
    findings = [one for one in examine(settings) if one.state != "ok"]
    nodes: Answers = {}
    if not any(one.check in ("root", "key") and one.state == "broken" for one in findings):
        with settings.node() as own:
            before = ask_all(own, interval)
            time.sleep(interval)
            nodes = ask_all(own, interval)
            findings += [*_busy(before, nodes), *_hidden(own, nodes), *_topics(own), *_bridges(own)]
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
    """Nodes that tell this command nothing."""
    hidden = [entry.name for entry in own.nodes() if entry.name not in seen and entry.name != own.name]
    if hidden:
        shown = ", ".join(sorted(hidden)[:FEW_INSTANCES])
        found = f"{len(hidden)} nodes do not allow this command: {shown}"
        yield Finding("nodes", "warning", found, f"allow {own.name.rsplit('.', 1)[0]}.* in them, to see how they do")


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
                found = f"{one['backlog']} messages wait, and nobody consumes them"
                todo = f"start its consumer, or `speed topic unsubscribe {name} {one['subscription']}`"
                yield Finding(f"subscription {name} {one['subscription']}", "warning", found, todo)


def _bridges(own: Node) -> Iterator[Finding]:
    for one in _listed(own, BRIDGES, "bridges.list"):
        if one.get("trouble"):
            yield Finding(f"bridge {one.get('bridge')}", "broken", str(one["trouble"]), "see `speed bridge list`")
