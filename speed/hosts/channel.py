"""Bytes to and from a server, with or without TLS: written by many threads, one at a time, and read by one."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Protocol


class Channel(Protocol):
    """One connection."""

    def send(self, data: bytes) -> None:
        """All of it. OSError; then the connection is of no use any more."""

    def receive(self, most: int) -> bytes:
        """What comes next; nothing at the end. TimeoutError if nothing comes for a while."""

    def close(self) -> None:
        """Who reads gets the end."""


class PlainChannel:
    """A socket."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.send, self.receive = raw.sendall, raw.recv

    def close(self) -> None:
        """Who reads gets the end."""
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)
        self._raw.close()


class TlsChannel:
    """TLS on a socket. OpenSSL's own socket must not be written while it is read, so it works on memory."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Greets the server. OSError, ssl.SSLError."""
        self._raw = raw
        self._lock = threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._take(raw.recv(65_536))
        self._flush()

    def send(self, data: bytes) -> None:
        """All of it."""
        with self._lock:
            self._tls.write(data)
            self._flush()

    def receive(self, most: int) -> bytes:
        """What comes next; nothing at the end."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(most)
                except ssl.SSLWantReadError:
                    self._flush()  # it may have something to say itself
            data = self._raw.recv(65_536)
            with self._lock:
                self._take(data)

    def _take(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._raw.sendall(self._outgoing.read())

    def close(self) -> None:
        """Who reads gets the end."""
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)
        self._raw.close()
