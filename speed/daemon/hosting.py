"""What a running speedd keeps for others: journal, durable topics, keys, and the gateways to clients and hosts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from speed import Node
from speed.backends.address import parse_address
from speed.console import ConsoleSettings
from speed.daemon.config import Config, JournalSettings, TopicSettings, TopicsSettings
from speed.daemon.control import Trouble
from speed.daemon.host import change_grants
from speed.errors import ConfigurationError, SpeedError
from speed.fs.keyfile import KeySource
from speed.fs.root import ensure_observers
from speed.gateway.settings import GatewaySettings
from speed.hosts import HostGrants, HostGrantSettings, HostsSettings
from speed.hosts.services import HostGateway, ProxyNodes
from speed.journal.recording import CallLog, Recorder, RecordingRule
from speed.journal.reseal import Resealed
from speed.journal.writer import JournalWriter
from speed.message.declared import EncryptionSettings
from speed.observe import Finding
from speed.topics.backend import TopicStore, cure_of_unread, unread_text
from speed.topics.catalogue import Catalogue
from speed.topics.host import WORKERS, Access, Grants, Host, everybody
from speed.topics.subscription import SubscriptionError
from speed.topics.topic import Keeping
from speed.wire.names import GATEWAY, journal_dir, journal_node, topics_dir, topics_node
from speed.wire.seal import Keys

if TYPE_CHECKING:
    from speed import MessageSecurity
    from speed.bridges.running import Bridging
    from speed.console.collector import GatewayFigures
    from speed.console.server import Console
    from speed.daemon.control import Health
    from speed.gateway.server import Gateway


# The node of speedd itself.


def _security(config: Config) -> MessageSecurity | None:
    """How messages are encrypted; the library for it is loaded only where that is declared."""
    if config.encryption is None:
        return None
    from speed.message.declared import security_of

    return security_of(config.encryption)


def own_node(config: Config, key: str) -> Node:
    """The node of speedd itself."""
    settings = config.node
    return Node(
        settings.name,
        root=str(settings.root) if settings.root else None,
        key=key,
        fabrics=list(settings.fabrics),
        lease_seconds=settings.lease_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        workers=settings.workers,
        security=_security(config),
        starting=True,
    )


# The journal of a running speedd: its writer, the nodes that record, and the call log (J-9, J-10).


class Recording:
    """Everything that ``[journal]`` asks for. Made in two steps: services are wrapped before nodes listen."""

    def __init__(self, config: Config, settings: JournalSettings, node: Node, key: str) -> None:
        """Takes the journal. Raises JournalTakenError, DurabilityError, RootError."""
        self._settings = settings
        self._options: dict[str, Any] = {
            "root": node.root,
            "key": key,
            "lease_seconds": config.node.lease_seconds,
            "heartbeat_seconds": config.node.heartbeat_seconds,
        }
        self._name = node.name
        self._recorder: Recorder | None = None
        self._log: CallLog | None = None
        self._writer = JournalWriter(
            settings.directory or journal_dir(node.root),
            key,
            durability=settings.durability,
            max_bytes=settings.max_bytes,
            max_age_seconds=settings.max_age_seconds,
        )
        self.directory = self._writer.directory

    def logged(self, name: str, service: Any) -> Any:
        """``service``, with its calls logged if that is asked for."""
        if not self._settings.calls:
            return service
        if self._log is None:
            self._log = CallLog(self._writer, self._name)
        return self._log.logging(name, service)

    def start(self) -> None:
        """Begin to record."""
        settings = self._settings
        recorded = RecordingRule(settings.topics, settings.inboxes, settings.allow, settings.refuse)
        self._recorder = Recorder(self._writer, recorded, journal_node(self._name), **self._options)

    def change_grants(self, old: tuple[str, ...], allow: tuple[str, ...]) -> None:
        """Let others than before be recorded."""
        for node in self._recorder.nodes if self._recorder else ():
            change_grants(node, old, allow)

    def change(self, settings: JournalSettings) -> None:
        """Keep records for longer or shorter than before, refuse other topics, record other inboxes.

        Raises what ``Node`` does.
        """
        self._writer.keep(settings.max_bytes, settings.max_age_seconds)
        if self._recorder:
            self._recorder.refuse(settings.refuse)
            self._recorder.change_inboxes(settings.inboxes, settings.allow)

    @property
    def trouble(self) -> str:
        """Why the journal cannot be written; empty if it can."""
        return self._writer.trouble

    def lost(self) -> str | None:
        """The name of a recording node that is lost."""
        node = self._recorder.lost if self._recorder else None
        return node.name if node else None

    def retain(self) -> str:
        """Remove what retention does not keep. Returns why the journal cannot be written, empty if it can."""
        self._writer.retain()
        return self._writer.trouble

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key what others sealed; recording goes on meanwhile."""
        return self._writer.reseal()

    def close(self) -> None:
        """Record what is at hand, and end."""
        if self._recorder is not None:
            self._recorder.close()
        if self._log is not None:
            self._log.close()
        self._writer.close()


