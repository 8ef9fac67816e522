"""Arrow Flight over a Unix socket: one exchange that stays open, a record batch there and back for each call.

That is Flight at its quickest: no call is set up again, and the bytes are not copied into Python. No TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
from pyarrow import flight

SCHEMA = pa.schema([("data", pa.large_binary())])


class Echo(flight.FlightServerBase):
    def do_exchange(self, _context: Any, _descriptor: Any, reader: Any, writer: Any) -> None:
        writer.begin(reader.schema)
        for chunk in reader:
            writer.write_batch(chunk.data)


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    with Echo(f"grpc+unix://{work}/flight"):
        ready()
        stop.wait()


class Client:
    def __init__(self, work: Path) -> None:
        self._client = flight.connect(f"grpc+unix://{work}/flight")
        self._writer, self._reader = self._client.do_exchange(flight.FlightDescriptor.for_path("echo"))
        self._writer.begin(SCHEMA)

    def echo(self, data: bytes) -> Sized:
        self._writer.write_batch(pa.record_batch([pa.array([data], pa.large_binary())], schema=SCHEMA))
        answer: Sized = self._reader.read_chunk().data.column(0)[0].as_buffer()
        return answer

    def close(self) -> None:
        self._writer.done_writing()
        self._client.close()
