"""The link to one other host: greetings, questions and answers, over a broker that is not trusted (H-4 to H-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from speed.core.log import logger
from speed.errors import (
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    HostAwayError,
    PayloadTooLargeError,
    SpeedError,
    WireError,
)
from speed.hosts.acquaintance import AWAY_SECONDS, Acquaintance
from speed.hosts.nats import NatsConnection
from speed.hosts.seal import PairSeal
from speed.runtime.said import Said
from speed.wire.envelope import EnvelopeType, Header, counter_of
from speed.wire.hosts import SUBJECT
from speed.wire.limits import AAD_BYTES, TAG_BYTES
from speed.wire.spc import readable_request_id
from speed.wire.value import pack

log = logger("speed.hosts")

RESEND_SECONDS = 1.0
"""How soon what may be repeated is sent again while no answer comes."""
MAX_STRANGERS = 16
"""Greetings of lives that are not proven that are answered, between two of our own."""
MEET_SECONDS = 3.0
"""How long a call waits for a host that has not answered yet."""
Count = Callable[[str], None]
_CANCELLED = object()


class HostLink:
    """One other host. Thread-safe."""

    def __init__(self, name: str, seal: PairSeal, broker: NatsConnection, own_life: bytes, count: Count) -> None:
        self.name = name
        self._seal, self._broker, self._count = seal, broker, count
        self._subject = SUBJECT + name
        self._said = Said()
        self._sending = threading.Lock()
        """Held while a counter is taken and what has it is published: they arrive in order."""
        self._counter = 0
        self._state = threading.Condition()
        self._known = Acquaintance(own_life)
        self._strangers_left = MAX_STRANGERS
        self._was_up = False
        self._waiting: dict[str, SimpleQueue[Any]] = {}

    @property
    def other_id(self) -> bytes:
        """What envelopes name it by."""
        return self._seal.other_id

    @property
    def key_id(self) -> str:
        """Of the key of the pair that seals now."""
        return self._seal.key_id

    @property
    def is_up(self) -> bool:
        """Whether calls can go there."""
        with self._state:
            return not self._broker.trouble and self._known.is_up(monotonic())

    @property
    def round_trip(self) -> float:
        """Of the last greeting, in seconds."""
        return self._known.round_trip

    @property
    def under_way(self) -> int:
        """Questions that wait for their answer."""
        return len(self._waiting)

    # --- greetings ---

    def tick(self) -> None:
        """Now and then: ask for a sign of life. What waits for a host that is away ends."""
        with self._state:
            is_up = self._known.is_up(monotonic())
            was_up, self._was_up = self._was_up, is_up
            self._strangers_left = MAX_STRANGERS
        if was_up and not is_up:
            log.warning("host %s does not answer any more", self.name)
            self._give_up("it does not answer any more")
        self._greet()

    def _greet(self) -> None:
        with self._state:
            greeting = self._known.greeting(monotonic())
        self._publish_hello(greeting, reply=False)

    def _publish_hello(self, payload: bytes, *, reply: bool) -> None:
        try:
            self._broker.publish(self._subject, self._seal.seal_hello(payload, reply=reply))
        except HostAwayError:
            pass  # the broker is away: it is said there

    def greeted(self, header: Header, envelope: bytes) -> None:
        """A greeting came, or an answer to one. WireError for what is none."""
        payload = self._seal.open_hello(header, envelope)
        if header.flags:
            self._answered(payload)
            return
        with self._state:
            is_strange = self._known.is_strange(payload)
            if is_strange and not self._strangers_left:
                return  # a flood of old greetings; what is proven is answered all the same
            greets_back = self._strangers_left > 0 and (is_strange or not self._known.is_known)
            self._strangers_left -= greets_back
            answer = self._known.answer(payload, monotonic())
        self._publish_hello(answer, reply=True)
        if greets_back:
            self._greet()

    def _answered(self, payload: bytes) -> None:
        now = monotonic()
        with self._state:
            is_new = self._known.answered(payload, now)
            is_up = self._known.is_up(now)
            was_up, self._was_up = self._was_up, is_up
            if is_up:
                self._state.notify_all()
        if is_new:
            self._give_up("it was started again")
        if is_up and not was_up:
            log.info("host %s answers", self.name)

    def _give_up(self, why: str) -> None:
        """What waits for an answer of a life that is over gets none."""
        for answers in list(self._waiting.values()):
            answers.put(self._away(f"{why}: it may have run, look before you repeat it", Execution.MAY_HAVE_RUN))

    def _away(self, why: str, execution: Execution) -> HostAwayError:
        error = HostAwayError(f"host {self.name!r} cannot be reached: {why}")
        error.execution = execution
        return error

    # --- questions ---

    def ask(
        self, request_id: str, question: dict[str, Any], deadline: float, cancellation: Any, *, repeats: bool
    ) -> bytes:
        """Ask and wait for the answer, the payload of a response, until ``deadline`` (monotonic seconds).

        With ``repeats`` the question is sent again while none comes: the other side recognises it. Raises
        HostAwayError, PayloadTooLargeError, CallTimeoutError, CallWithdrawnError.
        """
        self._count("hosts_asked")
        self._meet(min(deadline, monotonic() + MEET_SECONDS))
        answers: SimpleQueue[Any] = SimpleQueue()
        self._waiting[request_id] = answers
        try:
            if hasattr(cancellation, "call_when_set"):
                cancellation.call_when_set(lambda: answers.put(_CANCELLED))
            self._send_question(request_id, question, deadline)
            while True:
                left = deadline - monotonic()
                try:
                    return self._outcome(answers.get(timeout=max(0.0, min(left, RESEND_SECONDS) if repeats else left)))
                except Empty:
                    if monotonic() >= deadline:
                        raise self._overdue() from None
                self._resend_question(request_id, question, deadline)
        except CallWithdrawnError:
            self._withdraw(request_id)
            raise
        finally:
            del self._waiting[request_id]

    def _meet(self, until: float) -> None:
        """Wait a moment for a host that is not known yet. HostAwayError."""
        if self._known.is_up(monotonic()):
            return
        with self._state:
            if self._state.wait_for(lambda: self._known.is_up(monotonic()), max(0.0, until - monotonic())):
                return
        raise self._away("it does not answer; see `speed hosts`", Execution.NOT_BEGUN)

    def _send_question(self, request_id: str, question: dict[str, Any], deadline: float) -> None:
        told = {"requestId": request_id, "deadline": self._known.deadline_there(deadline), **question}
        try:
            self.publish(EnvelopeType.SPC_REQUEST, pack(told, "request"))
        except SpeedError as error:
            error.execution = Execution.NOT_BEGUN
            raise

    def _resend_question(self, request_id: str, question: dict[str, Any], deadline: float) -> None:
        try:
            self._send_question(request_id, question, deadline)
        except HostAwayError:
            pass  # perhaps the next time

    def _outcome(self, answer: Any) -> bytes:
        if answer is _CANCELLED:
            raise CallWithdrawnError("the call was withdrawn", {"phase": "running"})
        if isinstance(answer, SpeedError):
            raise answer
        return bytes(answer)

    def _overdue(self) -> CallTimeoutError:
        text = f"host {self.name!r} did not answer in time; it may still run there: look before you repeat it"
        return CallTimeoutError(text, {"phase": "unanswered"})

    def _withdraw(self, request_id: str) -> None:
        try:
            question = pack({"requestId": request_id, "operation": "withdraw"})
            self.publish(EnvelopeType.SPC_REQUEST, question)
        except SpeedError:
            pass  # it ends by its deadline

    # --- what goes and comes ---

    def publish(self, type_: EnvelopeType, payload: bytes) -> None:
        """Seal for the lives of now and publish. HostAwayError, PayloadTooLargeError."""
        self.check_size(payload)
        with self._sending:
            self._counter += 1
            known = self._known
            envelope = self._seal.seal(type_, self._counter, payload, known.own_life, known.other_life)
            self._broker.publish(self._subject, envelope)

    def check_size(self, payload: bytes) -> None:
        """PayloadTooLargeError for what the broker does not take."""
        size, most = len(payload) + AAD_BYTES + TAG_BYTES, self._broker.max_payload
        if size > most:
            raise PayloadTooLargeError(
                f"{size} bytes are more than the NATS server takes ({most}): send less, or raise its max_payload"
            )

    def opened(self, header: Header, envelope: bytes) -> bytes:
        """The payload of what came in the lives of now, each once. WireError."""
        with self._state:
            known = self._known
            if not known.other_life:
                raise WireError("BAD_TAG", "the host is not known yet")
            payload = self._seal.open(header, envelope, known.own_life, known.other_life)
            known.take_counter(counter_of(header.sequence))
        return payload

    def complete(self, payload: bytes) -> None:
        """An answer came."""
        answers = self._waiting.get(readable_request_id(payload) or "")
        if answers is None:
            self._count("hosts_answers_unexpected")
        else:
            answers.put(payload)


__all__ = ["AWAY_SECONDS", "HostLink"]
