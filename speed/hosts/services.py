"""Between this host and others: questions from here go out, and theirs are asked by stand-ins (H-3, H-7 to H-9)."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from speed.backends.address import Address
from speed.core import counters
from speed.core.calls import execution_of, travelling
from speed.core.log import logger
from speed.core.services import Request
from speed.engine.tracing import LogLimiter
from speed.errors import (
    ApplicationError,
    CallError,
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    InboxFullError,
    InvalidArgumentsError,
    NotAcknowledgedError,
    PayloadTooLargeError,
    SpeedError,
    UnknownNodeError,
    WireError,
)
from speed.hosts import HostGrants
from speed.hosts.link import LIFE_BYTES, HostLink, PairSeal
from speed.hosts.nats import NatsConnection
from speed.wire import spc
from speed.wire.envelope import EnvelopeType, parse_header
from speed.wire.limits import AAD_BYTES, TAG_BYTES
from speed.wire.names import SUBJECT, check_node_name, check_service_name, host_id, split_remote, stand_in
from speed.wire.seal import Keyring, random_bytes
from speed.wire.spc import decode_response
from speed.wire.value import unpack_map

if TYPE_CHECKING:
    from speed.node.node import Node


# Nodes of this root under which nodes of other hosts act here: ``at.hosta.analytics`` (H-9).

MAX_STAND_INS = 32
END_SECONDS = 1.0


class StandIn:
    """One of them, and how many use it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.uses = 0
        self.has_sent = False
        self.is_answered = False
        """Whether its last call was."""

    @property
    def is_quick(self) -> bool:
        """Whether its lanes have room for sure: they hold nothing but calls that are about to be answered."""
        return self.is_answered and not self.has_sent and not self.node.closed


class ProxyNodes:
    """Made when first needed, and closed for others when they were used longest ago. Thread-safe."""

    def __init__(self, make: Callable[[str], Node], limit: int = MAX_STAND_INS) -> None:
        self._make, self._limit = make, limit
        self._lock = threading.Lock()
        self._all: OrderedDict[tuple[str, str], StandIn] = OrderedDict()
        self._is_over = False

    def take(self, node: str, host: str) -> StandIn:
        """That of a node of another host, until it is given back.

        Raises what ``Node`` does, and InboxFullError if all are in use.
        """
        name = stand_in(node, host)
        with self._lock:
            one = self._all.get((node, host))
            if one is not None and one.node.closed:  # its lease was lost
                del self._all[node, host]
                one = None
            if one is None:
                self._make_room()
                one = self._all[node, host] = StandIn(self._make(name))
            self._all.move_to_end((node, host))
            one.uses += 1
            return one

    def take_quick(self, node: str, host: str) -> StandIn | None:
        """The same if it is there, and a call of it begins without a wait."""
        with self._lock:
            one = self._all.get((node, host))
            if one is None or not one.is_quick:
                return None
            self._all.move_to_end((node, host))
            one.uses += 1
            return one

    def give_back(self, one: StandIn) -> None:
        """It is not used any more."""
        with self._lock:
            one.uses -= 1

    def _make_room(self) -> None:
        if self._is_over:
            raise InboxFullError("the gateway is closed")
        if len(self._all) < self._limit:
            return
        idle = next((key for key, one in self._all.items() if not one.uses), None)
        if idle is None:
            raise InboxFullError(f"{self._limit} nodes of other hosts are at work here: try again")
        self._all.pop(idle).node.close(drain_seconds=0.0)

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            self._is_over = True
            every = list(self._all.values())
            self._all.clear()
        for one in every:
            if not one.node.closed:
                one.node.close(drain_seconds=END_SECONDS)


# From this host to others: the services of the gateway's node (H-3, H-8).

ASKS = ("ping", "services", "describe", "info", "stats")
"""Questions about a node that take nothing but its name."""
OPERATIONS = ("call", "send", *ASKS)


