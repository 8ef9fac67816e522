"""An event loop on a thread of its own, for libraries that have no other way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from speed.bridges.errors import BackendAwayError, BackendError

Result = TypeVar("Result")
END_SECONDS = 2.0


class Loop:
    """Started when first used. Thread-safe."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
        """What it returns; BackendAwayError if that takes longer than ``timeout`` seconds."""
        try:
            loop = self._started()
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, max(timeout, 0.0)), loop)
        try:
            return future.result(timeout + END_SECONDS)
        except (asyncio.TimeoutError, TimeoutError, CancelledError):
            future.cancel()
            raise BackendAwayError(f"{self._backend} did not answer in time: try again") from None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_over:
                raise BackendError(f"the connection to {self._backend} was closed: make another one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = f"speed-{self._backend}-loop"
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Cancel what is under way, and end the thread."""
        with self._lock:
            self._is_over = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(END_SECONDS)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


__all__ = ["Loop"]
