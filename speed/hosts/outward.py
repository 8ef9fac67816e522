"""From this host to others: the services of the gateway's node (H-3, H-8)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from time import monotonic, time
from typing import Any

from speed.core.codes import travelling
from speed.core.outcomes import execution_of
from speed.core.services import Request
from speed.errors import (
    CallError,
    CallTimeoutError,
    Execution,
    InvalidArgumentsError,
    NotAcknowledgedError,
    SpeedError,
    UnknownNodeError,
)
from speed.hosts.grants import HostGrants
from speed.hosts.link import HostLink
from speed.wire.hosts import split_remote
from speed.wire.spc import decode_response

ASKS = ("ping", "services", "info", "stats")
"""Questions about a node that take nothing but its name."""
OPERATIONS = ("call", "send", *ASKS)


class Outward:
    """A service that carries what it is asked to another host, and answers what came of it there."""

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
            return _told(error)

    def _carried(self, link: HostLink, request: Request, question: dict[str, Any]) -> dict[str, Any]:
        deadline = monotonic() + request.deadline_ms / 1000 - time()
        is_send = request.service == "send"
        request_id = f"{self._prefix}.{next(self._numbers):x}"
        try:
            payload = link.ask(request_id, question, deadline, request.cancellation, repeats=is_send)
        except CallTimeoutError as error:
            if is_send:
                raise NotAcknowledgedError(f"host {link.name!r} did not say in time whether it has it") from None
            raise error
        answer = decode_response(payload)
        if answer.ok:
            return {"status": "SUCCESS", "result": answer.result}
        return _failed(answer.error_code, answer.error_message, answer.details)


def _question(request: Request, node: str) -> dict[str, Any]:
    """What the other host is asked. InvalidArgumentsError."""
    asked: dict[str, Any] = {"operation": request.service, "caller": request.caller, "node": node}
    if request.traceparent is not None:
        asked["traceparent"] = request.traceparent
    if request.service == "call":
        asked["service"], asked["arguments"] = request.get("service", str), request.get("arguments", dict, {})
    elif request.service == "send":
        messages = request.get("messages", list)
        if not all(type(one) is bytes for one in messages):
            raise InvalidArgumentsError("send: messages must be a list of bytes: encoded messages")
        asked["messages"], asked["ack"] = messages, request.get("ack", bool, default=False)
    return asked


def _unknown(text: str) -> UnknownNodeError:
    error = UnknownNodeError(text)
    error.execution = Execution.NOT_BEGUN
    return error


def _told(error: SpeedError) -> dict[str, Any]:
    """A refusal or failure of this side, in the form in which the other side's come."""
    return _failed(error.code, str(error), details_of(error))


def _failed(code: str, text: str, details: dict[str, Any]) -> dict[str, Any]:
    return {"status": "ERROR", "errorCode": code, "errorMessage": text, "details": details}


def details_of(error: SpeedError) -> dict[str, Any]:
    """What is told of an error beside its text: of a call what it has, and whether it ran unless that follows."""
    told = dict(error.details) if isinstance(error, CallError) else {}
    follows = isinstance(error, CallError) and execution_of(travelling(error.code), told) is error.execution
    if error.execution is not None and not follows:
        told["execution"] = error.execution.value
    return told
