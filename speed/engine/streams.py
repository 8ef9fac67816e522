"""Streams and progress as programs see them: services that give or take items (streams.md).

An engine brings a ``StreamChannel`` for each call that has a stream: credit, order and bounds are there. What is here
makes values of what arrives, and envelopes of what is given.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from operator import length_hint
from typing import Any, Protocol

from speed.core.log import logger
from speed.core.readers import Hint, Misfit
from speed.core.services import FunctionService, Request, Response, Service, is_generator, response_of
from speed.core.signatures import ItemsParameter
from speed.engine import threads
from speed.engine.event_loop import AsyncItems, EventLoop
from speed.errors import (
    CallWithdrawnError,
    Execution,
    ExecutionFailedError,
    InternalError,
    InvalidArgumentsError,
    PayloadTooLargeError,
    SpeedError,
)
from speed.wire import spc
from speed.wire.limits import MAX_HEAD_BYTES, MAX_PAYLOAD_BYTES, STREAM_ENVELOPE_BYTES
from speed.wire.value import pack

log = logger("speed.spc")

MAX_ITEM_BYTES = MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES
LOOK_SECONDS = 0.1
"""How long a wait goes on before signals are looked at."""
_END_SECONDS = 1.0
RUNNING = {"phase": "running"}


class TakenKind(IntEnum):
    """What ``StreamChannel.take`` found."""

    NOTHING = 0
    PROGRESS = 1
    ITEMS = 2
    LAST = 3
    """The caller's items are over."""
    OVER = 4
    """Nothing comes any more: the call has ended, was withdrawn, or its stream is broken."""


class Reserved(IntEnum):
    """What ``StreamChannel.reserve`` found."""

    NOTHING = 0
    CREDIT = 1
    OVER = 2


Taken = tuple[int, Any, int, int]
"""Its kind; the payload of an envelope, or done, total and note; how many items, of how many bytes."""


class StreamChannel(Protocol):
    """One stream at one of its two nodes. Thread-safe; times are seconds."""

    request_id: str
    wants_items: bool
    """As the caller said, like the next two."""
    sends_items: bool
    wants_progress: bool

    def take(self, timeout: float) -> Taken: ...
    def process(self, items: int, size: int) -> None:
        """So much of what was taken was processed: gives credit when it is time."""

    def open(self) -> None:
        """The service begins to take items: gives the first credit."""

    def reserve(self, size: int, timeout: float) -> int:
        """Credit for one item of ``size`` bytes, which is counted as sent; with 0 whether any was given at all."""

    def write(self, payload: bytes) -> None: ...
    def report(self, done: float, total: float | None, note: str) -> None: ...
    def close(self) -> None:
        """Nobody waits any more; again does nothing."""

    @property
    def broken(self) -> str:
        """What the other side did wrong; empty if nothing."""


class CallChannel(StreamChannel, Protocol):
    """That of who called."""

    def outcome(self) -> Any:
        """The result of the call that has ended; raises its error."""

    def withdraw(self) -> None: ...


# What arrives.


class ItemReader:
    """The items that arrive on a channel, as values, one thread at a time. Errors are given again each time."""

    def __init__(self, channel: StreamChannel, read: Callable[[Any], Any] | None = None) -> None:
        """``read`` makes of each item what the program asked for; it raises SpeedError."""
        self._channel, self._read = channel, read
        self._batch: Iterator[Any] = iter(())
        self._taken = (0, 0)
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for item in self._batch:
            return item
        return self._refilled()

    @property
    def is_ready(self) -> bool:
        """Whether an item is here already."""
        return length_hint(self._batch) > 0

    def _refilled(self) -> Any:
        if self._error is not None:
            raise self._error
        try:
            return self._next_batch()
        except BaseException as error:
            if isinstance(error, StopIteration | SpeedError):  # an interruption says nothing of the stream
                self._error = error
            raise

    def _next_batch(self) -> Any:
        if self._taken[0]:
            taken, self._taken = self._taken, (0, 0)
            self._channel.process(*taken)
        while True:
            kind, payload, items, size = self._wait()
            if kind != TakenKind.ITEMS:
                self._end(TakenKind(kind))
                raise StopIteration
            self._batch, self._taken = iter(self._values(payload)), (items, size)
            for item in self._batch:
                return item

    def _values(self, payload: bytes) -> list[Any]:
        items = spc.decode_items(payload, spc.decode_stream(payload))
        return items if self._read is None else list(map(self._read, items))

    def _wait(self) -> Taken:
        taken = self._channel.take(0.0)
        while taken[0] == TakenKind.NOTHING:
            taken = self._channel.take(LOOK_SECONDS)
        return taken

    def _end(self, kind: TakenKind) -> None:
        """Raises what ended the stream, if that was no good end."""
        if kind is TakenKind.OVER:
            raise ended(self._channel)


