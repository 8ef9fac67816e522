"""Producers, consumers and readers over WebSocket. They connect at first use, and again after a connection ended."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import quote

from speed.core.hints import checked_seconds
from speed.errors import ConfigurationError, PayloadTooLargeError
from speed.message.errors import MessageError
from speed.pulsar import frames
from speed.pulsar import payloads as codecs
from speed.pulsar.frames import PulsarConnectionError, PulsarRefusedError, PulsarTimeoutError, UnreadableError
from speed.pulsar.payloads import DataKey, Decryptor, Key, PulsarMessage, closed, load_private, load_public, opened
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES

MAX_SENT_FRAME_BYTES = 1 << 20
"""What Pulsar takes unless it is configured for more; it closes the connection on a longer frame."""
MAX_RECEIVED_FRAME_BYTES = 16 << 20
OPEN_SECONDS = 30.0
"""How long a connection is waited for at least: the server answers when the topic is there, and may have to make it."""
KEY_SECONDS = 4 * 3600.0
"""How long Pulsar's Java client uses a data key."""
KEY_MESSAGES = 1 << 20
CRYPTO_FAILURES = ("fail", "discard", "consume")


class _Deadline:
    """Ends a connection whose server does not read in time: to send waits for that, and takes no time-out."""

    def __init__(self, connection: Any, seconds: float) -> None:
        self._connection = connection
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        self.is_over = True
        with suppress(OSError):  # it has ended meanwhile
            # Not the method of a socket of TLS, which would take that from the thread that sends.
            socket.socket.shutdown(self._connection.socket, socket.SHUT_RDWR)


class _Link:
    """One WebSocket, opened when it is needed; ``make_address`` is asked each time. For one thread at a time."""

    def __init__(self, pulsar: Pulsar, make_address: Callable[[], str]) -> None:
        self._pulsar, self._make_address = pulsar, make_address
        self._connection: Any = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def send(self, frame: str, timeout: float) -> None:
        """Raises PulsarTimeoutError when the server does not read it within ``timeout`` seconds."""
        if self._connection is None:
            self._connection = self._opened(timeout)
        deadline = _Deadline(self._connection, timeout)
        try:
            with deadline:
                self._connection.send(frame)
        except lazily.load("websockets.exceptions").ConnectionClosed as error:
            ended = self._ended(error)
            if deadline.is_over:
                raise PulsarTimeoutError("the server does not read; what was being sent may have come or not") from None
            raise ended from None

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """The next frame; None if none comes in time."""
        if self._connection is None:
            self._connection = self._opened(timeout)
        try:
            return frames.parse(self._connection.recv(timeout))
        except TimeoutError:
            return None
        except lazily.load("websockets.exceptions").ConnectionClosed as error:
            raise self._ended(error) from None

    def _opened(self, timeout: float) -> Any:
        exceptions = lazily.load("websockets.exceptions")
        try:
            return self._pulsar.opened(self._make_address(), max(timeout, OPEN_SECONDS))
        except exceptions.InvalidStatus as error:
            status = error.response.status_code
            raise PulsarRefusedError(f"the server refuses the connection with HTTP status {status}") from None
        except TimeoutError:
            raise PulsarTimeoutError("the server does not answer: is the address that of its WebSocket?") from None
        except (OSError, exceptions.WebSocketException) as error:
            raise PulsarConnectionError(f"the server cannot be reached: {type(error).__name__}") from None

    def _ended(self, error: Any) -> PulsarConnectionError:
        self._connection = None
        code = error.rcvd.code if error.rcvd else "none"
        return PulsarConnectionError(f"the server ended the connection (close code {code})")


