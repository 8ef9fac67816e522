"""grpcio unary calls over a Unix socket.

Generic handlers with identity serializers: protobuf's own cost is left out, which favours grpcio. No TLS
either. The server has four worker threads, as the SPEED node has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
STOP_SECONDS = 1.0
UNDER_WAY = 1000
"""With some thousands under way grpcio now and then ends a call as CANCELLED."""


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=OPTIONS)
    # No serializer given: grpcio hands bytes through unchanged.
    echo = grpc.unary_unary_rpc_method_handler(lambda data, _context: data)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": echo}),))
    server.add_insecure_port(f"unix:{work}/grpc")
    server.start()
    ready()
    stop.wait()
    server.stop(STOP_SECONDS).wait()


class Client:
    def __init__(self, work: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{work}/grpc", options=OPTIONS)
        self._call = self._channel.unary_unary("/bench.Echo/Echo")

    def echo(self, data: bytes) -> bytes:
        return bytes(self._call(data))

    def pipeline(self, data: bytes, count: int) -> None:
        under_way: deque[grpc.Future] = deque()
        for _ in range(count):
            if len(under_way) == UNDER_WAY:
                under_way.popleft().result()
            under_way.append(self._call.future(data))
        for future in under_way:
            future.result()

    def close(self) -> None:
        self._channel.close()
