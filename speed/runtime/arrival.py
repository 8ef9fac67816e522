"""One message or event on its way from the thread that reads to whoever handles it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from speed.core.progress import Token
from speed.runtime.inbound import Lane
from speed.runtime.message import Message
from speed.wire.limits import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from speed.core.scheduler import Work

Open = Callable[["Arrival"], "Message | None"]
"""Puts a payload in segments together; None if that failed, which was told where it had to be."""
Acknowledge = Callable[[bool], None]
"""Tells the sender that it was handled, or with True that it waits for the program to take it."""
Refuse = Callable[[str, str], None]
Answer = tuple[Acknowledge, Refuse]


class Arrival:
    """``token`` commits it in ``lane``. Its sender is answered once, if it asked for that: ``is_asked``.

    ``letter`` is the number of the dead letter that it was until now, if it was one.
    """

    __slots__ = (
        "_answers",
        "_is_counted",
        "_opener",
        "_report",
        "_run",
        "deliveries",
        "failures",
        "is_event",
        "lane",
        "letter",
        "message",
        "order",
        "priority",
        "redelivered",
        "token",
    )

    def __init__(
        self,
        lane: Lane,
        token: Token,
        *,
        is_event: bool,
        redelivered: bool,
        run: Callable[[Arrival, Work], None],
        message: Message | None = None,
        order: Hashable = None,
        answer: Answer | None = None,
        is_asked: bool = True,
    ) -> None:
        self.lane, self.token, self.is_event, self.redelivered = lane, token, is_event, redelivered
        self.message, self.order, self._run = message, order, run
        self._opener: Open | None = None
        self.priority = DEFAULT_PRIORITY if message is None else message.metadata.priority
        self._answers = [answer] if answer is not None and is_asked else []
        self._report = None if answer is None or is_asked else answer[1]
        self.deliveries = 0
        self.failures = 0
        self.letter: int | None = None
        self._is_counted = False

    @property
    def source(self) -> str:
        return self.lane.source

    @property
    def topic(self) -> str | None:
        """None while the payload is not put together."""
        return None if self.message is None else self.message.topic

    def run(self, work: Work) -> None:
        """Handle it, on a worker."""
        self._run(self, work)

    def opens_with(self, opener: Open) -> None:
        """Have the payload put together when its turn has come."""
        self._opener = opener

    def open(self) -> Message | None:
        """The message, put together if need be; None if that failed for good."""
        return self._opener(self) if self.message is None and self._opener is not None else self.message

    def begin(self) -> int:
        """Note that it is begun: how often it has been by then; for one that came again, on disk (L-25)."""
        if not self._is_counted:
            self._is_counted = True
            if self.redelivered:
                self.deliveries = max(self.deliveries + 1, self.lane.begin_again(self.token))
            else:
                self.deliveries += 1
        return self.deliveries

    def failed(self, *, counts: bool) -> int:
        """Its handling failed; how often in a row. What ``counts`` is one delivery more the next time."""
        self._is_counted = not counts
        self.failures += 1
        return self.failures

    def acknowledge(self, *, waiting: bool = False) -> None:
        for acknowledge, _ in self._answer():
            acknowledge(waiting)

    def refuse(self, code: str, text: str) -> None:
        for _, refuse in self._answer():
            refuse(code, text)

    def report(self, code: str, text: str) -> None:
        """Tell its sender unasked that it was refused; one that asked gets its answer."""
        if self._report is not None:
            self._report(code, text)

    def _answer(self) -> list[Answer]:
        """How its sender is answered, once: ``pop`` gives it to one thread alone."""
        try:
            return [self._answers.pop()]
        except IndexError:
            return []

    def finish(self) -> None:
        """Commit it: it is never delivered again."""
        if self.message is not None:
            self.message.done()
        else:
            self.lane.finish((self.token,))
