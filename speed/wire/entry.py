"""The registry entry file: a JSON line, its check line, and padding (rules W-30 to W-33).

Heartbeats rewrite the file in place, so its size stays fixed: a power of two from MIN_ENTRY_BYTES on.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from speed.errors import ConfigurationError, InvalidNameError, WireError
from speed.wire import names
from speed.wire.limits import GENERATION_BITS, MAX_ENTRY_BYTES, MIN_ENTRY_BYTES
from speed.wire.seal import Keyring

STATUSES = ("online", "leaving")

_SPARE_BYTES = 64  # numbers may gain digits later without a change of capacity
_MAX_INT = (1 << 63) - 1
_INTS = {
    "generation": "generation",
    "pid": "pid",
    "pidStart": "pid_start",
    "startupTimestamp": "startup_timestamp",
    "lastHeartbeat": "last_heartbeat",
    "heartbeatMonotonicMs": "heartbeat_monotonic_ms",
    "lease": "lease",
    "heartbeatInterval": "heartbeat_interval",
}
_TEXTS = {
    "name": "name",
    "status": "status",
    "pidNamespace": "pid_namespace",
    "host": "host",
    "bootId": "boot_id",
    "language": "language",
    "version": "version",
}
_LISTS = {"fabrics": "fabrics", "allow": "allow", "subscriptions": "subscriptions"}


@dataclass(frozen=True, slots=True)
class Entry:
    """What a node publishes about itself. All times and durations are in milliseconds.

    ``startup_timestamp`` and ``last_heartbeat`` are Unix time; ``heartbeat_monotonic_ms`` is CLOCK_MONOTONIC,
    comparable on one boot only; ``pid_start`` is field 22 of /proc/<pid>/stat on Linux.
    """

    name: str
    generation: int
    status: str
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
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    language: str = "python"
    version: str = ""

    @property
    def node_id(self) -> bytes:
        """The 16-byte id that follows from the name."""
        return names.node_id(self.name)


def encode_entry(entry: Entry, registry_key: bytes, capacity: int | None = None) -> bytes:
    """Return the padded bytes of an entry file (rule W-30).

    Args:
        entry: what to publish.
        registry_key: ``Keyring.registry_key``.
        capacity: wanted size in bytes; a larger one is chosen when the entry outgrew it, so compare lengths.

    Raises:
        ConfigurationError: the entry exceeds MAX_ENTRY_BYTES.
    """
    fields: dict[str, Any] = {"name": entry.name, "nodeId": entry.node_id.hex()}
    for table in (_INTS, _TEXTS):
        fields.update((key, getattr(entry, attribute)) for key, attribute in table.items())
    fields.update((key, list(getattr(entry, attribute))) for key, attribute in _LISTS.items())
    line = json.dumps(fields, separators=(",", ":")).encode("ascii")
    check = b64encode(hmac.digest(registry_key, line, "sha256"))
    content = line + b"\n" + check + b"\n"
    return content.ljust(_capacity(len(content), capacity), b" ")


def _capacity(size: int, wanted: int | None) -> int:
    if wanted is not None and size <= wanted:
        return wanted
    capacity = MIN_ENTRY_BYTES
    while capacity < size + _SPARE_BYTES:
        capacity *= 2
    if capacity > MAX_ENTRY_BYTES:
        raise ConfigurationError(
            f"the registry entry needs {size} bytes, at most {MAX_ENTRY_BYTES}: "
            "use families (name.*) instead of many single grants, and fewer subscriptions"
        )
    return capacity


def decode_entry(data: bytes, keyring: Keyring) -> Entry:
    """Verify and parse an entry file (rule W-31); any accepted key may have made the check line.

    Raises:
        WireError: BAD_ENTRY (also for a torn read: read again).
    """
    line = _verified_line(data, keyring)
    try:
        fields = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError("BAD_ENTRY", "line 1 is not JSON") from error
    if not isinstance(fields, dict):
        raise WireError("BAD_ENTRY", "line 1 is not a JSON object")
    values: dict[str, Any] = {attribute: _integer(fields, key) for key, attribute in _INTS.items()}
    values.update((attribute, _text(fields, key)) for key, attribute in _TEXTS.items())
    values.update((attribute, _texts(fields, key)) for key, attribute in _LISTS.items())
    entry = Entry(**values)
    _check_meaning(entry, fields.get("nodeId"))
    return entry


def _verified_line(data: bytes, keyring: Keyring) -> bytes:
    size = len(data)
    if not MIN_ENTRY_BYTES <= size <= MAX_ENTRY_BYTES or size & (size - 1):
        raise WireError(
            "BAD_ENTRY", f"size {size} is not a power of two in {MIN_ENTRY_BYTES}..{MAX_ENTRY_BYTES}"
        )
    parts = data.split(b"\n", 2)
    if len(parts) != 3 or parts[2].strip(b" "):
        raise WireError("BAD_ENTRY", "not two lines and padding")
    try:
        check = b64decode(parts[1], validate=True)
    except ValueError as error:
        raise WireError("BAD_ENTRY", "line 2 is not Base64") from error
    if b64encode(check) != parts[1]:
        raise WireError("BAD_ENTRY", "line 2 is not canonical Base64")
    for key in keyring.registry_keys:
        if hmac.compare_digest(hmac.digest(key, parts[0], "sha256"), check):
            return parts[0]
    raise WireError("BAD_ENTRY", "line 2 does not authenticate line 1")


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


def _integer(fields: dict[str, Any], key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value <= _MAX_INT:
        raise WireError("BAD_ENTRY", f"{key} is not an integer from 0 to 2^63-1")
    return value


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise WireError("BAD_ENTRY", f"{key} is not a string")
    return value


def _texts(fields: dict[str, Any], key: str) -> tuple[str, ...]:
    value = fields.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError("BAD_ENTRY", f"{key} is not a list of strings")
    return tuple(value)


def _check_meaning(entry: Entry, node_id: Any) -> None:
    """Apply the rules that tie fields together (rule W-32)."""
    try:
        names.check_node_name(entry.name)
        for pattern in entry.allow:
            names.check_grant(pattern)
        for pattern in entry.subscriptions:
            names.check_topic_pattern(pattern)
    except InvalidNameError as error:
        raise WireError("BAD_ENTRY", str(error)) from error
    if node_id != entry.node_id.hex():
        raise WireError("BAD_ENTRY", "nodeId is not that of the name")
    if not 1 <= entry.generation < 1 << GENERATION_BITS:
        raise WireError("BAD_ENTRY", f"generation {entry.generation} is out of range")
    if entry.status not in STATUSES:
        raise WireError("BAD_ENTRY", f"status {entry.status!r} is not one of {', '.join(STATUSES)}")
    if entry.lease <= 0 or entry.heartbeat_interval <= 0:
        raise WireError("BAD_ENTRY", "lease and heartbeatInterval must be positive")
