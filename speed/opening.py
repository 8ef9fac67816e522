"""Messages between the engine and the program: what is refused reaches no handler, and no lane (M-18, M-24 to M-28)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from speed.core.log import logger
from speed.engine import Engine
from speed.errors import SpeedError, WireError
from speed.message.errors import AwayError, MessageError
from speed.runtime.said import Said
from speed.wire.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from speed.runtime.message import BatchHandler
    from speed.runtime.message import Message
    from speed.wire.message import MessageView

log = logger("speed.messages")

Handler = Callable[["Message"], object]
_AWAY_SECONDS = 0.1
"""Pause before a message that could not be judged is looked at again."""


class Opening:
    """Looks at each message before the program does. By itself, it asks what every node asks. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._said = Said()
        self._held: dict[int, Message] = {}
        """What a thread received and cannot be judged now."""

    def opening(self, handler: Handler) -> Handler:
        """``handler`` behind the guard: what is refused does not reach it, and its sender is told the code."""

        def handle(message: Message) -> object:
            return handler(self.opened(message))

        return handle

    def opening_batches(self, handler: BatchHandler) -> BatchHandler:
        """The same for many at a time; places are those of the batch as it came."""

        def handle(messages: Sequence[Message]) -> Mapping[int, SpeedError] | None:
            opened: list[Message] = []
            places: list[int] = []
            refused: dict[int, SpeedError] = {}
            for place, message in enumerate(messages):
                try:
                    opened.append(self.opened(message))
                    places.append(place)
                except WireError as error:
                    refused[place] = error
            answered = (handler(opened) if opened else None) or {}
            if not refused:
                return answered
            of_batch = dict(enumerate(places))  # a place that is none stays none
            return refused | {of_batch.get(place, len(messages)): error for place, error in answered.items()}

        return handle

    def receive(self, timeout: float | None) -> Message | None:
        """The next message that is not refused; one that cannot be judged now is tried again, and comes first."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            message = self._held.pop(threading.get_ident(), None) or self._engine.receive(left)
            if message is None:
                return None
            try:
                return self.opened(message)
            except AwayError:
                self._held[threading.get_ident()] = message
                if left is not None and left <= 0:
                    return None
                time.sleep(_AWAY_SECONDS if left is None else min(left, _AWAY_SECONDS))
            except WireError:
                continue  # said in the log; the next `receive` finishes it

    def opened(self, message: Message) -> Message:
        """Raises WireError for what is refused, by the code of the refusal; AwayError for what cannot be judged now."""
        try:
            view = self._look(message)
        except AwayError:
            raise
        except MessageError as error:
            text = "a message of %s was refused: %s: %s"
            self._said.warn(log, error.code, text, message.source, error.code, error)
            raise WireError(error.code, str(error)) from None
        except WireError as error:
            self._said.warn(log, error.reason, "a message of %s was refused: %s", message.source, error)
            raise
        return message if view is message.metadata else message.with_view(view)

    def check_forwarded(self, messages: Iterable[bytes]) -> None:
        """TokenError for a message with a token, WireError for one in which a token could hide (M-27)."""
        from speed.trust.tokens import check_no_token

        for data in messages:
            try:
                check_no_token(data)
            except (MessageError, WireError) as error:
                self._tell_not_forwarded(data, error)
                raise

    def _tell_not_forwarded(self, data: bytes, error: SpeedError) -> None:
        """For an audit, where there is one."""

    def _look(self, message: Message) -> MessageView:
        """What the program is handed; MessageError, WireError."""
        return opened_unguarded(message.metadata)


def opened_unguarded(view: MessageView) -> MessageView:
    """What a program gets without settings for security: no key is used, and what is compressed alone is read (M-9).

    MessageError for what every reader refuses.
    """
    if not view.says_only_publisher:  # most messages do
        check_unopened(view)
    return view if view.content_encoding == "none" else _decompressed(view)


def _decompressed(view: MessageView) -> MessageView:
    from speed.message.compression import is_read
    from speed.message.opened import open_view, whole

    if view.is_encrypted or view.size > MAX_PAYLOAD_BYTES or not is_read(view.content_encoding):
        return view  # its payload raises, and says why
    return open_view(whole(view), _no_key)


def _no_key(_: str) -> None:
    """Nothing is decrypted."""


def check_unopened(view: MessageView) -> None:
    """What a node asks that verifies and decrypts nothing. AlgorithmError, NotEncryptedError."""
    from speed.message.algorithms import algorithm_of, check_signature_algorithm
    from speed.message.sensitivity import check_sensitivity

    security = view.security
    check_signature_algorithm(security)
    check_sensitivity(security.data_classification, view.is_encrypted)
    if view.is_encrypted:
        algorithm_of(security.encryption.algorithm)
