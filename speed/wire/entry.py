"""A node's registry entry: one JSON line, its MAC, padding to a fixed capacity."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from speed.errors import ConfigurationError, InvalidNameError, WireError
from speed.wire.limits import GENERATION_BITS, KEY_ID_BYTES, MAX_ENTRY_BYTES, MAX_KEYS, MAX_VALUE_DEPTH, MIN_ENTRY_BYTES
from speed.wire.names import check_grant, check_node_name, check_topic_pattern, node_id
from speed.wire.text import read_json

STATUSES = ("starting", "online", "leaving")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a node publishes about itself in the registry.

    Attributes:
        name: its name.
        generation: how often the name was claimed, this time included.
        pid, pid_start, pid_namespace: its process, with the time of its start, and the namespace that counts it.
        host, boot_id: the machine, and since when it runs.
        startup_timestamp, last_heartbeat: Unix milliseconds.
        heartbeat_monotonic_ms: the last heartbeat by a clock that does not jump; of one boot only.
        lease, heartbeat_interval: milliseconds.
        status: ``starting``, ``online`` or ``leaving``.
        fabrics: its labels.
        allow: names and families of nodes that may write to it.
        deny: those of them that may not: what is more specific decides.
        identity: its public keys, signed by themselves, in Base64; empty without an identity.
        identities: the grants that are of one identity, ``name@fingerprint``.
        observers: names and families of nodes that may ask for figures without a grant.
        subscriptions: topics and families of topics that it subscribes to.
        shared: those of them whose events go to one node of its family each.
        language, version: how the node is written.
        features: what it offers beside the core of the protocol.
        ephemeral: whether the name will not come back.
    """

    name: str
    generation: int
    pid: int
    pid_start: int
    pid_namespace: str
    host: str
    boot_id: str
    startup_timestamp: int
    last_heartbeat: int
    heartbeat_monotonic_ms: int
    lease: int
    heartbeat_interval: int
    status: str = "online"
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    language: str = "python"
    version: str = "1"
    features: tuple[str, ...] = ()
    ephemeral: bool = False
    deny: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    identity: str = ""
    identities: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()

    @property
    def id(self) -> bytes:
        """The node id, 16 bytes that follow from the name."""
        return node_id(self.name)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_MAX_INT = (1 << 63) - 1
_OPTIONAL: dict[str, Any] = {
    "features": [],
    "ephemeral": False,
    "deny": [],
    "shared": [],
    "identity": "",
    "identities": [],
    "observers": [],
}
"""Fields that may be absent, and what that means."""
_KEYS = {field.name: _camel(field.name) for field in fields(Entry)}
_TYPES: dict[str, type] = {
    name: {"int": int, "str": str, "bool": bool}.get(str(kind), tuple)
    for name, kind in ((field.name, field.type) for field in fields(Entry))
}


def encode_entry(entry: Entry, registry_key: bytes, capacity: int = 0, key_ids: Sequence[bytes] = ()) -> bytes:
    """The bytes of an entry file, padded to ``capacity`` or to the next power of two that fits."""
    values: dict[str, Any] = {key: getattr(entry, name) for name, key in _KEYS.items()}
    values["nodeId"] = entry.id.hex()
    for absent in ("ephemeral", "deny", "shared", "identity", "identities", "observers"):
        if not values[absent]:
            del values[absent]
    if key_ids:
        values["keyIds"] = [key_id.hex() for key_id in key_ids]
    line = json.dumps(values, separators=(",", ":")).encode()
    data = line + b"\n" + entry_mac(registry_key, line) + b"\n"
    needed = max(capacity, MIN_ENTRY_BYTES)
    while needed < len(data):
        needed *= 2
    if needed > MAX_ENTRY_BYTES:
        raise ConfigurationError(
            f"the entry of {entry.name!r} needs {len(data)} bytes, the limit is {MAX_ENTRY_BYTES}: "
            "grant families such as 'etl.*' instead of single names"
        )
    return data.ljust(needed, b" ")


def is_capacity(size: int) -> bool:
    """Whether a file of an entry may be that large."""
    return MIN_ENTRY_BYTES <= size <= MAX_ENTRY_BYTES and size & (size - 1) == 0


def entry_mac(registry_key: bytes, line: bytes) -> bytes:
    """Base64 HMAC-SHA256 over the exact bytes of line 1."""
    return base64.b64encode(hmac.digest(registry_key, line, "sha256"))


def key_ids_in(data: bytes) -> tuple[bytes, ...]:
    """Ids of the keys that an entry, authentic or not, says its node accepts, the sealing one first; () if none."""
    try:
        key_ids = tuple(map(bytes.fromhex, read_json(data.partition(b"\n")[0], MAX_VALUE_DEPTH)["keyIds"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return key_ids if len(key_ids) <= MAX_KEYS and all(len(one) == KEY_ID_BYTES for one in key_ids) else ()


def decode_entry(data: bytes, registry_keys: Sequence[bytes]) -> Entry:
    """The entry in ``data``; WireError BAD_ENTRY if no accepted key made it or a field is wrong."""
    line, _, rest = data.partition(b"\n")
    mac, newline, _ = rest.partition(b"\n")
    if not newline or len(data) > MAX_ENTRY_BYTES:
        raise WireError("BAD_ENTRY", "no two lines, or too large")
    if not any(hmac.compare_digest(mac, entry_mac(key, line)) for key in registry_keys):
        raise WireError("BAD_ENTRY", "the MAC does not fit: torn, foreign, or of another key")
    try:
        return _entry_of(read_json(line, MAX_VALUE_DEPTH))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidNameError) as error:
        raise WireError("BAD_ENTRY", f"{type(error).__name__} in a field: {error}") from None


def _entry_of(values: dict[str, Any]) -> Entry:
    picked: dict[str, Any] = {}
    for name, key in _KEYS.items():
        value = values.get(key, _OPTIONAL[name]) if name in _OPTIONAL else values[key]
        if _TYPES[name] is tuple:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise TypeError(key)
            value = tuple(value)
        elif type(value) is not _TYPES[name] or (type(value) is int and not 0 <= value <= _MAX_INT):
            raise TypeError(key)
        picked[name] = value
    entry = Entry(**picked)
    _check_meaning(entry)
    if values["nodeId"] != entry.id.hex():
        raise ValueError("nodeId is not that of the name")
    return entry


def _check_meaning(entry: Entry) -> None:
    """What a type alone does not say: names, patterns and ranges."""
    check_node_name(entry.name)
    for pattern in (*entry.allow, *entry.deny, *entry.observers):
        check_grant(pattern)
    for pattern in (*entry.subscriptions, *entry.shared):
        check_topic_pattern(pattern)
    if not 1 <= entry.generation < 1 << GENERATION_BITS:
        raise ValueError("generation is out of range")
    if entry.status not in STATUSES:
        raise ValueError("status is unknown")
    if min(entry.lease, entry.heartbeat_interval) <= 0:
        raise ValueError("lease and heartbeatInterval must be positive")
