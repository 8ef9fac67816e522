"""The messages of nodes in Kafka, NATS, Redis, PostgreSQL, S3 and SQS, for programs without a root.

    with speed.messages.connect("kafka://127.0.0.1:9092") as kafka:
        kafka.publish("orders.created", {"id": 17}, key="customer-4")
        for message in kafka.subscribe("orders.*", group="billing"):
            print(message.payload)

What is published is what ``Node.publish`` sends, and what is consumed is what a node's handlers get.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from speed.backends import open_backend
from speed.backends.address import Address, parse_address
from speed.backends.backend import (
    MAX_BATCH_BYTES,
    MAX_BATCH_MESSAGES,
    MAX_MESSAGE_BYTES,
    START,
    BackendAwayError,
    BackendError,
    BackendFullError,
    BackendRefusedError,
    Health,
    Namespaces,
    Outgoing,
)
from speed.backends.migrating import Judge
from speed.backends.subscription import PREFETCH, DualSubscription, OnRefused, Received, Refused, Subscription
from speed.core.hints import in_seconds, number, text, texts
from speed.engine.options import check_namespace
from speed.engine.tracing import with_trace
from speed.errors import ConfigurationError, PayloadTooLargeError, SpeedError
from speed.message.old_forms import FORMS, KAFKA, NATS, POSTGRESQL, REDIS, old_form
from speed.message.options import with_keywords
from speed.message.security import Guard, MessageSecurity
from speed.message.writing import new_message_id
from speed.node.remote import EncodedMessage, write
from speed.wire.limits import MAX_TOPIC_KEY_BYTES
from speed.wire.names import check_node_name, check_topic, check_topic_pattern
from speed.wire.seal import random_bytes

if TYPE_CHECKING:
    from speed.backends.backend import Backend
    from speed.message.options import PublishOptions


def connect(
    address: str,
    *,
    name: str = "",
    namespace: str = "default",
    accept_namespaces: Iterable[str] = (),
    security: MessageSecurity | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> Connection:
    """A connection to the backend of ``address``. It is made when it is first used, and again after a failure.

    Args:
        address: ``kafka://host:9092``, ``nats://host:4222``, ``redis://host:6379/0``, ``postgres://host:5432/database``,
            ``s3://bucket?endpoint=https://host`` or ``sqs://queue?region=eu-west-1``. With ``user:password@`` before
            the host, or ``?password_file=PATH``; ``?tls=true`` encrypts, ``&trusted=PATH`` names certificates to trust.
        name: of the publisher, as a node's; without one its messages name none.
        namespace: written into the metadata of messages; those of others are not handed out here. A group is one of
            its namespace: groups of one name in two of them do not share their messages.
        accept_namespaces: further ones whose messages are; ``"*"`` for all.
        security: how messages are signed, encrypted and checked; without it none is.
        max_message_bytes: bound of a whole message, published or received.

    Raises ConfigurationError for an address that is none, and where the backend's library is not installed;
    InvalidNameError for the name.
    """
    if name:
        check_node_name(name)
    limit = int(number("max_message_bytes", max_message_bytes))
    if limit < 1024:
        raise ConfigurationError(f"max_message_bytes is {limit}; use 1024 or more")
    accepted = texts("accept_namespaces", accept_namespaces)
    for one in (namespace, *accepted):
        check_namespace(one)
    parsed = parse_address(text("address", address))
    taken = Namespaces(namespace, frozenset(accepted))
    return Connection(parsed, open_backend(parsed, limit), name, taken, security, limit)


class Connection:
    """One backend; made by ``connect``. Thread-safe. Used as ``with`` it closes at the end."""

    def __init__(
        self,
        address: Address,
        backend: Backend,
        name: str,
        namespaces: Namespaces,
        security: MessageSecurity | None,
        max_message_bytes: int,
    ) -> None:
        self._address, self._backend = address, backend
        self._name, self._namespaces, self._limit = name, namespaces, max_message_bytes
        self._security = security
        self._guard = Guard(security or MessageSecurity())
        self._ids = _GrowingIds()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Connection to {self._address}>"

    # --- publishing ---

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> str:
        """Publish one message; returns its id once the backend has confirmed it.

        ``key`` keeps messages in order: those of one key stay in the order in which they were published.
        ``options`` and ``keywords`` are as of ``Node.send``; ``timeout`` is in seconds.

        Raises BackendAwayError (the message may be kept or not: publish it again), BackendRefusedError,
        BackendFullError, PayloadTooLargeError, and what ``Node.publish`` raises for a message that cannot be made.
        """
        message = self._written(topic, payload, key, with_keywords(options, keywords))
        self._open().publish([message], in_seconds(timeout))
        return message.message_id

    def publish_all(
        self,
        messages: Iterable[tuple[str, Any] | tuple[str, Any, str | None]],
        *,
        timeout: float = 30.0,
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> list[str]:
        """Publish many messages, each a topic, a payload and perhaps a key; returns their ids once all are confirmed.

        They are sent without waiting for each other, up to 4,096 or 64 MiB at a time; ``timeout`` is for each such
        part. On an error some are kept: publish all again. As ``publish`` otherwise.
        """
        seconds, ids = in_seconds(timeout), []
        for part in _parts(self._all_written(messages, with_keywords(options, keywords))):
            self._open().publish(part, seconds)
            ids += [message.message_id for message in part]
        return ids

    def forward(self, message: bytes, *, key: str | None = None, timeout: float = 30.0) -> str:
        """Publish a whole message that was received elsewhere, as it is but for a token; returns its id.

        Raises WireError for bytes that are no message, and what ``publish`` raises.
        """
        outgoing = self._checked(Outgoing.of(bytes(message), _key(key)))
        self._open().publish([outgoing], in_seconds(timeout))
        return outgoing.message_id

    def _all_written(
        self,
        messages: Iterable[tuple[str, Any] | tuple[str, Any, str | None]],
        options: PublishOptions | None,
    ) -> Iterator[Outgoing]:
        for one in messages:
            yield self._written(one[0], one[1], one[2] if len(one) > 2 else None, options)

    def _written(self, topic: str, payload: Any, key: str | None, options: PublishOptions | None) -> Outgoing:
        check_topic(topic)
        fields = with_trace({}) if options is None else with_trace(options.metadata(), options.trace_context)
        written = write(
            self._guard,
            payload,
            options,
            {**fields, "topic": topic},
            namespace=self._namespaces.own,
            publisher_id=self._name or None,
            make_id=self._ids.make,
        )
        return self._checked(_outgoing(topic, _key(key), written))

    def _checked(self, message: Outgoing) -> Outgoing:
        size = len(message.envelope)
        if size > self._limit:
            raise PayloadTooLargeError(
                f"the message has {size} bytes, and max_message_bytes is {self._limit}: raise it"
            )
        return message

    # --- consuming ---

    def subscribe(
        self,
        pattern: str,
        *,
        group: str = "",
        start: str = "latest",
        prefetch: int = PREFETCH,
        on_refused: OnRefused | None = None,
        old_forms: bool = False,
    ) -> Subscription:
        """Consume a topic, or the topics of a pattern (``orders.*``, ``*``), as a member of a group.

        Args:
            pattern: what to consume.
            group: members of one group share its messages, and the backend keeps its position. Redis with
                ``form=pubsub`` has none.
            start: where a group that is new begins: ``"latest"`` or ``"earliest"``.
            prefetch: how many messages are fetched at once.
            on_refused: gets what is no message, or is refused, instead of the log alone. When it returns, that is
                acknowledged; when it raises, that comes again.
            old_forms: whether messages of the time before there were envelopes are taken too, as the same Message;
                those beside their envelopes are passed over. They are not signed: a policy may refuse them.

        The subscription joins when it is first asked for a message.
        """
        check_topic_pattern(pattern)
        if start not in START:
            raise ConfigurationError(f"start is {start!r}; use one of {', '.join(START)}")
        if bool(group) != self._open().has_groups:
            raise ConfigurationError("channels of Redis have no groups" if group else "give the name of a `group`")
        if group:
            check_node_name(group)
        limit = int(number("prefetch", prefetch))
        if not 0 < limit <= MAX_BATCH_MESSAGES:
            raise ConfigurationError(f"prefetch is {limit}; use 1 to {MAX_BATCH_MESSAGES}")
        guard = None if self._security is None else self._guard
        taken = self._namespaces
        backend = self._open().subscribe(pattern, group, start, namespaces=taken)
        judge = Judge(self._address.backend, frozenset(FORMS), taken.own, self._limit) if old_forms else None
        return Subscription(backend, pattern, taken, guard, limit, self._limit, on_refused, judge)

    # --- the rest ---

    def health(self, timeout: float = 5.0) -> Health:
        """Whether the backend answers within ``timeout`` seconds: ``is_up``, ``seconds``, and else ``trouble``."""
        began = monotonic()
        try:
            self._open().ping(in_seconds(timeout))
        except SpeedError as error:
            return Health(False, monotonic() - began, f"{error.code}: {error}")
        return Health(True, monotonic() - began)

    def _open(self) -> Backend:
        if self._is_closed:
            raise BackendError(f"the connection to {self._address} was closed: make another one")
        return self._backend

    def close(self) -> None:
        """End it; what is under way fails. Close its subscriptions before."""
        if not self._is_closed:
            self._is_closed = True
            self._backend.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def dual(new: Connection, old: Connection, *, old_topic: Callable[[str], str] | None = None) -> DualConnection:
    """Both forms during a migration: envelopes in ``new``, and the older form in ``old``.

        both = speed.messages.dual(kafka, redis)
        both.publish("orders.created", {"id": 17})

    Args:
        new: where envelopes are.
        old: where the older form is: Kafka, NATS, Redis, or PostgreSQL with ``?table=events&form=rows``.
        old_topic: gives the topic in ``old`` for one in ``new``; without it they are called the same, and ``new`` and
            ``old`` must be different places.

    Raises ConfigurationError for a backend that had no older form. Close both connections yourself.
    """
    return DualConnection(new, old, old_topic)


class DualConnection:
    """Two connections; made by ``dual``. Thread-safe."""

    def __init__(self, new: Connection, old: Connection, old_topic: Callable[[str], str] | None) -> None:
        self._new, self._old, self._old_topic = new, old, old_topic or (lambda topic: topic)
        form = _FORM_OF.get(old._address.backend)
        if form is None or (form == "postgresql" and old._address.options["form"] != "rows"):
            raise ConfigurationError(
                f"{old._address} had no older form: name Kafka, NATS, Redis, or a table by ?table=events&form=rows"
            )
        if old_topic is None and new._address == old._address:
            raise ConfigurationError("both forms would lie in the same topics: give `old_topic`")
        self._form = form

    def __repr__(self) -> str:
        return f"<DualConnection to {self._new._address} and {self._old._address}>"

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> str:
        """Publish the envelope, and then the older form, which tells its message id. As ``Connection.publish``.

        When it raises, the envelope may be published and the older form not: publish again, as another message. Before
        anything is published it raises WireError for a payload that is encrypted or compressed, and
        UnserialisableError for one that the older form has no word for.
        """
        message = self._new._written(topic, payload, key, with_keywords(options, keywords))
        self._publish([message], in_seconds(timeout))
        return message.message_id

    def publish_all(
        self,
        messages: Iterable[tuple[str, Any] | tuple[str, Any, str | None]],
        *,
        timeout: float = 30.0,
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> list[str]:
        """Many messages, as ``Connection.publish_all``; each part in both forms before the next one."""
        seconds, ids = in_seconds(timeout), []
        for part in _parts(self._new._all_written(messages, with_keywords(options, keywords))):
            self._publish(part, seconds)
            ids += [message.message_id for message in part]
        return ids

    def _publish(self, messages: Sequence[Outgoing], seconds: float) -> None:
        old_messages = [
            one._replace(topic=check_topic(self._old_topic(one.topic)), old=old_form(self._form, one.envelope))
            for one in messages
        ]
        self._new._open().publish(messages, seconds)
        self._old._open().publish(old_messages, seconds)

    def subscribe(self, pattern: str, *, old_pattern: str | None = None, **how: Any) -> DualSubscription:
        """Messages of both, in one form, each once: an older one beside its envelope is passed over.

        ``old_pattern`` is for ``old``, without it ``pattern``; ``how`` is as of ``Connection.subscribe``.
        """
        new = self._new.subscribe(pattern, **how)
        return DualSubscription(new, self._old.subscribe(old_pattern or pattern, **how, old_forms=True))


_FORM_OF = {"kafka": KAFKA, "nats": NATS, "redis": REDIS, "postgres": POSTGRESQL}


class _GrowingIds:
    """Message ids that grow within a millisecond too: where a backend sorts by them, order is kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unix_ms = 0
        self._low = 0

    def make(self, unix_ms: int) -> str:
        """One that is greater than all before; a clock that goes back is not followed."""
        with self._lock:
            random = random_bytes(16)
            if unix_ms > self._unix_ms:
                self._unix_ms, self._low = unix_ms, int.from_bytes(random[8:], "big") >> 3
            else:
                self._low += 1 + int.from_bytes(random[12:], "big")
            return new_message_id(self._unix_ms, bytes(8) + (self._low & _LOW_BITS).to_bytes(8, "big"))


