"""Asks all nodes now and then, whoever looks: every two seconds while somebody does; and remembers what services did.

An hour is in memory, minute by minute, and a week in a file, by quarters of an hour.
"""

from __future__ import annotations

import heapq
import json
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from speed.core.log import logger
from speed.core.scheduler import TIMES
from speed.errors import ConfigurationError, SpeedError
from speed.observe import Finding
from speed.observe.backlogs import LaneBacklogs, LaneWatch, lane_troubles
from speed.observe.figures import Answers, ServiceLoad, ask_all, loads, quantile
from speed.observe.traffic import Flow, flows
from speed.observe.troubles import work_troubles

if TYPE_CHECKING:
    from speed import Node
    from speed.wire.entry import Entry

log = logger("speed.console")

# The history.

MINUTE: Final = 60
MINUTES: Final = 60
QUARTER_SECONDS: Final = 900
WEEK_SECONDS: Final = 7 * 86_400
MAX_SERIES: Final = 1_000
"""Services whose history is kept; one that was not called for an hour gives its place to another one."""
MAX_FILE_BYTES: Final = 8 << 20
"""Of each of the two files: the one that is written, and the one before it."""
MAX_LINE_BYTES: Final = 4_096


class Point(NamedTuple):
    """What a service did in one span that begins at ``at`` (Unix seconds); times in seconds."""

    at: int
    calls: float
    errors: float
    p50: float | None
    p99: float | None


class _Series:
    """One service: the minutes of an hour, and what is counted for the span that goes on. Fixed memory."""

    def __init__(self) -> None:
        self._starts = array("q", [0]) * MINUTES
        self._calls, self._errors = (array("d", [0.0]) * MINUTES for _ in range(2))
        self._times = array("Q", [0]) * (TIMES * MINUTES)

    def add(self, minute: int, calls: float, errors: float, times: Sequence[int]) -> None:
        place = minute // MINUTE % MINUTES
        first = place * TIMES
        if self._starts[place] != minute:
            self._starts[place] = minute
            self._calls[place] = self._errors[place] = 0.0
            self._times[first : first + TIMES] = array("Q", [0]) * TIMES
        self._calls[place] += calls
        self._errors[place] += errors
        for number, count in enumerate(times[:TIMES]):
            self._times[first + number] += count

    def over(self, starts: Iterable[int]) -> tuple[float, float, list[int]]:
        """Calls, errors and times of these minutes together."""
        calls = errors = 0.0
        times = [0] * TIMES
        for start in starts:
            place = start // MINUTE % MINUTES
            if self._starts[place] == start:
                calls += self._calls[place]
                errors += self._errors[place]
                own = self._times[place * TIMES : (place + 1) * TIMES]
                times = [one + two for one, two in zip(times, own, strict=True)]
        return calls, errors, times

    def calls_since(self, start: int) -> float:
        """Calls of the minutes from ``start`` on."""
        return sum(calls for at, calls in zip(self._starts, self._calls, strict=True) if at >= start)

    def point(self, at: int, minutes: int) -> Point:
        calls, errors, times = self.over(range(at, at + minutes * MINUTE, MINUTE))
        return Point(at, calls, errors, quantile(times, 0.5), quantile(times, 0.99))


