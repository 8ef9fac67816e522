"""The native engine: ``speed._native.Engine``, with Python's own checks, services and messages around it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from functools import cache
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

import speed._native as _native
from speed.core.access import AccessPolicy
from speed.core.calls import checked_answer
from speed.core.log import logger
from speed.core.services import (
    FunctionService,
    Request,
    Response,
    Service,
    ServiceOptions,
    ServiceRegistry,
    failure,
    failure_text,
    response_of,
    run,
)
from speed.engine.event_loop import Awaited
from speed.engine.futures import CallFuture, Carried
from speed.engine.interceptors import Intercepted
from speed.engine.message import FRONT_ROOM, Message, Published, Sent, is_large
from speed.engine.node_options import SPIN_SECONDS, NodeOptions
from speed.engine.options import MESSAGE_OPTIONS, WRITE_MESSAGES, CallRequest, Options, SendRequest
from speed.engine.streams import StreamService
from speed.engine.threads import ProgramsCode
from speed.engine.tracing import continued, current_trace
from speed.engine.workers import AtWork, at_work
from speed.errors import ConfigurationError, SpeedError, WireError
from speed.message.errors import AwayError
from speed.message.view import MessageView
from speed.wire import lazily, names
from speed.wire.entry import Entry
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.value import PROTOBUF_TYPE, is_protobuf

if TYPE_CHECKING:
    from speed.engine.message import BatchHandler
    from speed.engine.streams import CallChannel
    from speed.wire.spc import StreamOffer


# Messages that the core received, as ``speed.Message``.


class ReceivedView(MessageView):
    """A view that has the core read what is asked for most; the rest is parsed from the bytes as always."""

    __slots__ = ("_has_publisher_only", "_received")

    def __init__(self, received: Any, data: bytes, has_publisher_only: bool) -> None:
        super().__init__(data)
        self._received = received
        self._has_publisher_only = has_publisher_only

    @property
    def payload(self) -> Any:
        """The payload's value, decoded anew at each access; unknown content types give bytes."""
        if self.content_type == PROTOBUF_TYPE:  # whose types this process knows, and not the core
            return super().payload
        return self._received.payload()

    @property
    def content_type(self) -> str:
        """Media type of the payload."""
        return str(self._received.content_type)

    @property
    def content_encoding(self) -> str:
        """``none``, or the name of what the payload is compressed with."""
        return str(self._received.content_encoding)

    @property
    def has_publisher_only(self) -> bool:
        """Whether nothing but its publisher is told in its SecurityContext, or a token beside it."""
        return self._has_publisher_only

    @property
    def topic(self) -> str:
        """Topic it was published under."""
        return str(self._received.topic)

    @property
    def message_id(self) -> str:
        """Unique id of the message."""
        return str(self._received.message_id)

    @property
    def traceparent(self) -> str | None:
        """W3C traceparent, or None when absent or not valid (M-11)."""
        trace = self._received.traceparent
        return None if trace is None else str(trace)


def received_message(
    received: Any,
    data: bytes,
    source: str,
    sequence: int,
    timestamp_ms: int,
    redelivered: bool,
    deliveries: int,
    has_publisher_only: bool,
    is_large: bool,
    sender_identity: str,
) -> Message:
    """The message in ``received``; finishing it finishes that of the core."""
    return Message(
        _large_view(received, data) if is_large else ReceivedView(received, data, has_publisher_only),
        source=source,
        sequence=sequence,
        timestamp_ms=timestamp_ms,
        redelivered=redelivered,
        deliveries=deliveries,
        finish=received.done,
        sender_identity=sender_identity,
    )


def _large_view(received: Any, head: bytes) -> MessageView:
    """Of a message whose payload lies in the node's store."""
    with lazily.guard:
        from speed.engine.large_payload import large_view  # few messages are

    return large_view(received, head)


log = logger("speed.messages")

Handler = Callable[["Message"], object]
_HERE: Any = ()
"""What a place is given up for, where the core knows by itself."""
_open: set[NativeEngine] = set()
"""Nodes live until they are closed, as their threads do."""


