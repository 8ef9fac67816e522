"""Entries of the registry (R-2, R-3), cursors and fences of a lane (L-14, L-18)."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from scripts.vectors.fixed import ACCEPTED, FOREIGN, LANE_KEY, OLD, OTHER, RING, SOURCE, TARGET, TIME, flipped, patched
from speed.core.access import granted
from speed.wire.cursor import Cursor, Fence, Unfinished, encode_cursor, encode_deliveries, encode_fence
from speed.wire.entry import Entry, encode_entry
from speed.wire.envelope import make_sequence
from speed.wire.names import node_id
from speed.wire.seal import Keyring

ENTRY = Entry(
    name=TARGET,
    generation=7,
    pid=4242,
    pid_start=123456,
    pid_namespace="pid:[4026531836]",
    host="büro-1",
    boot_id="0f0e0d0c-0b0a-4908-8706-050403020100",
    startup_timestamp=TIME,
    last_heartbeat=TIME + 5000,
    heartbeat_monotonic_ms=987654,
    lease=30000,
    heartbeat_interval=5000,
    fabrics=("Finance",),
    allow=("analytics", "etl.*"),
    subscriptions=("orders.*",),
    language="python",
    version="0.1.0",
    features=("segments", "withdraw"),
)


def entry_bytes(line: bytes, key: bytes | None = None, capacity: int = 2048) -> bytes:
    mac = b64encode(hmac.digest(key or RING.registry_key, line, "sha256"))
    return (line + b"\n" + mac + b"\n").ljust(capacity, b" ")


def entries() -> dict[str, Any]:
    """Registry entry files; hexadecimal without the padding, which the reader of the vector adds."""
    whole = encode_entry(ENTRY, RING.registry_key)
    line = whole.split(b"\n")[0]
    fields = json.loads(line)

    def seen(entry: Entry) -> dict[str, Any]:
        fields = {**asdict(entry), "node_id": entry.id.hex()}
        return {
            name: value
            for name, value in fields.items()
            if name not in ("identity", "identities", "observers") or value
        }

    def good(name: str, bug: str, data: bytes, entry: Entry = ENTRY) -> dict[str, Any]:
        return {"name": name, "bug": bug, "bytes": len(data), "content": data.rstrip(b" ").hex(), "entry": seen(entry)}

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "bytes": len(data), "content": data.rstrip(b" ").hex()}

    def changed(**changes: Any) -> bytes:
        return entry_bytes(json.dumps({**fields, **changes}).encode())

    no_pid = replace(ENTRY, pid=0)
    many = replace(ENTRY, allow=tuple(f"node{number}" for number in range(300)))
    without = {key: value for key, value in fields.items() if key != "lease"}
    plain = {key: value for key, value in fields.items() if key != "features"}
    raw = json.dumps(fields, ensure_ascii=False, indent=None).encode()
    return {
        "about": "R-2, R-3. `content` is the file without its padding: add spaces up to `bytes`.",
        "accepted_keys": ACCEPTED,
        "valid": [
            good("entry", "basic form", whole),
            good("other spelling", "MAC over a canonical form instead of the exact bytes", entry_bytes(raw)),
            good("unknown field", "new fields refused", changed(colour="red", nested={"a": [1]})),
            good(
                "no features",
                "an older node's entry refused",
                entry_bytes(json.dumps(plain).encode()),
                replace(ENTRY, features=()),
            ),
            good(
                "unknown feature",
                "a closed set of features",
                changed(features=["segments", "teleport"]),
                replace(ENTRY, features=("segments", "teleport")),
            ),
            good(
                "starting",
                "a node that starts taken for junk",
                changed(status="starting"),
                replace(ENTRY, status="starting"),
            ),
            good(
                "denials",
                "what is excepted from the grants lost",
                changed(deny=["etl.7", "etl.eu.*"]),
                replace(ENTRY, deny=("etl.7", "etl.eu.*")),
            ),
            good(
                "shared subscriptions",
                "an event told to each node of a family",
                changed(subscriptions=["orders.*", "bills"], shared=["orders.*"]),
                replace(ENTRY, subscriptions=("orders.*", "bills"), shared=("orders.*",)),
            ),
            good(
                "observers",
                "who may look lost",
                changed(observers=["cli.*", "speedd"]),
                replace(ENTRY, observers=("cli.*", "speedd")),
            ),
            good("ephemeral", "a name kept for ever", changed(ephemeral=True), replace(ENTRY, ephemeral=True)),
            good("older key", "only the sealing key verifies", entry_bytes(line, Keyring((OLD,)).registry_key)),
            good("32 levels", "too strict", entry_bytes(line[:-1] + b',"x":' + b"[" * 31 + b"]" * 31 + b"}")),
            good("minus zero", "a fraction", entry_bytes(line.replace(b":4242,", b":-0,")), no_pid),
            good("a key twice", "of equal keys the last counts", entry_bytes(b'{"name":"x",' + line[1:])),
            good("large", "fixed buffer of 2,048 bytes", encode_entry(many, RING.registry_key), many),
        ],
        "invalid": [
            bad("empty", "an empty file read as an entry", b" " * 2048),
            bad("torn", "half a heartbeat accepted", patched(whole, line.find(b"lastHeartbeat") + 18, b"9")),
            bad("foreign key", "MAC unchecked", entry_bytes(line, Keyring((FOREIGN,)).registry_key)),
            bad("lane key", "one MAC key for everything", entry_bytes(line, LANE_KEY)),
            bad("MAC cut", "prefix of the MAC accepted", whole[: len(line) + 20].ljust(2048)),
            bad("MAC missing", "line 2 optional", (line + b"\n").ljust(2048)),
            bad("array", "any JSON taken for an object", entry_bytes(b"[]")),
            bad("field missing", "a default invented", entry_bytes(json.dumps(without).encode())),
            bad("number as text", "types converted", changed(lease="30000")),
            bad("boolean as number", "true is 1", changed(pid=True)),
            bad("fraction", "number cut", changed(lease=30000.5)),
            bad("whole fraction", "30000.0 taken for an integer", changed(lease=30000.0)),
            bad("exponent", "3e4 taken for an integer", entry_bytes(line.replace(b":30000,", b":3e4,"))),
            bad("negative", "sign unchecked", changed(lease=-1)),
            bad("no lease", "division by zero, immortal entries", changed(lease=0)),
            bad("too large a number", "overflow", changed(lastHeartbeat=1 << 63)),
            bad("generation 0", "range unchecked", changed(generation=0)),
            bad("generation 2^24", "range unchecked", changed(generation=1 << 24)),
            bad("id of another", "name and id disagree", changed(nodeId=node_id(OTHER).hex())),
            bad("bad name", "path traversal", changed(name="../x", nodeId=node_id("../x").hex())),
            bad("unknown status", "status unchecked", changed(status="asleep")),
            bad("grant for everyone", "deny by default undone", changed(allow=["*"])),
            bad("denial of everyone", "denials unchecked", changed(deny=["*"])),
            bad("everyone an observer", "observers unchecked", changed(observers=["*"])),
            bad("shared pattern", "patterns unchecked", changed(shared=["orders.*.new"])),
            bad("denial as text", "a text read as its letters", changed(deny="etl.7")),
            bad("not UTF-8", "broken text replaced", entry_bytes(line.replace(b'-1"', b'\xff"', 1))),
            bad("half a surrogate pair", "text that is no Unicode", entry_bytes(line.replace(b"u00fc", b"udc00"))),
            bad("UTF-16", "encoding guessed", entry_bytes(line.decode().encode("utf-16"))),
            bad("byte order mark", "encoding guessed", entry_bytes(b"\xef\xbb\xbf" + line)),
            bad("NaN in an unknown field", "more than JSON", entry_bytes(line[:-1] + b',"x":NaN}')),
            bad("1e400", "infinity by another way", entry_bytes(line[:-1] + b',"x":1e400}')),
            bad("400 digits", "an integer beyond a double", entry_bytes(line[:-1] + b',"x":1' + b"0" * 399 + b"}")),
            bad("33 levels", "nesting unbounded", entry_bytes(line[:-1] + b',"x":' + b"[" * 32 + b"]" * 32 + b"}")),
            bad("features no list", "types unchecked", changed(features="segments")),
            bad("ephemeral as number", "1 is true", changed(ephemeral=1)),
            bad("nil features", "nil taken for absent", changed(features=None)),
            bad("list of numbers", "element types unchecked", changed(fabrics=[1])),
        ],
        "senders": list(_senders()),
    }


def _senders() -> Iterator[dict[str, Any]]:
    """Who may write, by what an entry publishes (A-3, A-4)."""
    for name, bug, allow, deny, sender in (
        ("nobody", "everyone by default", (), (), "etl"),
        ("a name", "a grant not found", ("analytics", "etl"), (), "etl"),
        ("a longer name", "a prefix taken for the name", ("etl",), (), "etl.1"),
        ("a family", "families not known", ("etl.*",), (), "etl.eu.1"),
        ("the family's own name", "a family that has its own head", ("etl.*",), (), "etl"),
        ("a denied name", "denials not read", ("etl.*",), ("etl.1",), "etl.1"),
        ("another of that family", "a denial for all", ("etl.*",), ("etl.1",), "etl.2"),
        ("a denied family", "denials of families not read", ("etl.*",), ("etl.eu.*",), "etl.eu.1"),
        ("a granted name in a denied family", "denials first", ("etl.*", "etl.eu.1"), ("etl.eu.*",), "etl.eu.1"),
        ("a granted family in a denied one", "the shortest decides", ("a.*", "a.b.c.*"), ("a.b.*",), "a.b.c.d"),
        ("a denied name of one letter", "lengths of name and family compared", ("a.*",), ("a.b",), "a.b"),
        ("a granted name of one letter", "lengths of name and family compared", ("a.*", "a.b.c"), ("a.b.*",), "a.b.c"),
        ("granted and denied alike", "a grant first", ("etl.*",), ("etl.*",), "etl.1"),
        ("denied without a grant", "a denial taken for a grant", (), ("etl.*",), "etl.1"),
    ):
        entry = replace(ENTRY, allow=allow, deny=deny)
        yield {
            "name": name,
            "bug": bug,
            "allow": list(allow),
            "deny": list(deny),
            "sender": sender,
            "granted": granted(entry, sender),
        }


def named(record: Cursor | Unfinished | Fence) -> dict[str, Any]:
    """Fields as the contract calls them: the number of a lane's file is ``segment``."""
    return {"segment" if key == "file" else key: value for key, value in record._asdict().items()}