_LOW_BITS = (1 << 62) - 1


def _outgoing(topic: str, key: str | None, written: EncodedMessage) -> Outgoing:
    return Outgoing.made(written.data, key, topic, written.message_id, written.published_at_ms, written.traceparent)


def _key(key: str | None) -> str | None:
    """ConfigurationError for what no backend takes."""
    if key is None:
        return None
    try:
        size = len(text("key", key).encode())
    except UnicodeEncodeError:
        raise ConfigurationError("the key is no UTF-8: use another one") from None
    if size > MAX_TOPIC_KEY_BYTES:
        raise ConfigurationError(f"the key has {size} bytes, and may have {MAX_TOPIC_KEY_BYTES}: use a shorter one")
    return key


def _parts(messages: Iterable[Outgoing]) -> Iterable[list[Outgoing]]:
    """What is sent at a time."""
    part: list[Outgoing] = []
    size = 0
    for message in messages:
        if part and (len(part) >= MAX_BATCH_MESSAGES or size + len(message.envelope) > MAX_BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.envelope)
    if part:
        yield part


__all__ = [
    "BackendAwayError",
    "BackendError",
    "BackendFullError",
    "BackendRefusedError",
    "Connection",
    "DualConnection",
    "DualSubscription",
    "Health",
    "Received",
    "Refused",
    "Subscription",
    "connect",
    "dual",
]
