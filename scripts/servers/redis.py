"""Redis, which keeps what it has on disk: anybody may do everything, and one user has a password."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from scripts.servers.server import PASSWORD, USER, Server


class Redis(Server):
    """Debian's."""

    name, command, package = "redis", "redis-server", "redis-server"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.secured = self._kept_port("secured")

    def words(self) -> Sequence[str]:
        """The command."""
        secured = ["--user", USER, "on", f">{PASSWORD}", "allkeys", "allchannels", "allcommands"]
        kept = ["--dir", str(self.directory), "--appendonly", "yes", "--appendfsync", "everysec"]
        files = ["--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.directory / "server.key")]
        tls = ["--tls-port", str(self.secured), *files, "--tls-ca-cert-file", str(self.certificate)]
        ports = ["--bind", "127.0.0.1", "--port", str(self.port), *tls, "--tls-auth-clients", "no"]
        return [self.found() or self.command, *ports, *kept, *secured]

    def answers(self) -> bool:
        """Whether it has read what it kept."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False


class FlushingRedis(Redis):
    """What it confirmed is written: by itself it may hold that back for two seconds while the disk is slow."""

    def words(self) -> Sequence[str]:
        """The command."""
        return [*super().words(), "--appendfsync", "always"]
