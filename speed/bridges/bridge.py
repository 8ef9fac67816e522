"""A bridge: takes messages, judges them, publishes them, and acknowledges what is confirmed (B-11 to B-18).

Times are seconds of a clock that never jumps.

Two threads for each: one takes and judges a batch while the other publishes the one before.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from typing import Any, Protocol

from speed.backends.backend import MAX_AT_ONCE, BackendRefusedError, Outgoing
from speed.bridges import MAX_HOPS, Filter
from speed.core.log import logger
from speed.errors import PayloadTooLargeError, SpeedError, UnserialisableError, WireError
from speed.message.errors import NotAvailableError
from speed.message.view import MessageView

# Whether a bridge carries, waits or tries again (B-18): one table. Pure.

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 5.0
CHANCE = 0.25
"""By how much a pause is shorter at most: bridges that failed together do not all come back together."""


class BridgeState(str, Enum):
    """Of a bridge; its text is what people see."""

    CARRYING = "carrying"
    WAITING = "waiting"
    TRYING = "trying"


CARRYING, WAITING, TRYING = BridgeState.CARRYING, BridgeState.WAITING, BridgeState.TRYING
CONFIRMED, FAILED, DUE = "confirmed", "failed", "due"
TABLE = {
    (CARRYING, CONFIRMED): CARRYING,
    (CARRYING, FAILED): WAITING,
    (WAITING, DUE): TRYING,
    (TRYING, CONFIRMED): CARRYING,
    (TRYING, FAILED): WAITING,
}


class Breaker:
    """For one thread at a time.

    Attributes:
        state: what the bridge does.
        trouble: what failed last; empty while it carries.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self.state = CARRYING
        self.trouble = ""
        self._chance = chance
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0

    def confirmed(self) -> bool:
        """Something was carried. Whether that ends trouble."""
        was, self.state = self.state, TABLE[self.state, CONFIRMED]
        self.trouble = ""
        self._pause = FIRST_PAUSE_SECONDS
        return was is TRYING

    def failed(self, now: float, trouble: str) -> bool:
        """Something was not. Whether this is new."""
        was, self.state = self.state, TABLE[self.state, FAILED]
        is_new = was is CARRYING or trouble != self.trouble
        self.trouble = trouble
        self._until = now + self._pause * (1.0 - CHANCE * self._chance())
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
        return is_new

    def wait(self, now: float) -> float:
        """How long to wait before the next try; 0 to go on."""
        if self.state is WAITING and now >= self._until:
            self.state = TABLE[self.state, DUE]
        return self._until - now if self.state is WAITING else 0.0


log = logger("speed.bridges")

MAX_MESSAGES = MAX_AT_ONCE
"""Messages of a batch."""
BATCH_BYTES = 8 << 20
CHECK_SECONDS = 2.0
"""How often an end that gets nothing is asked whether it is there."""
TAKE_SECONDS = 1.0
PUBLISH_SECONDS = 30.0
CHECK_ANSWER_SECONDS = 3.0
JOIN_SECONDS = 5.0
"""How long what is under way may take to end by itself."""
FILTERED, LOOPED, EXPIRED = "filtered", "looped", "expired"
PASSED = frozenset({FILTERED, LOOPED, EXPIRED})
"""What becomes of messages that are acknowledged and not carried; all else is a code of a dead letter."""
_IMPOSSIBLE = (PayloadTooLargeError, WireError, UnserialisableError, NotAvailableError)
"""What no other try changes."""


@dataclass(slots=True)
class Load:
    """One message on its way.

    Attributes:
        lane, sequence: its number, from 1, in what its source numbers (B-14); empty and 0 where nothing does.
        topic, position: where it lay.
        data: its bytes there.
        message: as it is published; None for what cannot be.
        view: the same, read; None where the source need not read it.
        code: why it cannot be, or need not be.
        hops: where it was, its source last.
        handle: what its source needs to acknowledge it.
    """

    lane: str
    sequence: int
    topic: str
    position: str
    data: bytes = field(repr=False)
    message: Outgoing | None = field(default=None, repr=False)
    view: MessageView | None = field(default=None, repr=False)
    code: str = ""
    hops: tuple[str, ...] = ()
    handle: Any = field(default=None, repr=False)