def ended(channel: StreamChannel) -> SpeedError:
    """Why a service gets and sends nothing any more."""
    if channel.broken:
        return InternalError(channel.broken, RUNNING)
    return CallWithdrawnError("nobody waits for this stream any more", RUNNING)


# What is given.


class ItemWriter:
    """Sends what one producer gives, several items an envelope; none is held back while the producer thinks.

    A thread of its own sends what was given since it sent last. A producer that is quicker sends full envelopes itself.
    """

    def __init__(self, channel: StreamChannel, on_error: Callable[[BaseException], None] | None = None) -> None:
        """``on_error`` hears what kept the thread from sending, before the channel is closed."""
        self._channel, self._on_error = channel, on_error
        self._changed = threading.Condition(threads.lock("stream"))
        self._sending = threads.lock("sending")
        """Held while items are taken and written, so that they keep their order."""
        self._packed: list[bytes] = []
        self._size = 0
        self._number = 0
        self._rests = self._is_over = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def put(self, item: Any) -> None:
        """Give one item; waits for credit. Raises what ended the stream."""
        packed = self.packed(item)
        if not self.reserve(packed):
            self.wait(packed)
        self.add(packed)

    def packed(self, item: Any) -> bytes:
        """As it travels. Raises UnserialisableError, PayloadTooLargeError."""
        packed = pack(item, "item")
        if len(packed) > MAX_ITEM_BYTES:
            raise PayloadTooLargeError(
                f"an item of {len(packed)} bytes; the limit is {MAX_ITEM_BYTES}: give it in parts"
            )
        return packed

    def reserve(self, packed: bytes, timeout: float = 0.0) -> bool:
        """Whether it may go now, and then has to. Raises what ended the stream."""
        reserved = self._channel.reserve(len(packed), timeout)
        if reserved == Reserved.OVER or self._error is not None:
            raise self._error or ended(self._channel)
        return reserved == Reserved.CREDIT

    def wait(self, packed: bytes) -> None:
        """The same once there is credit."""
        while not self.reserve(packed, LOOK_SECONDS):
            pass

    def add(self, packed: bytes) -> None:
        """Have an item sent that may go."""
        if self._size + len(packed) > STREAM_ENVELOPE_BYTES:
            self._flush()
        with self._changed:
            self._packed.append(packed)
            self._size += len(packed)
            if self._rests:
                self._rests = False
                self._changed.notify()
        if self._thread is None:
            self._start()

    def finish(self, *, last: bool = False) -> None:
        """Send what is left, and with ``last`` that there is no more. Raises what kept it from being sent."""
        try:
            if self._error is not None:
                raise self._error
            self._flush(last=last)
        finally:
            self.stop()

    def stop(self) -> None:
        """End the thread, which sends nothing more; waits a moment for it."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _start(self) -> None:
        name = f"speed-stream-{self._channel.request_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while self._has_items():
                self._flush()
        except BaseException as error:
            self._error = error
            if self._on_error is not None:
                self._on_error(error)
            self._channel.close()

    def _has_items(self) -> bool:
        """Waits for some; False at the end."""
        with self._changed:
            while not self._packed and not self._is_over:
                self._rests = True
                self._changed.wait()
            return not self._is_over

    def _flush(self, *, last: bool = False) -> None:
        with self._sending:
            with self._changed:
                packed, self._packed, self._size = self._packed, [], 0
            if packed or last:
                self._write(packed, last)

    def _write(self, packed: list[bytes], last: bool) -> None:
        try:
            self._channel.write(spc.encode_items(self._channel.request_id, self._number, packed, last=last))
        except SpeedError as error:
            error.execution = Execution.MAY_HAVE_RUN  # whoever gave credit had begun
            raise
        self._number += len(packed)


# Services that give or take items.


def is_streaming(service: Service) -> bool:
    """Whether a service gives items, takes some, or both."""
    return gives_items(service) or taken_items(service) is not None


def gives_items(service: Service) -> bool:
    """Whether it is a generator."""
    return is_generator(service.function if isinstance(service, FunctionService) else service.invoke)


def taken_items(service: Service) -> ItemsParameter | None:
    """The parameter of a function that takes items."""
    return service.parameters.items if isinstance(service, FunctionService) else None


class StreamService:
    """A service whose items travel beside its call."""

    streams = True
    takes_columns = False

    def __init__(self, name: str, service: Service, loop: EventLoop) -> None:
        self._name, self._loop = name, loop
        self._service = self.described = service
        self._gives, self._takes = gives_items(service), taken_items(service)

    @property
    def whose_items(self) -> str:
        """As descriptions tell it (S-26)."""
        if not self._gives:
            return "caller"
        return "service" if self._takes is None else "both"

    @property
    def viewed(self) -> tuple[str, ...]:
        """The parameters that are hinted ``memoryview``."""
        return self._service.viewed if isinstance(self._service, FunctionService) else ()

    def invoke(self, request: Request) -> Any:
        channel: StreamChannel | None = request.channel
        self._check(channel)
        assert channel is not None
        if self._takes is not None:
            reader = ItemReader(channel, _checked(self._takes.hint))
            request = request._replace(items=AsyncItems(reader) if self._takes.is_awaited else reader)
            channel.open()
        answer = self._service.invoke(request)
        if inspect.isasyncgen(answer):
            return self._give(channel, _AsyncProducer(answer, self._loop, request.cancellation))
        if inspect.isgenerator(answer):
            return self._give(channel, _PlainProducer(answer))
        return self._loop.run(answer, request.cancellation) if inspect.iscoroutine(answer) else answer

    def _check(self, channel: StreamChannel | None) -> None:
        wants, sends = channel is not None and channel.wants_items, channel is not None and channel.sends_items
        if self._gives and not wants:
            raise InvalidArgumentsError(f"{self._name} gives many items: call it by `node.stream`")
        if self._takes is not None and not sends:
            raise InvalidArgumentsError(f"{self._name} takes items: call it by `node.stream(…, items=…)`")
        if sends and self._takes is None:
            raise InvalidArgumentsError(f"{self._name} takes no items")
        if wants and not self._gives and self._takes is None:
            raise InvalidArgumentsError(f"{self._name} gives no items: call it by `node.call`")

    def _give(self, channel: StreamChannel, producer: _PlainProducer | _AsyncProducer) -> Response:
        writer = ItemWriter(channel)
        try:
            try:
                result = producer.produce(writer)
            except BaseException:
                with suppress(SpeedError):
                    writer.finish()  # what came before an error is read before it
                raise
            writer.finish()
            return response_of(result)
        finally:
            writer.stop()
            producer.close()


class _PlainProducer:
    """A generator."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def produce(self, writer: ItemWriter) -> Any:
        """Hand over all of its items; what it returns."""
        step, put = self._generator.__next__, writer.put
        while True:
            try:
                item = step()
            except StopIteration as end:
                return end.value
            put(item)

    def close(self) -> None:
        """Left early, it is told: what it holds is released."""
        self._generator.close()