class _Closing(ABC):
    @abstractmethod
    def close(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Pulsar(_Closing):
    """A Pulsar, and the producers, consumers and readers that are open on it. Made by ``connect``."""

    def __init__(self, server: str, token: str | None, context: ssl.SSLContext | None, max_frame_bytes: int) -> None:
        if not server.startswith(("ws://", "wss://")):
            raise ConfigurationError(f"{server[:200]!r} is no address: give one as ws://127.0.0.1:8080 or wss://…")
        self.server, self.max_frame_bytes = server, max_frame_bytes
        self._token, self._context = token, context
        self._open: list[_Closing] = []

    def __enter__(self) -> Pulsar:
        return self

    def __repr__(self) -> str:
        return f"<Pulsar {self.server}>"

    def close(self) -> None:
        """Close all that was opened here."""
        while self._open:
            self._open.pop().close()

    def opened(self, address: str, timeout: float) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        manager = lazily.load("websockets.sync.client").connect(
            address,
            additional_headers=headers,
            ssl=self._context if address.startswith("wss:") else None,
            open_timeout=timeout,
            close_timeout=5,
            max_size=MAX_RECEIVED_FRAME_BYTES,
            proxy=None,
        )
        return manager.__enter__()  # it is closed by its own `close`

    def producer(
        self,
        topic: str,
        *,
        encryption_keys: Mapping[str, Key] | None = None,
        compression: str = codecs.NONE,
        key_seconds: float = KEY_SECONDS,
        key_messages: int = KEY_MESSAGES,
        **parameters: str,
    ) -> Producer:
        """Publish to a topic.

        Args:
            topic: as ``public/default/orders``, also behind ``persistent://`` or ``non-persistent://``.
            encryption_keys: the public keys of those who may read, by the names that they know them by: PEM of RSA or
                EC keys, or MessageKeys of RSA. Without any, payloads are not encrypted.
            compression: ``NONE``, ``LZ4``, ``ZLIB``, ``ZSTD`` or ``SNAPPY``.
            key_seconds, key_messages: how long, and for how many messages, a data key is used. A new one needs a new
                connection, which is made by itself.
            parameters: further ones of Pulsar's producer endpoint, as ``sendTimeoutMillis="5000"``.

        Raises ConfigurationError for a topic or compression that is none, KeyRefusedError for a key that is none or too
        short.
        """
        keys = {name: load_public(name, key) for name, key in (encryption_keys or {}).items()}
        if not keys and codecs.check_kind(compression) != codecs.NONE:
            parameters, compression = {"compressionType": compression, **parameters}, codecs.NONE
        bounds = (checked_seconds("key_seconds", key_seconds), key_messages)
        made = Producer(self, topic, keys, codecs.check_kind(compression), bounds, parameters)
        self._open.append(made)
        return made

    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        type: str = "Exclusive",  # noqa: A002 - the word of Pulsar's users
        private_keys: Mapping[str, Key] | None = None,
        crypto_failure: str = "fail",
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        **parameters: str,
    ) -> Consumer:
        """Consume a subscription.

        Args:
            topic: as for ``producer``.
            subscription: its name; a new one begins with the next message that is published.
            type: ``Exclusive``, ``Failover``, ``Shared`` or ``Key_Shared``.
            private_keys: by the names that publishers use: PEM without password, or MessageKeys of RSA.
            crypto_failure: what happens to a message that cannot be opened: ``fail`` raises UnreadableError,
                ``discard`` acknowledges it and goes on, ``consume`` hands it out as it came.
            max_payload_bytes: most that a message or batch may uncompress to.
            parameters: further ones of Pulsar's consumer endpoint, as ``ackTimeoutMillis="60000"``.

        Raises ConfigurationError for an argument that cannot be, KeyRefusedError for a private key that is none or too
        short.
        """
        if type not in frames.SUBSCRIPTION_TYPES:
            raise ConfigurationError(f"type is {type!r}: use one of {', '.join(frames.SUBSCRIPTION_TYPES)}")
        if not subscription:
            raise ConfigurationError("a subscription needs a name")
        opener = _DeliveryOpener(private_keys or {}, crypto_failure, max_payload_bytes)
        path = f"{frames.topic_path(topic)}/{quote(subscription, safe='')}"
        query = {"subscriptionType": type, "cryptoFailureAction": "CONSUME", **parameters}
        made = Consumer(self, lambda: frames.address(self.server, "consumer", path, query), opener)
        self._open.append(made)
        return made

    def reader(
        self,
        topic: str,
        start: str = "latest",
        *,
        private_keys: Mapping[str, Key] | None = None,
        crypto_failure: str = "fail",
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        **parameters: str,
    ) -> Reader:
        """Read a topic without a subscription, from ``earliest``, ``latest`` or behind a message id.

        The other parameters are those of ``consumer``. Pulsar 4.0.1 does not tell readers how a message is encrypted:
        with ``private_keys``, what comes without that is treated as a message that cannot be opened.
        """
        opener = _DeliveryOpener(private_keys or {}, crypto_failure, max_payload_bytes)
        made = Reader(self, topic, start, opener, parameters)
        self._open.append(made)
        return made


