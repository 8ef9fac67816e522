"""A connection to NATS that publishes from any thread and hears one subject, made anew whenever it breaks.

It is a page of the protocol, spoken on the threads that there are: the usual client would take two changes of thread
for each message, which is what a call across hosts spends most on. Nothing that comes is trusted.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from speed.backends.address import UNTRUSTED, Address, is_untrusted, tls_context
from speed.core.log import logger
from speed.errors import Execution, HostAwayError
from speed.wire.text import harmless

# Bytes to and from a server, with or without TLS: written by many threads, one at a time, and read by one.


class Channel(Protocol):
    """One connection."""

    def send(self, data: bytes) -> None:
        """All of it. OSError; then the connection is of no use any more."""

    def receive(self, limit: int) -> bytes:
        """What comes next; nothing at the end. TimeoutError if nothing comes for a while."""

    def close(self) -> None:
        """Who reads gets the end."""


class PlainChannel:
    """A socket."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.send, self.receive = raw.sendall, raw.recv

    def close(self) -> None:
        """Who reads gets the end."""
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)
        self._raw.close()


class TlsChannel:
    """TLS on a socket. OpenSSL's own socket must not be written while it is read, so it works on memory."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Greets the server. OSError, ssl.SSLError."""
        self._raw = raw
        self._lock = threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._take(raw.recv(65_536))
        self._flush()

    def send(self, data: bytes) -> None:
        """All of it."""
        with self._lock:
            self._tls.write(data)
            self._flush()

    def receive(self, limit: int) -> bytes:
        """What comes next; nothing at the end."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(limit)
                except ssl.SSLWantReadError:
                    self._flush()  # it may have something to say itself
            data = self._raw.recv(65_536)
            with self._lock:
                self._take(data)

    def _take(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._raw.sendall(self._outgoing.read())

    def close(self) -> None:
        """Who reads gets the end."""
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)
        self._raw.close()


log = logger("speed.hosts")

CONNECT_SECONDS = 3.0
SILENT_SECONDS = 5.0
"""After this long without a byte the server is asked for a sign of life; after twice as long it is gone."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 2.0
END_SECONDS = 3.0
MAX_LINE_BYTES = 32_768
"""Of a line of the protocol: INFO names all servers of a cluster."""
MAX_MESSAGE_BYTES = 64 << 20
_READ_BYTES = 262_144
_LEAST_PAYLOAD = 4096


class _ConnectionBrokenError(Exception):
    """The connection cannot be used any longer; the text has no credentials."""