# Sealing journal and topics anew on a thread of its own, whenever the keys have changed (J-16).

MAX_REPORTED = 20
"""Files that are named because something in them stays as it is; the others are counted."""


class Resealing:
    """Looks at the keys when it is asked to.

    Args:
        sources: what is sealed anew: each begins a run over its files.
        keys: the key file, which somebody else looks at before each look of this one.
    """

    def __init__(self, sources: Sequence[Callable[[], Iterator[Resealed]]], keys: KeySource, log: Any) -> None:
        self._sources, self._keys, self._log = sources, keys, log
        self._done: Keys | None = None
        """The keys under whose first one everything is sealed."""
        self._failed = ""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin if keys changed since everything was sealed anew, and it is not under way."""
        is_running = self._thread is not None and self._thread.is_alive()
        if self._done is self._keys.keyring.now or is_running or not self._sources:
            return
        self._thread = threading.Thread(target=self._run, name="speed-reseal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Walk over everything until the keys are the same before and behind a walk."""
        counts = Counter(files=0, bytes=0, troubles=0)
        try:
            while self._done is not (now := self._keys.keyring.now):
                if not self._walked(counts):
                    return
                self._keys.look()
                if now is self._keys.keyring.now:
                    self._done, self._failed = now, ""
        except SpeedError as error:
            if str(error) != self._failed:  # it is tried again with each look
                self._log.error("sealing_anew_failed", code=error.code, reason=str(error))
            self._failed = str(error)
        else:
            if counts["files"] or counts["troubles"]:
                self._log.info("sealed_anew", **counts)

    def _walked(self, counts: Counter[str]) -> bool:
        """Whether a walk came to its end."""
        for one in chain.from_iterable(source() for source in self._sources):
            if self._closing.is_set():
                return False
            counts.update(files=bool(one.size), bytes=one.size, troubles=bool(one.trouble))
            if one.trouble and counts["troubles"] <= MAX_REPORTED:
                self._log.warning("not_sealed_anew", file=one.path, reason=one.trouble)
        return True

    def close(self) -> None:
        """End; what is left is for the next start."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()


# The keys of declared encryption: the next one is added to their file when it is due.

LOOK_SECONDS = 600.0
_FILE = "file://"


class MessageKeyRotation:
    """Looks at the file of keys now and then; does nothing where no rotation is declared."""

    def __init__(self, settings: EncryptionSettings | None, log: Any) -> None:
        self._rotation = settings.key_rotation if settings is not None and settings.key_rotation.enabled else None
        self._path = "" if settings is None or self._rotation is None else settings.uri.removeprefix(_FILE)
        self._log = log
        self._next = float("-inf")

    def look(self, now: float) -> None:
        """Rotate if it is due; ``now`` in monotonic seconds. What fails is logged, and tried again at the next look."""
        if self._rotation is None or now < self._next:
            return
        self._next = now + LOOK_SECONDS
        from speed.message.keystore import rotate_file

        try:
            fresh = rotate_file(self._path, self._rotation.period_ms, self._rotation.overlap_ms)
        except (SpeedError, OSError) as error:
            self._log.error("message_key_not_rotated", file=self._path, reason=str(error))
            return
        if fresh is not None:
            self._log.info("message_key_rotated", file=self._path, key_id=fresh.id)


MAX_UNREAD = 16
"""Subscriptions that are named; more would hide what else is wrong."""
_KEEPING = ("max_bytes", "max_age_seconds", "keep", "backlog", "tombstone_seconds")


class Hosting:
    """Everything that ``[topics]`` and ``[[topic]]`` ask for."""

    def __init__(self, config: Config, settings: TopicsSettings, node: Node, key: str) -> None:
        """Takes the topics and begins to answer.

        Raises JournalTakenError, DurabilityError, RootError, ConfigurationError.
        """
        self.name = topics_node(node.name)
        general, narrowed = _grants(settings, config.each_topic)
        self._topics = _cluster(settings) if settings.backend else _files(config, settings, node.root, key, self.name)
        self._node: Node | None = None
        try:
            self._topics.begin([topic.name for topic in config.each_topic])
            self._node = Node(
                self.name,
                root=node.root,
                key=key,
                lease_seconds=config.node.lease_seconds,
                heartbeat_seconds=config.node.heartbeat_seconds,
                workers=WORKERS,
                starting=True,
            )
            self._host = Host(self._node, self._topics, Access(general, narrowed))
            self._allowed = everybody((general, *narrowed.values()))
            self._node.allow(*self._allowed)
            self._node.ready()
        except BaseException:
            self._end()
            raise

    @property
    def broken(self) -> dict[str, str]:
        """Topics that cannot be used, and why."""
        return self._topics.broken

    @property
    def place(self) -> str:
        """Where the topics lie."""
        return self._topics.place

    @property
    def topics(self) -> TopicStore:
        """Where the topics lie, for bridges: hold its ``lock``."""
        return self._topics

    def described(self) -> list[dict[str, Any]]:
        """Each topic with its subscriptions; none of those that lie in a cluster, which has metrics of its own."""
        if not isinstance(self._topics, Catalogue):
            return []
        with self._topics.lock:
            return [one.described() for one in self._topics.every()]

    @property
    def host(self) -> Host:
        """What answers for the topics."""
        return self._host

    @property
    def is_lost(self) -> bool:
        """Whether another process has the host's name, or its lease ran out."""
        return self._node is None or self._node.closed

    def retain(self) -> str:
        """Remove what need not be kept. Returns what is wrong, empty if nothing is."""
        return self._topics.retain()

    def unread(self) -> list[Trouble]:
        """Subscriptions that have a backlog and no consumer; of topics in a cluster, the cluster knows."""
        if not isinstance(self._topics, Catalogue):
            return []
        with self._topics.lock:
            rows = [(one.name, row) for one in self._topics.every() for row in one.subscriptions()]
        left = [(topic, row) for topic, row in rows if row["backlog"] and not row["consumers"]]
        return [_unread(topic, row) for topic, row in left[:MAX_UNREAD]]

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key what others sealed; topics are served meanwhile."""
        return self._topics.reseal()

    def change_grants(self, settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> None:
        """Let others than before publish, consume and manage. Consumers that are there are asked at their next call."""
        general, narrowed = _grants(settings, each)
        allowed = everybody((general, *narrowed.values()))
        assert self._node is not None
        self._host.access = Access(general, narrowed)
        change_grants(self._node, self._allowed, allowed)
        self._allowed = allowed

    def change(self, settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> None:
        """Make topics that are new, and keep messages for longer or shorter. Topics that are not named any more stay.

        Raises SpeedError.
        """
        if isinstance(self._topics, Catalogue):
            keeping = _keeping(settings)
            self._topics.change_keeping(keeping, {one.name: _kept(keeping, one) for one in each})
        with self._topics.lock:
            try:
                self._topics.begin([topic.name for topic in each])
            except SubscriptionError as error:
                raise ConfigurationError(str(error)) from error

    def close(self) -> None:
        """Let whoever waits go, and end."""
        self._host.close()
        self._end()

    def _end(self) -> None:
        if self._node is not None and not self._node.closed:
            self._node.close()
        self._topics.close()


def _unread(topic: str, row: Mapping[str, Any]) -> Trouble:
    what = f"subscription {row['subscription']} of topic {topic}: {unread_text(row['backlog'])}"
    return Trouble(what, cure_of_unread(topic, row["subscription"]), True)


def _files(config: Config, settings: TopicsSettings, root: str, key: str, source: str) -> TopicStore:
    """Topics in the root, or where the settings say."""
    keeping = _keeping(settings)
    return Catalogue(
        str(settings.directory or topics_dir(root)),
        key,
        source,
        durability=settings.durability,
        keeping=keeping,
        kept={one.name: _kept(keeping, one) for one in config.each_topic},
    )


def _keeping(settings: TopicsSettings) -> Keeping:
    return Keeping(**{name: getattr(settings, name) for name in _KEEPING})


def _cluster(settings: TopicsSettings) -> TopicStore:
    """Topics in Pulsar; its client is loaded only for them."""
    from speed.topics.cluster.broker import Cluster
    from speed.topics.cluster.catalogue import ClusterTopics

    assert settings.backend is not None
    assert settings.admin is not None
    token, trusted = (str(path) if path else None for path in (settings.token, settings.trusted))
    return ClusterTopics(Cluster(settings.backend, settings.admin, settings.namespace, token, trusted))


def _grants(settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> tuple[Grants, dict[str, Grants]]:
    """Those for all topics, and those for single ones."""
    narrowed = {one.name: Grants(one.publish, one.consume, one.manage) for one in each}
    return Grants(settings.publish, settings.consume, settings.manage), narrowed


def _kept(general: Keeping, topic: TopicSettings) -> Keeping:
    own = {name: getattr(topic, name) for name in _KEEPING}
    return replace(general, **{name: value for name, value in own.items() if value is not None})


NAME = "speedd-gateway"


def let_look(node: Node, log: Any) -> None:
    """Have speedd's ``node`` and commands look at all nodes, unless the owner of the root said who may."""
    try:
        if ensure_observers(node.root, node.name):
            log.info("observers", names=[node.name, "cli.*"])
    except OSError as error:
        log.warning("observers_not_written", reason=f"{error.strerror}")