class Producer(_Closing):
    """Publishes to one topic. Thread-safe; closed with its Pulsar, or earlier."""

    def __init__(
        self,
        pulsar: Pulsar,
        topic: str,
        keys: Mapping[str, Any],
        compression: str,
        key_bounds: tuple[float, int],
        parameters: Mapping[str, str],
    ) -> None:
        self._pulsar, self._path = pulsar, frames.topic_path(topic)
        self._keys, self._compression, self._parameters = keys, compression, parameters
        self._key_seconds, self._key_messages = key_bounds
        self._data_key: DataKey | None = None
        self._key_ends, self._key_used, self._context = 0.0, 0, 0
        self._lock = threading.Lock()
        self._link = _Link(pulsar, self._address)

    def __enter__(self) -> Producer:
        return self

    def publish(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_at_ms: int | None = None,
        timeout: float = 30.0,
    ) -> str:
        """Publish one message and wait until it is kept; returns its id.

        Args:
            payload: its bytes.
            key: orders messages, and shares them out among consumers of the type ``Key_Shared``.
            properties: texts by name.
            event_time_ms: when what it tells happened, in Unix milliseconds.
            deliver_at_ms: not to be delivered before, in Unix milliseconds.
            timeout: seconds that the server may take to read it and to answer.

        Raises PayloadTooLargeError for a frame above ``max_frame_bytes``, and PulsarRefusedError with the server's
        reason. After PulsarConnectionError and PulsarTimeoutError the message may be kept or not.
        """
        fields = {
            "key": key,
            "properties": dict(properties) if properties else None,
            "eventTime": None if event_time_ms is None else frames.time_text(event_time_ms),
            "deliverAt": deliver_at_ms,
        }
        with self._lock:
            ends = time.monotonic() + checked_seconds("timeout", timeout)
            context = self._send(payload, fields, timeout)
            return frames.published_id(self._answer(context, ends))

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def _address(self) -> str:
        parameters = dict(self._parameters)
        if self._data_key is not None:
            parameters["encryptionKeys"] = frames.encryption_keys(self._data_key.wrapped)
        return frames.address(self._pulsar.server, "producer", self._path, parameters)

    def _send(self, payload: bytes, fields: dict[str, Any], timeout: float) -> str:
        self._context += 1
        context = str(self._context)
        data_key = self._current_key()
        if data_key is not None:
            payload, crypto = self._sealed(payload, data_key)
            fields = {**fields, **crypto}
        frame = frames.publish(payload, context, fields)
        if len(frame) > self._pulsar.max_frame_bytes:
            raise PayloadTooLargeError(
                f"the frame has {len(frame)} bytes and the server takes {self._pulsar.max_frame_bytes}: "
                "publish less at once, or raise webSocketMaxTextFrameSize there and max_frame_bytes here"
            )
        self._link.send(frame, timeout)
        return context

    def _sealed(self, payload: bytes, data_key: DataKey) -> tuple[bytes, dict[str, Any]]:
        kind = self._compression if payload else codecs.NONE
        sealed, iv = data_key.encrypt(codecs.compress(kind, payload))
        self._key_used += 1
        crypto: dict[str, Any] = {"encryptionParam": b64encode(iv).decode()}
        if kind != codecs.NONE:
            crypto |= {"compressionType": kind, "uncompressedMessageSize": len(payload)}
        return sealed, crypto

    def _current_key(self) -> DataKey | None:
        """A new one when the last is used up: it belongs to a connection, so that a new one of these is needed too."""
        now = time.monotonic()
        if self._keys and (self._data_key is None or now >= self._key_ends or self._key_used >= self._key_messages):
            self._link.close()
            self._data_key = DataKey(self._keys)
            self._key_ends, self._key_used = now + self._key_seconds, 0
        return self._data_key

    def _answer(self, context: str, ends: float) -> dict[str, Any]:
        """The answer to one message; those to earlier ones, which were given up, are passed over."""
        while (answer := self._link.receive(max(0.0, ends - time.monotonic()))) is not None:
            if str(answer.get("context")) == context:
                return answer
        self._link.close()
        raise PulsarTimeoutError("the server did not answer in time; the message may be kept or not")


class _DeliveryOpener:
    """What a consumer does with deliveries."""

    def __init__(self, private_keys: Mapping[str, Key], crypto_failure: str, limit: int) -> None:
        if crypto_failure not in CRYPTO_FAILURES:
            raise ConfigurationError(f"crypto_failure is {crypto_failure!r}: use one of {', '.join(CRYPTO_FAILURES)}")
        keys = {name: load_private(name, key) for name, key in private_keys.items()}
        self._decryptor = Decryptor(keys) if keys else None
        self._action, self._limit, self.encryption_reported = crypto_failure, limit, True

    def __call__(self, delivery: frames.ServerDelivery) -> list[PulsarMessage]:
        """Its messages; none if it is to be discarded. Raises UnreadableError."""
        try:
            return opened(delivery, self._decryptor, self._limit, self.encryption_reported)
        except MessageError as error:
            if self._action == "discard":
                return []
            if self._action == "consume":
                return [closed(delivery)]
            unreadable = UnreadableError(f"message {delivery.message_id[:100]} cannot be opened: {error}")
            unreadable.message = closed(delivery)
            raise unreadable from error