class BridgeSource(Protocol):
    """Where messages come from. For one thread at a time."""

    def receive(self, limit: int, seconds: float) -> list[Load]:
        """What comes within so many seconds. Raises SpeedError."""

    def settle(self, loads: Sequence[Load]) -> None:
        """These do not come again. Raises SpeedError; then it is asked again."""

    def check(self) -> None:
        """Whether it would hand out a message now: some say nothing while their server is away. Raises SpeedError."""

    def lag(self) -> int | None:
        """How many messages wait there; None where nobody knows."""

    def close(self) -> None:
        """Give back what is held."""


class Sink(Protocol):
    """Where messages go. For one thread at a time."""

    @property
    def limit(self) -> int:
        """How many are published at once."""

    def is_loop(self, load: Load) -> bool:
        """Whether the message passed this end before: the bridges form a loop."""

    def unfit(self, load: Load) -> str:
        """Why the message can never be there; empty if it can."""

    def publish(self, loads: Sequence[Load]) -> int:
        """Returns once all are confirmed: how many were there before. Raises SpeedError."""

    def check(self) -> None:
        """Whether it would take a message now. Raises SpeedError."""

    def close(self) -> None:
        """End it."""


Bury = Callable[[Load, str], None]
"""Records a dead letter and its code. Raises SpeedError; then it is asked again."""


class _BridgeBatch:
    """Messages that were taken together, and what is left to do with them."""

    def __init__(self, loads: Sequence[Load], judged: Iterable[tuple[Load, str]], limit: int) -> None:
        self.loads = loads
        self.dead: deque[tuple[Load, str]] = deque()
        self.left: list[Load] = []
        self.passed: Counter[str] = Counter()
        for load, verdict in judged:
            if not verdict:
                self.left.append(load)
            elif verdict in PASSED:
                self.passed[verdict] += 1
            else:
                self.dead.append((load, verdict))
        self.limit = self.part = limit
        """How many are published at once, and how many now."""
        self.refused_since: float | None = None