def opened_gateway(settings: GatewaySettings, config: Config, hosting: Hosting, health: Health) -> Gateway:
    """A gateway that listens, and says that it is ready while speedd serves. Raises ConfigurationError."""
    from speed.gateway.server import Gateway

    return Gateway(settings, config.token_keys, hosting.host, NAME, lambda: not hosting.is_lost and health.serves)


def gateway_problems(config: Config) -> Iterator[tuple[str, str]]:
    """What keeps a gateway from starting, and what to do; nothing is listened on."""
    if config.gateway is None:
        return
    try:
        from speed.gateway.encryption import HeldKeys
        from speed.gateway.server import Guests, tls_context

        Guests(config.gateway, config.token_keys)
        tls_context(config.gateway)
        HeldKeys(config.gateway.keys)
    except ImportError as error:
        yield f"[gateway] needs {error.name}", "install speed-ipc[gateway]"
    except ConfigurationError as error:
        yield str(error), "correct the setting, or the file"


@dataclass(frozen=True)
class SpeeddParts:
    """What the other parts of speedd are, for the console."""

    node: Node
    key: str
    recording: Recording | None
    hosting: Hosting | None
    bridging: Bridging
    health: Health
    gateway: Callable[[], GatewayFigures | None]
    """What the gateway to clients says of itself."""


