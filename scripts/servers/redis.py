"""Redis, which keeps what it has on disk: anybody may do everything, and one user has a password."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

from scripts.servers.server import PASSWORD, USER, Server


class Redis(Server):
    """Debian's."""

    name, command, package = "redis", "redis-server", "redis-server"

    def words(self) -> Sequence[str]:
        """The command."""
        secured = ["--user", USER, "on", f">{PASSWORD}", "allkeys", "allchannels", "allcommands"]
        kept = ["--dir", str(self.directory), "--appendonly", "yes", "--appendfsync", "everysec"]
        return [self.found() or self.command, "--bind", "127.0.0.1", "--port", str(self.port), *kept, *secured]

    def answers(self) -> bool:
        """Whether it has read what it kept."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False
