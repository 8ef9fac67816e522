"""Messages of a backend as a program consumes them: fetched ahead, opened, and acknowledged when they are finished."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, cast

from speed.backends.backend import MAX_HELD_MESSAGES, BackendAwayError, BackendError, BackendSubscription, Delivered
from speed.core.hints import in_seconds
from speed.core.log import logger
from speed.engine.message import Message
from speed.errors import SpeedError, StorageError, WireError
from speed.message.errors import KeyUnavailableError, MessageError
from speed.message.reader import MessageReader
from speed.message.schemas.registry import SchemasAwayError
from speed.message.view import MessageView
from speed.node.guard import opened_unguarded
from speed.wire.names import matches

if TYPE_CHECKING:
    from speed.backends.backend import Namespaces, SharedSubscription
    from speed.backends.migrating import Judge
    from speed.message.security import Guard


log = logger("speed.bridges")

PREFETCH = 100
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 5.0
"""How long a backend that is away is left alone; doubled each time."""
_AWAY = (KeyUnavailableError, SchemasAwayError, StorageError)
"""What a message waits for, and is not refused for."""
_FETCH_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_ACKNOWLEDGE_MESSAGES = 100
_ACKNOWLEDGE_SECONDS = 0.5
"""How many acknowledgements wait for others, and how long, while the program goes on."""


class Received(Message):
    """A message of a backend: as a node's (``speed.Message``), and where it lay.

    ``source`` is the publisher that the message names: believe it of signed messages only. ``sequence`` grows within a
    topic, or is 0. ``deliveries`` is 1 where the backend does not count.

    Attributes:
        key: with which it was published, or None.
        position: its place in the backend, for people and logs.
    """

    __slots__ = ("key", "position")

    def __init__(self, view: MessageView, delivered: Delivered, finish: Callable[[], None]) -> None:
        super().__init__(
            view,
            source=view.publisher_id or "",
            sequence=delivered.sequence,
            timestamp_ms=view.published_at_ms,
            redelivered=delivered.deliveries > 1,
            finish=finish,
            deliveries=delivered.deliveries,
        )
        self.key, self.position = delivered.key, delivered.position

    def __repr__(self) -> str:
        return f"<Message of {self.topic} at {self.position}>"


@dataclass(frozen=True)
class Refused:
    """What is no message, or is refused; ``code`` says why.

    Attributes:
        topic, position: where it lay.
        data: its bytes.
        error: what is wrong.
    """

    topic: str
    position: str
    data: bytes = field(repr=False)
    code: str
    error: SpeedError


OnRefused = Callable[[Refused], object]


class Subscription:
    """A member of a group; made by ``Connection.subscribe``.

        for message in subscription:
            print(message.payload)

    A message is finished when the next one is asked for, or by ``done()``. What was not finished comes again, to this
    or another member, when this one closes or ends. ``receive`` is for one thread; ``done`` and ``close`` for any.

    Attributes:
        refused: how many were no messages, or were refused.
        expired: how many were older than their time to live.
        beside: how many were in the old form beside their envelopes, which come by themselves.
        others: how many were of a namespace that is not taken here; in a queue of SQS, each time they were seen.
    """

    def __init__(
        self,
        backend: BackendSubscription,
        pattern: str,
        namespaces: Namespaces,
        guard: Guard | None,
        prefetch: int,
        max_message_bytes: int,
        on_refused: OnRefused | None,
        judge: Judge | None = None,
    ) -> None:
        self._backend, self._pattern, self._guard = backend, pattern, guard
        self._namespaces = namespaces
        self._prefetch, self._limit, self._on_refused = prefetch, max_message_bytes, on_refused
        self._judge = judge
        self.refused = self.expired = self.beside = self.others = 0
        self._lock = threading.Lock()
        """Of the backend's subscription."""
        self._reader = MessageReader()
        self._closing = threading.Event()
        self._ready: deque[Delivered] = deque()
        self._last: Received | None = None
        self._held = 0
        self._finished: deque[Delivered] = deque()
        self._flushed = monotonic()
        self._pause = 0.0

    # --- receiving ---

    def receive(self, timeout: float | None = None) -> Received | None:
        """The next message, None after ``timeout`` seconds (None waits); finishes the one before.

        While the backend is away this waits. Raises BackendRefusedError, BackendError, and what ``on_refused`` raises.
        """
        last, self._last = self._last, None
        if last is not None:
            last.done()
        deadline = None if timeout is None else monotonic() + in_seconds(timeout)
        is_last = False
        while True:
            self._check_open()
            message = self._next()
            if message is not None:
                self._last = message
                return message
            left = _FETCH_SECONDS if deadline is None else max(0.0, deadline - monotonic())
            if self._ready:
                self._closing.wait(min(left, FIRST_PAUSE_SECONDS))  # a key is away
            else:
                self._fetch(min(left, _FETCH_SECONDS))
            if not left and (is_last or not self._ready):
                return None
            is_last = not left

    def __iter__(self) -> Iterator[Received]:
        """Messages until it is closed; each is finished when the next is asked for."""
        while not self._closing.is_set():
            try:
                message = self.receive(None)
            except BackendError:
                if self._closing.is_set():
                    return
                raise
            assert message is not None
            yield message

    def _next(self) -> Received | None:
        """One of those that are here; None if there is none, or its key is away."""
        while self._ready:
            delivered = self._ready[0]
            try:
                view = self._opened(delivered)
            except _AWAY:
                return None
            except (MessageError, WireError) as error:
                self._ready.popleft()
                self._refuse(delivered, error)
                continue
            self._ready.popleft()
            if view is not None:
                return Received(view, delivered, partial(self._finish, delivered))
            self._finish(delivered)
        return None

    def _opened(self, delivered: Delivered) -> MessageView | None:
        """What the program gets; None for what is expired, of another topic or namespace. MessageError, WireError."""
        if len(delivered.envelope) > self._limit:
            if self._is_of_others(delivered):
                self._count_others(1)
                return None
            size = len(delivered.envelope)
            raise WireError("TOO_LARGE", f"{size} bytes, and max_message_bytes is {self._limit}")
        view = self._view(delivered)
        if view is None:
            self.beside += 1
            return None
        if not delivered.topic and not matches(self._pattern, view.topic):
            return None
        if not self._namespaces.take(view.namespace):
            self._count_others(1)
            return None
        if view.is_expired(time.time_ns() // 1_000_000):
            self.expired += 1
            return None
        if self._guard is not None:
            return self._guard.open(view, view.publisher_id or "")
        return opened_unguarded(view)

    def _view(self, delivered: Delivered) -> MessageView | None:
        """The message, also of an old form if those are read; None for one that lies beside its envelope."""
        try:
            return self._reader.read(delivered.envelope)
        except WireError:
            judged = None if self._judge is None else self._judge.judge(delivered)
            if judged is not None and judged.is_duplicate:
                return None
            if judged is None or judged.outgoing is None:
                raise
            return MessageView(judged.outgoing.envelope)

    def _refuse(self, delivered: Delivered, error: SpeedError) -> None:
        self.refused += 1
        code = error.reason if isinstance(error, WireError) else error.code
        size = len(delivered.envelope)
        log.warning("%d bytes in %s at %s are refused: %s", size, delivered.topic, delivered.position, code)
        if self._on_refused is not None:
            self._on_refused(Refused(delivered.topic, delivered.position, delivered.envelope, code, error))
        self._finish(delivered)

    def _count_others(self, number: int) -> None:
        """Messages of namespaces that are not taken here: others get them."""
        if number and not self.others:
            log.warning("messages in %s are of other namespaces: they are passed over, and counted", self._pattern)
        self.others += number

    def _left(self, found: list[Delivered]) -> list[Delivered]:
        """Those to be looked at; ``_lock`` is held. Who shares the group with others leaves them theirs at once."""
        if not hasattr(self._backend, "leave"):
            return found
        others = [one for one in found if self._is_of_others(one)]
        if others:
            cast("SharedSubscription", self._backend).leave(others)
            self._count_others(len(others))
        return [one for one in found if one not in others]

    def _is_of_others(self, delivered: Delivered) -> bool:
        try:
            return not self._namespaces.take(self._reader.read(delivered.envelope).namespace)
        except WireError:
            return False

    def _fetch(self, seconds: float) -> None:
        """Ask for more; a backend that is away is left alone for a while."""
        room = MAX_HELD_MESSAGES - self._held
        if room <= 0:
            raise BackendError(f"{self._held} messages are not finished: call done() on some before asking for more")
        try:
            with self._lock:
                self._check_open()
                self._flush()
                found = self._left(self._backend.receive(min(self._prefetch, room), seconds))
                self._held += len(found)
        except BackendAwayError as error:
            self._wait_out(error, seconds)
            return
        if self._pause:
            log.warning("the backend of %s is back", self._pattern)
            self._pause = 0.0
        self._ready.extend(found)

    def _wait_out(self, error: BackendAwayError, seconds: float) -> None:
        if not self._pause:
            log.warning("the backend of %s is away: %s", self._pattern, error)
        self._pause = min(2 * self._pause or FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        self._closing.wait(min(self._pause, seconds))

    # --- acknowledging ---

    def _finish(self, delivered: Delivered) -> None:
        """Acknowledge it, with others where that may wait."""
        self._finished.append(delivered)
        is_due = monotonic() - self._flushed > _ACKNOWLEDGE_SECONDS
        if (is_due or len(self._finished) >= _ACKNOWLEDGE_MESSAGES) and self._lock.acquire(blocking=False):
            try:
                self._flush()
            except BackendAwayError:
                pass  # they are told with the next
            finally:
                self._lock.release()

    def _flush(self) -> None:
        """Tell the backend; ``_lock`` is held."""
        self._flushed = monotonic()
        waiting = [self._finished.popleft() for _ in range(len(self._finished))]
        if not waiting:
            return
        try:
            self._backend.acknowledge(waiting)
        except BackendAwayError:
            self._finished.extendleft(reversed(waiting))
            raise
        self._held -= len(waiting)

    def flush(self) -> None:
        """Have what is finished acknowledged now, and not with the messages that follow. Raises BackendAwayError."""
        with self._lock:
            self._check_open()
            self._flush()

    def positions(self) -> dict[str, str]:
        """Where the group stands by topic, stream or partition, as far as this member knows."""
        with self._lock:
            return self._backend.positions()

    # --- life ---

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closing.is_set()

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise BackendError(f"the subscription to {self._pattern} was closed: make another one")

    def close(self) -> None:
        """Acknowledge what is finished, and leave; what is not finished comes again."""
        if self._closing.is_set():
            return
        self._closing.set()
        if not self._lock.acquire(timeout=_CLOSE_SECONDS):
            return  # the server does not answer; it ends the membership itself
        try:
            self._flush()
        except BackendError:
            pass  # it comes again
        finally:
            self._backend.close()
            self._lock.release()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What a block that raised was working on is not finished."""
        self.close()


class DualSubscription:
    """What comes in one of two places, as one; made by ``DualConnection.subscribe``. As ``Subscription`` otherwise."""

    def __init__(self, new: Subscription, old: Subscription) -> None:
        self.new, self.old = new, old
        self._turn, self._other = new, old

    def receive(self, timeout: float | None = None) -> Received | None:
        """The next message of either, None after ``timeout`` seconds (None waits); finishes the one before.

        Each place is looked into in turn, for at most 0.1 seconds while nothing is there. Raises as
        ``Subscription.receive``.
        """
        deadline = None if timeout is None else monotonic() + in_seconds(timeout)
        while True:
            left = _LOOK_SECONDS if deadline is None else max(0.0, deadline - monotonic())
            for _ in range(2):
                message = self._turn.receive(min(left, _LOOK_SECONDS))
                self._turn, self._other = self._other, self._turn
                if message is not None:
                    return message
            if deadline is not None and monotonic() >= deadline:
                return None

    def __iter__(self) -> Iterator[Received]:
        """Messages until it is closed; each is finished when its place is asked again."""
        while True:
            try:
                message = self.receive(None)
            except BackendError:
                if self.new.is_closed or self.old.is_closed:
                    return
                raise
            assert message is not None
            yield message

    def flush(self) -> None:
        """Have what is finished acknowledged now. Raises BackendAwayError."""
        self.new.flush()
        self.old.flush()

    def close(self) -> None:
        """Acknowledge what is finished, and leave both."""
        self.new.close()
        self.old.close()

    def __enter__(self) -> DualSubscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["DualSubscription", "OnRefused", "Received", "Refused", "Subscription"]
