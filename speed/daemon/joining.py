"""The gateway of a running speedd to other hosts, and the nodes that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from speed import Node
from speed.backends.address import parse_address
from speed.daemon.config import Config
from speed.daemon.host import change_grants
from speed.fs.keyfile import KeySource
from speed.hosts.gateway import HostGateway
from speed.hosts.services import StandIns
from speed.hosts.settings import HostGrants, HostGrantSettings, HostsSettings
from speed.wire.names import GATEWAY

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
                StandIns(lambda name: self._made(name, STAND_IN_WORKERS)),
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
