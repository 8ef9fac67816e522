"""The connection to NATS: it comes back, believes nothing, and tells no credentials."""

from __future__ import annotations

import json
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scripts.servers.nats import Nats
from speed.backends.address import parse_address
from speed.errors import Execution, HostAwayError
from speed.hosts import nats
from speed.hosts.nats import NatsConnection
from tests.bridges.joined import eventually
from tests.unit.hosts.broker import INFO, MemoryBroker

WAIT_SECONDS = 20.0
Connect = Callable[..., "Heard"]


class Heard(NatsConnection):
    """A connection that hears `speed.hosts.me`."""

    def __init__(self, address: str) -> None:
        self.messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.connected = 0
        super().__init__(parse_address(address), "speed.hosts.me", self.messages.put, self.note)

    def note(self) -> None:
        self.connected += 1

    def next(self) -> bytes:
        return self.messages.get(timeout=WAIT_SECONDS)


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[Heard] = []

    def start(address: str, *, wait: bool = True) -> Heard:
        made.append(Heard(address))
        made[-1].start()
        if wait:
            eventually(lambda: not made[-1].trouble)
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_what_is_published_is_heard_as_it_was(broker: MemoryBroker, connect: Connect) -> None:
    one = connect(broker.address)
    for data in (b"", b"\r\nMSG speed.hosts.me 1 3\r\nabc", bytes(range(256)) * 200):
        one.publish("speed.hosts.me", data)
        assert one.next() == data
    assert one.max_payload == 65_536


def test_a_message_that_comes_in_pieces_is_put_together(broker: MemoryBroker, connect: Connect) -> None:
    one = connect(broker.address)
    for piece in (b"MS", b"G speed.hosts.me 1 ", b"5\r", b"\nab", b"cde", b"\r", b"\n+OK\r\nPONG\r\n"):
        broker.say(piece)
    assert one.next() == b"abcde"
    assert not one.trouble


def test_it_connects_again_when_the_connection_breaks(broker: MemoryBroker, connect: Connect) -> None:
    one = connect(broker.address)
    broker.cut()
    eventually(lambda: one.connected == 2)
    one.publish("speed.hosts.me", b"again")
    assert one.next() == b"again"


def test_without_a_server_nothing_is_published_and_it_is_said_why(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one = connect(f"nats://127.0.0.1:{port}", wait=False)
    eventually(lambda: "refused" in one.trouble)
    with pytest.raises(HostAwayError, match="Connection refused") as caught:
        one.publish("speed.hosts.other", b"x")
    assert caught.value.execution is Execution.NOT_BEGUN


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (b"-ERR 'Authorization Violation for me:s3cret'\r\n", "refuses the credentials"),
        (b"-ERR 'Permissions Violation for Subscription to s3cret'\r\n", "refuses a subject"),
        (b"-ERR 'Stale Connection'\r\n", "Stale Connection"),
        (b"HELLO\r\n", "no NATS server says"),
        (b"MSG speed.hosts.me 1 x\r\n", "no size"),
        (b"MSG speed.hosts.me 1 999999999\r\n", "no size"),
        (b"MSG speed.hosts.me 1 1\r\nabcd\r\n", "another size"),
        (b"INFO nothing\r\n", "can be read"),
        (b"x" * 40_000, "without an end"),
    ],
)
def test_what_a_server_says_amiss_ends_the_connection(
    broker: MemoryBroker, connect: Connect, said: bytes, trouble: str
) -> None:
    one = connect(broker.address)
    troubles: list[str] = []
    one._broke = troubles.append  # type: ignore[method-assign]
    broker.say(said)
    eventually(lambda: bool(troubles))
    assert trouble in troubles[0]
    assert "s3cret" not in troubles[0]
    eventually(lambda: one.connected == 2)


@pytest.mark.parametrize(
    ("info", "trouble"),
    [(b"SSH-2.0-OpenSSH\r\n", "no NATS server"), (b"INFO {}\r\n", "can be read"), (b"INFO [\r\n", "can be read")],
)
def test_what_is_no_nats_server_is_told(broker: MemoryBroker, connect: Connect, info: bytes, trouble: str) -> None:
    broker.info = info
    one = connect(broker.address, wait=False)
    eventually(lambda: trouble in one.trouble)


def test_a_server_that_wants_tls_is_told(broker: MemoryBroker, connect: Connect) -> None:
    broker.info = f"INFO {json.dumps({**INFO, 'tls_required': True})}\r\n".encode()
    one = connect(broker.address, wait=False)
    eventually(lambda: "tls=true" in one.trouble)


