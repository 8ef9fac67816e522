"""What a reload of speedd takes over, and what waits for a restart; and the gateways, which it opens anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from speed import Node
from speed.daemon.config import Config, JournalSettings, TopicsSettings
from speed.daemon.control import Health
from speed.daemon.hosting import Hosting, Joining, opened_gateway
from speed.gateway.settings import GatewaySettings
from speed.hosts import HostGrantSettings, HostsSettings

if TYPE_CHECKING:
    from speed.gateway.server import Gateway

JOURNAL_KEYS = ("allow", "refuse", "inboxes", "max_bytes", "max_age_seconds")
"""Of the journal, all that may change while it is written."""
FIXED_TOPICS_KEYS = frozenset({"backend", "admin", "namespace", "token", "trusted", "directory", "durability"})
"""Of durable topics, what holds from the start of speedd to its end."""
TABLES = {
    "python_path": "[python] path",
    "services": "[[service]]",
    "processes": "[[process]]",
    "each_topic": "[[topic]]",
    "token_keys": "[[token_key]]",
    "bridges": "[[bridge]]",
    "each_host": "[[host]]",
    "host_grants": "[[host_grant]]",
}
"""What tables are called in the file, where the configuration has other names."""
NOT_COMPARED = ("path", "lines")


def taken_over(old: Config, new: Config, *, with_bridges: bool) -> Config:
    """What runs after a reload: ``new``, but for what holds until a restart."""
    topics = _topics(old.topics, new.topics)
    has_topics = old.topics is not None
    return replace(
        new,
        node=replace(old.node, allow=new.node.allow),
        python_path=old.python_path,
        services=old.services,
        encryption=old.encryption,
        console=old.console,
        journal=_journal(old.journal, new.journal),
        topics=topics,
        each_topic=new.each_topic if has_topics and new.topics is not None else old.each_topic,
        gateway=new.gateway if has_topics else old.gateway,
        token_keys=new.token_keys if has_topics else old.token_keys,
        bridges=new.bridges if with_bridges else old.bridges,
    )


def _journal(old: JournalSettings | None, new: JournalSettings | None) -> JournalSettings | None:
    if old is None or new is None:
        return old
    return replace(old, **{key: getattr(new, key) for key in JOURNAL_KEYS})


def _topics(old: TopicsSettings | None, new: TopicsSettings | None) -> TopicsSettings | None:
    if old is None or new is None:
        return old
    return replace(new, **{key: getattr(old, key) for key in FIXED_TOPICS_KEYS})


def differences(running: Config, wanted: Config) -> Iterator[str]:
    """What of a configuration is not as it runs, in the words of its file."""
    for one in fields(Config):
        if one.name not in NOT_COMPARED:
            yield from _differences(one.name, getattr(running, one.name), getattr(wanted, one.name))


def _differences(section: str, running: Any, wanted: Any) -> Iterator[str]:
    if running == wanted:
        return
    if is_dataclass(running) and is_dataclass(wanted):
        keys = [one.name for one in fields(running) if getattr(running, one.name) != getattr(wanted, one.name)]
        yield from (f"[{section}] {key}" for key in keys)
    else:
        yield TABLES.get(section, f"[{section}]")


class Gateways:
    """Those to clients and to other hosts, which a reload opens, replaces and closes. For the main thread."""

    def __init__(self, node: Node, key: str, hosting: Hosting | None, health: Health, log: Any) -> None:
        """Opens nothing before ``change`` says what."""
        self._node, self._key, self._hosting, self._health, self._log = node, key, hosting, health, log
        self._metrics: Callable[[], list[str]] = list
        self._clients: tuple[Any, ...] = (None, ())
        self._others: tuple[Any, ...] = (None, ())
        self.to_clients: Gateway | None = None
        self.to_hosts: Joining | None = None

    def also(self, metrics: Callable[[], list[str]]) -> None:
        """Have ``/metrics`` of the gateway to clients answer with these lines too."""
        self._metrics = metrics

    def figures(self) -> tuple[dict[str, int], dict[str, int]] | None:
        """What the one to clients counted, and what is there now; None without one. For any thread."""
        there = self.to_clients
        return None if there is None else there.figures()

    def _lines(self) -> list[str]:
        return self._metrics()

    def change(self, config: Config) -> None:
        """Open, replace and close what is not as the configuration says. Raises SpeedError; then it is closed."""
        clients = (config.gateway, config.token_keys) if self._hosting is not None else (None, ())
        if clients != self._clients:
            self._close_to_clients()
            if config.gateway is not None and self._hosting is not None:
                self.to_clients = self._opened_to_clients(config.gateway, config, self._hosting)
            self._clients = clients
        others = (_fixed(config.hosts), config.each_host)
        if others != self._others:
            self._close_to_hosts()
            if config.hosts is not None:
                self.to_hosts = Joining(config, config.hosts, self._node.root, self._key)
                self._log.info("hosts", name=self.to_hosts.name)
            self._others = others

    def _opened_to_clients(self, settings: GatewaySettings, config: Config, hosting: Hosting) -> Gateway:
        gateway = opened_gateway(settings, config, hosting, self._health)
        gateway.also(self._lines)
        self._log.info("gateway", address=settings.address, port=gateway.port, tls=bool(settings.certificate))
        return gateway

    def change_grants(self, hosts: HostsSettings, grants: Sequence[HostGrantSettings]) -> None:
        """Let others than before call in and out of this host."""
        if self.to_hosts is not None:
            self.to_hosts.change_grants(hosts, grants)

    def close(self) -> None:
        """End all."""
        self._close_to_clients()
        self._close_to_hosts()

    def _close_to_clients(self) -> None:
        if self.to_clients is not None:
            self.to_clients.close()
        self.to_clients, self._clients = None, (None, ())

    def _close_to_hosts(self) -> None:
        if self.to_hosts is not None:
            self.to_hosts.close()
        self.to_hosts, self._others = None, (None, ())


def _fixed(settings: HostsSettings | None) -> HostsSettings | None:
    """What of the settings holds for a whole life of the gateway to other hosts: all but its grants."""
    return None if settings is None else replace(settings, allow=())