class NativeEngine:
    """A node of the C++ core. All methods are thread-safe; in a forked child they raise ForkedNodeError."""

    kind = "native"

    def __init__(self, options: Options) -> None:
        self._process = os.getpid()
        self._name, self._namespace = options.name, options.namespace
        self._services = ServiceRegistry()
        self._engine = _native.Engine(name=options.name, options=_given(options), settle=NativeFuture.end)
        self.root: str = self._engine.root
        if self._engine.polling and options.bell == "auto":
            log.warning("%s has no FIFOs or lies on a remote filesystem: lanes are polled, which is slower", self.root)
        _close_at_exit()
        _open.add(self)

    # --- access and services ---

    def allow(self, patterns: tuple[str, ...]) -> None:
        AccessPolicy(patterns)
        self._engine.allow(patterns)

    def deny(self, patterns: tuple[str, ...]) -> None:
        AccessPolicy(patterns)
        self._engine.deny(patterns)

    def allowed(self) -> tuple[str, ...]:
        return tuple(self._engine.allowed())

    def register(
        self, name: str, service: Service | Callable[..., Any], allow: Iterable[str] | None, how: ServiceOptions
    ) -> None:
        self._engine.check()
        grants = None if allow is None or isinstance(allow, str) else tuple(allow)
        made = self._services.register(name, service, allow if grants is None else grants, how)
        is_plain = isinstance(made, FunctionService) and not made.takes_request
        answer = _answer_plainly(made) if is_plain else _answer(made)  # type: ignore[arg-type]
        viewed = getattr(made, "viewed", ())
        description = self._services.description(name)
        self._engine.serve(name, answer, is_plain, viewed, grants, how.idempotent, description)

    def unregister(self, name: str) -> None:
        self._engine.check()
        self._services.unregister(name)
        self._engine.unregister(name)

    # --- calls ---

    def call(self, request: CallRequest) -> Any:
        target, service, arguments, timeout, traceparent, views, read = request
        result = self._engine.call(target, service, arguments, timeout, traceparent or current_trace(), views)
        return result if read is None else read(result)

    def submit(self, request: CallRequest, carried: Carried | None = None) -> Future[Any]:
        target, service, arguments, timeout, traceparent, views, read = request
        future = NativeFuture(self._process, target, service)
        future.carried, future.read = carried, read
        traceparent = traceparent or current_trace()
        request_id = self._engine.submit(target, service, arguments, timeout, traceparent, views, future)
        future.written = self._engine, target, request_id
        return future

    def open_stream(self, request: CallRequest, offer: StreamOffer) -> CallChannel:
        target, service, arguments, timeout, traceparent, *_ = request
        trace = traceparent or current_trace()
        channel: CallChannel = self._engine.open_stream(target, service, arguments, timeout, trace, tuple(offer))
        return channel

    def tell(self, run: Callable[[], None]) -> None:
        run()

    def ping(self, target: str, timeout: float) -> float:
        return float(self._engine.ping(target, timeout))

    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]:
        try:
            answer = dict(self._engine.discover(target, operation, timeout))
        except WireError as error:
            error.args = (f"{target}: {error}",)
            raise
        return checked_answer(operation, answer, target)

    def discover_each(self, targets: Sequence[str], operation: str, timeout: float) -> list[dict[str, Any] | None]:
        answers = self._engine.discover_each(list(targets), operation, timeout)
        return [_checked(operation, answer, target) for answer, target in zip(answers, targets, strict=True)]

    def stats(self) -> dict[str, Any]:
        return dict(self._engine.stats())

    # --- messages and events ---

    def send(self, request: SendRequest) -> Sent:
        target, payload, ack, timeout, metadata, progress, unordered = request
        traced = _traced(metadata)
        if not is_large(payload):
            message_id, waiting = self._engine.send(target, payload, ack, timeout, traced, unordered)
            return Sent(message_id, waiting=waiting)
        with lazily.guard:
            from speed.engine.large_payload import source_of

        source = source_of(payload)
        if source.size > MAX_PAYLOAD_BYTES - FRONT_ROOM:
            message_id, waiting = self._engine.send_large(target, source, ack, timeout, traced, progress, unordered)
            return Sent(message_id, waiting=waiting)
        whole = bytes(source.read(0, source.size))
        message_id, waiting = self._engine.send(target, whole, ack, timeout, traced, unordered)
        if progress is not None:
            progress(source.size, source.size)
        return Sent(message_id, waiting=waiting)

    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None:
        self._engine.cut(target, _segment_size(segment_size), float(parity_rate))

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        deadline = monotonic() + timeout
        options = _traced(options)
        payloads = iter(payloads)
        while batch := list(islice(payloads, WRITE_MESSAGES)):  # of an endless iterable too
            left = max(0.0, deadline - monotonic())
            if any(map(is_protobuf, batch)):  # the core knows no classes of Python
                self._engine.forward(target, [self._encoded(one, options) for one in batch], False, False, left)
            else:
                self._engine.send_all(target, batch, left, options)

    def _encoded(self, payload: Any, options: dict[str, Any]) -> bytes:
        with lazily.guard:
            from speed.engine.message import described
            from speed.message.writing import encode_message

        return encode_message(payload, **described(options, self._name, self._namespace))

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        self._engine.forward(target, list(messages), event, ack, timeout)

    def publish(self, topic: str, payload: Any, timeout: float, on_full: str, options: dict[str, Any]) -> Published:
        if "topic" in options:
            raise TypeError("the topic of an event is given once")
        waits = on_full == "wait"
        return Published(*self._engine.publish(names.check_topic(topic), payload, timeout, waits, _traced(options)))

    def on_message(self, handler: Handler) -> None:
        self._engine.on_message(_handling(handler))

    def subscribe(self, pattern: str, handler: Handler, shared: bool) -> None:
        self._engine.subscribe(names.check_topic_pattern(pattern), _handling(handler), shared)

    def on_batch(self, patterns: tuple[str, ...], handler: BatchHandler, shared: bool) -> None:
        topics = [names.check_topic_pattern(pattern) for pattern in patterns]
        self._engine.on_batch(topics, _handling_batches(handler), shared)

    def receive(self, timeout: float | None) -> Message | None:

        received = self._engine.receive(timeout)
        return None if received is None else received_message(*received)

    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None:

        received = self._engine.fetch(timeout, is_abandoned)
        return None if received is None else (received_message(*received), received[0])

    def put_back(self, token: Any) -> None:
        self._engine.put_back(token)

    def wake_receivers(self) -> None:
        self._engine.wake_receivers()

    # --- other nodes ---

    def nodes(self) -> list[Entry]:
        return [Entry(**fields) for fields in self._engine.nodes()]

    def wait_for(self, target: str, timeout: float) -> Entry:
        return Entry(**self._engine.wait_for(names.check_node_name(target), timeout))

    def on_join(self, handler: Callable[[Entry], object]) -> None:
        self._engine.on_join(lambda fields: handler(Entry(**fields)))

    def on_leave(self, handler: Callable[[Entry], object]) -> None:
        self._engine.on_leave(lambda fields: handler(Entry(**fields)))

    def on_lost(self, handler: Callable[[SpeedError], object]) -> None:
        self._engine.on_lost(handler)

    def remove_stale(self) -> list[str]:
        return list(self._engine.remove_stale())

    # --- life ---

    def ready(self) -> None:
        self._engine.ready()

    @property
    def generation(self) -> int:
        return int(self._engine.generation)

    @property
    def closed(self) -> bool:
        return bool(self._engine.closed)

    def close(self, drain_seconds: float) -> None:
        here = at_work.get()
        try:
            if here is not None and isinstance(here.pool, _native.Present):  # maybe awaited there, on another thread
                here.pool.close(self._engine, drain_seconds)
            else:
                self._engine.close(drain_seconds)
        finally:  # one that a signal interrupted has ended, too
            self._services = ServiceRegistry()  # they may hold the node
            _open.discard(self)

    def abandon(self) -> None:
        """The core knows by its process id that it was forked."""


