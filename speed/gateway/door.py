"""The listening socket: it lets in no more than are served, also before TLS has begun."""

from __future__ import annotations

import socket
from typing import Any
from weakref import WeakSet


class Door(socket.socket):
    """Listens on one address; a connection beyond ``most`` is closed as soon as it is made.

    A server of asyncio shows a connection only when its TLS handshake is complete. Whoever begins none would take
    descriptors from the whole process until then.
    """

    def __init__(self, address: str, port: int, most: int) -> None:
        """Binds. Raises OSError."""
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__(family, kind, protocol)
        self._most = most
        self._inside: WeakSet[socket.socket] = WeakSet()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(place)
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """As of a socket; ConnectionAbortedError for a connection that was closed at once."""
        connection, peer = super().accept()
        if len(self._inside) >= self._most:
            self._inside = WeakSet(one for one in self._inside if one.fileno() >= 0)
        if len(self._inside) >= self._most:
            connection.close()
            raise ConnectionAbortedError
        self._inside.add(connection)
        return connection, peer
