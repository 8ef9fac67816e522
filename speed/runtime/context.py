"""What all parts of one running node share."""

from __future__ import annotations

import threading
import time as time_module
from collections.abc import Callable
from dataclasses import dataclass, field
from time import clock_gettime_ns, time

from speed.core.access import AccessPolicy
from speed.core.pending import PendingCalls
from speed.errors import SpeedError, fresh
from speed.fs.key_source import KeySource
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.runtime.said import Said
from speed.runtime.stats import Stats
from speed.wire.limits import MAX_DELIVERIES
from speed.wire.seal import Keyring

_BOOT_CLOCK = getattr(time_module, "CLOCK_BOOTTIME", time_module.CLOCK_MONOTONIC)

FILES_EACH = 3
"""What a lane holds open to be read, and a link to be written: directory and segment, and cursor or bell."""
MIN_AWAKE = 4


def unix_ms() -> int:
    """The wall clock in Unix milliseconds, as envelopes carry it."""
    return int(time() * 1000)


def boot_ms() -> int:
    """The clock of this boot in milliseconds: it counts time asleep, and nothing sets it."""
    return clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


@dataclass(slots=True)
class Context:
    """Identity, registry access and counters of a node; made once, then only read.

    ``failure`` is set once, when the node lost its lease or was closed; public methods raise it.
    """

    name: str
    id: bytes
    root: str
    namespace: str
    keys: KeySource
    generation: int
    durable: bool
    polling: bool
    window_bytes: int
    registry: Registry
    registration: Registration
    policy: AccessPolicy
    pending: PendingCalls
    boot_id: str = ""
    on_error: str = "dead-letter"
    max_deliveries: int = MAX_DELIVERIES
    max_open_files: int = 512
    """Of lanes and links together (L-26)."""
    stats: Stats = field(default_factory=Stats)
    said: Said = field(default_factory=Said)
    stopping: threading.Event = field(default_factory=threading.Event)
    failure: SpeedError | None = None
    heed: Callable[[float], None] = lambda deadline: None
    """Makes whoever holds the protocol role notice a new deadline (monotonic seconds) in time."""
    unheard: Callable[[str], None] = lambda target: None
    """Tells of a node whose bell nobody hears."""
    lane_removed: Callable[[str], None] = lambda source: None
    """Tells of a sender that will not come back, and of which this node has no lane any more."""

    @property
    def keyring(self) -> Keyring:
        return self.keys.keyring

    @property
    def most_lanes(self) -> int:
        """Inbound lanes that may hold files open: two thirds of the files are for them."""
        return max(MIN_AWAKE, 2 * self.max_open_files // 3 // FILES_EACH)

    @property
    def most_links(self) -> int:
        """Links that may."""
        return max(MIN_AWAKE, self.max_open_files // 3 // FILES_EACH)

    def check_open(self) -> None:
        """Raise why the node cannot be used any longer: an exception of its own for who asks."""
        if self.failure is not None:
            raise fresh(self.failure)
