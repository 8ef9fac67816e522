"""Messages and events on their way to handlers, ``receive`` and iteration (M-n, S-17, T-n), or put aside (S-18).

What nothing takes yet waits, uncommitted, until the program says what takes it. Messages and events of one sender are
handled one after the other, in order; different senders side by side, the more urgent first when workers are few.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic

from speed.core import counters
from speed.core.lane import Token
from speed.core.log import logger
from speed.core.scheduler import Work
from speed.core.services import failure_line
from speed.engine.message import BatchHandler, Message
from speed.engine.python.batches import ENDED, MESSAGES, Arrival, Batches, handled, may_be_handed
from speed.engine.python.context import Context
from speed.engine.threads import ProgramsCode
from speed.engine.tracing import continued
from speed.engine.workers import WorkerPool
from speed.errors import ConfigurationError, SpeedError, StorageError, WireError
from speed.fs.dead_letters import CHUNK_BYTES, DeadLetter, DeadLetters
from speed.fs.identity import unix_ms
from speed.message.errors import AwayError
from speed.message.view import MessageView
from speed.wire.limits import MAX_ERROR_CHARACTERS, RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS
from speed.wire.names import check_topic_pattern, matches

# Messages that could not be handled, put aside, and handed to the program again when somebody asks for it (S-18).

log = logger("speed.messages")


class Dead:
    """The dead letters of a running node. Thread-safe."""

    def __init__(
        self,
        context: Context,
        pool: WorkerPool,
        arrive: Callable[[Arrival], None],
        handle: Callable[[Arrival, Work], None],
    ) -> None:
        self._context = context
        self._pool = pool
        self._arrive = arrive
        self._handle = handle
        self._letters = DeadLetters(context.root, context.name, context.keyring)

    def keep(self, arrival: Arrival, message: Message, code: str, text: str) -> bool:
        """Put a message aside; False where there is no room for it, or the filesystem fails."""
        if arrival.letter is not None:
            return self._put_back(arrival.letter)
        size = message.metadata.size
        letter = DeadLetter(
            type="EVENT" if arrival.is_event else "MESSAGE",
            source=message.source,
            sequence=message.sequence,
            timestamp_ms=message.timestamp_ms,
            deliveries=arrival.deliveries,
            error_code=code,
            error_message=text[:MAX_ERROR_CHARACTERS],
            died_at_ms=unix_ms(),
            payload_bytes=size,
        )
        try:
            kept = self._letters.add(letter, _pieces(message.metadata), size, durable=self._context.durable)
        except StorageError as error:
            self._context.stats.count(counters.DEAD_LETTERS_UNWRITTEN)
            self._context.limiter.warn(log, "dead", "a dead letter of %s cannot be kept: %s", message.source, error)
            return False
        if kept is None:
            self._context.stats.count(counters.DEAD_LETTERS_WITHOUT_ROOM)
            self._context.limiter.warn(log, "dead full", "there is no room for dead letters: see `speed dead`")
            return False
        self._context.stats.count(counters.DEAD_LETTERS)
        log.error("a message of %s became dead letter %d: %s", message.source, kept, text)
        return True

    def _put_back(self, number: int) -> bool:
        try:
            self._letters.move(number, "trying", "letter")
        except StorageError:
            self._context.stats.count(counters.DEAD_LETTERS_UNFINISHED)
        return True

    # --- what is to be tried again ---

    def start(self) -> None:
        """What was being tried when the last process ended waits for a word again."""
        for one in self._letters.kept():
            if one.state == "trying":
                self._context.stats.count(counters.DEAD_LETTERS_UNFINISHED)
                self._letters.move(one.number, "trying", "letter")

    def look(self) -> None:
        """Hand over what somebody wants tried again; called with each scan."""
        for one in self._letters.kept():
            if one.state == "retry" and self._letters.move(one.number, "retry", "trying"):
                self._pool.submit(self._hand_over, one.number)

    def _hand_over(self, number: int) -> None:
        try:
            letter, pieces = self._letters.read(number)
            view = MessageView(b"".join(pieces)).validate()
        except (SpeedError, OSError) as error:
            self._context.stats.count(counters.DEAD_LETTERS_UNREAD)
            log.warning("dead letter %d cannot be read: %s", number, error)
            self._put_back(number)
            return
        lane = LetterLane(letter.source, letter.deliveries, partial(self._handled, number))
        token = Token(letter.sequence, 0, 0, 0, 0, 0)
        message = Message(
            view,
            source=letter.source,
            sequence=letter.sequence,
            timestamp_ms=letter.timestamp_ms,
            redelivered=True,
            finish=partial(lane.finish, (token,)),
        )
        is_event = letter.type == "EVENT"
        arrival = Arrival(lane, token, is_event=is_event, redelivered=True, run=self._handle, message=message)
        arrival.letter = number
        self._context.stats.count(counters.DEAD_LETTERS_TRIED_AGAIN)
        self._arrive(arrival)

    def _handled(self, number: int) -> None:
        try:
            self._letters.drop(number)
        except StorageError:
            self._context.stats.count(counters.DEAD_LETTERS_UNFINISHED)


class LetterLane:
    """A dead letter in the place of the lane that its message came by."""

    def __init__(self, source: str, deliveries: int, handled: Callable[[], None]) -> None:
        self.source = source
        self._deliveries = deliveries
        self._handled = handled

    def fingerprint(self, key_id: bytes) -> str:
        """What is kept says nothing of it."""
        return ""

    def begin(self, token: Token, *, listed: bool) -> bool:
        return True

    def keep_start(self) -> None:
        """No request lies here."""

    def begin_again(self, token: Token) -> int:
        """One who asked for it stands behind this delivery: it is never too many."""
        self._deliveries += 1
        return self._deliveries

    def finish(self, tokens: Iterable[Token]) -> None:
        self._handled()

    def drop(self, token: Token) -> None:
        self._handled()


def _pieces(view: MessageView) -> Iterator[bytes]:
    data = memoryview(view.to_bytes())
    for at in range(0, len(data), CHUNK_BYTES):
        yield bytes(data[at : at + CHUNK_BYTES])


Handler = Callable[[Message], object]


class Delivery:
    """Handlers, subscriptions and what waits for ``receive``. Thread-safe."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool
        self._handler: Handler | None = None
        self._subscriptions: tuple[tuple[str, Handler], ...] = ()
        self._patterns: dict[str, bool] = {}
        """Those of the subscriptions, and whether they are shared."""
        self._batches: Batches | None = None
        self._in_hand: dict[int, Message] = {}
        """What ``receive`` returned last, by thread."""
        self.dead = Dead(context, pool, self.arrive, self.handle)

    # --- what the program asks for ---

    def on_message(self, handler: Handler) -> None:
        """Handle messages by ``handler``; those that already wait are handled first."""
        self._context.check_open()

        def register() -> None:
            if self._handler is not None or self._batches is not None:
                raise ConfigurationError("this node already has a message handler: use one")
            self._handler = handler

        self._pool.claim(register, self.takes)

    def subscribe(self, pattern: str, handler: Handler, shared: bool) -> dict[str, bool]:
        """Add a subscription; returns all patterns, and whether they are shared, for the published entry."""
        check_topic_pattern(pattern)

        def register() -> None:
            if self._batches is not None:
                raise ConfigurationError("this node already has a handler: one for batches is the only one")
            if self._patterns.get(pattern, shared) is not shared:
                raise ConfigurationError(f"{pattern!r} is subscribed to both shared and not: choose one of them")
            self._subscriptions = (*self._subscriptions, (pattern, handler))
            self._patterns = {**self._patterns, pattern: shared}

        self._pool.claim(register, self.takes)
        return self._patterns

    def on_batch(self, handler: BatchHandler, patterns: tuple[str, ...]) -> None:
        """Hand over all messages, and events of ``patterns``, in batches; there is no other handler then."""
        for pattern in patterns:
            check_topic_pattern(pattern)

        def register() -> None:
            if self._handler is not None or self._subscriptions or self._batches is not None:
                raise ConfigurationError("this node already has a handler: one for batches is the only one")
            self._batches = Batches(self._context, self._pool, handler, patterns, self._is_given_up)

        self._pool.claim(register, self.takes)

    def takes(self, arrival: Arrival) -> bool:
        """Whether the program takes a message by now; of an event that is not put together yet, whether it may."""
        if not arrival.is_event:
            return self._handler is not None or self._batches is not None
        patterns = [pattern for pattern, _ in self._subscriptions]
        if self._batches is not None:
            patterns.extend(self._batches.patterns)
        topic = arrival.topic
        return bool(patterns) if topic is None else any(matches(pattern, topic) for pattern in patterns)

    def stop_waiting(self) -> None:
        """The node leaves: a batch that its handler could not take is not tried again."""
        if self._batches is not None:
            self._batches.leaving = True

    # --- fetching ---

    def receive(self, timeout: float | None) -> Message | None:
        """The next message, or None after the timeout; finishes the one that this thread was given before."""
        self._context.check_open()
        before = self._in_hand.pop(threading.get_ident(), None)
        if before is not None:
            before.done()
        fetched = self.fetch(timeout)
        if fetched is None:
            return None
        message, _ = fetched
        self._in_hand[threading.get_ident()] = message
        return message

    def fetch(
        self, timeout: float | None, is_abandoned: Callable[[], bool] = lambda: False
    ) -> tuple[Message, Work] | None:
        """The next message, to be finished by its ``done``, and what ``put_back`` takes; None after the timeout."""
        self._context.check_open()
        deadline = None if timeout is None else monotonic() + timeout

        def is_over() -> bool:
            self._context.check_open()
            return is_abandoned()

        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            work = self._pool.fetch(left, is_over)
            if work is None:
                return None
            message = self._begun(work)
            if message is not None:
                message.when_done(partial(self._pool.done, work))
                return message, work
            self._pool.done(work)

    def _begun(self, work: Work) -> Message | None:
        """The message to be handed out; None if it is lost, must not be handed out, or was begun too often."""
        arrival: Arrival = work.item
        message = arrival.open()
        if message is None or not may_be_handed(self._context, arrival):
            return None
        if arrival.begin() > self._context.max_deliveries and self._is_given_up(arrival, message, ENDED):
            return None
        message.deliveries = arrival.deliveries
        return message

    def put_back(self, token: Work) -> None:
        """A fetch was cancelled: the message is fetched by the next one."""
        token.item.message.when_done(None)
        self._pool.put_back(token, self.takes)

    def wake_receivers(self) -> None:
        self._pool.wake_receivers()

    def finish_in_hand(self) -> None:
        """On close: what ``receive`` returned last counts as handled."""
        while self._in_hand:
            self._in_hand.popitem()[1].done()

    # --- what the thread that reads brings ---

    def arrive(self, arrival: Arrival) -> None:
        """Hand a message to the workers, or let it wait; once the node leaves it stays in its lane."""
        work = self._pool.message(arrival.source, arrival, self.takes)
        if work is None or arrival.is_event:
            return
        if not self.takes(arrival):
            arrival.acknowledge(waiting=True)

    def unclaimed(self, works: tuple[Work, ...]) -> None:
        """Events that nothing took in time are over."""
        for work in works:
            arrival: Arrival = work.item
            self._context.stats.count(counters.EVENTS_UNSUBSCRIBED)
            text = "an event of %s was taken by no subscription: %s"
            self._context.limiter.warn(log, "unsubscribed", text, arrival.source, arrival.topic)
            arrival.acknowledge()
            arrival.finish()

    # --- on a worker ---

    def handle(self, arrival: Arrival, work: Work) -> None:
        """Handle one message; what fails follows the node's policy (S-17)."""
        message = arrival.open()
        if message is None or not may_be_handed(self._context, arrival):
            return
        if not self.takes(arrival):  # an event whose topic was not known before
            self.arrive(arrival)
        elif self._batches is not None:
            self._batches.add(arrival)
        elif arrival.begin() > self._context.max_deliveries and arrival.letter is None:
            self._give_up(arrival, message, work, ENDED)
        else:
            message.deliveries = arrival.deliveries
            self._run(arrival, message, work)

    def _run(self, arrival: Arrival, message: Message, work: Work) -> None:
        try:
            with ProgramsCode(), continued(message.traceparent):
                self._call_handlers(arrival, message)
        except AwayError as error:
            self._wait_for_trust(arrival, message, work, error)
        except WireError as error:
            self._context.stats.count(counters.MESSAGES_MALFORMED)
            self._context.limiter.warn(log, "malformed", "a message of %s is refused: %s", message.source, error)
            arrival.refuse("INVALID_ARGUMENTS", str(error))
            message.done()
        except BaseException as error:  # its own exit or cancellation, too: its sender's next messages wait
            self._context.stats.count(counters.HANDLER_FAILURES)
            with continued(message.traceparent):
                log.error("handler failed for a message of %s", message.source, exc_info=error)
            self._failed(arrival, message, work, failure_line(error))
        else:
            arrival.acknowledge()
            message.done()

    def _call_handlers(self, arrival: Arrival, message: Message) -> None:
        if not arrival.is_event:
            if self._handler is not None:
                with handled(self._context.stats, MESSAGES, arrival):
                    self._handler(message)
            return
        topic = message.topic
        for pattern, handler in [one for one in self._subscriptions if matches(one[0], topic)]:
            with handled(self._context.stats, pattern, arrival):
                handler(message)

    # --- what fails ---

    def _wait_for_trust(self, arrival: Arrival, message: Message, work: Work, error: AwayError) -> None:
        """What is needed to judge the message is away for the moment: it waits, for as long as that takes."""
        if not arrival.failures:
            self._context.stats.count(counters.MESSAGES_WAITING_FOR_TRUST)
        text = "a message of %s waits: %s"
        self._context.limiter.warn(log, "away", text, message.source, error)
        self._again(arrival, work, arrival.failed(counts=False))

    def _failed(self, arrival: Arrival, message: Message, work: Work, text: str) -> None:
        if self._context.on_error == "retry" and arrival.deliveries < self._context.max_deliveries:
            self._again(arrival, work, arrival.failed(counts=True))
        else:
            self._give_up(arrival, message, work, text)

    def _give_up(self, arrival: Arrival, message: Message, work: Work, text: str) -> None:
        if not self._is_given_up(arrival, message, text):
            self._again(arrival, work, arrival.failed(counts=False))

    def _is_given_up(self, arrival: Arrival, message: Message, text: str) -> bool:
        """Put a message aside or drop it, and tell its sender; False if there is no room for dead letters."""
        if message.is_done:
            return True
        if self._context.on_error == "drop":
            self._context.stats.count(counters.MESSAGES_DROPPED)
            log.error("a message of %s was dropped: %s", message.source, text)
        elif not self.dead.keep(arrival, message, "EXECUTION_FAILED", text):
            return False
        arrival.refuse("EXECUTION_FAILED", text[:MAX_ERROR_CHARACTERS])
        if arrival.letter is None or self._context.on_error == "drop":
            message.done()
        return True

    def _again(self, arrival: Arrival, work: Work, failures: int) -> None:
        seconds = min(RETRY_MOST_SECONDS, RETRY_FIRST_SECONDS * 2 ** min(failures - 1, 16))
        self._pool.again(work, seconds)
        self._context.waker.wake_by(monotonic() + seconds)
