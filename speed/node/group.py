"""Families: the verbs of a node for a family of nodes that offer one service, ``pricing.*``. One of them does the work.

Which one, and when another one, is decided in ``speed.core.calls``.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from random import choice
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from speed.core.calls import Member, candidates, choose, difference, member_of, members, not_begun, passes_on
from speed.core.log import logger
from speed.engine.futures import CallFuture
from speed.engine.options import CallRequest, SendRequest
from speed.engine.streams import CallChannel, Reserved, Taken, TakenKind
from speed.engine.tracing import current_trace
from speed.engine.workers import place_given_up
from speed.errors import (
    AccessDeniedError,
    CallTimeoutError,
    ConfigurationError,
    NodeLeftError,
    SpeedError,
    UnknownNodeError,
)
from speed.fs.registry import listed
from speed.wire.entry import Entry
from speed.wire.names import check_grant, matches

if TYPE_CHECKING:
    from speed.engine import Engine
    from speed.wire.spc import StreamOffer

Result = TypeVar("Result")
log = logger(__name__)

MAX_AGE_SECONDS = 1.0
"""Joins and leaves are told at once; a grant that is published or withdrawn is seen after this."""
LOOK_SECONDS = 0.25
MOST_KEY_CHARACTERS = 1024
MOST_DESCRIBED = 64
"""Members that are asked what they are, so that what differs can be told."""
MOST_STARTING = 64
"""Members that may be starting, and are looked for where no other one is there."""
UNSURE = 0
"""The generation of a member whose entry was not read."""
_MOST_WARNINGS = 256
"""Differences that were told and are remembered."""


# Who is there.


class Seeing(Protocol):
    """What is needed of a node, or of its engine."""

    def nodes(self) -> list[Entry]: ...
    def on_join(self, handler: Callable[[Entry], None], /) -> object: ...
    def on_leave(self, handler: Callable[[Entry], None], /) -> object: ...


Observer = TypeVar("Observer", bound=Seeing)


class LiveNodes(Generic[Observer]):
    """The live nodes as one node sees them, read again when one joined or left. There is one for the life of a node."""

    def __init__(self, node: Observer) -> None:
        self.node = node
        self._entries: list[Entry] = []
        self._read_at = float("-inf")
        self._changed = threading.Event()
        node.on_join(self._note)
        node.on_leave(self._note)

    def entries(self) -> list[Entry]:
        """The same list as long as nothing is known to have changed."""
        if self._changed.is_set() or monotonic() - self._read_at > MAX_AGE_SECONDS:
            self.read()
        return self._entries

    def read(self) -> None:
        """Look at the registry itself."""
        self._changed.clear()  # before: what changes while it is read is read again
        self._entries = self.node.nodes()
        self._read_at = monotonic()

    def wait(self, seconds: float) -> None:
        """Until a node joins or leaves, or for a while."""
        self._changed.wait(min(LOOK_SECONDS, seconds))
        self.read()

    def _note(self, _: Entry) -> None:
        self._changed.set()


class Families:
    """What one node knows of the families that it calls: who is there, and what each has under way. Thread-safe."""

    def __init__(self, engine: Engine, caller: str) -> None:
        self.engine, self.caller = engine, caller
        self.live = LiveNodes(engine)
        self._lock = threading.RLock()  # a signal handler may call while this thread chooses
        self._able: dict[str, tuple[list[Entry], dict[str, Member]]] = {}
        """Of each family the entries that were looked at, and the members that may be asked."""
        self._left: dict[Member, float] = {}
        """Who was found gone, until when that is kept: its entry may be there a moment longer."""
        self._under_way: Counter[str] = Counter()
        self._last: dict[str, str] = {}
        """Of each family, the member that was chosen last."""
        self._differences: set[str] = set()

    def able(self, family: str) -> dict[str, Member]:
        """The members that may be asked, by name."""
        entries = self.live.entries()
        known = self._able.get(family)
        if known is None or known[0] is not entries:
            found = {one.name: member_of(one) for one in candidates(members(entries, family), self.caller)}
            known = self._able[family] = entries, found
        return known[1]

    def take(self, family: str, key: str | None, tried: set[Member]) -> str:
        """The member to ask now; it has one call more under way, until ``ended``, and was tried.

        Raises UnknownNodeError, and AccessDeniedError where those that are there do not allow this node.
        """
        rest = self._untried(family, tried)
        if not rest:
            self.live.read()  # one may have joined just now
            rest = self._untried(family, tried) or self._unsure(family, tried)
        if not rest:
            raise self.nobody(family)
        with self._lock:
            last = self._last.get(family) or choice([*rest])  # so that callers do not all begin with one
            name = choose([*rest], self._under_way, last, key)
            if key is None:
                self._last[family] = name
            self._under_way[name] += 1
        tried.add(rest[name])
        return name

    def _untried(self, family: str, tried: set[Member]) -> dict[str, Member]:
        able = self.able(family)
        with self._lock:
            return {name: one for name, one in able.items() if one not in tried and not self._has_left(one)}

    def _unsure(self, family: str, tried: set[Member]) -> dict[str, Member]:
        """Members that may only be starting, which the engine waits for; it finds out whether they are there at all."""
        known = {entry.name for entry in self.live.entries()}
        try:
            found = (name for name in listed(self.engine.root) if matches(family, name) and name not in known)
            some = [Member(name, UNSURE) for name in islice(found, MOST_STARTING)]
        except OSError:
            return {}  # the error of a family that is not there says where to look
        return {one.name: one for one in some if one not in tried}

    def ended(self, name: str) -> None:
        """A call of that member ended."""
        with self._lock:
            self._under_way[name] -= 1
            if self._under_way[name] <= 0:
                del self._under_way[name]

    def left(self, member: Member) -> None:
        """That member was found gone: no call asks it for a while, whatever its entry says."""
        with self._lock:
            now = monotonic()
            self._left = {one: until for one, until in self._left.items() if until > now}
            self._left[member] = now + MAX_AGE_SECONDS

    def _has_left(self, member: Member) -> bool:
        return bool(self._left) and self._left.get(member, 0.0) > monotonic()

    def warn(self, text: str) -> None:
        """Warn of a difference, once."""
        with self._lock:
            is_new = text not in self._differences and len(self._differences) < _MOST_WARNINGS
            if is_new:
                self._differences.add(text)
        if is_new:
            log.warning("%s", text)

    def nobody(self, family: str) -> SpeedError:
        """Why no member can be asked."""
        group = members(self.live.entries(), family)
        error: SpeedError = UnknownNodeError(f"no node of {family!r} is there: start one, or see `speed nodes`")
        if group and not self.able(family):
            error = AccessDeniedError(
                f"{group[0].name!r} does not allow {self.caller!r}, nor does another node of {family!r}; "
                f"their owner must allow {self.caller!r}"
            )
        not_begun(error)
        return error


class Walk:
    """The members that one call asks, one after the other. Each is asked once. For one thread at a time."""

    def __init__(self, families: Families, family: str, key: str | None) -> None:
        self._families, self._family, self._key = families, family, key
        self._tried: set[Member] = set()
        self._error: SpeedError | None = None

    def take(self) -> str:
        """The next one. Raises the error of the last one, or of ``Families.take``, when there is none."""
        try:
            return self._families.take(self._family, self._key, self._tried)
        except (UnknownNodeError, AccessDeniedError) as error:
            raise self._error or error from None

    def failed(self, error: SpeedError, name: str) -> None:
        """That member did not begin it: go on to the next one. Raises ``error`` where it is final."""
        error.node = name
        if not passes_on(error):
            raise error
        if isinstance(error, UnknownNodeError) and Member(name, UNSURE) in self._tried:
            return  # it was not starting
        self._error = error
        if isinstance(error, UnknownNodeError | NodeLeftError):
            for one in self._tried:
                if one.name == name:
                    self._families.left(one)


# What may be done with a family.


class Family:
    """The verbs of an engine, for whichever member does them. Thread-safe."""

    def __init__(self, families: Families, family: str, key: str | None = None) -> None:
        """``key``: what has the same key goes to the same member, as long as it is there."""
        check_grant(family)
        if key is not None and (type(key) is not str or len(key) > MOST_KEY_CHARACTERS):
            raise ConfigurationError(f"key must be text of at most {MOST_KEY_CHARACTERS} characters")
        self._families, self._engine, self._family, self._key = families, families.engine, family, key

    def _walk(self) -> Walk:
        return Walk(self._families, self._family, self._key)

    def _ask(self, timeout: float, ask: Callable[[str, float], Result]) -> Result:
        """What a member, and the seconds that are left, make; of another one where this one began nothing."""
        until, walk = monotonic() + timeout, self._walk()
        while True:
            name = walk.take()
            try:
                return ask(name, max(0.0, until - monotonic()))
            except SpeedError as error:
                walk.failed(error, name)
            finally:
                self._families.ended(name)

    # --- calls ---

    def call(self, request: CallRequest) -> Any:
        return self._ask(
            request.timeout,
            lambda name, left: self._engine.call(request._replace(target=name, timeout=left)),
        )

    def hedged(self, request: CallRequest, seconds: float, may_hedge: Callable[[], bool]) -> Any:
        """The result of whoever answers first: a second member is asked after so many ``seconds``."""
        future = self.submit(request)
        try:
            if not future.has_ended_within(seconds) and may_hedge():
                future.ask_another()
            return future.result()
        except SpeedError:
            raise
        except BaseException:  # a signal's
            future.cancel()
            raise

    def submit(self, request: CallRequest) -> GroupFuture:
        future = GroupFuture(self._families, self._walk(), request)
        future.begin()
        return future

    def open_stream(self, request: CallRequest, offer: StreamOffer) -> FamilyChannel:
        channel = FamilyChannel(self._families, self._walk(), request, offer)
        channel.begin()
        return channel

    def ping(self, target: str, timeout: float) -> float:
        return self._question(timeout, self._engine.ping)

    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]:
        """The answer of one member; of descriptions, all are asked, and what differs is told once."""
        if operation != "DESCRIBE":
            return self._question(timeout, lambda name, left: self._engine.discover(name, operation, left))
        answers = self.descriptions(timeout)
        if text := difference(answers):
            self._families.warn(text)
        return {"services": next(iter(answers.values()))}

    def descriptions(self, timeout: float) -> dict[str, Any]:
        """What members describe, by name, but for those that are gone by now. Raises if all are."""
        until, answers = monotonic() + timeout, dict[str, Any]()
        error: SpeedError = self._families.nobody(self._family)
        for name in sorted(self.able())[:MOST_DESCRIBED]:
            try:
                left = max(0.0, until - monotonic())
                answers[name] = self._engine.discover(name, "DESCRIBE", left)["services"]
            except (UnknownNodeError, NodeLeftError, AccessDeniedError, CallTimeoutError) as gone:
                error = gone
        if not answers:
            raise error
        return answers

    def check_alike(self, timeout: float = 5.0) -> None:
        """ConfigurationError where members describe themselves differently."""
        if text := difference(self.descriptions(timeout)):
            raise ConfigurationError(f"the nodes of {self._family!r} are not alike: {text}")

    def able(self) -> dict[str, Member]:
        """The members that may be asked, by name."""
        return self._families.able(self._family)

    def wait_for(self, timeout: float) -> Entry:
        """The entry of a member, once there is one that may be asked. Raises as ``Families.take``."""
        until = monotonic() + timeout
        while True:
            able = self.able()
            for entry in self._families.live.entries():
                if entry.name in able:
                    return entry
            if (left := until - monotonic()) <= 0:
                raise self._families.nobody(self._family)
            with place_given_up():
                self._families.live.wait(left)

    # --- messages ---

    def send(self, request: SendRequest) -> str:
        return self._write(
            request.timeout,
            request.ack,
            lambda name, left: self._engine.send(request._replace(target=name, timeout=left)),
        )

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        """All to one member, since they keep their order; what was not accepted there stays with the program."""
        name = self._walk().take()
        try:
            self._engine.send_all(name, payloads, timeout, options)
        finally:
            self._families.ended(name)

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        self._write(timeout, ack, lambda name, left: self._engine.forward(name, messages, event, ack, left))

    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None:
        raise ConfigurationError(f"segments are set for one node, not for {self._family!r}")

    def _write(self, timeout: float, ack: bool, write: Callable[[str, float], Result]) -> Result:
        """Nothing was written with the errors that pass on; of a node that left, only where nothing is waited for."""

        def written(name: str, left: float) -> Result:
            try:
                return write(name, left)
            except SpeedError as error:
                if not (ack and isinstance(error, NodeLeftError)):
                    not_begun(error)
                raise

        return self._ask(timeout, written)

    def _question(self, timeout: float, ask: Callable[[str, float], Result]) -> Result:
        """Nothing is changed by a question: another member may be asked it in any case."""
        return self._write(timeout, False, ask)


class GroupFuture(CallFuture):
    """The result of a call that goes from member to member until one begins it, and of two where it is hedged."""

    def __init__(self, families: Families, walk: Walk, request: CallRequest) -> None:
        super().__init__(families.engine.tell, os.getpid(), request.target, request.service)
        self._families, self._walk = families, walk
        self._request = request._replace(traceparent=request.traceparent or current_trace())  # another thread may go on
        self._until = monotonic() + request.timeout
        self._turn = threading.RLock()
        self._open: dict[str, Future[Any]] = {}
        """What is under way, by member."""
        self._latest: Future[Any] | None = None
        self._is_withdrawn = False

    def has_ended_within(self, seconds: float) -> bool:
        with self._place_given_up():
            return bool(wait([self], min(seconds, self._request.timeout)).done)

    def _place_given_up(self) -> AbstractContextManager[None]:
        latest = self._latest  # of the engine's own kind
        return latest._place_given_up() if isinstance(latest, CallFuture) else super()._place_given_up()

    def begin(self) -> None:
        """Ask the next member. Raises what no other one could change."""
        while True:
            name = self._walk.take()
            request = self._request._replace(target=name, timeout=max(0.0, self._until - monotonic()))
            try:
                future = self._families.engine.submit(request)
            except SpeedError as error:
                self._families.ended(name)
                self._walk.failed(error, name)
                continue
            except BaseException:
                self._families.ended(name)
                raise
            break
        with self._turn:
            self._open[name] = self._latest = future
        if isinstance(future, CallFuture):
            future.callbacks_are_brief = True
        future.add_done_callback(partial(self._member_ended, name))
        if self._is_withdrawn:
            future.cancel()

    def ask_another(self) -> None:
        """Have a second member do the same, if there is one: the first result counts."""
        try:
            self.begin()
        except SpeedError:
            return  # the first one may still answer
        if self.done():
            self._cancel_open()

    def cancel(self) -> bool:
        """Withdraw the call, wherever it is."""
        self._is_withdrawn = True
        self._cancel_open()
        return False

    def _cancel_open(self) -> None:
        with self._turn:
            waiting = list(self._open.values())
        for future in waiting:
            future.cancel()

    def _member_ended(self, name: str, future: Future[Any]) -> None:
        """On the thread that ends the call, which waits for nothing."""
        self._families.ended(name)
        with self._turn:
            self._open.pop(name, None)
            is_last = not self._open
        error = future.exception()
        if self.done():
            return
        if error is None:
            self.settle(future.result())
        elif passes_on(error) and not self._is_withdrawn:
            self._tell(partial(self._again, error, name))
            return
        elif is_last or not isinstance(error, NodeLeftError | CallTimeoutError):
            self._end(error)
        if self.done():
            self._tell(self._cancel_open)

    def _again(self, error: BaseException, name: str) -> None:
        try:
            assert isinstance(error, SpeedError)
            self._walk.failed(error, name)
            self.begin()
        except BaseException as final:
            if not self._open:
                self._end(final)

    def _end(self, error: BaseException) -> None:
        self._callee = getattr(error, "node", None) or self._request.target, self._request.service
        self.settle(error if isinstance(error, SpeedError) else ConfigurationError(str(error)))


class FamilyChannel:
    """The channel of a stream that goes from member to member until one begins it: nothing went over it before.

    One thread reads it and another one may write to it; whichever finds that a member began nothing asks the next one.
    """

    wants_items: bool
    sends_items: bool
    wants_progress: bool

    def __init__(self, families: Families, walk: Walk, request: CallRequest, offer: StreamOffer) -> None:
        self._families, self._walk, self._request, self._offer = families, walk, request, offer
        self._until = monotonic() + request.timeout
        self._turn = threading.RLock()
        self._channel: CallChannel
        self._name = ""
        self._is_counted = False
        """That member has one more call under way."""
        self._is_closed = self._is_over = False
        self._result: Any = None
        self._error: SpeedError | None = None

    def begin(self) -> None:
        """Ask the next member. Raises what no other one could change."""
        while True:
            name = self._walk.take()
            request = self._request._replace(target=name, timeout=max(0.0, self._until - monotonic()))
            try:
                channel = self._families.engine.open_stream(request, self._offer)
            except SpeedError as error:
                self._families.ended(name)
                self._walk.failed(error, name)
            except BaseException:
                self._families.ended(name)
                raise
            else:
                break
        self._channel, self._name, self._is_counted = channel, name, True
        self.wants_items, self.sends_items = channel.wants_items, channel.sends_items
        self.wants_progress = channel.wants_progress
        if self._is_closed:
            self.withdraw()
            self.close()

    @property
    def request_id(self) -> str:
        return self._channel.request_id

    @property
    def broken(self) -> str:
        return self._channel.broken

    def take(self, timeout: float) -> Taken:
        channel = self._channel
        taken = channel.take(timeout)
        return _NOTHING if taken[0] == TakenKind.OVER and self._goes_on(channel) else taken

    def reserve(self, size: int, timeout: float) -> int:
        channel = self._channel
        reserved = channel.reserve(size, timeout)
        return Reserved.NOTHING if reserved == Reserved.OVER and self._goes_on(channel) else reserved

    def process(self, items: int, size: int) -> None:
        self._channel.process(items, size)

    def open(self) -> None:
        self._channel.open()

    def write(self, payload: bytes) -> None:
        self._channel.write(payload)

    def report(self, done: float, total: float | None, note: str) -> None:
        self._channel.report(done, total, note)

    def withdraw(self) -> None:
        self._is_closed = True
        self._channel.withdraw()

    def close(self) -> None:
        self._is_closed = True
        self._channel.close()
        self._release()

    def outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def _goes_on(self, ended: CallChannel) -> bool:
        """Whether another member was asked, since the one of ``ended`` began nothing."""
        with self._turn:
            if self._channel is not ended:
                return True  # the other thread asked
            if self._is_over or self._is_closed or ended.broken:
                return False
            self._release()
            try:
                try:
                    self._result = ended.outcome()
                except SpeedError as error:
                    self._walk.failed(error, self._name)
                    self.begin()
                    return True
            except SpeedError as final:
                self._error = final
            self._is_over = True
            return False

    def _release(self) -> None:
        with self._turn:
            is_counted, self._is_counted = self._is_counted, False
        if is_counted:
            self._families.ended(self._name)


_NOTHING: Taken = (TakenKind.NOTHING, None, 0, 0)
