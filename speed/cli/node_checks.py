"""The examinations of ``speed root doctor --node``: one node of any language, held to the contract."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from speed.core.lane import ByteWindow, Damage, LaneDecoder, Opened
from speed.errors import (
    AccessDeniedError,
    CallError,
    InvalidArgumentsError,
    NotAcknowledgedError,
    ServiceNotFoundError,
    SpeedError,
    WireError,
)
from speed.fs import claim
from speed.fs.claim import read_entry_file
from speed.fs.committed import lane_files_in
from speed.fs.identity import boot_id, monotonic_ms, process_alive, start_of
from speed.fs.lane_files import LaneFiles
from speed.fs.open import open_directory
from speed.fs.slots import read_at
from speed.fs.sweep import is_ephemeral
from speed.message.options import PublishOptions
from speed.observe import Finding
from speed.wire import names
from speed.wire.cursor import SlotHead
from speed.wire.entry import Entry, decode_entry, entry_mac, is_capacity
from speed.wire.envelope import FLAG_SLOTTED
from speed.wire.limits import MAX_ENTRY_BYTES, MAX_PAYLOAD_BYTES, MIN_ENTRY_BYTES
from speed.wire.seal import LinkOpener

if TYPE_CHECKING:
    from speed import Node
    from speed.cli.options import Settings
    from speed.fs.registry import Registry

TOPIC = "speed.doctor"
NO_SERVICE = "speed.doctor.nothing"
"""A service that no node has: who refuses it has read a call, and its answer was read here."""
_MAX_READ = 16 << 20
"""So much of a segment is looked through."""
_LATE_HEARTBEATS = 2.0
_UNITS = {"seconds": 1e-3, "microseconds": 1e3, "nanoseconds": 1e6}
_CURES = {
    "BAD_TAG": "check the link key (its generation has 8 bytes), the nonce, and the associated data (bytes 0 to 87)",
    "BAD_FLAGS": "give each type only the flags of the table in wire.md; REPLY belongs to answers only",
    "BAD_SEQUENCE": "begin generation and counter at 1, and name the segment after the generation",
    "UNKNOWN_KEY": "take the first key of the key file, and the first 8 bytes of SHA-256('speed/1 key id' and the key)",
    "WRONG_SOURCE": "take the node id of the sender, and write into the lane of that name",
    "WRONG_TARGET": "take the node id of the receiver, and write into its own inbox",
    "TRUNCATED": "append whole envelopes, and state the payload's size without the tag",
    "BAD_SLOT": "give an envelope with the flag SLOTTED the 48 bytes of a slot head, and nothing else",
    "NO_LANE_FILE": "spell names of files as lanes.md does, and let those of files not yet in place begin with `.tmp-`",
}


def examine_node(settings: Settings, name: str) -> list[Finding]:
    """All findings about one node: its entry, what it answers, the lanes that it writes and reads, its quarantine."""
    registry = settings.registry()
    names.check_node_name(name)
    entry, findings = _read_entry(registry, name)
    if entry is not None:
        findings += _about_entry(registry, entry)
        findings += _directories(registry.root, name)
        if registry.live(name, sure=True) is not None:
            findings += _talk(settings, name)
    findings += _lanes(registry, name)
    findings += _quarantines(registry.root, name)
    return findings


# --- the entry ---


def _read_entry(registry: Registry, name: str) -> tuple[Entry | None, list[Finding]]:
    path = names.entry_path(registry.root, name)
    try:
        data = read_entry_file(path)
    except FileNotFoundError:
        return None, [_wrong("entry", f"there is no {path}", "start the node; it publishes that file by a rename")]
    except (OSError, WireError) as error:
        return None, [_wrong("entry", f"{path}: {error}", "publish a regular file that its user may read")]
    if not is_capacity(len(data)):
        sizes = f"a power of two from {MIN_ENTRY_BYTES} to {MAX_ENTRY_BYTES}"
        return None, [_wrong("entry", f"it has {len(data)} bytes", f"fill it up with spaces to {sizes}")]
    try:
        entry = decode_entry(data, registry.keyring.registry_keys)
    except WireError as error:
        return None, [_refused_entry(registry, data, error)]
    if entry.name != name:
        return None, [_wrong("entry", f"it is the entry of {entry.name}", f"name its file {entry.name}.node")]
    return entry, [Finding("entry", "ok", f"{entry.language}, generation {entry.generation}")]


def _refused_entry(registry: Registry, data: bytes, error: WireError) -> Finding:
    """Why an entry is not accepted: its MAC, or what it says."""
    line, _, rest = data.partition(b"\n")
    mac = rest.partition(b"\n")[0]
    if any(mac == entry_mac(key, line) for key in registry.keyring.registry_keys):
        return _wrong("entry", str(error), "write every field with the type that registry.md states")
    cure = "line 2 is Base64 of HMAC-SHA256 by the registry key, over the bytes of line 1 without its newline"
    return _wrong("entry", "its MAC does not fit its first line", cure)


def _about_entry(registry: Registry, entry: Entry) -> Iterator[Finding]:
    yield from _claim(registry, entry)
    yield from _process(entry)
    yield from _heartbeat(entry)
    if entry.lease <= 3 * entry.heartbeat_interval:
        found = f"a lease of {entry.lease} ms, a heartbeat each {entry.heartbeat_interval} ms"
        yield _wrong("lease", found, "let the lease exceed three heartbeats; both are in ms")


def _claim(registry: Registry, entry: Entry) -> Iterator[Finding]:
    newest = registry.newest_generation(entry.name)
    path = names.claim_path(registry.root, entry.name, entry.generation)
    if newest != entry.generation:
        found = f"the newest claim is {newest or 'none'}, the entry says generation {entry.generation}"
        yield _wrong("claim", found, f"make {path} with O_CREAT and O_EXCL before the entry, and keep it")
    elif claim.read(registry.root, entry.name, newest, registry.keyring.registry_keys) is None:
        yield _wrong("claim", f"{path} does not say who made it", "write the fields of registry.md, and the MAC")
    else:
        yield Finding("claim", "ok", f"generation {newest}")


def _process(entry: Entry) -> Iterator[Finding]:
    alive = process_alive(entry.pid, entry.pid_start, entry.pid_namespace, entry.boot_id)
    if alive:
        yield Finding("process", "ok", f"{entry.pid} lives")
    elif alive is None:
        where = "another boot or host" if entry.boot_id != boot_id() else "another pid namespace"
        yield Finding(
            "process", "warning", f"{entry.pid} cannot be seen: the entry names {where}", "look from its host"
        )
    else:
        yield _gone(entry)


def _gone(entry: Entry) -> Finding:
    """No such process; or one of that pid that started at another time."""
    with contextlib.suppress(OSError):
        start = start_of(entry.pid)
        if start is not None:
            found = f"process {entry.pid} started at {start}, the entry says {entry.pid_start}"
            cure = "pidStart is field 22 of /proc/PID/stat; count fields behind the last `)`"
            return _wrong("process", found, cure)
    return _wrong("process", f"there is no process {entry.pid}", "start the node; if it runs, pid is not its own")


def _heartbeat(entry: Entry) -> Iterator[Finding]:
    seconds = _unit_of(entry.last_heartbeat, time.time() * 1000)
    if seconds:
        yield _wrong("heartbeat", f"lastHeartbeat is in {seconds}", "write Unix ms")
    if entry.boot_id != boot_id():
        return
    now = monotonic_ms()
    age = now - entry.heartbeat_monotonic_ms
    unit = _unit_of(entry.heartbeat_monotonic_ms, now)
    if entry.heartbeat_monotonic_ms == 0:
        yield _wrong("heartbeat", "heartbeatMonotonicMs is 0: it left for good", "write CLOCK_MONOTONIC in ms")
    elif unit:
        yield _wrong("heartbeat", f"heartbeatMonotonicMs is in {unit}", "write CLOCK_MONOTONIC in ms")
    elif age < -1:
        yield _wrong("heartbeat", f"it lies {-age} ms ahead", "write CLOCK_MONOTONIC in ms, not another clock")
    elif age > entry.lease:
        yield _wrong("heartbeat", f"the last was {age} ms ago, the lease is {entry.lease} ms", "renew it in time")
    elif age > _LATE_HEARTBEATS * entry.heartbeat_interval:
        yield Finding("heartbeat", "warning", f"the last was {age} ms ago", "write one each heartbeatInterval")
    else:
        yield Finding("heartbeat", "ok", f"{age} ms ago")


def _unit_of(value: int, now_ms: float) -> str:
    """The unit in which ``value`` would be about now; "" where that is ms, or none."""
    close = [unit for unit, factor in _UNITS.items() if 0.5 < value / (now_ms * factor) < 2]
    return close[0] if close and not 0.5 < value / now_ms < 2 else ""


def _directories(root: str, name: str) -> Iterator[Finding]:
    """What others write into."""
    wanted: list[tuple[str, str, Callable[[int], bool]]] = [
        ("inbox", names.inbox_dir(root, name), stat.S_ISDIR),
        ("bell", names.bell_path(root, name), stat.S_ISFIFO),
    ]
    for check, path, is_kind in wanted:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            if check == "bell":
                yield Finding(check, "warning", f"there is no {path}", "make a FIFO, unless the node polls its lanes")
            else:
                yield _wrong(check, f"there is no {path}", "make it before the entry appears: senders do not")
            continue
        if not is_kind(mode):
            yield _wrong(check, f"{path} is no {'FIFO' if check == 'bell' else 'directory'}", "make it anew")
        elif mode & 0o007:
            yield Finding(check, "warning", f"others have a right to {path}", f"chmod o= {path}")


# --- what it says ---


def _talk(settings: Settings, name: str) -> Iterator[Finding]:
    """A ping, a call and a message, and what this node had to put aside of the answers."""
    with settings.node(name) as node:
        for check, ask in (("ping", _ping), ("call", _call), ("send", _send)):
            try:
                yield Finding(check, "ok", ask(node, name))
            except AccessDeniedError as error:
                yield Finding(
                    check, "warning", str(error), f"allow {node.name}, or look as a node that is allowed: --as"
                )
                return
            except SpeedError as error:
                yield _wrong(check, f"{error.code}: {error}", "see what is said of its lanes and its quarantine")
        yield from _refused_of(settings.root, node.name, name)


def _ping(node: Node, name: str) -> str:
    return f"answered within {node.ping(name) * 1000:.1f} ms"


def _call(node: Node, name: str) -> str:
    try:
        node.call(name, NO_SERVICE, {}, timeout=5.0)
    except ServiceNotFoundError:
        return "a service that is not there was refused as it should be"
    except AccessDeniedError:
        raise  # it answers, and says that it allows this command nothing
    except CallError as error:
        raise SpeedError(f"a service that is not there is SERVICE_NOT_FOUND, not {error.code}") from None
    raise SpeedError("a service that is not there is SERVICE_NOT_FOUND, and no result")


def _send(node: Node, name: str) -> str:
    try:
        sent = node.send(name, "hello", ack=True, timeout=5.0, options=PublishOptions(topic=TOPIC))
    except InvalidArgumentsError as error:
        return f"it refuses messages, and says so: {error}"
    except NotAcknowledgedError:
        raise SpeedError("a message with ACK_REQUESTED was not acknowledged within 5 s") from None
    return "a message waits for its program" if getattr(sent, "waiting", False) else "a message was handled"


# --- its lanes ---


def _lanes(registry: Registry, name: str) -> Iterator[Finding]:
    """What it wrote into the inboxes of others, and how far it says that it read its own."""
    broken: Counter[str] = Counter()
    sound = 0
    for target in _nodes(registry.root):
        whole, damages = _look_through(registry, name, target)
        sound += whole
        broken.update(damages)
    for reason, count in sorted(broken.items()):
        yield _wrong("lanes", f"{reason} in what it wrote, {_times(count)}", _CURES.get(reason, "see wire.md"))
    if sound and not broken:
        yield Finding("lanes", "ok", f"sound envelopes of it: {sound}")
    for sender in _listed(names.inbox_dir(registry.root, name)):
        if names.is_node_name(sender):
            yield from _cursor(registry, name, sender)


def _look_through(registry: Registry, source: str, target: str) -> tuple[int, list[str]]:
    """Sound envelopes of a lane, and why others are none; a torn end may be a write under way."""
    try:
        lane = open_directory(names.lane_dir(registry.root, target, source))
    except OSError:
        return 0, []
    sound, broken = 0, []
    try:
        for generation, number, _ in lane_files_in(lane):
            items = _items(registry, source, target, lane, generation, number)
            sound += sum(isinstance(item, Opened) and _is_sound(item) for item in items)
            damages = [item for item in items if isinstance(item, Damage)]
            if damages and damages[-1] is items[-1] and damages[-1].reason == "TRUNCATED":
                damages.pop()
            broken += [item.reason for item in damages]
            broken += ["BAD_SLOT" for item in items if isinstance(item, Opened) and not _is_sound(item)]
        foreign = [one for one in _listed(names.lane_dir(registry.root, target, source)) if _is_foreign(one)]
    finally:
        os.close(lane)
    return sound, broken + ["NO_LANE_FILE"] * len(foreign)


def _items(
    registry: Registry, source: str, target: str, lane: int, generation: int, number: int
) -> list[Opened | Damage]:
    ids = names.node_id(source), names.node_id(target)
    life = registry.newest_generation(target) if is_ephemeral(registry, target) else 0
    opener = LinkOpener(registry.keyring, *ids, life)
    decoder = LaneDecoder(*ids, MAX_PAYLOAD_BYTES, opener.open)
    items: list[Opened | Damage] = []
    if _is_bound(lane, generation):
        return items  # it opens for its two nodes alone (I-4)
    try:
        fd = os.open(names.lane_file_name(generation, number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=lane)
    except OSError:
        return items
    try:
        data = read_at(fd, 0, _MAX_READ)
    finally:
        os.close(fd)
    at, more = 0, True
    while more:
        scanned = decoder.scan(ByteWindow(data[at:], at, generation, final=True, past_slots=True))
        items += scanned.items
        at, more = at + scanned.consumed, scanned.more and scanned.consumed > 0
    return items


def _is_bound(lane: int, generation: int) -> bool:
    """Whether a sender bound its link in this generation."""
    return any(opening and opening[0] == generation for opening in map(names.parse_opening, os.listdir(lane)))


def _is_sound(item: Opened) -> bool:
    """Whether an envelope whose payload lies in a slot says where; the slot may hold another one by now."""
    if item.header.flags & FLAG_SLOTTED:
        try:
            SlotHead.decode(item.payload)
        except WireError:
            return False
    return True


def _is_foreign(filename: str) -> bool:
    known = (
        names.parse_lane_file,
        names.parse_slot,
        names.parse_cursor,
        names.parse_start,
        names.parse_fence,
        names.parse_deliveries,
        names.parse_opening,
    )
    return not filename.startswith(names.TEMPORARY_PREFIX) and all(parse(filename) is None for parse in known)


def _cursor(registry: Registry, name: str, sender: str) -> Iterator[Finding]:
    """Its cursor for one sender, against the segments that are there."""
    keys = registry.keyring.lane_keys(names.node_id(sender), names.node_id(name))
    try:
        lane = LaneFiles(names.lane_dir(registry.root, name, sender), keys)
    except OSError:
        return
    try:
        listing = lane.list()
        found = [(generation, lane.read_cursor(generation)) for generation in listing.cursors]
        sizes = {one: lane.file_bytes(*one) for one in listing.files}
        # What the node removed since it was listed has no size.
        sizes = {one: size for one, size in sizes.items() if size or lane.has_file(*one)}
    finally:
        lane.close()
    if not found:
        if sizes:
            yield Finding("cursor", "warning", f"none for {sender}", "write one before anything is dispatched")
        return
    generation, cursor = found[0]
    if cursor is None:
        cure = "MAC: the first 16 bytes of HMAC-SHA256 by the lane key (source id, then target id) over all before"
        yield _wrong("cursor", f"{names.cursor_name(generation)} for {sender} is not authentic", cure)
    elif cursor.offset > sizes.get((cursor.sender_generation, cursor.file), cursor.offset):
        found_at = f"that for {sender} lies behind the end of its segment"
        yield _wrong("cursor", found_at, "state the offset of the end of the last finished envelope")
    else:
        yield Finding("cursor", "ok", f"for {sender}: generation {cursor.sender_generation}, file {cursor.file}")


# --- what was put aside ---


def _quarantines(root: str, name: str) -> Iterator[Finding]:
    """What others put aside of this node, and what it put aside itself."""
    for target in _nodes(root):
        yield from _refused_of(root, target, name)
    own = Counter(str(one.get("reason")) for one in _reasons(root, name))
    for reason, count in sorted(own.items()):
        where = names.quarantine_dir(root, name)
        yield Finding(
            "quarantine",
            "warning",
            f"it put things aside, {_times(count)}: {reason}",
            f"read the .reason files in {where}",
        )


def _refused_of(root: str, target: str, name: str) -> Iterator[Finding]:
    """What ``target`` put aside of what ``name`` wrote: bytes of its lane, whose note begins with the sender's name."""
    kept = (one for one in _reasons(root, target) if str(one.get("name", "")).partition(" ")[0] == name)
    for reason, count in sorted(Counter(str(one.get("reason")) for one in kept).items()):
        cure = _CURES.get(reason, "see wire.md")
        yield _wrong("quarantine", f"{target} put aside what it wrote, {_times(count)}: {reason}", cure)


def _reasons(root: str, name: str) -> Iterator[dict[str, Any]]:
    directory = names.quarantine_dir(root, name)
    for filename in _listed(directory):
        if filename.endswith(".reason"):
            with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, filename), "rb") as file:
                reason = json.loads(file.read(4096))
                if isinstance(reason, dict):
                    yield reason


def _nodes(root: str) -> list[str]:
    return sorted(filter(names.is_node_name, _listed(root)))


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _wrong(check: str, found: str, todo: str) -> Finding:
    return Finding(check, "broken", found, todo)
