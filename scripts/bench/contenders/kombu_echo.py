"""kombu's filesystem transport: queues as directories of JSON files, as Celery uses it without a broker.

Its reader takes a file away as soon as its name is there, whether or not it was written (kombu's open issue 1551):
what it then read is lost, and raised as JSONDecodeError, a ValueError. So a program that uses it sends again, which is
what both sides do here; the time of it counts. Nothing is protected.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event

from kombu import Connection
from kombu.simple import SimpleQueue

WAIT_SECONDS = 20.0
ATTEMPTS = 200
POLL_SECONDS = 0.0002
"""What both sides sleep between looks; its default is a second."""
AGAIN = b"again"
"""The answer to a request that was read before it was written."""


def connect(work: Path) -> Connection:
    """Both sides of one directory: what one writes, the other reads."""
    folders = {name: work / name for name in ("messages", "control", "taken")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    tempfile.tempdir = str(folders["taken"])  # where it moves what it reads: on another filesystem it would copy
    options = {
        "data_folder_in": str(folders["messages"]),
        "data_folder_out": str(folders["messages"]),
        "control_folder": str(folders["control"]),
        "store_processed": False,
        "polling_interval": POLL_SECONDS,
    }
    return Connection("filesystem://", transport_options=options)


def queue_of(connection: Connection, name: str) -> SimpleQueue:
    return connection.SimpleQueue(name, no_ack=True, serializer="pickle", accept=["pickle"])


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    with connect(work) as connection, connect(work) as back:
        requests, answers = queue_of(connection, "requests"), queue_of(back, "answers")
        ready()
        while not stop.is_set():
            try:
                answers.put(requests.get(timeout=1.0).payload)
            except (TimeoutError, requests.Empty):
                continue
            except ValueError:
                answers.put(AGAIN)


class Client:
    def __init__(self, work: Path) -> None:
        self._connections = connect(work), connect(work)
        self._requests, self._answers = map(queue_of, self._connections, ("requests", "answers"))

    def echo(self, data: bytes) -> bytes:
        for _ in range(ATTEMPTS):
            self._requests.put(data)
            try:
                answer = bytes(self._answers.get(timeout=WAIT_SECONDS).payload)
            except ValueError:
                continue
            if answer != AGAIN:
                return answer
        raise RuntimeError(f"{len(data):,} bytes: read {ATTEMPTS} times before they were written")

    def close(self) -> None:
        for connection in self._connections:
            connection.release()