def _checked(operation: str, answer: Any, target: str) -> dict[str, Any] | None:
    try:
        return None if answer is None else checked_answer(operation, answer, target)
    except WireError:
        return None


def _given(options: Options) -> dict[str, Any]:
    """The options as the extension takes them; None is what the core begins with."""
    named = {field.name: getattr(options, field.name) for field in fields(NodeOptions)}
    spin = options.spin_seconds
    policy = AccessPolicy(options.allow)
    return {
        **{name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in named.items()},
        "allow": (*policy.allowed(), *policy.identities()),
        "max_open_files": options.open_files,
        "spin_seconds": (SPIN_SECONDS if len(os.sched_getaffinity(0)) > 1 else 0.0) if spin is None else spin,
        "segment_limits": {} if options.segment_limits is None else asdict(options.segment_limits),
    }


def _segment_size(size: int | None) -> int | None:
    if size is None or (isinstance(size, int) and size > 0):
        return size
    raise ConfigurationError(f"segment_size {size!r} cannot be used: choose at least 64 with parity, 1 without")


def _traced(options: dict[str, Any]) -> dict[str, Any]:
    """Message options with the trace at hand; ConfigurationError for one that does not exist."""
    unknown = options.keys() - MESSAGE_OPTIONS
    if unknown:
        raise ConfigurationError(
            f"no such message option: {', '.join(sorted(unknown))}; there are {sorted(MESSAGE_OPTIONS)}"
        )
    trace = current_trace()
    return options if trace is None or "traceparent" in options else {**options, "traceparent": trace}


