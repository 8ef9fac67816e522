"""What all parts of one running node share: identity, registry, counters, what wakes it and whether it ends."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from speed.core.access import AccessPolicy
from speed.core.calls import PendingCalls
from speed.core.log import logger
from speed.core.scheduler import TIMES, time_place
from speed.engine import threads
from speed.engine.tracing import LogLimiter
from speed.errors import (
    IdentityChangedError,
    IdentityError,
    IdentityExpiredError,
    IdentityMissingError,
    IdentityRevokedError,
    IdentityUnvouchedError,
    KeyFileError,
    SpeedError,
    WireError,
    fresh,
)
from speed.fs.bell import Bell
from speed.fs.keyfile import IdentitySource, KeySource, KnownIdentities, statement_of
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.wire.entry import Entry
from speed.wire.identities import (
    REVOKED,
    Bond,
    Card,
    Evidence,
    KnownIdentity,
    NodeIdentity,
    judge,
    make_card,
    read_card,
)
from speed.wire.limits import MAX_DELIVERIES
from speed.wire.names import node_id
from speed.wire.seal import Keyring

# Counters of one node, as `speed stats` and DISCOVERY STATS report them (rule S-14).


@dataclass(slots=True)
class ServiceStats:
    """What one service did since it was registered; times in seconds."""

    requests: int = 0
    errors: int = 0
    last_error: str = ""
    processing_seconds: float = 0.0
    timed_out: int = 0
    timed_out_queued: int = 0
    withdrawn: int = 0
    refused: int = 0
    queue_times: list[int] = field(default_factory=lambda: [0] * TIMES)
    run_times: list[int] = field(default_factory=lambda: [0] * TIMES)

    def as_map(self) -> dict[str, Any]:
        average = self.processing_seconds / self.requests if self.requests else 0.0
        return {
            "numRequests": self.requests,
            "numErrors": self.errors,
            "lastError": self.last_error,
            "processingSeconds": self.processing_seconds,
            "averageSeconds": average,
            "numTimedOut": self.timed_out,
            "numTimedOutQueued": self.timed_out_queued,
            "numWithdrawn": self.withdrawn,
            "numRefused": self.refused,
            "queueTimes": list(self.queue_times),
            "runTimes": list(self.run_times),
        }


@dataclass(slots=True)
class HandlerStats:
    """What one handler of messages did; times in seconds."""

    handled: int = 0
    errors: int = 0
    processing_seconds: float = 0.0
    queue_times: list[int] = field(default_factory=lambda: [0] * TIMES)
    run_times: list[int] = field(default_factory=lambda: [0] * TIMES)

    def as_map(self) -> dict[str, Any]:
        return {
            "numHandled": self.handled,
            "numErrors": self.errors,
            "processingSeconds": self.processing_seconds,
            "queueTimes": list(self.queue_times),
            "runTimes": list(self.run_times),
        }


@dataclass(slots=True)
class Traffic:
    """What was exchanged with one other node: envelopes, and bytes of their payloads."""

    received: int = 0
    received_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0

    def as_map(self) -> dict[str, Any]:
        return {
            "received": self.received,
            "receivedBytes": self.received_bytes,
            "sent": self.sent,
            "sentBytes": self.sent_bytes,
        }


class Stats:
    """Thread-safe counters; a name that was never counted reads as zero."""

    def __init__(self) -> None:
        self.lock = threads.lock("stats")
        self._counts: dict[str, int] = {}
        self._services: dict[str, ServiceStats] = {}
        self._refused_senders: dict[str, int] = {}
        self._refused_by: dict[str, int] = {}
        self._handlers: dict[str, HandlerStats] = {}
        self._peers: dict[str, Traffic] = {}

    def count(self, name: str, amount: int = 1) -> None:
        with self.lock:
            self._counts[name] = self._counts.get(name, 0) + amount

    def served(self, service: str, seconds: float, error: str = "", queued_seconds: float = 0.0) -> None:
        """Record one request that waited, began and was answered; ``error`` is its code, empty on success."""
        queued, ran = time_place(queued_seconds), time_place(seconds)
        with self.lock:
            stats = self._of(service)
            stats.requests += 1
            stats.queue_times[queued] += 1
            stats.run_times[ran] += 1
            stats.processing_seconds += seconds
            if error:
                stats.errors += 1
                stats.last_error = error

    def timed_out(self, service: str, *, queued: bool) -> None:
        """Record that the deadline of a request for a service that is registered passed, before it began or later."""
        with self.lock:
            stats = self._of(service)
            stats.timed_out += 1
            stats.timed_out_queued += queued

    def withdrawn(self, service: str) -> None:
        """Record that a request for a service that is registered was withdrawn."""
        with self.lock:
            self._of(service).withdrawn += 1

    def refused(self, service: str) -> None:
        """Record that a service does not allow who called it."""
        with self.lock:
            self._of(service).refused += 1

    def handled(self, handler: str, seconds: float, queued_seconds: float | None, *, failed: bool) -> None:
        """Record one attempt of a handler; ``queued_seconds`` is how long the first one had waited."""
        ran = time_place(seconds)
        with self.lock:
            name = _among_few(self._handlers, handler)
            stats = self._handlers.get(name) or self._handlers.setdefault(name, HandlerStats())
            stats.handled += 1
            stats.errors += failed
            stats.processing_seconds += seconds
            stats.run_times[ran] += 1
            if queued_seconds is not None:
                stats.queue_times[time_place(queued_seconds)] += 1

    def received(self, peer: str, size: int) -> None:
        """Record an envelope of a node that may write here, with a payload of so many bytes."""
        with self.lock:
            traffic = self._traffic(peer)
            traffic.received += 1
            traffic.received_bytes += size

    def sent(self, peer: str, envelopes: int, size: int) -> None:
        """Record envelopes that were written, with so many bytes of payload in all."""
        with self.lock:
            traffic = self._traffic(peer)
            traffic.sent += envelopes
            traffic.sent_bytes += size

    def _traffic(self, peer: str) -> Traffic:
        name = _among_few(self._peers, peer)
        return self._peers.get(name) or self._peers.setdefault(name, Traffic())

    def _of(self, service: str) -> ServiceStats:
        return self._services.get(service) or self._services.setdefault(service, ServiceStats())

    def refused_sender(self, sender: str) -> None:
        """Record that an envelope of ``sender`` was refused for lack of a grant."""
        with self.lock:
            _count_of_few(self._refused_senders, sender)

    def refused_by(self, target: str) -> None:
        """Record that something was not written to ``target``, which does not allow this node."""
        with self.lock:
            _count_of_few(self._refused_by, target)

    def value(self, name: str) -> int:
        with self.lock:
            return self._counts.get(name, 0)

    def snapshot(self) -> dict[str, Any]:
        with self.lock:
            return {
                "counters": dict(sorted(self._counts.items())),
                "refusedSenders": dict(sorted(self._refused_senders.items())),
                "refusedBy": dict(sorted(self._refused_by.items())),
                "services": {name: stats.as_map() for name, stats in sorted(self._services.items())},
                "handlers": {name: stats.as_map() for name, stats in sorted(self._handlers.items())},
                "peers": {name: traffic.as_map() for name, traffic in sorted(self._peers.items())},
            }


MAX_PEERS = 64
OTHER_PEERS = "*"
"""What is counted of peers beyond so many: they choose their names."""


def _among_few(known: Mapping[str, object], name: str) -> str:
    return name if name in known or len(known) < MAX_PEERS else OTHER_PEERS


def _count_of_few(counts: dict[str, int], peer: str) -> None:
    name = _among_few(counts, peer)
    counts[name] = counts.get(name, 0) + 1


# Whether a node ends, and why it cannot be used any more.


class Shutdown:
    """Begins once for each node. Thread-safe: the reason is there before anybody is told to stop."""

    __slots__ = ("reason", "stopping")

    def __init__(self) -> None:
        self.reason: SpeedError | None = None
        self.stopping = threading.Event()
        """Wakes who sleeps between two pieces of work."""

    def begin(self, reason: SpeedError) -> None:
        """From now on public methods raise ``reason``, and all threads stop."""
        self.reason = reason
        self.stopping.set()

    def check(self) -> None:
        """Raise the reason, if there is one: an exception of its own for who asks."""
        if self.reason is not None:
            raise fresh(self.reason)


# What wakes the thread that reads: a deadline that comes earlier than its sleep ends, or a bell that nobody hears.

SILENT_SECONDS = (0.001, 0.3)
"""First and longest pause between two looks at a process whose bell nobody hears: it may be about to end."""


class Waker:
    """Shared by the thread that reads, which sleeps until ``due``, and all others, which wake it. Thread-safe.

    Without a bell there is nothing to ring: the thread polls.
    """

    def __init__(self, bell: Bell | None, own_id: bytes) -> None:
        self._bell = bell
        self._own_id = own_id
        self.due = 0.0
        """Until when the thread sleeps, in monotonic seconds; only the thread sets it."""
        self.silent: dict[str, tuple[float, float]] = {}
        """Nodes whose bell has no reader: when each is looked at next, and the pause before that."""

    def wake(self) -> None:
        """End the present sleep."""
        if self._bell is not None:
            self._bell.wake(self._own_id)

    def wake_by(self, deadline: float) -> None:
        """Have the thread awake at ``deadline`` (monotonic seconds), if its present sleep could outlast it."""
        if deadline < self.due:
            self.wake()

    def unheard(self, name: str) -> None:
        """A ring found no reader: if the process of ``name`` is gone, who waits for it is told at once."""
        if name not in self.silent:
            self.silent[name] = (0.0, SILENT_SECONDS[0])
            self.wake()


# Who other nodes are, as a node with an identity judges it (I-3, I-7).

log = logger("speed.protocol")

_BELIEVED_SECONDS = 1.0
"""How long a verdict stands before statements are looked at again."""
_MAX_VERDICTS = 1024
_REFUSALS: dict[str, tuple[type[IdentityError], str]] = {
    "changed": (IdentityChangedError, "has another identity than the one that is known"),
    "revoked": (IdentityRevokedError, "has an identity that was revoked"),
    "expired": (IdentityExpiredError, "has an identity that was vouched for until a time that has passed"),
    "unvouched": (IdentityUnvouchedError, "has an identity that no owner vouches for"),
    "missing": (IdentityMissingError, "comes without the identity that it is to have"),
}


class Peers:
    """The own identity, and verdicts on those of others. Thread-safe. KeyFileError."""

    def __init__(self, root: str, path: str, policy: AccessPolicy) -> None:
        self.source = IdentitySource(path)
        self.fingerprint = self.identity.fingerprint
        self._root, self._policy = root, policy
        self._known = KnownIdentities(path)
        self._verdicts: dict[tuple[str, str, tuple[str, ...]], tuple[float, str]] = {}
        self._bonds: dict[str, tuple[str, Bond]] = {}
        self._warned: set[str] = set()
        self._lock = threads.lock("peers")

    @property
    def identity(self) -> NodeIdentity:
        """The own one, as it is now."""
        return self.source.now

    def card(self, name: str) -> str:
        """The own card as entries have it."""
        return base64.b64encode(make_card(self.identity, node_id(name))).decode()

    def bond(self, name: str, entry: Entry | None, *, is_answer: bool = False) -> Bond | None:
        """What a link to this node is sealed by, None if neither side is to have an identity; IdentityError.

        With ``is_answer`` nothing is remembered of who has no grant.
        """
        is_met = not is_answer or self._policy.allows(name)
        card = "" if entry is None else entry.identity
        if not card:
            self._bonds.pop(name, None)
            self.check(name, "", is_met)
            return None
        made = self._bonds.get(name)
        if made is None or made[0] != card or made[1].own is not self.identity:
            made = self._bonds[name] = (card, self._bond(name, card))
        self.check(name, made[1].to.fingerprint, is_met)
        return made[1]

    def _bond(self, name: str, card: str) -> Bond:
        try:
            read = read_card(base64.b64decode(card), node_id(name))
            self._check_keys(read)
        except (ValueError, WireError) as error:
            raise IdentityError(f"the card of {name!r} cannot be used: {error}") from None
        return Bond(self.identity, read)

    def _check_keys(self, card: Card) -> None:
        """Weak keys are no keys; found before anything is written."""
        self.identity.agree(card.exchange)
        self.identity.agree(card.renewed)

    def check(self, name: str, fingerprint: str, is_met: bool) -> None:
        """IdentityError unless ``name`` may have this identity, or none."""
        verdict = self.verdict(name, fingerprint, is_met)
        if verdict != "accepted":
            kind, text = _REFUSALS[verdict]
            raise kind(f"{name!r} {text}{f': {fingerprint}' if fingerprint else ''}; nothing was written to it")

    def verdict(self, name: str, fingerprint: str, is_met: bool) -> str:
        """``accepted``, or why not; who is accepted at first use is remembered, if it ``is_met`` (I-7)."""
        grants = self._policy.fingerprints(name)
        key, now = (name, fingerprint, grants), monotonic()
        found = self._verdicts.get(key)
        if found is None or now >= found[0] or (is_met and found[1] == "first"):
            with self._lock:
                found = now + _BELIEVED_SECONDS, self._judge(name, fingerprint, grants, is_met)
                if len(self._verdicts) >= _MAX_VERDICTS:
                    self._verdicts.clear()
                self._verdicts[key] = found
        return "accepted" if found[1] == "first" else found[1]

    def _judge(self, name: str, fingerprint: str, grants: tuple[str, ...], is_met: bool) -> str:
        """``first`` where it would be accepted at first use, and is not met."""
        owners, known = self.identity.owners, self._known.of(name)
        stated = statement_of(self._root, name, owners) if owners else None
        evidence = Evidence(grants, known, stated, bool(owners), int(time()))
        verdict = judge(fingerprint, evidence)
        stated = evidence.current
        if stated is not None:  # what it says is remembered: it may be removed, or an older one put back
            learnt = KnownIdentity(stated.fingerprint, stated.issued, stated.kind == REVOKED)
        elif verdict in ("first", "accepted") and fingerprint and known is None and is_met:
            learnt = KnownIdentity(fingerprint)
        else:
            return verdict
        is_kept = self._remember(name, learnt)
        if verdict != "first":
            return verdict
        return "accepted" if is_kept else "unvouched"  # nobody is met for the first time who cannot be remembered

    def _remember(self, name: str, learnt: KnownIdentity) -> bool:
        """False where it cannot be kept; why is said once."""
        try:
            if self._known.remember(name, learnt):
                return True
            why = "too many identities are known"
        except KeyFileError as error:
            why = str(error)
        if why not in self._warned:
            self._warned.add(why)
            log.warning("the identity of %s is not remembered: %s", name, why)
        return False


FILES_EACH = 3
"""What a lane holds open to be read, and a link to be written: directory and file, and cursor or bell."""
MIN_AWAKE = 4


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
    waker: Waker
    peers: Peers | None = None
    """None without an identity."""
    boot_id: str = ""
    on_error: str = "dead-letter"
    max_deliveries: int = MAX_DELIVERIES
    max_open_files: int = 512
    """Of lanes and links together (L-26)."""
    stats: Stats = field(default_factory=Stats)
    limiter: LogLimiter = field(default_factory=LogLimiter)
    shutdown: Shutdown = field(default_factory=Shutdown)
    lock: threading.Lock = field(default_factory=lambda: threads.lock("node"))
    """Changes of grants and services, and what is published of them."""

    def publish_grants(self) -> None:
        """Have the entry say who may write here, and who may look; the caller holds ``lock``."""
        policy = self.policy
        self.registration.update(
            allow=policy.allowed(),
            deny=policy.denied(),
            identities=policy.identities(),
            observers=policy.observers(),
        )

    @property
    def keyring(self) -> Keyring:
        return self.keys.keyring

    @property
    def resting_keyring(self) -> Keyring:
        """For what waits in files of this node: with an identity, nobody else has these keys (I-9)."""
        return self.keyring if self.peers is None else self.keyring.derived(self.peers.identity.resting_key)

    @property
    def fingerprint(self) -> str:
        """Of the own identity; empty without one."""
        return "" if self.peers is None else self.peers.fingerprint

    @property
    def max_open_lanes(self) -> int:
        """Inbound lanes that may hold files open: two thirds of the files are for them."""
        return max(MIN_AWAKE, 2 * self.max_open_files // 3 // FILES_EACH)

    @property
    def max_open_links(self) -> int:
        """Links that may."""
        return max(MIN_AWAKE, self.max_open_files // 3 // FILES_EACH)

    @property
    def failure(self) -> SpeedError | None:
        """Why the node cannot be used any longer: it lost its lease, or was closed."""
        return self.shutdown.reason

    @property
    def stopping(self) -> threading.Event:
        """Set when all threads are to end."""
        return self.shutdown.stopping

    def check_open(self) -> None:
        """Raise why the node cannot be used any longer."""
        self.shutdown.check()
