"""Examines a root and this machine: filesystem, bells, permissions, keys, clock, limits, registry and leftovers."""

from __future__ import annotations

import difflib
import os
import platform
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from speed.errors import ConfigurationError, SpeedError, StorageError, WireError
from speed.fs.claim import floor_of, newest_of_all
from speed.fs.keyfile import load_key_file
from speed.fs.open import Trust
from speed.fs.registry import Registry
from speed.fs.root import UntrustedPathError, filesystem_of, observers_of, trust_of
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.names import matches, names_identity

if TYPE_CHECKING:
    pass

from speed.observe import Finding, bytes_text, refused, seconds_text, unusable
from speed.observe.backlogs import BEHIND_SECONDS, LaneWatch, lane_troubles
from speed.observe.holders import Holder, holders
from speed.observe.leftovers import KINDS, find_leftovers
from speed.observe.storage import access, copies, mounted, owned, space, topics

CLOCK_TOLERANCE_SECONDS = 2.0
FEW_INSTANCES = 16
MISSED_HEARTBEATS = 2.5
MAX_NAMES = 1000
"""Names that are compared with grants; more take longer than somebody waits."""
MAX_GRANTS = 64
LIKENESS = 0.8
_NO_DIGITS = str.maketrans("", "", "0123456789")


def examine(root: str, key_file: str, patience_seconds: float = BEHIND_SECONDS) -> list[Finding]:
    """All findings; what one examination cannot look at is a finding, and the others go on.

    Messages that wait in lanes longer than ``patience_seconds`` are one.
    """
    findings = list(_root(root))
    if any(one.check == "root" and one.state == "broken" for one in findings):
        return findings
    for check, look in (("filesystem", mounted), ("space", space), ("access", access), ("observers", _observers)):
        findings += _seen(check, root, partial(look, root))
    findings += _writing(root, is_known=any(one.code for one in findings))
    findings += _inotify()
    key = list(_key(key_file))
    findings += key
    if all(one.state != "broken" for one in key):
        registry = Registry(root, load_key_file(key_file))
        for check, see in (("registry", _registry), ("copy", copies), ("leftovers", _leftovers)):
            findings += _seen(check, root, partial(see, registry))
        findings += _seen("lanes", root, partial(_lanes, registry, patience_seconds))
        findings += _seen("topics", root, partial(topics, root, key_file))
    return findings


def _observers(root: str) -> Iterator[Finding]:
    """Who may look at all nodes."""
    try:
        named = observers_of(root)
    except ConfigurationError as error:
        found, _, todo = str(error).rpartition("; ")
        yield Finding("observers", "warning", found, todo)
        return
    found = f"{', '.join(named)} may look at all nodes" if named else "nobody looks at nodes without a grant"
    yield Finding("observers", "ok", found)


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
    yield from _grants(registry, live)
    now = time.time()
    for entry in live:
        late = now - entry.last_heartbeat / 1000
        if late > MISSED_HEARTBEATS * entry.heartbeat_interval / 1000:
            found = f"{entry.name} did not renew its lease for {seconds_text(late)}"
            todo = f"process {entry.pid} is stopped or hangs: restart it; speedd does that for its own processes"
            yield Finding("nodes", "warning", found, todo)
        ahead = entry.last_heartbeat / 1000 - now
        if ahead > CLOCK_TOLERANCE_SECONDS:
            found = f"{entry.name} on {entry.host} is {seconds_text(ahead)} ahead"
            yield Finding("clock", "warning", found, "set both clocks by NTP; leases are not affected")


def _grants(registry: Registry, live: Iterable[Entry]) -> Iterator[Finding]:
    """Grants of names that nobody ever had, though a node has nearly that name."""
    known = frozenset(islice(newest_of_all(registry.root), MAX_NAMES))
    for entry in live:
        for grant in entry.allow[:MAX_GRANTS]:
            if near := near_name(grant, known):
                found = f"{entry.name} allows {grant!r}, and no node was ever called so"
                yield Finding("grants", "warning", found, f"did you mean {near!r}?")


def near_name(grant: str, known: Collection[str]) -> str:
    """What a grant may have meant that names none of the ``known`` nodes; empty where nothing is near.

    Names that differ in their numbers alone are names of a family.
    """
    if names_identity(grant) or any(matches(grant, one) for one in known):
        return ""
    stem = grant.removesuffix(".*")
    stems = {one.rpartition(".")[0] for one in known if "." in one} if stem != grant else known
    near = difflib.get_close_matches(stem, stems, 1, LIKENESS)
    if not near or near[0].translate(_NO_DIGITS) == stem.translate(_NO_DIGITS):
        return ""
    return near[0] + grant[len(stem) :]


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


def _lanes(registry: Registry, patience_seconds: float) -> Iterator[Finding]:
    """Nodes that do not read, or handle, what others sent them."""
    late = list(lane_troubles(LaneWatch(registry.root, registry.keyring).look(), patience_seconds))
    yield from late or [Finding("lanes", "ok", f"no message waits for more than {seconds_text(patience_seconds)}")]


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