class OutboundRequests:
    """A service that forwards requests to another host and returns the answers."""

    def __init__(self, own: str, links: Mapping[str, HostLink], grants: Callable[[], HostGrants]) -> None:
        self._own, self._links, self._grants = own, links, grants
        self._prefix = os.urandom(8).hex()
        self._numbers = count(1)

    def invoke(self, request: Request) -> dict[str, Any]:
        """``status`` with ``result``, or with ``errorCode``, ``errorMessage`` and ``details``."""
        try:
            node, host = split_remote(request.get("node", str))
            question = _question(request, node)
            link = self._links.get(host)
            if link is None:
                raise _unknown(f"no host {host!r} is known here: see `speed hosts`, or add a [[host]]")
            self._grants().check((request.caller, self._own), (node, host), question.get("service"))
            return self._carried(link, request, question)
        except SpeedError as error:
            return _refusal(error)

    def _carried(self, link: HostLink, request: Request, question: dict[str, Any]) -> dict[str, Any]:
        deadline = monotonic() + request.deadline_ms / 1000 - time()
        is_send = request.service == "send"
        request_id = f"{self._prefix}.{next(self._numbers):x}"
        try:
            payload = link.ask(request_id, question, deadline, request.cancellation, repeats=is_send)
        except CallTimeoutError as error:
            if is_send:
                raise NotAcknowledgedError(f"host {link.name!r} did not say in time whether it has it") from None
            if request.service in ASKS:  # which run nothing
                raise CallTimeoutError(f"host {link.name!r} did not answer in time", error.details) from None
            raise
        answer = decode_response(payload)
        if answer.ok:
            return {"status": "SUCCESS", "result": answer.result}
        return _failed_answer(answer.error_code, answer.error_message, answer.details)


def _question(request: Request, node: str) -> dict[str, Any]:
    """The question for the other host. InvalidArgumentsError."""
    question: dict[str, Any] = {"operation": request.service, "caller": request.caller, "node": node}
    if request.traceparent is not None:
        question["traceparent"] = request.traceparent
    if request.service == "call":
        question["service"], question["arguments"] = request.get("service", str), request.get("arguments", dict, {})
    elif request.service == "send":
        messages = request.get("messages", list)
        if not all(type(one) is bytes for one in messages):
            raise InvalidArgumentsError("send: messages must be a list of bytes: encoded messages")
        question["messages"], question["ack"] = messages, request.get("ack", bool, default=False)
    return question


def _unknown(text: str) -> UnknownNodeError:
    error = UnknownNodeError(text)
    error.execution = Execution.NOT_BEGUN
    return error


def _refusal(error: SpeedError) -> dict[str, Any]:
    """A refusal or failure of this side, in the form in which the other side's come."""
    return _failed_answer(error.code, str(error), details_of(error))


def _failed_answer(code: str, text: str, details: dict[str, Any]) -> dict[str, Any]:
    return {"status": "ERROR", "errorCode": code, "errorMessage": text, "details": details}


def details_of(error: SpeedError) -> dict[str, Any]:
    """The details of an error. They say whether a call ran, unless its code says it."""
    details = dict(error.details) if isinstance(error, CallError) else {}
    follows = isinstance(error, CallError) and execution_of(travelling(error.code), details) is error.execution
    if error.execution is not None and not follows:
        details["execution"] = error.execution.value
    return details


log = logger("speed.hosts")

REMEMBERED = 4096
"""Answers to messages of one host, by which a repetition is recognised."""
_KINDS: dict[str, dict[str, type]] = {
    "call": {"service": str, "arguments": dict},
    "send": {"messages": list, "ack": bool},
}


