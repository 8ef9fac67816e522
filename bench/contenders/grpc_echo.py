"""grpcio unary calls over a Unix socket.

Generic handlers with identity serializers: protobuf's own cost is left out, which favours grpcio. No TLS
either, unless ``grpc_tls_echo.py`` asks for it. The server has four worker threads, as the SPEED node has.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
MAX_PENDING = 1 << 20
SERVER_OPTIONS = [
    ("grpc.server.max_pending_requests", MAX_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
]
"""By default a server ends calls as CANCELLED: some with 1,000 pending, each further one with 3,000."""
STOP_SECONDS = 1.0


def serve(
    work: Path, ready: Callable[[], None], stop: Event, credentials: grpc.ServerCredentials | None = None
) -> None:
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=[*OPTIONS, *SERVER_OPTIONS])
    # No serializer given: grpcio hands bytes through unchanged.
    echo = grpc.unary_unary_rpc_method_handler(lambda data, _context: data)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": echo}),))
    if credentials is None:
        server.add_insecure_port(f"unix:{work}/grpc")
    else:
        server.add_secure_port(f"unix:{work}/grpc", credentials)
    server.start()
    ready()
    stop.wait()
    server.stop(STOP_SECONDS).wait()


class Client:
    def __init__(self, work: Path, channel: grpc.Channel | None = None) -> None:
        self._channel = channel or grpc.insecure_channel(f"unix:{work}/grpc", options=OPTIONS)
        self._call = self._channel.unary_unary("/bench.Echo/Echo")

    def echo(self, data: bytes) -> bytes:
        return bytes(self._call(data))

    def pipeline(self, data: bytes, count: int) -> None:
        for future in [self._call.future(data) for _ in range(count)]:
            future.result()

    def close(self) -> None:
        self._channel.close()
