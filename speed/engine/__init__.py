"""What ``Node`` needs of an engine, and which one a program gets. The Python engine is in ``python``.

Wheels bring the native one; where it could not be built, nodes run in pure Python. It is used only when it was built
from this version and for this contract.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from speed.engine.options import CallRequest, Options, SendRequest
from speed.errors import ConfigurationError, SpeedError
from speed.wire import lazily, limits

if TYPE_CHECKING:
    from speed.core.services import Service, ServiceOptions
    from speed.engine.futures import Carried
    from speed.engine.message import BatchHandler, Message, Published
    from speed.engine.streams import CallChannel
    from speed.wire.entry import Entry
    from speed.wire.spc import StreamOffer


@cache
def why_unusable(version: str) -> str:
    """Why the native engine cannot be used with this ``version``, for people; empty if it can."""
    try:
        with lazily.guard:
            import speed._native as native
    except ModuleNotFoundError:
        return "this installation was made without it"
    except ImportError as error:
        return str(error)
    if native.version != version:
        return f"it was built from version {native.version}, this is {version}"
    if not all(hasattr(native.Engine, method) for method in ("fetch", "withdraw", "on_lost", "open_stream")):
        return "it was built from older sources"
    theirs = json.loads(native.limits)
    differing = [name for name, value in theirs.items() if getattr(limits, name.upper(), None) != value]
    return f"it was built for another contract: {', '.join(differing)}" if differing else ""


REMEDY = "install SPEED anew with a compiler at hand (`pip install --force-reinstall --no-deps speed-ipc`)"


class Engine(Protocol):
    """One running node. All methods are thread-safe and raise what ``Node`` says; times are seconds."""

    kind: str
    """``python`` or ``native``."""
    root: str

    @property
    def generation(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def ready(self) -> None: ...
    def allow(self, patterns: tuple[str, ...]) -> None: ...
    def deny(self, patterns: tuple[str, ...]) -> None: ...
    def allowed(self) -> tuple[str, ...]: ...
    def register(
        self, name: str, service: Service | Callable[..., Any], allow: Iterable[str] | None, how: ServiceOptions
    ) -> None: ...
    def unregister(self, name: str) -> None: ...
    def call(self, request: CallRequest) -> Any: ...
    def submit(self, request: CallRequest, carried: Carried | None = None) -> Future[Any]:
        """``carried`` makes of the answer what the caller gets."""

    def open_stream(self, request: CallRequest, offer: StreamOffer) -> CallChannel: ...
    def tell(self, run: Callable[[], None]) -> None:
        """Have a worker run what is to happen now that a call ended; where a worker ended it, it runs at once."""

    def ping(self, target: str, timeout: float) -> float: ...
    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]: ...
    def discover_each(self, targets: Sequence[str], operation: str, timeout: float) -> list[dict[str, Any] | None]:
        """The same of many, asked at once, in their order; None of one that does not answer in time."""

    def stats(self) -> dict[str, Any]: ...
    def send(self, request: SendRequest) -> str: ...
    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None: ...
    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None: ...
    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None: ...
    def publish(self, topic: str, payload: Any, timeout: float, on_full: str, options: dict[str, Any]) -> Published: ...
    def on_message(self, handler: Callable[[Message], object]) -> None: ...
    def subscribe(self, pattern: str, handler: Callable[[Message], object], shared: bool) -> None: ...
    def receive(self, timeout: float | None) -> Message | None: ...
    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None:
        """Like ``receive``, and what ``put_back`` takes; finished by ``Message.done``."""

    def put_back(self, token: Any) -> None:
        """What was fetched is fetched by the next one."""

    def wake_receivers(self) -> None:
        """Have those who fetch ask whether they are abandoned."""

    def on_batch(self, patterns: tuple[str, ...], handler: BatchHandler, shared: bool) -> None: ...
    def nodes(self) -> list[Entry]: ...
    def wait_for(self, target: str, timeout: float) -> Entry: ...
    def on_join(self, handler: Callable[[Entry], object]) -> None: ...
    def on_leave(self, handler: Callable[[Entry], object]) -> None: ...
    def on_lost(self, handler: Callable[[SpeedError], object]) -> None: ...
    def remove_stale(self) -> list[str]: ...
    def close(self, drain_seconds: float) -> None: ...
    def abandon(self) -> None:
        """In a forked child: forget the node, which is the parent's."""


def make_engine(requested: str, options: Options) -> Engine:
    """A started engine. ConfigurationError if it does not exist or was not built; errors of ``Options.check``."""
    options.check()
    kind = os.environ.get("SPEED_ENGINE", "") or "auto" if requested == "auto" else requested
    if kind not in {"auto", "python", "native"}:
        raise ConfigurationError(f"engine is {kind!r}; use 'auto', 'python' or 'native'")
    if kind != "python":
        why = why_unusable(sys.modules["speed"].__version__)  # the package, which imports what imports this
        if not why:
            with lazily.guard:
                from speed.engine.native import NativeEngine

            return NativeEngine(options)
        if kind == "native":
            raise ConfigurationError(f"the native engine cannot be used: {why}; {REMEDY}, or use engine='python'")
    with lazily.guard:
        from speed.engine.python.node import PythonEngine

    return PythonEngine(options)
