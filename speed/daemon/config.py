"""The configuration of speedd as values, and the mistakes that a file may have.

Relative paths are relative to the directory of the configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from speed.bridges import BridgeSettings
from speed.console import ConsoleSettings
from speed.daemon.toml import KeyPath
from speed.engine.node_options import CHOICES, WORKERS
from speed.errors import ConfigurationError
from speed.gateway.settings import GatewaySettings, TokenKeySettings
from speed.hosts import HostGrantSettings, HostSettings, HostsSettings
from speed.message.declared import EncryptionSettings
from speed.wire.limits import HEARTBEAT_SECONDS, LEASE_SECONDS

RESTART_POLICIES = ("always", "on-failure", "never")
DURABILITIES = CHOICES["durability"]
KEEPS = ("all", "unacknowledged", "latest")
BACKLOGS = ("drop-oldest", "refuse")
MOST_INSTANCES = 256
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, order=True)
class Mistake:
    """One thing to correct: the line (from 1; 0 = the file as a whole), what is wrong, and what to do."""

    line: int
    what: str
    todo: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.what}; {self.todo}"


class ConfigFileError(ConfigurationError):
    """The configuration has mistakes; ``mistakes`` lists all of them by line."""

    def __init__(self, path: Path, mistakes: list[Mistake]) -> None:
        self.mistakes = sorted(mistakes)
        super().__init__("\n".join(f"{path}: {mistake}" for mistake in self.mistakes))


@dataclass(frozen=True)
class DaemonNodeSettings:
    """``[node]``: the node of speedd itself. Its root, key, lease and heartbeat hold for the processes too."""

    # what has no text here is an option of every node, which registry_spec/options.json explains

    name: str = "speedd"
    """Name of speedd's own node, under which its services are called."""
    root: Path | None = None
    key: Path | None = None
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    workers: int = WORKERS
    lease_seconds: float = LEASE_SECONDS
    heartbeat_seconds: float = HEARTBEAT_SECONDS


@dataclass(frozen=True)
class LogSettings:
    """``[log]``: one JSON object a line, what the processes print included."""

    file: Path | None = None
    """Where the log goes; standard error without it."""
    level: str = "info"
    """The least level that is written."""
    max_bytes: int = 16 << 20
    """Size in bytes at which a new file is begun."""
    kept_files: int = 4
    """Older files that are kept beside the current one; ``file.1`` is the newest of them."""


@dataclass(frozen=True)
class JournalSettings:
    """``[journal]``: what speedd records, where, and for how long."""

    directory: Path | None = None
    """Where the journal lies; ``journal`` in the root without it."""
    topics: tuple[str, ...] = ()
    """Topics, or families such as ``flights.*``, whose events are recorded."""
    inboxes: tuple[str, ...] = ()
    """Names of nodes that speedd takes on: messages sent to them are recorded."""
    allow: tuple[str, ...] = ()
    """Names or families of the nodes whose events and messages are recorded."""
    calls: bool = False
    """Whether one row is recorded for each call of speedd's own services, without arguments and results."""
    durability: str = "process"
    """``process`` survives a killed process, ``disk`` also a power cut."""
    max_bytes: int | None = None
    """Size of the journal in bytes. Beyond it, the oldest records of the largest lane are removed."""
    max_age_seconds: float | None = None
    """Records that are older are removed."""
    refuse: tuple[str, ...] = ()
    """Topics that are not recorded although ``topics`` covers them; their publishers are told."""


@dataclass(frozen=True)
class TopicsSettings:
    """``[topics]``: durable topics that speedd hosts. Grants and bounds hold for each topic without its own."""

    backend: str | None = None
    """A Pulsar cluster that keeps the messages, ``pulsar://host:6650`` or ``pulsar+ssl://…``; without it files do."""
    admin: str | None = None
    """Of that cluster: its admin API, as ``http://host:8080`` or ``https://host:8443``."""
    namespace: str = "public/default"
    """Of that cluster: where the topics are, as ``tenant/namespace``."""
    token: Path | None = None
    """Of that cluster: a file with the token that speedd shows. A new token is taken over without a restart."""
    trusted: Path | None = None
    """Of that cluster: a file of certificates that are trusted instead of the system's."""
    directory: Path | None = None
    """Where the topics lie; ``topics`` in the root without it."""
    publish: tuple[str, ...] = ()
    """Names or families that may publish."""
    consume: tuple[str, ...] = ()
    """Names or families that may subscribe and read."""
    manage: tuple[str, ...] = ()
    """Names or families that may make and delete topics, move and remove subscriptions."""
    durability: str = "process"
    """``process`` survives a killed process, ``disk`` also a power cut."""
    max_bytes: int | None = None
    """Size of one topic in bytes."""
    max_age_seconds: float | None = None
    """Messages that are older are removed."""
    keep: str = "all"
    """``all``; ``unacknowledged``: what every subscription has acknowledged is removed; ``latest``: of that, what has a
    later message of its key."""
    backlog: str = "drop-oldest"
    """What happens beyond ``max_bytes``: ``drop-oldest``, or ``refuse`` publishers while a subscription needs it."""
    tombstone_seconds: float = 86400.0
    """With ``latest``, how long a tombstone is kept at least, for readers that know its key. A day, as in Kafka."""


