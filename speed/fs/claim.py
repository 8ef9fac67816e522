"""Claims: empty-handed processes compete for a name by creating one file with O_EXCL (rules R-5, R-6).

``.claims/<name>.<generation>`` holds one line of JSON. While ``state`` is ``pending`` its maker is about
to install an entry; ``settled`` says that the entry was installed, so that an absent entry means a free name.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from speed.fs.entry_file import UnacceptableFileError, create_exclusively, read_regular
from speed.fs.identity import Identity
from speed.wire import limits, names

MAX_GENERATION = (1 << limits.GENERATION_BITS) - 1
UNREADABLE_LEASE_MS = 30_000
_MAX_BYTES = 4096
_MAX_LEASE_MS = 3_600_000


class Claim(NamedTuple):
    """The content of a claim; a `Tenure` for `judge` and `ProcessFields` for `process_alive`. Times in ms."""

    name: str
    generation: int
    settled: bool
    pid: int
    pid_start: int
    pid_namespace: str
    host: str
    boot_id: str
    lease: int
    heartbeat_monotonic_ms: int
    """Monotonic time at which the claim was made."""


def claim_path(root: str, name: str, generation: int) -> str:
    """Path of one claim."""
    return f"{names.claims_dir(root)}/{names.claim_name(name, generation)}"


def generations(root: str, name: str) -> list[int]:
    """All claimed generations of ``name``, ascending; empty without claims."""
    prefix = name + "."
    found = []
    with os.scandir(names.claims_dir(root)) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                parsed = names.parse_claim(entry.name)
                if parsed is not None and parsed[0] == name:
                    found.append(parsed[1])
    return sorted(found)


def newest_generation(root: str, name: str) -> int:
    """The highest claimed generation of ``name``; 0 without claims."""
    return max(generations(root, name), default=0)


def make_claim(root: str, claim: Claim, mode: int) -> bool:
    """Create the claim file; exactly one process succeeds per name and generation. Raises OSError."""
    return create_exclusively(claim_path(root, claim.name, claim.generation), _encode(claim), mode)


def settle_claim(root: str, claim: Claim) -> None:
    """Mark the claim as followed by an entry (same length, one write). Raises OSError."""
    path = claim_path(root, claim.name, claim.generation)
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.write(descriptor, _encode(claim._replace(settled=True)))
    finally:
        os.close(descriptor)


def remove_older_claims(root: str, name: str, generation: int) -> None:
    """Remove claims below ``generation``; the newest stays for ever, so that generations only grow."""
    for older in generations(root, name):
        if older < generation:
            with contextlib.suppress(OSError):
                os.unlink(claim_path(root, name, older))


def read_claim(root: str, name: str, generation: int) -> Claim | None:
    """The claim; None when gone. An unreadable one counts as pending, of an unknown process (rule R-6)."""
    try:
        data = read_regular(claim_path(root, name, generation), _MAX_BYTES).data
    except FileNotFoundError:
        return None
    except (UnacceptableFileError, OSError):
        data = b""
    return _decode(data, name, generation)


def process_claim(name: str, generation: int, own: Identity, lease_ms: int, monotonic_ms: int) -> Claim:
    """A pending claim of this process."""
    return Claim(name, generation, False, *own, lease_ms, monotonic_ms)


def _encode(claim: Claim) -> bytes:
    """One line; the two states have equally long names, so that settling rewrites in place."""
    fields = {
        "name": claim.name,
        "generation": claim.generation,
        "state": "settled" if claim.settled else "pending",
        "pid": claim.pid,
        "pidStart": claim.pid_start,
        "pidNamespace": claim.pid_namespace,
        "host": claim.host,
        "bootId": claim.boot_id,
        "lease": claim.lease,
        "claimedMonotonicMs": claim.heartbeat_monotonic_ms,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _decode(data: bytes, name: str, generation: int) -> Claim:
    unknown = Claim(name, generation, False, 0, 0, "", "", "", UNREADABLE_LEASE_MS, 0)
    try:
        fields: Any = json.loads(data)
        claim = Claim(
            name,
            generation,
            fields["state"] == "settled",
            _integer(fields["pid"]),
            _integer(fields["pidStart"]),
            str(fields["pidNamespace"]),
            str(fields["host"]),
            str(fields["bootId"]),
            min(_integer(fields["lease"]), _MAX_LEASE_MS),
            _integer(fields["claimedMonotonicMs"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return unknown
    return claim


def _integer(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a non-negative integer")
    return value
