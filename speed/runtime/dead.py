"""Messages that could not be handled, put aside, and handed to the program again when somebody asks for it (S-18)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from speed.core.log import logger
from speed.core.progress import Token
from speed.core.scheduler import Work
from speed.errors import SpeedError, StorageError
from speed.fs.dead_letters import DeadLetters
from speed.runtime.arrival import Arrival
from speed.runtime.context import Context, unix_ms
from speed.runtime.message import Message
from speed.runtime.workers import WorkerPool
from speed.wire.dead_letter import CHUNK_BYTES, DeadLetter
from speed.wire.limits import MAX_ERROR_CHARACTERS
from speed.wire.message import MessageView

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
            self._context.said.warn(log, "dead", "a dead letter of %s cannot be kept: %s", message.source, error)
            return False
        if kept is None:
            self._context.said.warn(log, "dead full", "there is no room for dead letters: see `speed dead`")
            return False
        self._context.stats.count("dead_letters")
        log.error("a message of %s became dead letter %d: %s", message.source, kept, text)
        return True

    def _put_back(self, number: int) -> bool:
        with contextlib.suppress(StorageError):
            self._letters.move(number, "trying", "letter")
        return True

    # --- what is to be tried again ---

    def start(self) -> None:
        """What was being tried when the last process ended waits for a word again."""
        for one in self._letters.kept():
            if one.state == "trying":
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
        self._arrive(arrival)

    def _handled(self, number: int) -> None:
        with contextlib.suppress(StorageError):
            self._letters.drop(number)


class LetterLane:
    """A dead letter in the place of the lane that its message came by."""

    def __init__(self, source: str, deliveries: int, handled: Callable[[], None]) -> None:
        self.source = source
        self._deliveries = deliveries
        self._handled = handled

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