def cursors() -> dict[str, Any]:
    """Cursor and fence files of the lane analytics -> billing."""
    unfinished = (Unfinished(make_sequence(3, 5), 1, 3, 900), Unfinished(make_sequence(3, 7), 2, 3, 0))
    base = Cursor(12, 3, 2, 4096, make_sequence(3, 9), unfinished)
    begun_one = base._replace(unfinished=(unfinished[0]._replace(begun=True), unfinished[1]))
    full = base._replace(unfinished=tuple(Unfinished(make_sequence(3, n), 1, 3, n * 200) for n in range(1, 65)))
    data, fence = encode_cursor(base, LANE_KEY), Fence(3, 2, 5, 8_388_700)
    begun = {make_sequence(3, 5): 2, make_sequence(3, 1 << 33): 70_000}
    begun_data = encode_deliveries(begun, LANE_KEY)
    fence_data = encode_fence(fence, LANE_KEY)

    def seen(cursor: Cursor) -> dict[str, Any]:
        fields = named(cursor)
        fields["last_sequence"] = f"{cursor.last_sequence:016x}"
        fields["unfinished"] = [{**named(one), "sequence": f"{one.sequence:016x}"} for one in cursor.unfinished]
        return fields

    def good(name: str, bug: str, cursor: Cursor, *, tail: bytes = b"", key: bytes = LANE_KEY) -> dict[str, Any]:
        case = {"name": name, "bug": bug, "hex": (encode_cursor(cursor, key) + tail).hex(), "cursor": seen(cursor)}
        return case if key == LANE_KEY and not tail else {**case, "only_read": True}

    def bad(name: str, bug: str, content: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": content.hex()}

    def later(name: str, bug: str, offset: int, replacement: bytes) -> dict[str, Any]:
        """A cursor with bytes that mean nothing to this version, under a MAC that fits."""
        body = patched(data[:-16], offset, replacement)
        content = body + hmac.digest(LANE_KEY, body, "sha256")[:16]
        return {"name": name, "bug": bug, "hex": content.hex(), "cursor": seen(base), "only_read": True}

    older = Keyring((OLD,)).lane_key(node_id(SOURCE), node_id(TARGET))
    reverse = RING.lane_key(node_id(TARGET), node_id(SOURCE))
    return {
        "about": "L-14 cursors, L-18 fences and L-25 deliveries of the lane analytics -> billing.",
        "source": SOURCE,
        "target": TARGET,
        "accepted_keys": ACCEPTED,
        "cursors_valid": [
            good("fresh", "no position yet", Cursor(1, 0, 0, 0, 0)),
            good("position", "field order", Cursor(12, 3, 2, 4096, make_sequence(3, 9))),
            good("closed", "clean flag lost", Cursor(12, 3, 2, 4096, make_sequence(3, 9), (), clean=True)),
            good("sealed", "one flag taken for the other", Cursor(12, 3, 2, 4096, make_sequence(3, 9), sealed=True)),
            good(
                "closed and sealed",
                "flags compared instead of tested",
                Cursor(12, 3, 2, 4096, make_sequence(3, 9), clean=True, sealed=True),
            ),
            good("unfinished", "segment and generation swapped", base),
            good("begun", "an offset beyond the end of the file", begun_one),
            good("64 unfinished", "fixed buffer too small", full),
            good(
                "tail",
                "rest of an earlier, longer cursor",
                Cursor(12, 3, 2, 8192, make_sequence(3, 9)),
                tail=b"\xff" * 48,
            ),
            good("beyond 4 GiB", "offset in 32 bits", Cursor(12, 3, 2, 1 << 40, make_sequence(3, 9))),
            good("older key", "only the sealing key verifies", base, key=older),
            later("unknown flags", "a later version's flags refused", 5, b"\xfc"),
            later("bytes that are not zero", "what the MAC covers checked once more", 12, b"\x01\x02\x03\x04"),
        ],
        "cursors_invalid": [
            bad("empty", "length unchecked", b""),
            bad("cut", "MAC optional", data[:-1]),
            bad("magic", "magic unchecked", patched(data, 0, b"SPDF")),
            bad("version", "version unchecked", patched(data, 4, b"\x02")),
            bad("count", "count unchecked: reads past the end", patched(data, 6, b"\x00\x41")),
            bad("count lowered", "MAC not over the whole", patched(data, 6, b"\x00\x01")),
            bad("offset flipped", "MAC unchecked", flipped(data, 31)),
            bad("MAC flipped", "MAC unchecked", flipped(data, len(data) - 1)),
            bad("reverse lane", "one MAC key for both directions", encode_cursor(base, reverse)),
        ],
        "fences_valid": [
            {"name": "fence", "bug": "field order", "hex": fence_data.hex(), "fence": named(fence)},
        ],
        "fences_invalid": [
            bad("cut", "length unchecked", fence_data[:-1]),
            bad("longer", "length unchecked", fence_data + b"\x00"),
            bad("magic", "magic unchecked", patched(fence_data, 0, b"SPDC")),
            bad("version", "version unchecked", patched(fence_data, 4, b"\x02")),
            bad("size flipped", "MAC unchecked", flipped(fence_data, 31)),
            bad("other lane", "a fence moved to another lane", encode_fence(fence, reverse)),
        ],
        "deliveries_valid": [
            {
                "name": name,
                "bug": bug,
                "hex": encode_deliveries(counts, LANE_KEY).hex(),
                "deliveries": [{"sequence": f"{sequence:016x}", "count": n} for sequence, n in sorted(counts.items())],
            }
            for name, bug, counts in (
                ("none", "an empty list refused", {}),
                ("deliveries", "field order, or counts in 16 bits", begun),
                ("256", "a count in 8 bits", {make_sequence(3, n): 2 for n in range(1, 257)}),
            )
        ],
        "deliveries_invalid": [
            bad("empty", "length unchecked", b""),
            bad("cut", "MAC optional", begun_data[:-1]),
            bad("longer", "length unchecked", begun_data + b"\x00"),
            bad("magic", "magic unchecked", patched(begun_data, 0, b"SPDC")),
            bad("version", "version unchecked", patched(begun_data, 4, b"\x02")),
            bad("count", "count unchecked: reads past the end", patched(begun_data, 6, b"\xff\xff")),
            bad("count flipped", "MAC unchecked", flipped(begun_data, 19)),
            bad("other lane", "counts moved to another lane", encode_deliveries(begun, reverse)),
        ],
    }
