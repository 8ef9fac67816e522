"""What all parts of one running node share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import time

from speed.core.access import AccessPolicy
from speed.core.pending import PendingCalls
from speed.errors import SpeedError
from speed.fs.key_source import KeySource
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.runtime.alarm import Alarm
from speed.runtime.ending import Ending
from speed.runtime.said import Said
from speed.runtime.stats import Stats
from speed.wire.limits import MAX_DELIVERIES
from speed.wire.seal import Keyring

FILES_EACH = 3
"""What a lane holds open to be read, and a link to be written: directory and file, and cursor or bell."""
MIN_AWAKE = 4


def unix_ms() -> int:
    """The wall clock in Unix milliseconds, as envelopes carry it."""
    return int(time() * 1000)


@dataclass(frozen=True, slots=True)
class Context:
    """Identity, registry access and counters of a node; made once, then only read."""

    name: str
    id: bytes
    root: str
    namespace: str
    accept_namespaces: frozenset[str]
    """Whose messages are handed out; ``*`` for all (M-34)."""
    keys: KeySource
    generation: int
    durable: bool
    polling: bool
    window_bytes: int
    registry: Registry
    registration: Registration
    policy: AccessPolicy
    pending: PendingCalls
    alarm: Alarm
    boot_id: str = ""
    on_error: str = "dead-letter"
    max_deliveries: int = MAX_DELIVERIES
    max_open_files: int = 512
    """Of lanes and links together (L-26)."""
    stats: Stats = field(default_factory=Stats)
    said: Said = field(default_factory=Said)
    ending: Ending = field(default_factory=Ending)

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

    @property
    def failure(self) -> SpeedError | None:
        """Why the node cannot be used any longer: it lost its lease, or was closed."""
        return self.ending.reason

    @property
    def stopping(self) -> threading.Event:
        """Set when all threads are to end."""
        return self.ending.stopping

    def check_open(self) -> None:
        """Raise why the node cannot be used any longer."""
        self.ending.check()