class Bridge:
    """One bridge; ``start`` begins it, ``close`` ends it. Its other methods are for any thread.

    Args:
        name: for logs and threads.
        wanted: which messages are.
        bury: records dead letters; without it they are logged and dropped.
        give_up_seconds: how long a refused message is tried; 0 for ever.
    """

    def __init__(
        self,
        name: str,
        source: BridgeSource,
        sink: Sink,
        *,
        wanted: Filter,
        bury: Bury | None = None,
        give_up_seconds: float = 0.0,
        max_message_bytes: int,
    ) -> None:
        self.name = name
        self._source, self._sink, self._bury, self._wanted = source, sink, bury, wanted
        self._give_up_seconds, self._max_bytes = give_up_seconds, max_message_bytes
        self._breaker = Breaker(random.random)
        self._batches: deque[_BridgeBatch] = deque()
        self._counts: Counter[str] = Counter()
        self._checked_at = -CHECK_SECONDS
        self._stopped = threading.Event()
        self._sinking = ThreadPoolExecutor(1, f"speed-bridge-{name}-sink")
        self._thread = threading.Thread(target=self._run, name=f"speed-bridge-{name}", daemon=True)

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def row(self) -> dict[str, Any]:
        """What people see: state, trouble, lag, counters."""
        return {
            "bridge": self.name,
            "state": self._breaker.state.value,
            "trouble": self._breaker.trouble,
            "lag": self._lag(),
            **{name: self._counts[name] for name in COUNTERS},
        }

    @property
    def trouble(self) -> str:
        """What failed last; empty while it carries."""
        return self._breaker.trouble

    def _lag(self) -> int | None:
        try:
            return self._source.lag()
        except SpeedError:
            return None

    # --- the loop ---

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause = self._breaker.wait(monotonic())
            if pause > 0:
                self._stopped.wait(pause)
            else:
                self.turn()

    def turn(self, seconds: float = TAKE_SECONDS) -> None:
        """Take what comes within ``seconds``, and carry it."""
        try:
            if not self._batches:
                self._take(seconds)
            if self._batches:
                self._carry_first()
            else:
                self._look_at_ends()
        except SpeedError as error:
            self._fail(f"{error.code}: {error}")
        except Exception as error:  # a defect of ours must not end the bridge
            if not self._stopped.is_set():
                where = "".join(traceback.format_tb(error.__traceback__))  # its text may hold anything
                log.error("bridge %s met an unexpected %s\n%s", self.name, type(error).__name__, where)
            self._fail(type(error).__name__)

    def _look_at_ends(self) -> None:
        """With nothing to carry: an end that does not answer is to be seen before a message waits for it."""
        if self._breaker.state is not TRYING and monotonic() < self._checked_at + CHECK_SECONDS:
            return
        self._source.check()
        self._sinking.submit(self._sink.check).result()
        self._checked_at = monotonic()
        if self._breaker.state is TRYING:
            self._confirm()

    def _take(self, seconds: float) -> None:
        loads = self._source.receive(MAX_MESSAGES, seconds)
        if loads:
            self._batches.append(_BridgeBatch(loads, ((load, self._judged(load)) for load in loads), self._sink.limit))

    def _judged(self, load: Load) -> str:
        """Nothing for what is carried; else what becomes of it."""
        message = load.message
        if message is None or load.code:
            return load.code
        if len(message.envelope) > self._max_bytes:
            return "TOO_LARGE"
        if not self._wanted.wants(message.envelope, message.key):
            return FILTERED
        if self._sink.is_loop(load):
            return LOOPED
        return "TOO_MANY_HOPS" if len(load.hops) > MAX_HOPS else self._sink.unfit(load)

    def _carry_first(self) -> None:
        """Carry the first batch, and take another one meanwhile."""
        batch = self._batches[0]
        carrying = self._sinking.submit(self._carry, batch)
        try:
            if len(self._batches) < 2 and self._breaker.state is CARRYING:
                self._take(0.0)
        finally:
            is_done = carrying.result()
        if not is_done:
            return
        self._source.settle(batch.loads)
        self._batches.popleft()
        self._counts.update(batch.passed)

    def _carry(self, batch: _BridgeBatch) -> bool:
        """Whether nothing of it is left; on the second thread."""
        while batch.dead:
            self._end(*batch.dead[0])
            batch.dead.popleft()
        while batch.left and not self._stopped.is_set():
            is_trying = self._breaker.state is TRYING
            part = batch.left[: 1 if is_trying else batch.part]
            try:
                repeated = self._sink.publish(part)
            except (*_IMPOSSIBLE, BackendRefusedError) as error:
                if len(part) > 1:
                    batch.part = len(part) // 2
                    continue
                if not self._is_over(batch, error):
                    raise
                self._end(part[0], _code(error))
            except Exception:
                batch.part = max(1, len(part) // 2)  # so many may be what takes it too long
                raise
            else:
                self._count(part, repeated)
                batch.part = batch.part if is_trying else min(2 * batch.part, batch.limit)
            self._confirm()
            batch.refused_since = None
            del batch.left[: len(part)]
        return not batch.left

    def _is_over(self, batch: _BridgeBatch, error: SpeedError) -> bool:
        """Whether the first message of a batch is given up."""
        if isinstance(error, _IMPOSSIBLE):
            return True
        now = monotonic()
        batch.refused_since = batch.refused_since or now
        return 0 < self._give_up_seconds <= now - batch.refused_since

    def _end(self, load: Load, code: str) -> None:
        """What cannot be carried."""
        if self._bury is not None:
            self._bury(load, code)
            self._counts["dead"] += 1
        else:
            self._counts["dropped"] += 1
        log.warning(
            "bridge %s does not carry %d bytes of %s at %s: %s",
            self.name,
            len(load.data),
            load.topic,
            load.position,
            code,
        )

    def _count(self, part: Sequence[Load], repeated: int) -> None:
        self._counts["carried"] += len(part) - repeated
        self._counts["repeated"] += repeated
        self._counts["bytes"] += sum(len(load.message.envelope) for load in part if load.message)

    def _confirm(self) -> None:
        if self._breaker.confirmed():
            log.warning("bridge %s carries again", self.name)

    def _fail(self, trouble: str) -> None:
        if self._stopped.is_set():
            return
        self._counts["failures"] += 1
        if self._breaker.failed(monotonic(), trouble):
            log.warning("bridge %s waits: %s", self.name, trouble)

    def stop(self) -> None:
        """Carry no more; returns at once. ``close`` waits."""
        self._stopped.set()

    def close(self) -> None:
        """Carry no more; what is not acknowledged comes again."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)
        self._sink.close()  # what is under way fails
        self._sinking.shutdown()
        self._source.close()


COUNTERS = ("carried", "repeated", FILTERED, LOOPED, EXPIRED, "dead", "dropped", "failures", "bytes")


def _code(error: SpeedError) -> str:
    return error.reason if isinstance(error, WireError) else error.code