def opened_console(settings: ConsoleSettings, parts: SpeeddParts) -> Console:
    """A console that listens. Raises ConfigurationError."""
    from speed.console.server import Console
    from speed.console.views import ConsoleSources

    def troubles() -> list[Finding]:
        found = parts.health.troubles()
        return [Finding("speedd", "warning" if one.is_elsewhere else "broken", one.what, one.cure) for one in found]

    journal = parts.recording.directory if parts.recording is not None else None
    around = ConsoleSources(parts.node, parts.key, journal, parts.hosting, parts.bridging, troubles, parts.gateway)
    return Console(settings, around)


def console_problems(config: Config) -> Iterator[tuple[str, str]]:
    """What keeps a console from starting, and what to do; nothing is listened on."""
    if config.console is None:
        return
    try:
        from speed.console.server import tls_problem
    except ImportError as error:
        yield f"[console] needs {error.name}", "install speed-ipc[console]"
        return
    if problem := tls_problem(config.console):
        yield problem, "correct the setting, or the file"


STAND_IN_WORKERS = 2
"""Threads on which calls of one other node end."""


class Joining:
    """Everything that ``[hosts]``, ``[[host]]`` and ``[[host_grant]]`` ask for."""

    def __init__(self, config: Config, settings: HostsSettings, root: str, key: str) -> None:
        """Connects in the background. Raises NameTakenError, KeyFileError, ConfigurationError, RootError."""
        self._config, self._root, self._key, self._settings = config, root, key, settings
        self._keys = [KeySource(str(host.key)) for host in config.each_host]
        self._node = self._made(GATEWAY, settings.max_calls, starting=True)
        try:
            grants = HostGrants(config.host_grants)
            self._gateway = HostGateway(
                settings.name,
                parse_address(settings.address),
                {host.name: keys.keyring for host, keys in zip(config.each_host, self._keys, strict=True)},
                grants,
                self._node,
                ProxyNodes(lambda name: self._made(name, STAND_IN_WORKERS)),
                settings.max_calls,
            )
            self._allowed = self._callers(grants, settings.allow)
            self._node.allow(*self._allowed)
        except BaseException:
            self._node.close()
            raise
        self._gateway.start()
        self._node.ready()

    def _made(self, name: str, workers: int, *, starting: bool = False) -> Node:
        node = self._config.node
        return Node(
            name,
            root=self._root,
            key=self._key,
            workers=workers,
            spin_seconds=0.0,
            lease_seconds=node.lease_seconds,
            heartbeat_seconds=node.heartbeat_seconds,
            starting=starting,
        )

    def _callers(self, grants: HostGrants, others: Sequence[str]) -> tuple[str, ...]:
        """Who may write to the gateway: who may call out, and who may ask."""
        return tuple(dict.fromkeys((*grants.callers_of(self._settings.name), *others)))

    @property
    def name(self) -> str:
        """What other hosts call this one."""
        return self._settings.name

    @property
    def is_lost(self) -> bool:
        """Whether another process has the gateway's name, or its lease ran out."""
        return self._node.closed

    def look(self) -> None:
        """Take over keys that were changed; what is wrong with a file leaves those that there are."""
        for keys in self._keys:
            keys.look()

    def change_grants(self, settings: HostsSettings, grants: Sequence[HostGrantSettings]) -> None:
        """Let others than before call, in and out."""
        made = HostGrants(grants)
        allowed = self._callers(made, settings.allow)
        self._gateway.grants = made
        change_grants(self._node, self._allowed, allowed)
        self._allowed = allowed

    def close(self) -> None:
        """End; what is under way is withdrawn."""
        self._gateway.close()
        if not self._node.closed:
            self._node.close()


def opened_hosts(config: Config, root: str, key: str, log: Any) -> Joining | None:
    """The gateway to other hosts, where there is one."""
    if config.hosts is None:
        return None
    joining = Joining(config, config.hosts, root, key)
    log.info("hosts", name=joining.name)
    return joining
