"""The link to one other host: sealed greetings, questions, answers, over a broker nobody trusts (H-4 to H-7).

A greeting carries a nonce. Who answers it holds the key of the pair now, so a life that an answer tells is no replay.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from speed.core import counters
from speed.core.log import logger
from speed.engine.tracing import LogLimiter
from speed.errors import (
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    HostAwayError,
    PayloadTooLargeError,
    SpeedError,
    WireError,
)
from speed.fs.identity import unix_ms
from speed.hosts.nats import NatsConnection
from speed.wire.envelope import FLAG_REPLY, EnvelopeType, Header, counter_of, make_sequence, pack_header
from speed.wire.limits import AAD_BYTES, NONCE_BYTES, TAG_BYTES
from speed.wire.names import SUBJECT, host_id
from speed.wire.seal import Aead, Keyring, hkdf, random_bytes
from speed.wire.spc import readable_request_id
from speed.wire.value import pack, unpack_map

# Envelopes between two hosts: sealed with the key of the pair, for two lives (H-4, H-5).

LIFE_BYTES = 16
"""A life is random: no two starts of a host have the same."""
_KEPT = 8
"""Keys for a few lives and keys of the file at a time."""


class PairSeal:
    """Seals and opens what two hosts exchange. Thread-safe."""

    def __init__(self, keyring: Keyring, own: str, other: str, now_ms: Callable[[], int] = unix_ms) -> None:
        """``now_ms``: the wall clock in Unix milliseconds, which envelopes carry for people alone."""
        self._keyring, self._now_ms = keyring, now_ms
        self.own_id, self.other_id = host_id(own), host_id(other)
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Aead] = OrderedDict()

    @property
    def key_id(self) -> str:
        """Of the key that seals now."""
        return self._keyring.key_id.hex()

    def seal_hello(self, payload: bytes, *, reply: bool, nonce: bytes | None = None) -> bytes:
        """One that begins or answers a greeting: it opens in any life. Without ``nonce`` it is random."""
        drawn, flags = nonce or random_bytes(NONCE_BYTES), FLAG_REPLY if reply else 0
        return self._seal(EnvelopeType.DISCOVERY, flags, 1, drawn, payload, b"")

    def seal(self, type_: int, counter: int, payload: bytes, own_life: bytes, other_life: bytes) -> bytes:
        """One for these lives. A counter is used once, and is the nonce."""
        return self._seal(type_, 0, counter, counter.to_bytes(NONCE_BYTES, "big"), payload, own_life + other_life)

    def _seal(self, type_: int, flags: int, counter: int, nonce: bytes, payload: bytes, lives: bytes) -> bytes:
        now = self._keyring.now
        ids = self.own_id, self.other_id
        sequence = make_sequence(1, counter)
        header = pack_header(type_, flags, sequence, self._now_ms(), len(payload), *ids, now.ids[0], nonce)
        return self._aead(now.keys[0], ids[0] + ids[1] + lives).encrypt(nonce, payload, header, header)

    def open_hello(self, header: Header, envelope: bytes) -> bytes:
        """What a greeting says. WireError."""
        return self._open(header, envelope, b"")

    def open(self, header: Header, envelope: bytes, own_life: bytes, other_life: bytes) -> bytes:
        """What was sealed for these lives. WireError UNKNOWN_KEY or BAD_TAG for anything else."""
        return self._open(header, envelope, other_life + own_life)

    def _open(self, header: Header, envelope: bytes, lives: bytes) -> bytes:
        key = self._keyring.now.find(header.key_id)
        if key is None:
            self._keyring.look()
            key = self._keyring.now.find(header.key_id)
        if key is None:
            raise WireError("UNKNOWN_KEY", "the key of the pair is another one")
        aead = self._aead(key, self.other_id + self.own_id + lives)
        try:
            return aead.decrypt(header.nonce, memoryview(envelope)[AAD_BYTES:], envelope[:AAD_BYTES])
        except ValueError:
            raise WireError("BAD_TAG", "the envelope is not authentic") from None

    def _aead(self, key: bytes, about: bytes) -> Aead:
        """The key for one direction, of two lives or of greetings."""
        name = key + about
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                found = self._kept[name] = Aead(hkdf(key, b"speed/1 hosts" + about))
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return found


# What one host knows of another: its life, which a fresh answer proves, and its clock (H-5, H-6).

AWAY_SECONDS = 6.0
"""A host that has not answered for so long is away."""
_OPEN_GREETINGS = 8
_REMEMBERED_LIVES = 64


class Acquaintance:
    """For one thread at a time. Times are those of a monotonic clock, in seconds."""

    def __init__(self, own_life: bytes) -> None:
        self.own_life = own_life
        self.other_life = b""
        """Empty until it is proven."""
        self.round_trip = 0.0
        self._open: OrderedDict[bytes, float] = OrderedDict()
        """Nonces of greetings that are not answered, and when they were sent."""
        self._greetings = 0
        self._newest: OrderedDict[bytes, list[int]] = OrderedDict()
        """Of each life that was proven: the number of its last greeting, and the last counter."""
        self._answered = -AWAY_SECONDS
        self._is_known = False
        self._ahead = 0.0
        """The other clock less ours, at the least."""

    def greeting(self, now: float) -> bytes:
        """One more greeting."""
        nonce = random_bytes(LIFE_BYTES)
        self._open[nonce] = now
        if len(self._open) > _OPEN_GREETINGS:
            self._open.popitem(last=False)
        self._greetings += 1
        return pack({"nonce": nonce, "life": self.own_life, "number": self._greetings})

    def is_strange(self, greeting: bytes) -> bool:
        """Whether a greeting says a life that is not proven. WireError BAD_SEQUENCE for one that came before."""
        fields = _checked(greeting, ("nonce", "life"))
        if fields["life"] != self.other_life:
            return True
        self._take(0, fields.get("number"))
        return False

    def take_counter(self, counter: int) -> None:
        """What is counted so came in the life that is proven. WireError BAD_SEQUENCE if it came before."""
        self._take(1, counter)

    def _take(self, place: int, number: Any) -> None:
        newest = self._newest[self.other_life]
        if type(number) is not int or number <= newest[place]:
            raise WireError("BAD_SEQUENCE", "it came before: it is a replay")
        newest[place] = number

    def answer(self, greeting: bytes, now: float) -> bytes:
        """The answer to a greeting of the other side."""
        fields = _checked(greeting, ("nonce", "life"))
        answer = {
            "nonce": fields["nonce"],
            "life": self.own_life,
            "knows": self.other_life,
            "clock": int(now * 1000),
        }
        return pack(answer)

    def answered(self, answer: bytes, now: float) -> bool:
        """Take an answer; whether the other side began a new life since the last one."""
        fields = _checked(answer, ("nonce", "life"))
        sent = self._open.pop(fields["nonce"], None)
        if sent is None:
            raise WireError("BAD_PAYLOAD", "an answer to no greeting that is open")
        clock, knows = fields.get("clock"), fields.get("knows")
        if type(clock) is not int:
            raise WireError("BAD_PAYLOAD", "an answer without a clock")
        is_new = bool(self.other_life) and fields["life"] != self.other_life
        self._remember(fields["life"])
        self._answered, self.round_trip = now, now - sent
        self._is_known = knows == self.own_life
        self._ahead = clock / 1000 - now  # it was read before now, so a deadline is early rather than late
        return is_new

    def _remember(self, life: bytes) -> None:
        """One that is proven again, as of a process that was paused, goes on where it was."""
        self.other_life = life
        self._newest.setdefault(life, [0, 0])
        self._newest.move_to_end(life)
        if len(self._newest) > _REMEMBERED_LIVES:
            self._newest.popitem(last=False)

    def is_up(self, now: float) -> bool:
        """Whether both sides know each other's life, and the other has answered lately."""
        return self._is_known and now - self._answered < AWAY_SECONDS

    @property
    def is_known(self) -> bool:
        """Whether the other side has proven our life too."""
        return self._is_known

    def deadline_there(self, deadline: float) -> int:
        """A moment by the other clock, in milliseconds."""
        return int((deadline + self._ahead) * 1000)


def _checked(data: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    fields = unpack_map(data, "greeting")
    for name in names:
        value = fields.get(name)
        if type(value) is not bytes or len(value) != LIFE_BYTES:
            raise WireError("BAD_PAYLOAD", f"a greeting without {name}")
    return fields


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
        self._limiter = LogLimiter()
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
    def in_flight(self) -> int:
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
        self._count(counters.HOSTS_ASKED)
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
        body = {"requestId": request_id, "deadline": self._known.deadline_there(deadline), **question}
        try:
            self.publish(EnvelopeType.SPC_REQUEST, pack(body, "request"))
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
        text = f"host {self.name!r} did not answer in time; it may have run: look before you repeat it"
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
        size, limit = len(payload) + AAD_BYTES + TAG_BYTES, self._broker.max_payload
        if size > limit:
            raise PayloadTooLargeError(
                f"{size} bytes are more than the NATS server takes ({limit}): send less, or raise its max_payload"
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
            self._count(counters.HOSTS_ANSWERS_UNEXPECTED)
        else:
            answers.put(payload)
