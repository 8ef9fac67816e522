"""iceoryx2 requests and responses in shared memory: nothing is protected, and both sides poll without a pause. After
half a second without a request the server pauses, or it would take a core from whoever is measured next.

Python copies the bytes into memory that iceoryx2 lends, and out of it: a program that keeps them has to.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import iceoryx2 as iox2

Bytes = iox2.Slice[ctypes.c_uint8]
MAX_BYTES = 16 << 20
AWAKE_SECONDS = 0.5
PAUSE_SECONDS = 0.001


def service_of(work: Path) -> Any:
    iox2.set_log_level(iox2.LogLevel.Fatal)
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    name = iox2.ServiceName.new(f"speed-bench/{work}")
    return node, node.service_builder(name).request_response(Bytes, Bytes).open_or_create()


def copy_in(lent: Any, data: bytes) -> Any:
    ctypes.memmove(lent.payload().data_ptr, data, len(data))
    return lent.assume_init()


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    node, service = service_of(work)
    server = service.server_builder().initial_max_slice_len(MAX_BYTES).create()
    ready()
    asked = time.monotonic()
    while not stop.is_set():
        request = server.receive()
        if request is None:
            if time.monotonic() - asked > AWAKE_SECONDS:
                time.sleep(PAUSE_SECONDS)
        else:
            asked = time.monotonic()
            payload = request.payload()
            data = ctypes.string_at(payload.data_ptr, payload.len())
            copy_in(request.loan_slice_uninit(len(data)), data).send()
            request.delete()
    del server, node


class Client:
    def __init__(self, work: Path) -> None:
        self._node, service = service_of(work)
        self._client = service.client_builder().initial_max_slice_len(MAX_BYTES).create()

    def echo(self, data: bytes) -> bytes:
        pending = copy_in(self._client.loan_slice_uninit(len(data)), data).send()
        while (response := pending.receive()) is None:
            pass
        payload = response.payload()
        answer = ctypes.string_at(payload.data_ptr, payload.len())
        response.delete()
        pending.delete()
        return answer

    def close(self) -> None:
        self._client.delete()