def test_a_server_that_refuses_at_the_greeting_is_told(broker: MemoryBroker, connect: Connect) -> None:
    broker.pong = b"-ERR 'Authorization Violation'\r\n"
    one = connect(broker.address, wait=False)
    eventually(lambda: "credentials" in one.trouble)


@pytest.mark.parametrize(
    ("credentials", "told"),
    [("me:s3cret@", {"user": "me", "pass": "s3cret"}), ("t0ken@", {"auth_token": "t0ken"}), ("", {})],
)
def test_credentials_are_shown_to_the_server(
    broker: MemoryBroker, connect: Connect, credentials: str, told: dict[str, Any]
) -> None:
    connect(f"nats://{credentials}127.0.0.1:{broker.port}")
    given = broker.clients[0].told
    assert {key: given.get(key) for key in ("user", "pass", "auth_token") if key in given} == told


def test_a_silent_server_is_asked_and_then_left(
    broker: MemoryBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats, "SILENT_SECONDS", 0.1)
    one = connect(broker.address)
    broker.pong = b""  # it says no more, also to the greeting
    eventually(lambda: "does not answer" in one.trouble or "timed out" in one.trouble or one.trouble != "")
    broker.pong = b"PONG\r\n"
    eventually(lambda: not one.trouble)
    eventually(lambda: one.connected >= 2)


def test_a_server_that_answers_when_it_is_asked_is_kept(
    broker: MemoryBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats, "SILENT_SECONDS", 0.05)
    one = connect(broker.address)
    broker.say(b"PING\r\n")
    broker.say(b"INFO " + json.dumps({**INFO, "max_payload": 9000}).encode() + b"\r\n")
    eventually(lambda: one.max_payload == 9000)
    threading.Event().wait(0.4)
    assert one.connected == 1


def test_it_is_closed_while_it_reads_and_while_it_waits(broker: MemoryBroker) -> None:
    for address in (broker.address, "nats://127.0.0.1:1"):
        one = Heard(address)
        one.start()
        eventually(lambda one=one: one.trouble != "it is being connected")  # type: ignore[misc]
        one.close()
        assert not one._thread.is_alive()


class _Broken:
    """A channel that takes nothing."""

    def send(self, data: bytes) -> None:
        raise OSError("it broke")

    def close(self) -> None:
        """Nothing is open."""


def test_what_could_not_be_handed_over_as_a_whole_was_not_sent(broker: MemoryBroker, connect: Connect) -> None:
    one = connect(broker.address)
    one._channel = _Broken()  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(HostAwayError, match="broke"):
            one.publish("speed.hosts.other", b"x")


def test_a_server_may_say_more_before_it_answers_the_greeting(broker: MemoryBroker, connect: Connect) -> None:
    broker.pong = b"+OK\r\nPONG\r\n"
    assert connect(broker.address).connected == 1


def test_an_error_that_says_nothing_is_told_by_its_kind() -> None:
    assert nats._reason(TimeoutError("timed out")) == "no connection (TimeoutError)"


# --- TLS ---


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return Nats(tmp_path / "made").certificate


def test_tls_is_spoken_and_the_certificate_checked(certificate: Path, connect: Connect) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("server.key"))
    broker = MemoryBroker(context=context)
    try:
        one = connect(f"nats://127.0.0.1:{broker.port}?tls=true&trusted={certificate}")
        data = bytes(range(256)) * 250
        threads = [threading.Thread(target=one.publish, args=("speed.hosts.me", data)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.next() for _ in range(8)] == [data] * 8
        broker.cut()
        eventually(lambda: one.connected == 2)
        stranger = connect(f"nats://127.0.0.1:{broker.port}?tls=true", wait=False)
        eventually(lambda: "not trusted" in stranger.trouble)
    finally:
        broker.close()


def _end_in_order(raw: Any) -> None:
    with suppress(OSError):
        raw.unwrap()


def test_a_server_that_ends_tls_in_order_is_left(certificate: Path, connect: Connect) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("server.key"))
    broker = MemoryBroker(context=context)
    try:
        one = connect(f"nats://127.0.0.1:{broker.port}?tls=true&trusted={certificate}")
        threading.Thread(target=_end_in_order, args=(broker.clients[0].raw,), daemon=True).start()
        eventually(lambda: one.connected == 2)
    finally:
        broker.close()