class PendingQuestion:
    """One question under way."""

    def __init__(self, link: HostLink, request_id: str, question: dict[str, Any]) -> None:
        self.link, self.request_id, self.question = link, request_id, question
        self.stand_in: StandIn | None = None
        self._lock = threading.Lock()
        self._future: Future[Any] | None = None
        self._is_withdrawn = False

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.link.name, self.request_id

    @property
    def is_send(self) -> bool:
        """Whether it brings messages, and may be repeated."""
        return bool(self.question["operation"] == "send")

    def began(self, future: Future[Any]) -> None:
        """The call began; it is withdrawn if that was asked before."""
        with self._lock:
            self._future, is_withdrawn = future, self._is_withdrawn
        if is_withdrawn:
            future.cancel()

    def withdraw(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._is_withdrawn, future = True, self._future
        if future is not None:
            future.cancel()

    def seconds_left(self) -> float:
        """Until its deadline. CallTimeoutError, CallWithdrawnError if it need not begin."""
        left: float = self.question["deadline"] / 1000 - monotonic()
        if left <= 0:
            raise CallTimeoutError("the deadline was over when the call arrived", {"phase": "queued"})
        if self._is_withdrawn:
            raise CallWithdrawnError("the call was withdrawn", {"phase": "queued"})
        return left


class InboundRequests:
    """Answers the questions of other hosts. Thread-safe."""

    def __init__(
        self,
        own: str,
        grants: Callable[[], HostGrants],
        stand_ins: ProxyNodes,
        limit: int,
        count: Callable[[str], None],
    ) -> None:
        self._own, self._grants, self._stand_ins, self._limit, self._count = own, grants, stand_ins, limit, count
        self._pool = ThreadPoolExecutor(limit, "speed-hosts")
        self._lock = threading.Lock()
        self._in_flight: dict[tuple[str, str], PendingQuestion] = {}
        self._delivered: dict[str, OrderedDict[str, bytes]] = {}
        self._limiter = LogLimiter()

    def __len__(self) -> int:
        return len(self._in_flight)

    def close(self) -> None:
        """Take nothing more; what is under way is withdrawn."""
        for serving in list(self._in_flight.values()):
            serving.withdraw()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- on the thread that reads ---

    def take(self, link: HostLink, payload: bytes) -> None:
        """A question came. WireError for what is none."""
        question = unpack_map(payload, "question")
        request_id, operation = question.get("requestId"), question.get("operation")
        if type(request_id) is not str or not 0 < len(request_id) <= 64:
            raise WireError("BAD_PAYLOAD", "a question without requestId")
        if operation == "withdraw":
            self._withdraw(link, request_id)
            return
        _check(question)
        serving = PendingQuestion(link, request_id, question)
        is_new, known = self._has_place(serving)
        if is_new:
            self._start(serving)
        elif known is not None:
            self._reply(link, known)

    def _has_place(self, serving: PendingQuestion) -> tuple[bool, bytes | None]:
        """Whether it begins, or the answer if there is one already. Neither for a repetition of what is under way."""
        with self._lock:
            answers = self._delivered.get(serving.link.name)
            known = None if answers is None else answers.get(serving.request_id)
            is_repeated = known is not None or serving.key in self._in_flight
            if not is_repeated and len(self._in_flight) < self._limit:
                self._in_flight[serving.key] = serving
                return True, None
        if is_repeated:
            self._count(counters.HOSTS_REPEATED)
            return False, known
        self._count(counters.HOSTS_BUSY)
        error = InboxFullError(f"host {self._own!r} has {self._limit} calls under way, and takes no more for now")
        error.execution = Execution.NOT_BEGUN
        return False, _failed_response(serving.request_id, error)

    def _withdraw(self, link: HostLink, request_id: str) -> None:
        serving = self._in_flight.get((link.name, request_id))
        if serving is not None:
            serving.withdraw()

    def _start(self, serving: PendingQuestion) -> None:
        """A call that waits for nothing begins at once: another thread costs it more than all that is done here."""
        question = serving.question
        if question["operation"] == "call":
            serving.stand_in = self._stand_ins.take_quick(question["caller"], serving.link.name)
        if serving.stand_in is not None:
            self._serve(serving)
        else:
            self._pool.submit(self._serve, serving)

    # --- on a thread of the pool; a call ends on one of its stand-in ---

    def _serve(self, serving: PendingQuestion) -> None:
        question = serving.question
        try:
            left = serving.seconds_left()
            caller, target = (question["caller"], serving.link.name), (question["node"], self._own)
            self._grants().check(caller, target, question.get("service"))
            if serving.stand_in is None:
                serving.stand_in = self._stand_ins.take(*caller)
            if question["operation"] == "call":
                future = _called(serving.stand_in.node, question, left)
                serving.began(future)
                future.add_done_callback(partial(self._ended, serving))
                return
            serving.stand_in.has_sent |= serving.is_send
            result = _ask_node(serving.stand_in.node, question, left)
        except Exception as error:
            self._end(serving, self._failure(serving, error))
        else:
            self._end(serving, self._success(serving, result))

    def _ended(self, serving: PendingQuestion, future: Future[Any]) -> None:
        error = future.exception()
        assert serving.stand_in is not None
        serving.stand_in.is_answered = not isinstance(error, CallTimeoutError)
        self._end(serving, self._success(serving, future.result()) if error is None else self._failure(serving, error))

    def _success(self, serving: PendingQuestion, result: Any) -> bytes:
        try:
            answer = spc.encode_success(serving.request_id, result)
            serving.link.check_size(answer)
        except PayloadTooLargeError as error:
            return spc.encode_error(serving.request_id, "EXECUTION_FAILED", f"the result cannot cross: {error}")
        self._count(counters.HOSTS_ANSWERED)
        return answer

    def _failure(self, serving: PendingQuestion, error: BaseException) -> bytes:
        if isinstance(error, SpeedError):
            self._count(counters.HOSTS_DENIED if error.code == "ACCESS_DENIED" else counters.HOSTS_FAILED)
            return _failed_response(serving.request_id, error)
        text = f"the gateway failed: {type(error).__name__}"
        log.error("a question of host %s failed", serving.link.name, exc_info=error)
        return spc.encode_error(serving.request_id, "INTERNAL_ERROR", text)

    def _end(self, serving: PendingQuestion, answer: bytes) -> None:
        with self._lock:
            if serving.is_send:
                self._remember(serving, answer)
            del self._in_flight[serving.key]
        if serving.stand_in is not None:
            self._stand_ins.give_back(serving.stand_in)
        self._reply(serving.link, answer)

    def _remember(self, serving: PendingQuestion, answer: bytes) -> None:
        kept = self._delivered.setdefault(serving.link.name, OrderedDict())
        kept[serving.request_id] = answer
        if len(kept) > REMEMBERED:
            kept.popitem(last=False)

    def _reply(self, link: HostLink, answer: bytes) -> None:
        try:
            link.publish(EnvelopeType.SPC_RESPONSE, answer)
        except SpeedError as error:
            self._count(counters.HOSTS_ANSWERS_UNDELIVERED)
            self._limiter.warn(
                log, f"undelivered {link.name}", "an answer to host %s was not sent: %s", link.name, error
            )


def _called(stand_in: Node, question: dict[str, Any], left: float) -> Future[Any]:
    trace = question.get("traceparent")
    return stand_in.submit(
        question["node"], question["service"], question["arguments"], timeout=left, traceparent=trace
    )


def _ask_node(stand_in: Node, question: dict[str, Any], left: float) -> Any:
    """The answer of the node. Raises the errors of the verbs of ``Node``."""
    operation, node = question["operation"], question["node"]
    if operation == "send":
        return stand_in.forward(node, question["messages"], ack=question["ack"], timeout=left)
    ask: Any = {name: getattr(stand_in, name) for name in ASKS}[operation]
    answer = ask(node, timeout=left)
    return [one.travelling() for one in answer] if operation == "describe" else answer


def _check(question: dict[str, Any]) -> None:
    """WireError BAD_PAYLOAD for what no gateway writes."""
    operation, trace = question.get("operation"), question.get("traceparent")
    try:
        check_node_name(question["caller"])
        check_node_name(question["node"])
        if operation == "call":
            check_service_name(question["service"])
    except (KeyError, ValueError, TypeError):
        raise WireError("BAD_PAYLOAD", "a question without the names it needs") from None
    kinds = {"deadline": int, **_KINDS.get(str(operation), {})}
    if operation not in OPERATIONS or any(type(question.get(name)) is not kind for name, kind in kinds.items()):
        raise WireError("BAD_PAYLOAD", "a question with fields of a wrong kind")
    if trace is not None and type(trace) is not str:
        raise WireError("BAD_PAYLOAD", "a traceparent that is no text")


def _failed_response(request_id: str, error: SpeedError) -> bytes:
    """An error as it travels: a service's own under its prefix."""
    code = travelling(error.code) if isinstance(error, ApplicationError) else error.code
    return spc.encode_error(request_id, code, str(error), details_of(error))


# The gateway of a root: what its nodes say to other hosts goes out, and what other hosts say comes in.

GREET_SECONDS = 2.0
"""Between two greetings."""
END_SECONDS = 3.0


class HostGateway:
    """One host among others. It listens once ``start`` is called."""

    def __init__(
        self,
        name: str,
        address: Address,
        keyrings: Mapping[str, Keyring],
        grants: HostGrants,
        node: Node,
        stand_ins: ProxyNodes,
        max_calls: int,
    ) -> None:
        """``keyrings``: for each other host the keys of the pair. ``node`` is the gateway's own. ConfigurationError."""
        self.name = name
        self.grants = grants
        self._id = host_id(name)
        self._counts: Counter[str] = Counter()
        self._limiter = LogLimiter()
        self._wake = threading.Event()
        """There is something to greet about: a connection, or the end."""
        self._broker = NatsConnection(address, SUBJECT + name, self._arrived, self._wake.set)
        life = random_bytes(LIFE_BYTES)
        self.links = {
            other: HostLink(other, PairSeal(ring, name, other), self._broker, life, self.count)
            for other, ring in keyrings.items()
        }
        self._by_id = {link.other_id: link for link in self.links.values()}
        self._stand_ins = stand_ins
        self._inbound = InboundRequests(name, lambda: self.grants, stand_ins, max_calls, self.count)
        self._stop = threading.Event()
        self._greeting = threading.Thread(target=self._greet, name="speed-hosts-greet", daemon=True)
        self._outbound = OutboundRequests(name, self.links, lambda: self.grants)
        for operation in OPERATIONS:
            node.register(operation, self._outbound)
        node.register("list", self.listed)

    def start(self) -> None:
        """Connect, and greet the other hosts."""
        self._broker.start()
        self._greeting.start()

    def close(self) -> None:
        """End; what is under way is withdrawn."""
        self._stop.set()
        self._wake.set()
        self._inbound.close()
        self._broker.close()
        self._greeting.join(END_SECONDS)
        self._stand_ins.close()

    def count(self, name: str) -> None:
        """Count one more."""
        self._counts[name] += 1

    def _greet(self) -> None:
        while not self._stop.is_set():
            for link in self.links.values():
                link.tick()
            self._wake.wait(GREET_SECONDS)
            self._wake.clear()

    # --- what comes ---

    def _arrived(self, envelope: bytes) -> None:
        """Something came on the subject of this host; anybody may have sent it."""
        try:
            self._take(envelope)
        except WireError as error:
            self.count(counters.HOSTS_REFUSED_REPLAYED if error.reason == "BAD_SEQUENCE" else counters.HOSTS_REFUSED)
            self._limiter.warn(log, f"refused {error.reason}", "refused what came from the NATS server: %s", error)
        except Exception as error:  # whatever it is: others are still heard
            self._limiter.failed(log, "hearing other hosts", error)

    def _take(self, envelope: bytes) -> None:
        header = parse_header(envelope)
        link = self._by_id.get(header.source)
        if link is None:
            raise WireError("WRONG_SOURCE", "it names no host that is known here")
        if header.target != self._id:
            raise WireError("WRONG_TARGET", "it is for another host")
        if len(envelope) != AAD_BYTES + header.payload_bytes + TAG_BYTES:
            raise WireError("TRUNCATED", "it has another length than it says")
        if header.type == EnvelopeType.DISCOVERY:
            link.greeted(header, envelope)
        elif header.type == EnvelopeType.SPC_REQUEST:
            self._inbound.take(link, link.opened(header, envelope))
        elif header.type == EnvelopeType.SPC_RESPONSE:
            link.complete(link.opened(header, envelope))
        else:
            raise WireError("BAD_TYPE", f"no host sends type {header.type}")

    # --- what is told ---

    def listed(self) -> dict[str, Any]:
        """The hosts and how they are, for `speed hosts`."""
        hosts = [
            {
                "host": link.name,
                "up": link.is_up,
                "roundTripMs": round(link.round_trip * 1000, 3),
                "waiting": link.in_flight,
                "keyId": link.key_id,
            }
            for link in self.links.values()
        ]
        return {
            "name": self.name,
            "broker": self._broker.trouble or "connected",
            "serving": len(self._inbound),
            "hosts": hosts,
            "counters": dict(self._counts),
        }
