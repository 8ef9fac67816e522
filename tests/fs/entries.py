"""What the tests of names share: leases, and entries as other processes would have written them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any

from speed.errors import LeaseLostError
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry, encode_entry

LONG = {"lease_ms": 30_000, "heartbeat_ms": 5_000}
SHORT = {"lease_ms": 60, "heartbeat_ms": 15}


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def put(registry: Registry, entry: Entry) -> None:
    """Install an entry as another process would."""
    path = names.entry_path(registry.root, entry.name)
    pathlib.Path(path + "~").write_bytes(encode_entry(entry, registry.keyring.registry_key))
    os.rename(path + "~", path)


def template(registry: Registry, **changes: Any) -> Entry:
    """An entry of this process under the name billing, never registered."""
    registration = registry.register("template", **LONG)
    registration.remove()
    return dataclasses.replace(registration.entry, name="billing", **changes)


def hold_shortly(registry: Registry) -> Registration:
    """Billing under a lease that runs out soon; where the machine paused for longer than that, once more."""
    while True:
        try:
            return registry.register("billing", **SHORT)
        except LeaseLostError:
            continue


def run_out(registration: Registration) -> None:
    """Wait until the lease has run out."""
    while now_ms() <= registration.entry.heartbeat_monotonic_ms + registration.entry.lease:
        time.sleep(0.001)
