"""From other hosts into this root: questions are checked, and asked by a stand-in of their caller (H-7 to H-9)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core.codes import travelling
from speed.core.log import logger
from speed.errors import (
    ApplicationError,
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    InboxFullError,
    PayloadTooLargeError,
    SpeedError,
    WireError,
)
from speed.hosts.grants import HostGrants
from speed.hosts.link import HostLink
from speed.hosts.outward import ASKS, OPERATIONS, details_of
from speed.hosts.stand_ins import StandIns
from speed.runtime.said import Said
from speed.wire import spc
from speed.wire.envelope import EnvelopeType
from speed.wire.names import check_node_name, check_service_name
from speed.wire.value import unpack_map

if TYPE_CHECKING:
    from speed.node import Node

log = logger("speed.hosts")

REMEMBERED = 4096
"""Answers to messages of one host, by which a repetition is recognised."""
_KINDS: dict[str, dict[str, type]] = {"call": {"service": str, "arguments": dict}, "send": {"messages": list, "ack": bool}}


class Serving:
    """One question under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[Any] | None = None
        self._is_withdrawn = False

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

    def check(self) -> None:
        """CallWithdrawnError if it need not begin."""
        if self._is_withdrawn:
            raise CallWithdrawnError("the call was withdrawn", {"phase": "queued"})


class Inward:
    """Answers the questions of other hosts. Thread-safe."""

    def __init__(
        self,
        own: str,
        grants: Callable[[], HostGrants],
        stand_ins: StandIns,
        most: int,
        count: Callable[[str], None],
    ) -> None:
        self._own, self._grants, self._stand_ins, self._most, self._count = own, grants, stand_ins, most, count
        self._pool = ThreadPoolExecutor(most, "speed-hosts")
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str], Serving] = {}
        self._delivered: dict[str, OrderedDict[str, bytes]] = {}
        self._said = Said()

    def __len__(self) -> int:
        return len(self._under_way)

    def close(self) -> None:
        """Take nothing more; what is under way is withdrawn."""
        for serving in list(self._under_way.values()):
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
        serving, known = self._begin(link, request_id)
        if serving is not None:
            self._pool.submit(self._serve, link, request_id, question, serving)
        elif known is not None:
            self._reply(link, known)

    def _begin(self, link: HostLink, request_id: str) -> tuple[Serving | None, bytes | None]:
        """A place for it, or the answer if there is one already. Neither for a repetition of what is under way."""
        key = link.name, request_id
        with self._lock:
            known = self._delivered.get(link.name, {}).get(request_id)
            is_repeated = known is not None or key in self._under_way
            if not is_repeated and len(self._under_way) < self._most:
                serving = self._under_way[key] = Serving()
                return serving, None
        if is_repeated:
            self._count("hosts_repeated")
            return None, known
        self._count("hosts_busy")
        error = InboxFullError(f"host {self._own!r} has {self._most} calls under way, and takes no more for now")
        error.execution = Execution.NOT_BEGUN
        return None, _failed(request_id, error)

    def _withdraw(self, link: HostLink, request_id: str) -> None:
        serving = self._under_way.get((link.name, request_id))
        if serving is not None:
            serving.withdraw()

    # --- on a thread of the pool ---

    def _serve(self, link: HostLink, request_id: str, question: dict[str, Any], serving: Serving) -> None:
        try:
            answer = self._answer(link, request_id, question, serving)
            if question["operation"] == "send":
                self._remember(link, request_id, answer)
        finally:
            with self._lock:
                del self._under_way[link.name, request_id]
        self._reply(link, answer)

    def _answer(self, link: HostLink, request_id: str, question: dict[str, Any], serving: Serving) -> bytes:
        try:
            answer = spc.encode_success(request_id, self._result(link, question, serving))
            link.check_size(answer)
        except PayloadTooLargeError as error:
            return spc.encode_error(request_id, "EXECUTION_FAILED", f"the result cannot cross: {error}")
        except SpeedError as error:
            if error.code == "ACCESS_DENIED":
                self._count("hosts_denied")
            return _failed(request_id, error)
        except Exception as error:
            self._said.failed(log, "a question of another host", error)
            return spc.encode_error(request_id, "INTERNAL_ERROR", f"the gateway failed: {type(error).__name__}")
        self._count("hosts_answered")
        return answer

    def _result(self, link: HostLink, question: dict[str, Any], serving: Serving) -> Any:
        caller, node = question["caller"], question["node"]
        left = question["deadline"] / 1000 - monotonic()
        if left <= 0:
            raise CallTimeoutError("the deadline was over when the call arrived", {"phase": "queued"})
        serving.check()
        self._grants().check((caller, link.name), (node, self._own), question.get("service"))
        with self._stand_ins.of(caller, link.name) as stand_in:
            return _asked(stand_in, question, left, serving)

    def _remember(self, link: HostLink, request_id: str, answer: bytes) -> None:
        with self._lock:
            kept = self._delivered.setdefault(link.name, OrderedDict())
            kept[request_id] = answer
            if len(kept) > REMEMBERED:
                kept.popitem(last=False)

    def _reply(self, link: HostLink, answer: bytes) -> None:
        try:
            link.publish(EnvelopeType.SPC_RESPONSE, answer)
        except SpeedError as error:
            self._count("hosts_answers_undelivered")
            self._said.warn(log, f"undelivered {link.name}", "an answer to host %s was not sent: %s", link.name, error)


def _asked(stand_in: Node, question: dict[str, Any], left: float, serving: Serving) -> Any:
    """What the node says. Raises what the verbs of ``Node`` do."""
    operation, node = question["operation"], question["node"]
    if operation == "call":
        trace = question.get("traceparent")
        future = stand_in.submit(node, question["service"], question["arguments"], timeout=left, traceparent=trace)
        serving.began(future)
        return future.result()
    if operation == "send":
        return stand_in.forward(node, question["messages"], ack=question["ack"], timeout=left)
    ask: Any = {name: partial(getattr(stand_in, name), node) for name in ASKS}[operation]
    return ask(timeout=left)


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


def _failed(request_id: str, error: SpeedError) -> bytes:
    """An error as it travels: a service's own under its prefix."""
    code = travelling(error.code) if isinstance(error, ApplicationError) else error.code
    return spc.encode_error(request_id, code, str(error), details_of(error))