class NatsConnection:
    """One connection of this process to one of the servers of an address."""

    def __init__(
        self,
        address: Address,
        subject: str,
        on_message: Callable[[bytes], None],
        on_connected: Callable[[], object],
    ) -> None:
        """Both are called on the thread that reads, and must be brief. ``on_message`` gets what comes."""
        self._address, self._subject = address, subject
        self._on_message, self._on_connected = on_message, on_connected
        self._tls = tls_context(address)
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed-hosts-nats", daemon=True)
        self.max_payload = 1 << 20
        """Of one message, as the server says; in bytes."""
        self.trouble = "it is being connected"
        """Why there is no connection; empty while there is one."""

    def start(self) -> None:
        """Connect, and again whenever it breaks."""
        self._thread.start()

    def close(self) -> None:
        """End the connection and its thread."""
        self._stop.set()
        with self._lock:
            channel = self._channel
        if channel is not None:
            channel.close()
        self._thread.join(END_SECONDS)

    def publish(self, subject: str, payload: bytes) -> None:
        """Hand one message to the server. HostAwayError if there is none: then it was not sent as a whole."""
        with self._lock:
            channel = self._channel
            if channel is not None:
                try:
                    channel.send(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
                    return
                except (OSError, ssl.SSLError):
                    self._channel = None
                    channel.close()  # wakes who reads
        error = HostAwayError(f"the NATS server cannot be reached: {self.trouble or 'the connection broke'}")
        error.execution = Execution.NOT_BEGUN
        raise error

    # --- the thread ---

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            was_up = self._until_broken()
            pause = FIRST_PAUSE_SECONDS if was_up else min(2 * pause, MAX_PAUSE_SECONDS)
            self._stop.wait(pause * random.uniform(0.5, 1.0))

    def _until_broken(self) -> bool:
        """Whether there was a connection."""
        was_up = False
        try:
            channel = self._connected()
            was_up = True
            self._serve(channel)
        except (_ConnectionBrokenError, OSError, ssl.SSLError) as error:
            self._broke(_reason(error))
        finally:
            with self._lock:
                channel_now, self._channel = self._channel, None
            if channel_now is not None:
                channel_now.close()
        return was_up

    def _broke(self, why: str) -> None:
        if self._stop.is_set():
            return
        if why != self.trouble:
            log.warning("NATS: %s; it is tried again", why)
        self.trouble = why

    def _connected(self) -> LineReader:
        """A connection that hears the subject."""
        host, port = random.choice(self._address.hosts)
        raw = socket.create_connection((host, port), CONNECT_SECONDS)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reading = LineReader(PlainChannel(raw))
            self._take_info(reading.next_line())
            if self._tls is not None:
                reading = LineReader(TlsChannel(raw, self._tls, host))
            reading.channel.send(self._greeting())
            self._confirm(reading)
            raw.settimeout(SILENT_SECONDS)
        except BaseException:
            raw.close()
            raise
        with self._lock:
            self._channel = reading.channel
        self.trouble = ""
        log.info("NATS: connected to %s:%d", host, port)
        self._on_connected()
        return reading

    def _take_info(self, line: bytes) -> None:
        if not line.startswith(b"INFO "):
            raise _ConnectionBrokenError("what answers at the address is no NATS server")
        try:
            info = json.loads(line[5:])
            self.max_payload = min(MAX_MESSAGE_BYTES, max(_LEAST_PAYLOAD, int(info["max_payload"])))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _ConnectionBrokenError("the NATS server says nothing about itself that can be read") from None
        if info.get("tls_required") and self._tls is None:
            raise _ConnectionBrokenError("the NATS server wants TLS: add tls=true to the address")

    def _greeting(self) -> bytes:
        """CONNECT, the subject, and a question that is answered behind them."""
        password = self._address.password()
        options: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": "1",
            "name": "speed",
        }
        if self._address.user and password:
            options |= {"user": self._address.user, "pass": password}
        elif self._address.user or password:
            options["auth_token"] = self._address.user or password
        return b"CONNECT %b\r\nSUB %b 1\r\nPING\r\n" % (json.dumps(options).encode(), self._subject.encode())

    def _confirm(self, reading: LineReader) -> None:
        while (line := reading.next_line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise _ConnectionBrokenError(_refusal(line))

    def _serve(self, reading: LineReader) -> None:
        """Hear until it breaks."""
        has_pinged = False
        while True:
            try:
                line = reading.next_line()
            except TimeoutError:
                if has_pinged:
                    raise _ConnectionBrokenError("the server does not answer") from None
                has_pinged = True
                self._say(reading, b"PING\r\n")
                continue
            has_pinged = False
            self._heard(line, reading)

    def _heard(self, line: bytes, reading: LineReader) -> None:
        if line.startswith(b"MSG "):
            self._on_message(reading.payload(_size(line)))
        elif line == b"PING":
            self._say(reading, b"PONG\r\n")
        elif line.startswith(b"INFO "):
            self._take_info(line)
        elif line.startswith(b"-ERR"):
            raise _ConnectionBrokenError(_refusal(line))
        elif line not in (b"PONG", b"+OK"):
            raise _ConnectionBrokenError("the server says what no NATS server says")

    def _say(self, reading: LineReader, words: bytes) -> None:
        with self._lock:
            reading.channel.send(words)


class LineReader:
    """Lines and payloads from a channel. For one thread."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._buffer = bytearray()

    def next_line(self) -> bytes:
        """Without its end. TimeoutError, OSError, or _ConnectionBrokenError at the end."""
        while (end := self._buffer.find(b"\r\n", 0, MAX_LINE_BYTES)) < 0:
            if len(self._buffer) >= MAX_LINE_BYTES:
                raise _ConnectionBrokenError("the server sends lines without an end")
            self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def payload(self, size: int) -> bytes:
        """So many bytes, and the end of a line behind them."""
        while len(self._buffer) < size + 2:
            self._more()
        with memoryview(self._buffer) as seen:
            data, end = bytes(seen[:size]), bytes(seen[size : size + 2])
        if end != b"\r\n":
            raise _ConnectionBrokenError("a message has another size than the server said")
        del self._buffer[: size + 2]
        return data

    def _more(self) -> None:
        data = self.channel.receive(_READ_BYTES)
        if not data:
            raise _ConnectionBrokenError("the server closed the connection")
        self._buffer += data


def _size(line: bytes) -> int:
    """Of the message that a line announces."""
    word = line.rpartition(b" ")[2]
    if word.isdigit() and len(word) < 10 and int(word) <= MAX_MESSAGE_BYTES:
        return int(word)
    raise _ConnectionBrokenError("a message has no size that can be")


def _refusal(line: bytes) -> str:
    """What an error line means; it may name an account or a subject, so only its kind is told."""
    text = line.lower()
    if b"authorization" in text or b"authentication" in text:
        return "the NATS server refuses the credentials"
    if b"permissions" in text:
        return "the NATS server refuses a subject to this user: allow `speed.hosts.*`"
    return f"the NATS server says {harmless(line[5:85].decode(errors='replace'))}"


def _reason(error: BaseException) -> str:
    if is_untrusted(error):
        return UNTRUSTED
    if isinstance(error, _ConnectionBrokenError):
        return str(error)
    with suppress(AttributeError):
        if error.strerror:  # type: ignore[attr-defined]
            return str(error.strerror)  # type: ignore[attr-defined]
    return f"no connection ({type(error).__name__})"
