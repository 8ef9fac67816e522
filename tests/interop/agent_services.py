"""The services that every agent offers, in each language with the same names, arguments and results."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from datetime import date, timedelta
from typing import Any

import speed
from speed.column_services import by_row


def _echo(data: Any) -> Any:
    """Columns as well: without the hint they would be refused."""
    return data


def register(node: speed.Node) -> None:
    """Offer all of them on ``node``."""
    node.register("echo", _echo)
    node.register("add", lambda a, b: a + b)
    node.register("due", _due)
    node.register("sleep", _sleep)
    node.register("fail", _fail)
    node.register("error", lambda code: speed.Response.error(code, "asked for", {"why": "asked"}))
    node.register("traceparent", _traceparent)
    node.register("forbidden", lambda: None, allow={"nobody-1"})
    node.register("size", lambda data: len(data))
    node.register("relay", lambda node_name, service, arguments: node.call(node_name, service, arguments))
    node.register("who", _who)
    node.register("rows", by_row(_row))
    node.register("note", _note)
    _register_sequence(node)
    for service in (numbers, total, double, endless, steps):
        node.register(service.__name__, service)


def numbers(count: int) -> Generator[int, None, str]:
    yield from range(count)
    return "over"


def total(items: Iterator[int]) -> int:
    return sum(items)


def double(items: Iterator[int]) -> Iterator[int]:
    for item in items:
        yield 2 * item


def endless(file: str) -> Iterator[int]:
    """Whoever reads it goes early; ``file`` tells that it was closed."""
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        _append(file, 1)


def steps(request: speed.Request, count: int) -> int:
    for step in range(count):
        request.progress(step + 1, count, "counting")
    return count


def _append(file: str, n: int) -> None:
    """One line, in one write."""
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(log, b"%d\n" % n)
    os.close(log)


def _due(day: date, days: int, times: int = 1) -> list[date]:
    """Days on which something is due."""
    return [day + timedelta(days=days * number) for number in range(1, times + 1)]


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def _fail(message: str) -> None:
    raise RuntimeError(message)


def _row(give: str) -> Any:
    """One row: a number, or one of the mistakes that a row can make."""
    if give == "refuse":
        raise speed.InvalidArgumentsError("refused", {"why": "asked"})
    if give == "fail":
        raise RuntimeError("asked to fail")
    if give == "code":
        return speed.Response.error("OUT_OF_STOCK", "asked for", {"why": "asked"})
    return {"one": 1, "half": 2.5, "huge": 2**63, "text": "t"}.get(give)


def _who(request: speed.Request) -> list[str]:
    return [request.caller, request.caller_identity]


def _traceparent(request: speed.Request) -> str | None:
    return request.traceparent


def _note(
    request: speed.Request, n: int, file: str, seconds: float = 0.0, quits: bool = False, filler: Any = None
) -> bool:
    """What ran stays in ``file``, whoever is killed afterwards. ``filler`` only makes the request large."""
    _append(file, n)
    is_cancelled = seconds > 0 and request.cancellation.wait(seconds)
    if quits and is_cancelled:
        raise speed.CallWithdrawnError("as its caller wished")
    return is_cancelled


def _register_sequence(node: speed.Node) -> None:
    """``sequence`` notes its argument; ``sequence_seen`` tells and forgets what was noted, in order of start."""
    seen: list[int] = []
    lock = threading.Lock()

    def sequence(n: int) -> int:
        with lock:
            seen.append(n)
        return n

    def sequence_seen() -> list[Any]:
        with lock:
            told = seen.copy()
            seen.clear()
        return told

    node.register("sequence", sequence)
    node.register("sequence_seen", sequence_seen)