@dataclass(frozen=True)
class TopicSettings:
    """``[[topic]]``: a topic that is made when speedd starts; what is not given is as ``[topics]`` says."""

    name: str
    """The name of the topic."""
    publish: tuple[str, ...] | None = None
    """Names or families that may publish."""
    consume: tuple[str, ...] | None = None
    """Names or families that may subscribe and read."""
    manage: tuple[str, ...] | None = None
    """Names or families that may delete it, move and remove its subscriptions."""
    max_bytes: int | None = None
    """Size in bytes."""
    max_age_seconds: float | None = None
    """Messages that are older are removed."""
    keep: str | None = None
    """``all``, ``unacknowledged`` or ``latest``."""
    backlog: str | None = None
    """``drop-oldest`` or ``refuse``."""
    tombstone_seconds: float | None = None
    """How long a tombstone is kept at least, with ``latest``."""


@dataclass(frozen=True)
class MetricsSettings:
    """``[metrics]``: figures of speedd and of all nodes that it may look at, as OpenMetrics for Prometheus."""

    listen: str | None = None
    """Where ``/metrics`` is answered: ``host:port``, or ``unix:/path``. Beyond this machine only with a token."""
    token_file: Path | None = None
    """A file with a token, which whoever scrapes shows as ``Authorization: Bearer``. It is read again each time."""
    textfile: Path | None = None
    """A file that is kept fresh for node_exporter, and replaced as a whole. It needs no port."""
    every_seconds: float = 15.0
    """How often that file is written."""
    timeout_seconds: float = 2.0
    """How long a node may take to answer. One that does not is told as ``speed_up 0``."""


@dataclass(frozen=True)
class ServiceSettings:
    """``[[service]]``: a service in speedd's own process, from a Python entry point."""

    name: str
    """The name under which the service is called."""
    entry: str
    """The function or class, as ``package.module:name``."""
    allow: tuple[str, ...] | None = None
    """Who may call this service, among those that the node allows; without it, all of them."""


@dataclass(frozen=True)
class ProcessSettings:
    """``[[process]]``: a node in a process of its own; ``entry`` or ``command`` says which program."""

    # what has no text here is an option of every node, which registry_spec/options.json explains

    name: str
    """Name of the process and of its node."""
    count: int | None = None
    """How many of it run side by side, each with a node of its own, ``NAME.1``, ``NAME.2`` and so on, which callers
    call as ``NAME.*``; without it one, whose node is ``NAME``. ``speedd scale`` changes it until a reload."""
    entry: str | None = None
    """Python code that registers services on the node, as ``package.module:function``."""
    command: tuple[str, ...] = ()
    """The program and its arguments, in any language; it learns its settings from the environment."""
    allow: tuple[str, ...] = ()
    fabrics: tuple[str, ...] = ()
    workers: int = WORKERS
    env: dict[str, str] = field(default_factory=dict)
    """More variables of its environment."""
    restart: str = "always"
    """Whether the process is started again when it ends: ``always``, only ``on-failure``, or ``never``."""
    start_timeout_seconds: float = 120.0
    """How long the process may take until its node serves; then it hangs, is ended, and is started again."""
    stop_timeout_seconds: float = 10.0
    """How long the process may take to end after SIGTERM before it is killed."""
    ping_timeout_seconds: float = 15.0
    """How long the process may not answer pings, or be stopped by a signal, though its lease is held; then it is ended
    and started again. speedd pings it as an observer of the root. 0: it is not pinged."""

    def instances(self) -> tuple[ProcessSettings, ...]:
        """What runs: itself, or as many as it counts."""
        if self.count is None:
            return (self,)
        return tuple(replace(self, name=f"{self.name}.{number}", count=None) for number in range(1, self.count + 1))


@dataclass(frozen=True)
class Config:
    """A whole valid configuration."""

    path: Path
    node: DaemonNodeSettings = DaemonNodeSettings()
    log: LogSettings = LogSettings()
    python_path: tuple[Path, ...] = ()
    """Directories in which entry points are looked for, before those that Python knows."""
    journal: JournalSettings | None = None
    topics: TopicsSettings | None = None
    each_topic: tuple[TopicSettings, ...] = ()
    bridges: tuple[BridgeSettings, ...] = ()
    gateway: GatewaySettings | None = None
    token_keys: tuple[TokenKeySettings, ...] = ()
    console: ConsoleSettings | None = None
    encryption: EncryptionSettings | None = None
    metrics: MetricsSettings | None = None
    hosts: HostsSettings | None = None
    each_host: tuple[HostSettings, ...] = ()
    host_grants: tuple[HostGrantSettings, ...] = ()
    services: tuple[ServiceSettings, ...] = ()
    processes: tuple[ProcessSettings, ...] = ()
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)
    """Where each setting stands in the file."""

    @property
    def directory(self) -> Path:
        """Where relative paths and the processes start."""
        return self.path.parent