class _AsyncProducer:
    """An asynchronous generator, run by the loop as long as there is credit."""

    def __init__(self, generator: Any, loop: EventLoop, cancellation: Any) -> None:
        self._generator, self._loop, self._cancellation = generator, loop, cancellation

    def produce(self, writer: ItemWriter) -> Any:
        while (packed := self._loop.run(self._fill(writer), self._cancellation)) is not None:
            writer.wait(packed)
            writer.add(packed)
        return None

    async def _fill(self, writer: ItemWriter) -> bytes | None:
        """The item that has to wait for credit; None at the end."""
        async for item in self._generator:
            packed = writer.packed(item)
            if not writer.reserve(packed):
                return packed
            writer.add(packed)
        return None

    def close(self) -> None:
        with suppress(SpeedError, RuntimeError):  # the loop has ended, and cancelled it
            self._loop.run(self._generator.aclose())


def _checked(hint: Hint) -> Callable[[Any], Any] | None:
    if hint.kinds is None and hint.read is None:
        return None

    def read(item: Any) -> Any:
        try:
            return hint.take(item)
        except Misfit as misfit:
            # The service has begun: what it did with the items before is done.
            raise ExecutionFailedError(misfit.text("an item"), {"exception": InvalidArgumentsError.__name__}) from None

    return read
