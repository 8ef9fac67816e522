"""A network between two programs of this machine, which can be cut: a relay of TCP connections."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_CHUNK = 1 << 16
_JOIN_SECONDS = 5.0
_LOOK_SECONDS = 0.2


class Relay:
    """Takes connections at ``port``, and passes on their bytes to another port until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._is_over = False
        self._taking = self._taking_connections()

    def _taking_connections(self) -> threading.Thread:
        thread = threading.Thread(target=self._take, args=(self._listener,), name="relay", daemon=True)
        thread.start()
        return thread

    def _take(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # it is cut
            try:
                far = socket.create_connection(("127.0.0.1", self._target), 5.0)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), name="relay-flow", daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                while not self._flows.wait(_LOOK_SECONDS):
                    if self._is_over:
                        return
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._open.discard(one)
            one.close()

    def stall(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        self._flows.clear()

    def cut(self) -> None:
        """All connections end, what is on its way is gone, and no more are taken."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._taking.join(_JOIN_SECONDS)
        with self._lock:
            every = list(self._open)
        for one in every:
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Connections are taken again, at the same port."""
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._taking = self._taking_connections()

    def close(self) -> None:
        self._is_over = True
        self._flows.set()
        self.cut()
