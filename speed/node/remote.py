"""The verbs of a node for nodes of other hosts: ``billing@hostb`` is asked through the gateway of this root.

What the other host says comes back as what ``Node`` returns and raises for a node of its own root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import speed.errors
from speed.core.calls import checked_answer, execution_of, own_code
from speed.core.log import logger
from speed.engine import Engine
from speed.engine.message import Message, Published, Turns, is_large, publish_to
from speed.engine.options import MESSAGE_OPTIONS, CallRequest, SendRequest
from speed.engine.tracing import current_trace
from speed.errors import (
    CALL_ERRORS,
    ApplicationError,
    CallError,
    CallTimeoutError,
    ConfigurationError,
    DeliveryError,
    Execution,
    InternalError,
    InvalidNameError,
    NotAcknowledgedError,
    SpeedError,
    StorageError,
    UnknownNodeError,
    fresh,
)
from speed.message.audit import tell_refused
from speed.message.errors import AwayError, KeyUnavailableError, NotAvailableError
from speed.message.options import PublishOptions
from speed.message.schemas.registry import SchemasAwayError
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from speed.message.writing import encode_message, new_message_id
from speed.node.guard import Opening
from speed.wire.names import GATEWAY, check_topic, split_remote
from speed.wire.seal import random_bytes
from speed.wire.text import harmless

if TYPE_CHECKING:
    from speed.engine import Engine


BATCH_MESSAGES, BATCH_BYTES = 64, 64 << 10
"""Of ``send_all``, in one question to the gateway; a large message goes alone."""
_KINDS: dict[str, type[SpeedError]] = {
    kind.code: kind
    for kind in vars(speed.errors).values()
    if isinstance(kind, type) and issubclass(kind, DeliveryError)
} | {InvalidNameError.code: InvalidNameError}
"""What is no error of a call, by code: those of speed.errors alone, and of them the one that is named in codes.json."""


class GatewayAnswer:
    """The gateway's answer to a call, in the form that the caller gets."""

    __slots__ = ("callee",)

    def __init__(self, target: str, service: str) -> None:
        self.callee = target, service

    def __call__(self, answer: Any) -> Any:
        """The result, or the SpeedError that ended the call."""
        if type(answer) is dict and answer.get("status") == "SUCCESS":
            return answer.get("result")
        if type(answer) is not dict or answer.get("status") != "ERROR":
            return InternalError(f"the node {GATEWAY!r} answers what no gateway does: stop it, and start speedd")
        code, text, details = str(answer.get("errorCode")), str(answer.get("errorMessage")), answer.get("details")
        return _error(self.callee[0], code, text, details if type(details) is dict else {})

    def failed(self, error: SpeedError) -> SpeedError:
        """An error on the way to the gateway."""
        error = fresh(error)
        error.node, error.service = self.callee
        if isinstance(error, UnknownNodeError):
            error.args = (f"no speedd of this root joins hosts: add [hosts] to its configuration ({error})",)
        return error


def _error(target: str, code: str, text: str, details: dict[str, Any]) -> SpeedError:
    text = f"{target}: {harmless(text).removeprefix(target.partition('@')[0] + ': ')}"
    own = own_code(code)
    if own is not None or code in CALL_ERRORS or code not in _KINDS:
        kind = CALL_ERRORS.get(code, InternalError)
        call_error: CallError = ApplicationError(own, text, details) if own is not None else kind(text, details)
        call_error.execution = _stated_execution(details) or execution_of(code, details)
        return call_error
    error = _KINDS[code](text)
    error.execution = _stated_execution(details)
    return error


def _stated_execution(details: dict[str, Any]) -> Execution | None:
    """Whether something ran, where the other host says so itself."""
    execution = details.get("execution")
    return Execution(execution) if execution in [one.value for one in Execution] else None


