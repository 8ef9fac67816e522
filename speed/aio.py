"""The asyncio face of a node, ``node.aio``, and of durable topics: the same verbs, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, overload

from speed.core.hints import checked_seconds, in_seconds, text
from speed.core.signatures import Description
from speed.engine.event_loop import AwaitedItems, Fetched
from speed.engine.futures import CallFuture
from speed.engine.message import Message, Published
from speed.engine.options import Attempts, Retry
from speed.engine.threads import Threads
from speed.engine.tracing import current_trace
from speed.engine.workers import place_given_up
from speed.errors import AccessDeniedError, ApplicationError, CallWithdrawnError, ConfigurationError, SpeedError
from speed.node.calls import STARTING_SECONDS, outwait
from speed.node.consumer import (
    AWAY,
    GRACE_SECONDS,
    PAUSE_SECONDS,
    WAIT_SECONDS,
    Consumer,
    TopicMessage,
    is_unknown,
)
from speed.node.streaming import Stream
from speed.node.topic import Topic, due_ms
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.topic import TopicOffset, offsets_of, outgoing, traced
from speed.wire.value import pack

if TYPE_CHECKING:
    from speed.node.group import GroupFuture
    from speed.node.verbs import Verbs
    from speed.wire.spc import Progress


_VERBS_OWN = {"options", "ack", "on_progress", "unordered", "on_full", "key"}
"""What ``send`` and ``publish`` take beside the metadata of a message."""

# Messages that tasks of asyncio have in their hands.


class InHand:
    """What each task received last; finished when that task asks again or, once it has ended, when any task does.

    Thread-safe: a node may serve several event loops.
    """

    def __init__(self) -> None:
        self._of: dict[asyncio.Task[Any] | None, Message] = {}

    def give(self, message: Message) -> Message:
        self._of[asyncio.current_task()] = message
        return message

    def over(self) -> list[Message]:
        """What is to be finished now that this task asks again."""
        this = asyncio.current_task()
        over = [task for task in list(self._of) if task is this or task is None or task.done()]
        return [message for task in over if (message := self._of.pop(task, None)) is not None]

    def all(self) -> list[Message]:
        """The same at the end of the node."""
        found = []
        while self._of:
            found.append(self._of.popitem()[1])
        return found


# Durable topics for asyncio: ``node.aio.topic("orders")``. What is not here is as in ``speed.Topic``.


async def _call_when_allowed(
    node: AsyncNode, host: str, service: str, arguments: dict[str, Any], timeout: float
) -> Any:
    ends = time.monotonic() + min(checked_seconds("timeout", timeout), STARTING_SECONDS)
    while True:
        try:
            return await node.call(host, service, arguments, timeout=timeout)
        except AccessDeniedError as error:
            ends = await asyncio.to_thread(outwait, node._node, host, ends, error)


class AsyncTopic:
    """A durable topic for asyncio; made by ``node.aio.topic(name)``."""

    def __init__(self, node: AsyncNode, topic: Topic) -> None:
        self._node, self._topic = node, topic
        self.name, self.host = topic.name, topic.host

    async def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        return await _call_when_allowed(self._node, self.host, f"topics.{service}", dict(arguments), timeout)

    async def publish(self, payload: Any, *, timeout: float = 30.0, **how: Any) -> TopicOffset:
        """Like ``Topic.publish``."""
        due = due_ms(how.pop("deliver_after", None), how.pop("deliver_at_ms", None), int(time.time() * 1000))
        named = {"producer": how.pop("producer", ""), "owner": how.pop("owner", "")}
        properties = traced(how.pop("properties", None), current_trace())
        one = outgoing(pack(payload, "payload"), how.pop("key", None), properties, due, how.pop("sequence", 0))
        if how:
            raise ConfigurationError(f"publish does not know {', '.join(sorted(how))}")
        return offsets_of(await self._call("publish", {"topic": self.name, "messages": [one], **named}, timeout))[0]

    async def consumer(self, subscription: str, **options: Any) -> AsyncConsumer:
        """Like ``Topic.consumer``, without ``on_message``: ``async for message in await topic.consumer(…)``."""
        return AsyncConsumer(self._node, await asyncio.to_thread(self._topic.consumer, subscription, **options))


class AsyncConsumer:
    """One consumer of a subscription, for asyncio: ``async for message in consumer``. For one task at a time."""

    def __init__(self, node: AsyncNode, consumer: Consumer) -> None:
        self._node, self._consumer = node, consumer
        self.topic, self.subscription, self.name = consumer.topic, consumer.subscription, consumer.name

    @cached_property
    def _lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _closed(self) -> asyncio.Event:
        return asyncio.Event()

    async def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        return await _call_when_allowed(self._node, self._consumer._host, f"topics.{service}", dict(arguments), timeout)

    async def receive(self, timeout: float | None = None) -> TopicMessage | None:
        """Like ``Consumer.receive``: None at once when the consumer is closed. Cancelled, it loses nothing."""
        fetched = self._consumer._fetched
        if not self._closed.is_set() and not self._lock.locked() and (message := fetched.next()) is not None:
            return message
        receiving = asyncio.ensure_future(self._receive(timeout))
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((receiving, closing), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else None
        except asyncio.CancelledError:
            if receiving.done() and not receiving.cancelled() and receiving.exception() is None:
                fetched.give_back(receiving.result())
            raise
        finally:
            closing.cancel()
            receiving.cancel()

    async def _receive(self, timeout: float | None) -> TopicMessage | None:
        ends = None if timeout is None else time.monotonic() + checked_seconds("timeout", timeout)
        fetched = self._consumer._fetched
        async with self._lock:
            while not self._closed.is_set():
                message = fetched.next()
                if message is not None:
                    return message
                left = WAIT_SECONDS if ends is None else ends - time.monotonic()
                seconds = max(0.0, min(left, WAIT_SECONDS))
                has_some = await (self._begin() if fetched.has_more else self._fetch(seconds))
                if not has_some and ends is not None and time.monotonic() >= ends:
                    return None
        return None

    async def _begin(self) -> bool:
        fetched = self._consumer._fetched
        return await self._exchange("begin", fetched.beginning(), 0.0, fetched.begun)

    async def _fetch(self, seconds: float) -> bool:
        fetched = self._consumer._fetched
        return await self._exchange("receive", fetched.question(seconds), seconds, fetched.take)

    async def _exchange(
        self, service: str, question: Mapping[str, Any], seconds: float, take: Callable[[Mapping[str, Any]], bool]
    ) -> bool:
        try:
            began = time.monotonic()
            if take(await self._call(service, question, seconds + GRACE_SECONDS)):
                return True
            if time.monotonic() - began >= PAUSE_SECONDS:
                return False
        except AWAY:
            pass
        except ApplicationError as error:
            if not is_unknown(error):
                raise
            if not self._consumer._closing.is_set():
                await asyncio.to_thread(self._consumer._join_again)
            return False
        await asyncio.sleep(min(seconds, PAUSE_SECONDS))
        return False

    async def __aiter__(self) -> AsyncIterator[TopicMessage]:
        while (message := await self.receive()) is not None:
            yield message

    async def acknowledge(self, *messages: TopicMessage) -> int:
        """Like ``Consumer.acknowledge``."""
        fetched = self._consumer._fetched
        questions = fetched.acknowledgements(messages)
        return sum([fetched.settled(await self._call("acknowledge", question)) for question in questions])

    async def acknowledge_until(self, message: TopicMessage) -> int:
        """Like ``Consumer.acknowledge_until``."""
        fetched = self._consumer._fetched
        (question,) = fetched.acknowledgements([message], until=True)
        return fetched.settled(await self._call("acknowledge", question))

    async def reject(self, *messages: TopicMessage, delay: float | None = None) -> int:
        """Like ``Consumer.reject``."""
        return int((await self._call("reject", self._consumer._fetched.rejection(messages, delay)))["rejected"])

    async def close(self) -> None:
        """Like ``Consumer.close``: ends whoever awaits messages, at once."""
        self._closed.set()
        await asyncio.to_thread(self._consumer.close)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncStream(AsyncIterator[Any]):
    """The items of a call, awaited; one task reads at a time. One that is cancelled withdraws the call."""

    def __init__(self, node: AsyncNode, begin: Callable[[], Stream]) -> None:
        self._node, self._begin = node, begin
        self._stream: Stream | None = None
        self._is_closed = False

    @property
    def result(self) -> Any:
        """What the service returned beside its items, once they are over."""
        return None if self._stream is None else self._stream.result

    async def __anext__(self) -> Any:
        if (stream := self._stream or await self._begun()).is_ready:
            return next(stream)
        item = await self._waited(next, stream, self)
        if item is self:
            raise StopAsyncIteration
        return item

    async def wait(self) -> Any:
        """Like ``Stream.wait``."""
        return await self._waited((self._stream or await self._begun()).wait)

    async def _begun(self) -> Stream:
        if self._is_closed:
            raise CallWithdrawnError("the stream was closed here", {"phase": "queued"})
        beginning = asyncio.ensure_future(self._node._wait(self._begin))
        try:
            stream: Stream = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(_close_begun)
            raise
        self._stream = stream
        return stream

    async def _waited(self, verb: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await self._node._wait(verb, *arguments)
        except asyncio.CancelledError:
            self._close()
            raise

    def _close(self) -> None:
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()

    async def close(self) -> None:
        """Like ``Stream.close``."""
        self._close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()


def _close_begun(beginning: asyncio.Future[Stream]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()


class AsyncNode:
    """Reached as ``node.aio``; usable from any event loop, several at once.

    Every verb of ``Node`` is there: those that may wait are awaited, and those that only say what is to happen
    (``register``, ``on_message``, …) are those of ``Node`` itself. A cancelled ``call`` is withdrawn; any other verb
    that has begun goes on, and its outcome is dropped. ``async with node.aio`` closes the node at the end.
    """

    def __init__(self, node: Verbs, close: Callable[..., None]) -> None:
        self._node, self._close = node, close
        self._begin()
        self.register, self.unregister, self.service = node.register, node.unregister, node.service
        self.on_message, self.on_batch, self.subscribe = node.on_message, node.on_batch, node.subscribe
        self.on_join, self.on_leave, self.on_lost = node.on_join, node.on_leave, node.on_lost
        self.intercept_calls, self.intercept_services = node.intercept_calls, node.intercept_services
        self.allowed, self.segment = node.allowed, node.segment
        self.name, self.root, self.engine = node.name, node.root, node.engine

    def _begin(self) -> None:
        """Also in a forked child: the threads are the parent's, and the node says so to who asks for new ones."""
        self._starts = Threads(self._node.name, "start")
        self._threads = Threads(self._node.name, "await")
        self._receiving = self._node._receiving()
        self._in_hand = InHand()

    # --- calls ---

    async def call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        retry: Retry | None = None,
        key: str | None = None,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> Any:
        """Like ``Node.call``; calls to one node start in order. ``on_progress`` runs on the event loop."""
        how: dict[str, Any] = {"traceparent": traceparent, "views": views, "returns": returns, "key": key}
        if on_progress is not None:
            loop = asyncio.get_running_loop()

            def hear(progress: Progress) -> None:
                loop.call_soon_threadsafe(on_progress, progress)

            calling = _within(timeout, self._node.call)
            return await self._wait(calling, target, service, arguments, on_progress=hear, retry=retry, **how)
        if retry is None:
            return await self._call(target, service, arguments, timeout, **how)
        attempts = self._node._attempts(text("node", target), in_seconds(timeout), retry)
        if retry.hedge_seconds is not None:
            how["settled"] = partial(self._hedged, retry.hedge_seconds, attempts)
        while True:
            try:
                result = await self._call(target, service, arguments, attempts.left, **how)
            except SpeedError as error:
                await asyncio.sleep(attempts.pause(error))
            else:
                attempts.succeeded()
                return result

    def stream(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        items: Iterable[Any] | AsyncIterable[Any] | None = None,
        **how: Any,
    ) -> AsyncStream:
        """Like ``Node.stream``, options included: ``async for row in node.aio.stream("billing", "rows"): …``.

        The call begins when its first item is asked for. ``items`` may be asynchronous.
        """
        if isinstance(items, AsyncIterable):
            items = AwaitedItems(items, asyncio.get_running_loop())
        return AsyncStream(self, partial(self._node.stream, target, service, arguments, items=items, **how))

    async def _call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None,
        timeout: float | None,
        *,
        settled: Callable[[Any], Awaitable[Any]] = asyncio.wrap_future,
        **how: Any,
    ) -> Any:
        begin = partial(_within(timeout, self._node.submit), **how)
        with place_given_up():
            starting = self._starts.run(target, begin, target, service, arguments)
            try:
                future = await asyncio.wrap_future(starting)
            except asyncio.CancelledError:
                starting.add_done_callback(_withdraw)
                raise
            if isinstance(future, CallFuture):
                future.callbacks_are_brief = True  # they wake the loop, even while all workers wait for it
            return await settled(future)

    async def _hedged(self, seconds: float, attempts: Attempts, future: GroupFuture) -> Any:
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait((waiting,), timeout=seconds)
            if not waiting.done() and attempts.may_hedge():
                await asyncio.wrap_future(self._threads.run(None, future.ask_another))
            return await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        key: str | None = None,
    ) -> asyncio.Task[Any]:
        """Start a call; the task ends with its result. Cancelled, it withdraws the call."""
        how: dict[str, Any] = {"traceparent": traceparent, "views": views, "returns": returns, "key": key}
        return asyncio.get_running_loop().create_task(self.call(target, service, arguments, timeout=timeout, **how))

    async def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Like ``Node.ping``."""
        return await self._run(timeout, self._node.ping, target)  # type: ignore[no-any-return]

    async def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Like ``Node.services``."""
        return await self._run(timeout, self._node.services, target)  # type: ignore[no-any-return]

    async def describe(self, target: str, service: str | None = None, *, timeout: float = 5.0) -> list[Description]:
        """Like ``Node.describe``."""
        return await self._run(timeout, self._node.describe, target, service)  # type: ignore[no-any-return]

    async def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """Like ``Node.info``."""
        return await self._run(timeout, self._node.info, target)  # type: ignore[no-any-return]

    async def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Like ``Node.stats``."""
        return await self._run(timeout, self._node.stats, target)  # type: ignore[no-any-return]

    # --- messages and events ---

    async def send(self, target: str, payload: Any, *, ack: bool = False, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send``, options included; a wait for room or acknowledgement does not block the loop."""
        named = self._named(how)
        return await self._run(timeout, self._node.send, target, payload, ack=ack, **named)  # type: ignore[no-any-return]

    async def send_all(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **how: Any) -> None:
        """Like ``Node.send_all``; another thread goes through ``payloads``."""
        await self._run(timeout, self._node.send_all, target, payloads, **self._named(how))

    async def send_batch(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send_batch``; another thread goes through ``payloads``."""
        named = self._named(how)
        return await self._run(timeout, self._node.send_batch, target, payloads, **named)  # type: ignore[no-any-return]

    async def forward(
        self, target: str, messages: Sequence[bytes], *, event: bool = False, ack: bool = False, timeout: float = 5.0
    ) -> None:
        """Like ``Node.forward``."""
        await self._run(timeout, self._node.forward, target, messages, event=event, ack=ack)

    async def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **how: Any) -> Published:
        """Like ``Node.publish``, options included."""
        named = self._named(how)
        return await self._run(timeout, self._node.publish, topic, payload, **named)  # type: ignore[no-any-return]

    @overload
    async def publish_batch(self, topic: str, payloads: Iterable[Any], **how: Any) -> Published: ...
    @overload
    async def publish_batch(self, topic: Iterable[tuple[str, Any]], **how: Any) -> dict[str, Published]: ...
    async def publish_batch(self, topic: Any, payloads: Any = None, *, timeout: float = 5.0, **how: Any) -> Any:
        """Like ``Node.publish_batch``; another thread goes through ``payloads``."""
        return await self._run(timeout, self._node.publish_batch, topic, payloads, **self._named(how))

    def topic(self, name: str, *, host: str = "speedd.topics") -> AsyncTopic:
        """Like ``Node.topic``."""
        return AsyncTopic(self, Topic(self._node, text("topic", name), text("host", host)))

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Like ``Node.receive``. Cancelled, it leaves the message for the next one who asks."""
        for message in self._in_hand.over():
            self._threads.run(None, message.done)  # a commit may wait for the disk
        with place_given_up():
            fetched = await self._fetched(None if timeout is None else in_seconds(timeout))
        return None if fetched is None else self._in_hand.give(fetched.message)

    async def _fetched(self, timeout: float | None) -> Fetched | None:
        if timeout is not None and timeout <= 0:
            return await asyncio.wrap_future(self._threads.run(None, self._receiving.fetch_at_once))
        future = self._receiving.ask()
        try:
            await asyncio.wait((waiting := asyncio.wrap_future(future),), timeout=timeout)
            return None if future.cancel() else await waiting
        except asyncio.CancelledError:
            future.cancel()
            future.add_done_callback(self._receiving.put_back)
            raise

    async def messages(self) -> AsyncIterator[Message]:
        """Like ``Node.messages``: ends when the node is closed."""
        with lazily.guard:
            from speed.errors import NodeClosedError

        while True:
            try:
                message = await self.receive()
            except NodeClosedError:
                return
            if message is not None:
                yield message

    # --- access and other nodes ---

    async def allow(self, *patterns: str) -> None:
        """Like ``Node.allow``."""
        await self._wait(self._node.allow, *patterns)

    async def ready(self) -> None:
        """Like ``Node.ready``."""
        await self._wait(self._node.ready)

    async def deny(self, *patterns: str) -> None:
        """Like ``Node.deny``."""
        await self._wait(self._node.deny, *patterns)

    async def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Like ``Node.nodes``."""
        return await self._wait(self._node.nodes, fabric)  # type: ignore[no-any-return]

    async def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Like ``Node.wait_for``."""
        return await self._run(timeout, self._node.wait_for, target)  # type: ignore[no-any-return]

    async def remove_stale(self) -> list[str]:
        """Like ``Node.remove_stale``."""
        return await self._wait(self._node.remove_stale)  # type: ignore[no-any-return]

    # --- life ---

    @property
    def generation(self) -> int:
        """As of ``Node``."""
        return self._node.generation

    @property
    def closed(self) -> bool:
        """As of ``Node``."""
        return self._node.closed

    async def close(self, **how: Any) -> None:
        """Like ``Node.close``, options included: it waits for work in flight without blocking the loop."""
        if not self._node.closed:
            await self._wait(self._close, **how)

    async def __aenter__(self) -> AsyncNode:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _named(self, how: dict[str, Any]) -> dict[str, Any]:
        """``how`` with metadata in its options: only here can a warning tell the line that awaits."""
        keywords = {name: how.pop(name) for name in how.keys() - _VERBS_OWN}
        return {**how, "options": self._node._options(how.get("options"), keywords)} if keywords else how

    async def _run(self, timeout: float, verb: Any, *arguments: Any, **named: Any) -> Any:
        """A verb on another thread, to end in time however long it waits for its turn."""
        return await self._wait(_within(timeout, verb), *arguments, **named)

    async def _wait(self, verb: Any, *arguments: Any, **named: Any) -> Any:
        with place_given_up():
            return await asyncio.wrap_future(self._threads.run(None, verb, *arguments, **named))

    def _finish_in_hand(self) -> None:
        """On close what ``receive`` returned last counts as handled."""
        for message in self._in_hand.all():
            message.done()

    def _stop(self) -> None:
        """The node is closed."""
        self._receiving.stop()
        self._starts.stop()
        self._threads.stop()


def _within(timeout: float | None, verb: Callable[..., Any]) -> Callable[..., Any]:
    """``verb``, to end in time however long it waits for its turn."""
    deadline = monotonic() + in_seconds(timeout)
    return lambda *arguments, **named: verb(*arguments, timeout=max(0.0, deadline - monotonic()), **named)


def _withdraw(starting: Future[Any]) -> None:
    """A call was cancelled while it was written: one that was is withdrawn."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().cancel()
