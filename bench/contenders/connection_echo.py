"""``multiprocessing.connection`` over a Unix socket: the least Python can do. Not encrypted."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import connection as mpc
from pathlib import Path
from threading import Event

AUTHKEY = b"measurement"


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    with mpc.Listener(str(work / "connection"), "AF_UNIX", authkey=AUTHKEY) as listener:
        ready()
        with listener.accept() as connection:
            while not stop.is_set():
                try:
                    connection.send_bytes(connection.recv_bytes())
                except EOFError:
                    return


class Client:
    def __init__(self, work: Path) -> None:
        self._connection = mpc.Client(str(work / "connection"), "AF_UNIX", authkey=AUTHKEY)

    def echo(self, data: bytes) -> bytes:
        self._connection.send_bytes(data)
        return self._connection.recv_bytes()

    def close(self) -> None:
        self._connection.close()