def _parts(messages: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for message in messages:
        if part and (len(part) == BATCH_MESSAGES or size + len(message) > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message)
    if part:
        yield part


def _through_gateway(request: CallRequest) -> CallRequest:
    """The request that has the gateway of this root make the call."""
    split_remote(request.target)
    arguments = {"node": request.target, "service": request.service, "arguments": request.arguments}
    return CallRequest(GATEWAY, "call", arguments, request.timeout, request.traceparent, request.views)


class Across:
    """The verbs of an engine that can name a node of another host. Thread-safe."""

    def __init__(self, engine: Engine, protected: Callable[[], Protected]) -> None:
        """``protected`` makes what writes messages."""
        self._engine, self._protected = engine, protected

    # --- calls ---

    def call(self, request: CallRequest) -> Any:
        result = self._ask(GatewayAnswer(request.target, request.service), _through_gateway(request))
        return result if request.read is None else request.read(result)

    def submit(self, request: CallRequest) -> Future[Any]:
        carried = GatewayAnswer(request.target, request.service)
        try:
            return self._engine.submit(_through_gateway(request)._replace(read=request.read), carried)
        except SpeedError as error:
            raise carried.failed(error) from None

    def ping(self, target: str, timeout: float) -> float:
        """The round trip between the other host and its node is not the whole way: that is measured here."""
        began = monotonic()
        self._about(target, "ping", timeout)
        return monotonic() - began

    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]:
        services = self._about(target, operation.lower(), timeout)
        return checked_answer(
            operation, {"services": services} if operation in ("SERVICES", "DESCRIBE") else services, target
        )

    def _about(self, target: str, operation: str, timeout: float) -> Any:
        split_remote(target)
        return self._ask(GatewayAnswer(target, operation), CallRequest(GATEWAY, operation, {"node": target}, timeout))

    def _ask(self, carried: GatewayAnswer, request: CallRequest) -> Any:
        try:
            answer = carried(self._engine.call(request))
        except SpeedError as error:
            raise carried.failed(error) from None
        if isinstance(answer, SpeedError):
            raise answer
        return answer

    # --- messages ---

    def send(self, request: SendRequest) -> str:
        """``progress`` and ``unordered`` are about payloads in segments, which do not cross."""
        if is_large(request.payload):
            raise NotAvailableError("what no envelope holds does not cross hosts: send it in parts")
        message_id, data = self._protected().encode(request.payload, None, request.metadata)
        self.forward(request.target, (data,), False, request.ack, request.timeout)
        return message_id

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        ends, protected = monotonic() + timeout, self._protected()
        for part in _parts(protected.encode(payload, None, options)[1] for payload in payloads):
            self.forward(target, part, False, False, max(0.0, ends - monotonic()))

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        split_remote(target)
        if event:
            raise NotAvailableError("events do not cross to a node of another host: publish them on a bridge")
        arguments = {"node": target, "messages": [bytes(one) for one in messages], "ack": ack}
        try:
            self._ask(GatewayAnswer(target, "send"), CallRequest(GATEWAY, "send", arguments, timeout))
        except CallTimeoutError as error:
            raise NotAcknowledgedError(f"{target}: {error}") from None

    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None:
        raise NotAvailableError("payloads in segments do not cross hosts")


# Messages that are signed, encrypted or described: written before, and opened behind, the engine (M-25).


log = logger("speed.messages")

WARN_SECONDS = 60.0
_NO_OPTIONS = PublishOptions()


class EncodedMessage(NamedTuple):
    """One message as it is sent; its time is in Unix milliseconds."""

    message_id: str
    data: bytes
    published_at_ms: int
    traceparent: str | None


def write(
    guard: Guard,
    payload: Any,
    options: PublishOptions | None,
    metadata: Mapping[str, Any],
    *,
    namespace: str,
    publisher_id: str | None,
    make_id: Callable[[int], str] | None = None,
) -> EncodedMessage:
    """One message, with all metadata in ``metadata``. Raises what ``Guard.write`` does.

    ``make_id`` makes its id of the time; without it, it is random.
    """
    chosen = options or _NO_OPTIONS
    unknown = metadata.keys() - MESSAGE_OPTIONS
    if unknown:
        raise ConfigurationError(f"no such message option: {', '.join(sorted(unknown))}; see PublishOptions")
    fields: dict[str, Any] = {"topic": "message", **metadata}
    fields.setdefault("traceparent", current_trace())
    now = time.time_ns() // 1_000_000
    message_id = new_message_id(now, random_bytes(16)) if make_id is None else make_id(now)
    fields |= {
        "namespace": namespace,
        "message_id": message_id,
        "published_at_ms": now,
        "publisher_id": publisher_id,
    }
    if is_large(payload):
        error = NotAvailableError("what no envelope holds is neither signed, encrypted nor described: send it in parts")
        guard.tell_not_written(error, chosen, fields)
        raise error
    if chosen.is_plain and not guard.security.protects:  # most are: no part of the guard has anything to do
        data = encode_message(payload, **fields)
    else:
        data = guard.write(payload, chosen, **fields)
    return EncodedMessage(message_id, data, now, fields["traceparent"])


class Protected(Opening):
    """The way of protected messages through an engine that carries them as bytes. Thread-safe."""

    def __init__(self, engine: Engine, name: str, namespace: str, security: MessageSecurity | None) -> None:
        super().__init__(engine)
        settings = MessageSecurity() if security is None else security
        self.protects = settings.protects
        self._name = name
        self._turns = Turns()
        self._namespace = namespace
        self._guard = Guard(settings, name, partial(self._limiter.warn, log, seconds=WARN_SECONDS))

    # --- sending ---

    def encode(self, payload: Any, options: PublishOptions | None, metadata: Mapping[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message, with all metadata in ``metadata``."""
        written = write(self._guard, payload, options, metadata, namespace=self._namespace, publisher_id=self._name)
        return written.message_id, written.data

    def publish(self, topic: str, data: bytes, timeout: float, on_full: str) -> Published:
        """Send an encoded event to all who subscribe to it and allow this node."""
        check_topic(topic)

        def send(name: str, deadline: float) -> None:
            self._engine.forward(name, (data,), True, False, max(0.0, deadline - monotonic()))

        return publish_to(self._engine.nodes(), topic, self._name, send, timeout, self._turns, waits=on_full == "wait")

    def end(self) -> None:
        """The node is closed: what was counted is written."""
        if self._guard.security.usage is not None:
            self._guard.security.usage.flush()

    # --- receiving ---

    def _look(self, message: Message) -> MessageView:
        try:
            return self._guard.open(message.metadata, message.source)
        except (KeyUnavailableError, SchemasAwayError, StorageError) as error:  # StorageError: of the audit log
            raise AwayError(f"{error.code}: {error}") from None

    def _tell_not_forwarded(self, data: bytes, error: SpeedError) -> None:
        tell_refused(self._guard.security.audit, "forward", data, error, self._name)