class _Receiving(_Closing):
    def __init__(self, pulsar: Pulsar, make_address: Callable[[], str], opener: _DeliveryOpener) -> None:
        self._link, self._opener = _Link(pulsar, make_address), opener
        self._ready: deque[PulsarMessage] = deque()
        self._unopened: deque[dict[str, Any]] = deque()
        self.discarded = 0

    def close(self) -> None:
        """Close the connection; what was not acknowledged is delivered again."""
        self._link.close()
        self._ready.clear()
        self._unopened.clear()

    def receive(self, timeout: float = 30.0) -> PulsarMessage | None:
        """The next message; None if none comes within ``timeout`` seconds.

        Raises UnreadableError for a message that cannot be opened, unless ``crypto_failure`` says otherwise;
        PulsarRefusedError, PulsarConnectionError and PulsarTimeoutError if there is no connection.
        """
        ends = time.monotonic() + checked_seconds("timeout", timeout)
        while not self._ready:
            frame = self._next(ends)
            if frame is None:
                return None
            delivery = frames.delivery(frame)
            self._delivered(delivery)
            self._ready.extend(self._opener(delivery))
            if not self._ready:
                self.discarded += 1
                self._tell(frames.command(None, delivery.message_id))
        return self._ready.popleft()

    def has_reached_end(self, timeout: float = 30.0) -> bool:
        """Whether the topic was ended, and all of it was received. Raises PulsarTimeoutError."""
        ends = time.monotonic() + checked_seconds("timeout", timeout)
        self._tell(frames.command("isEndOfTopic"))
        while (frame := self._link.receive(max(0.0, ends - time.monotonic()))) is not None:
            if "endOfTopic" in frame:
                return bool(frame["endOfTopic"]) and not self._ready and not self._unopened
            self._unopened.append(frame)
        raise PulsarTimeoutError("the server did not say whether the topic has ended")

    def _next(self, ends: float) -> dict[str, Any] | None:
        if self._unopened:
            return self._unopened.popleft()
        frame = self._link.receive(max(0.0, ends - time.monotonic()))
        while frame is not None and "endOfTopic" in frame:  # of a question that was given up
            frame = self._link.receive(max(0.0, ends - time.monotonic()))
        return frame

    def _tell(self, frame: str) -> None:
        self._link.send(frame, 30.0)

    def _delivered(self, delivery: frames.ServerDelivery) -> None:
        """Called with each delivery before it is opened."""


class Consumer(_Receiving):
    """Consumes one subscription. For one thread at a time; closed with its Pulsar, or earlier.

    ``discarded`` counts messages that ``crypto_failure="discard"`` passed over.
    """

    def __enter__(self) -> Consumer:
        return self

    def acknowledge(self, message: PulsarMessage) -> None:
        """It is not delivered again. Messages of a batch are acknowledged together, with the last one of them."""
        if message.finish():
            self._tell(frames.command(None, message.message_id))

    def negative_acknowledge(self, message: PulsarMessage) -> None:
        """It is delivered again after a pause (Pulsar's ``negativeAckRedeliveryDelay``), with its whole batch."""
        self._tell(frames.command("negativeAcknowledge", message.message_id))


class Reader(_Receiving):
    """Reads a topic, and goes on where it was after a connection ended. For one thread at a time."""

    def __init__(
        self, pulsar: Pulsar, topic: str, start: str, opener: _DeliveryOpener, parameters: Mapping[str, str]
    ) -> None:
        self._last, opener.encryption_reported = start, False
        path, query = frames.topic_path(topic), {"cryptoFailureAction": "CONSUME", **parameters}
        super().__init__(
            pulsar, lambda: frames.address(pulsar.server, "reader", path, {**query, "messageId": self._last}), opener
        )

    def __enter__(self) -> Reader:
        return self

    def _delivered(self, delivery: frames.ServerDelivery) -> None:
        """A reader acknowledges only so that more comes."""
        self._last = delivery.message_id
        self._tell(frames.command(None, delivery.message_id))


def connect(
    server: str,
    *,
    token: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    max_frame_bytes: int = MAX_SENT_FRAME_BYTES,
) -> Pulsar:
    """A Pulsar by the address of its WebSocket service; nothing is sent yet.

    Args:
        server: as ``ws://127.0.0.1:8080`` or ``wss://…``.
        token: sent as ``Authorization: Bearer``.
        ssl_context: for ``wss://``; default the system's trusted authorities.
        max_frame_bytes: what the server takes as one frame (its ``webSocketMaxTextFrameSize``).

    Raises ConfigurationError for an address that is none.

    Example:
        with connect("ws://127.0.0.1:8080") as pulsar:
            pulsar.producer("public/default/orders", encryption_keys={"app": pem}).publish(b"…")
    """
    return Pulsar(server, token, ssl_context, max_frame_bytes)