class History:
    """Thread-safe. ``path`` is the file of the week; None: there is none.

    Raises ConfigurationError if the file cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._series: dict[tuple[str, str], _Series] = {}
        self._lock = threading.Lock()
        self._quarter = 0
        self._week = WeekFile(path) if path is not None else None

    def add(self, at: float, seconds: float, found: Iterable[ServiceLoad]) -> None:
        """What happened in the ``seconds`` before ``at`` (Unix seconds)."""
        minute, quarter = int(at) // MINUTE * MINUTE, int(at) // QUARTER_SECONDS * QUARTER_SECONDS
        with self._lock:
            if quarter != self._quarter:
                self._end_quarter()
                self._forget_before(quarter - MINUTES * MINUTE)
                self._quarter = quarter
            for load in found:
                calls = load.calls_per_second * seconds
                if not calls and (load.node, load.service) not in self._series:
                    continue
                series = self._of(load.node, load.service)
                if series is not None and calls:
                    series.add(minute, calls, calls * load.error_share, load.run_times)

    def _of(self, node: str, service: str) -> _Series | None:
        found = self._series.get((node, service))
        if found is None and len(self._series) < MAX_SERIES:
            found = self._series[node, service] = _Series()
        return found

    def _end_quarter(self) -> None:
        """Write down the quarter that is over."""
        if self._week is None or not self._quarter:
            return
        rows = ((key, one.point(self._quarter, QUARTER_SECONDS // MINUTE)) for key, one in self._series.items())
        self._week.write([(node, service, point) for (node, service), point in rows if point.calls])

    def _forget_before(self, start: int) -> None:
        self._series = {key: one for key, one in self._series.items() if one.calls_since(start)}

    def hour(self, now: float, most: int) -> tuple[list[int], dict[tuple[str, str], list[Point]]]:
        """The minutes of the last hour, and what the ``most`` services that were called most did in each."""
        last = int(now) // MINUTE * MINUTE
        starts = list(range(last - (MINUTES - 1) * MINUTE, last + 1, MINUTE))
        with self._lock:
            calls = {key: one.calls_since(starts[0]) for key, one in self._series.items()}
            called = sorted(filter(calls.__getitem__, calls), key=lambda key: (-calls[key], key))[:most]
            return starts, {key: [self._series[key].point(start, 1) for start in starts] for key in called}

    def week(self, node: str, service: str, now: float) -> list[Point]:
        """The quarters of the last week that are in the file."""
        return [] if self._week is None else list(self._week.read(node, service, now - WEEK_SECONDS))

    @property
    def keeps_week(self) -> bool:
        """Whether there is a file."""
        return self._week is not None

    def close(self) -> None:
        """Write down what the current quarter has so far."""
        with self._lock:
            self._end_quarter()
            self._quarter = 0


class WeekFile:
    """A line of JSON for each service and quarter; this user's alone. Raises ConfigurationError."""

    def __init__(self, path: Path) -> None:
        self._path, self._older = path, path.with_name(f"{path.name}.1")
        self._failed = False
        try:
            with self._opened():
                pass
        except OSError as error:
            what = f"the history {path} cannot be written: {error.strerror}"
            raise ConfigurationError(f"{what}; it must be a regular file of this user, no link") from None

    def _opened(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        try:
            os.fchmod(fd, 0o600)
            return os.fdopen(fd, "ab")
        except BaseException:
            os.close(fd)
            raise

    def write(self, rows: Iterable[tuple[str, str, Point]]) -> None:
        """What cannot be written is left out; that is logged once."""
        lines = [_line(node, service, point) for node, service, point in rows]
        try:
            with self._opened() as file:
                file.writelines(line for line in lines if len(line) <= MAX_LINE_BYTES)
                is_full = file.tell() > MAX_FILE_BYTES
            if is_full:
                os.replace(self._path, self._older)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("the history %s is not written: %s", self._path, error.strerror)
            self._failed = True

    def read(self, node: str, service: str, since: float) -> Iterator[Point]:
        """In order of time; damaged lines are passed over."""
        for path in (self._older, self._path):
            for row in _rows(path):
                if row[:2] == [node, service] and row[2] >= since:
                    yield Point(*row[2:])


def _line(node: str, service: str, point: Point) -> bytes:
    """Short: so a file holds a week of 200 services."""
    row = [node, service, point.at, round(point.calls), round(point.errors), point.p50, point.p99]
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _rows(path: Path) -> Iterator[list[Any]]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_row(row):
                yield row


def _is_row(row: Any) -> bool:
    if not isinstance(row, list) or len(row) != 7:
        return False
    *named, at, calls, errors, p50, p99 = row
    times = (one for one in (p50, p99) if one is not None)
    numbers = (at, calls, errors, *times)
    return all(type(one) is str for one in named) and all(
        type(one) in (int, float) and 0 <= one < 2 * time.time() for one in numbers
    )


# Looking.

WATCHED_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 2.0
"""A node that takes longer does not answer."""
MAX_FLOWS: Final = 30
"""Pairs of nodes that the overview shows."""
FIRST_PAUSE_SECONDS: Final = 0.5
"""Between the first two looks: one alone tells of nothing that happens."""
MAX_LOADS: Final = 5_000
"""Services that are shown, of all nodes together."""


GatewayFigures = tuple[dict[str, int], dict[str, int]]
"""What the gateway of speedd to clients counted so far, and what is there now."""


@dataclass(frozen=True)
class Look:
    """What all nodes answered at one time, and what happened since the time before."""

    number: int = 0
    at: float = 0.0
    """Unix seconds."""
    entries: tuple[Entry, ...] = ()
    answers: Answers = field(default_factory=dict)
    loads: tuple[ServiceLoad, ...] = ()
    flows: tuple[Flow, ...] = ()
    """Who wrote to whom, most first."""
    waiting: LaneBacklogs = field(default_factory=dict)
    """What waits in lanes."""
    findings: tuple[Finding, ...] = ()
    gateway: GatewayFigures | None = None
    gateway_rates: Mapping[str, float] = field(default_factory=dict)
    """Of what it counts, in a second."""


class RootCollector:
    """Looks until ``close``; ``look`` is the newest one, for any thread.

    Args:
        node: who asks.
        lanes: what waits there.
        others: what else is wrong, from what speedd itself knows.
        history: to which each look is added.
        gateway: what the gateway to clients says of itself; None without one.
    """

    def __init__(
        self,
        node: Node,
        lanes: LaneWatch,
        others: Callable[[], list[Finding]],
        history: History,
        gateway: Callable[[], GatewayFigures | None] = lambda: None,
    ) -> None:
        self.look = Look()
        self._node, self._lanes, self._others, self._history, self._gateway = node, lanes, others, history, gateway
        self._before: tuple[Answers, float] = {}, time.monotonic()
        self._lock = threading.Lock()
        self._watching = 0
        self._listeners: list[Callable[[], None]] = []
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed-console-look", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self, new_look: Callable[[], None]) -> Iterator[None]:
        """Look often meanwhile, and call ``new_look``, on the collector's thread, after each look."""
        with self._lock:
            self._watching += 1
            self._listeners.append(new_look)
        self._wake.set()
        try:
            yield
        finally:
            with self._lock:
                self._watching -= 1
                self._listeners.remove(new_look)

    def close(self) -> None:
        """Look no more; one that is under way ends first."""
        self._closing.set()
        self._wake.set()
        self._thread.join(2 * ANSWER_SECONDS)
        self._history.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._look()
            except (SpeedError, OSError) as error:
                log.warning("the console cannot look: %s", error)
            except Exception as error:  # answers are of others: a defect of ours does not end looking
                log.error("the console met an unexpected error", exc_info=error)
            self._rest(began)

    def _rest(self, began: float) -> None:
        """Until the next look is due; who begins to watch shortens that."""
        while not self._closing.is_set():
            pause = FIRST_PAUSE_SECONDS if self.look.number == 1 else self._pause()
            left = began + pause - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()

    def _pause(self) -> float:
        with self._lock:
            return WATCHED_SECONDS if self._watching else IDLE_SECONDS

    def _look(self) -> None:
        entries = tuple(sorted(self._node.nodes(), key=lambda entry: entry.name))
        answers, now = ask_all(self._node, ANSWER_SECONDS, entries), time.monotonic()
        (before, then), self._before = self._before, (answers, now)
        elapsed = max(now - then, 1e-3)
        found = tuple(_bounded(loads(before, answers, elapsed))) if before else ()
        flowing = self._most_flows(before, answers, elapsed) if before else ()
        waiting = self._lanes.look()
        findings = (*self._others(), *work_troubles(self._node, before, answers), *lane_troubles(waiting))
        gateway = self._gateway()
        self.look = Look(
            self.look.number + 1,
            time.time(),
            entries,
            answers,
            found,
            flowing,
            waiting,
            _worst_first(findings),
            gateway,
            _rates(self.look.gateway, gateway, elapsed),
        )
        self._history.add(self.look.at, now - then, found)
        with self._lock:
            listeners = list(self._listeners)
        for new_look in listeners:
            new_look()

    def _most_flows(self, before: Answers, answers: Answers, seconds: float) -> tuple[Flow, ...]:
        """Between other nodes: what is asked for this page says nothing of the root."""
        own = self._node.name
        others = (one for one in flows(before, answers, seconds) if own not in (one.sender, one.receiver))
        return tuple(heapq.nlargest(MAX_FLOWS, others, key=lambda one: (one.messages_per_second, one.refused)))


def _rates(before: GatewayFigures | None, now: GatewayFigures | None, seconds: float) -> dict[str, float]:
    """Of a gateway that was there before; one that was replaced meanwhile counts from 0."""
    if before is None or now is None:
        return {}
    return {name: max(0, count - before[0].get(name, 0)) / seconds for name, count in now[0].items()}


def _bounded(found: Iterator[ServiceLoad]) -> Iterator[ServiceLoad]:
    return (load for _, load in zip(range(MAX_LOADS), found, strict=False))


_WORST = ("broken", "warning")


def _worst_first(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Each once."""
    once = dict.fromkeys(findings)
    return tuple(sorted(once, key=lambda one: _WORST.index(one.state) if one.state in _WORST else len(_WORST)))


def figures_of(answer: dict[str, Any] | None) -> dict[str, Any]:
    """What a node counts of itself, without its services; empty where it did not answer."""
    return {key: value for key, value in (answer or {}).items() if isinstance(value, int | float)}
