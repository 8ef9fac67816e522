"""The call log: one row for each call that a service of this process answered (J-10). Never arguments or results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from speed import Request, Response
from speed.core.services import Service, as_service, run
from speed.errors import SpeedError
from speed.journal.record import call_bytes
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.wire.journal import Subject

GATHER_SECONDS = 0.02
"""How long rows are gathered before they are written: they may be lost for so long."""
MAX_WAITING = 65536
"""Rows that wait while the journal cannot be written; beyond that the oldest are dropped and counted."""
MAX_AT_ONCE = 4096
AGAIN_SECONDS = 1.0


class _Row(NamedTuple):
    service: str
    data: bytes


class CallLog:
    """Writes rows on a thread of its own, so that no call waits for the disk. Thread-safe."""

    def __init__(self, writer: JournalWriter, source: str) -> None:
        """``source`` is the node whose services are logged."""
        self._writer = writer
        self._source = source
        self._waiting: deque[_Row] = deque(maxlen=MAX_WAITING)
        self._arrived = threading.Event()
        self._closing = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="speed-call-log", daemon=True)
        self._thread.start()

    def logging(self, name: str, service: Service | Callable[..., Any]) -> Service:
        """``service`` with a row for each of its answers."""
        return _Logged(self, as_service(name, service))

    def add(self, service: str, caller: str, seconds: float, outcome: str) -> None:
        """Have one row written soon."""
        if len(self._waiting) == MAX_WAITING:
            self.dropped += 1
        self._waiting.append(_Row(service, call_bytes(caller, round(seconds * 1e6), outcome)))
        self._arrived.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._arrived.wait()
            self._closing.wait(GATHER_SECONDS)
            self._arrived.clear()
            self._write()

    def _write(self) -> None:
        """Write what waits; rows that cannot be written wait on."""
        while self._waiting:
            rows = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
            groups: dict[str, list[Incoming]] = {}
            for row in rows:
                groups.setdefault(row.service, []).append(Incoming(0, False, row.data))
            failed = [service for service, incoming in groups.items() if not self._written(service, incoming)]
            for service in failed:
                self._put_back(service, groups[service])
            if failed:
                self._closing.wait(AGAIN_SECONDS)
                return

    def _written(self, service: str, incoming: list[Incoming]) -> bool:
        try:
            self._writer.record(Subject("calls", service, self._source), incoming)
        except SpeedError:
            return False
        return True

    def _put_back(self, service: str, incoming: list[Incoming]) -> None:
        room = MAX_WAITING - len(self._waiting)
        self.dropped += max(0, len(incoming) - room)
        self._waiting.extendleft(_Row(service, one.message) for one in reversed(incoming[-room:] if room else []))
        self._arrived.set()

    def close(self) -> None:
        """Write what waits, and end."""
        self._closing.set()
        self._arrived.set()
        self._thread.join()
        self._write()


class _Logged:
    """A service that notes who called it, for how long and how it ended."""

    def __init__(self, log: CallLog, service: Service) -> None:
        self._log = log
        self._service = service

    def invoke(self, request: Request) -> Response:
        began = perf_counter()
        response = run(self._service, request)
        self._log.add(request.service, request.caller, perf_counter() - began, response.error_code or "OK")
        return response