def _answer(service: Service) -> Callable[..., Response]:
    """What a worker of the core calls for each request; it raises nothing."""
    inner = service.service if isinstance(service, Intercepted) else service
    is_awaited = isinstance(inner, Awaited | StreamService)  # by a loop, which gives up the place of its worker

    def answer(
        name: str,
        arguments: dict[str, Any],
        caller: str,
        request_id: str,
        deadline_ms: int,
        trace: str | None,
        redelivered: bool,
        cancellation: Any,
        channel: Any,
        caller_identity: str,
    ) -> Response:
        request = Request(
            name,
            arguments,
            caller,
            request_id,
            deadline_ms,
            trace,
            redelivered,
            cancellation,
            channel=channel,
            caller_identity=caller_identity,
        )
        if is_awaited:
            at_work.set(AtWork(_native.Present(), _HERE, None))
        if trace is None:
            return run(service, request)
        with continued(trace):
            return run(service, request)

    return answer


def _answer_plainly(service: FunctionService) -> Callable[..., Response]:
    """The same for a function that does not ask for the request, which is most of them: none is made."""

    def called(arguments: dict[str, Any], caller: str) -> Response:
        try:
            return response_of(service.call(arguments))
        except BaseException as error:
            return failure(service.name, caller, error, is_cancelled=False)

    def answer(arguments: dict[str, Any], caller: str, trace: str | None) -> Response:
        if trace is None:
            return called(arguments, caller)
        with continued(trace):
            return called(arguments, caller)

    return answer


def _handling(handler: Handler) -> Callable[..., None]:
    """What a worker of the core calls for each message; what it raises is answered and counted there."""

    def handle(received: Any, *fields: Any) -> None:
        message = received_message(received, *fields)
        here = at_work.set(AtWork(_native.Present(), _HERE, None))
        try:
            with continued(received.traceparent):
                _handle(handler, message)
        finally:
            at_work.reset(here)

    return handle


def _handle(handler: Handler, message: Any) -> None:
    """Log what the handler raises, within the trace of the message."""
    try:
        handler(message)
    except (WireError, AwayError):
        raise
    except BaseException:  # its own exit or cancellation, too
        log.exception("handler failed for a message of %s", message.source)
        raise


def _handling_batches(handler: BatchHandler) -> Callable[[list[tuple[Any, ...]]], list[tuple[int, str, str]]]:
    """The function that a worker of the core calls for each batch. If it raises, the core delivers the batch again."""

    last_failure = ""

    def handle(batch: list[tuple[Any, ...]]) -> list[tuple[int, str, str]]:
        nonlocal last_failure
        try:
            refused = handler([received_message(*fields) for fields in batch])
        except BaseException as error:
            if last_failure != str(error):
                last_failure = str(error)
                log.warning("a batch of %d messages was not taken, it is tried again: %s", len(batch), last_failure)
            raise
        last_failure = ""
        return [(place, failure_text(error), error.code) for place, error in (refused or {}).items()]

    return handle


class NativeFuture(CallFuture):
    """The result of a call of the core; a worker settles it, and runs what was hung on it."""

    written: tuple[Any, str, str] | None = None
    """The core's engine, the target and the id of the request, once it is written."""

    def __init__(self, process: int, target: str | None = None, service: str | None = None) -> None:
        super().__init__(_at_once, process, target, service)

    def cancel(self) -> bool:
        if self.written is not None and not self.done():
            engine, target, request_id = self.written
            engine.withdraw(target, request_id)
        return False

    def end(self, result: Any, error: SpeedError | None) -> None:
        with ProgramsCode():  # a thread that helps the workers has no scope of its own
            self.settle(result if error is None else error)

    def _place_given_up(self) -> AbstractContextManager[None]:
        place: AbstractContextManager[None] = _native.Place()
        return place


def _at_once(run: Callable[[], None]) -> None:
    run()


def _write_log(level: int, name: str, text: str) -> None:
    """What the core has to say, on a thread of its own."""
    logger(name).log(level, "%s", text)


_native.set_log(_write_log)


@cache
def _close_at_exit() -> None:
    atexit.register(_close_all)


def _close_all() -> None:
    """At the end of the interpreter: threads of the core must not meet what is torn down."""
    for engine in list(_open):
        engine.close(0.0)
