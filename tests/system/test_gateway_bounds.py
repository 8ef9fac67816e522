"""What strangers do to the gateway, and that it ends: floods, silence, deafness, what is too long; a real speedd."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from websockets.frames import Opcode

from tests.system.gateways import HEAD, NAMED, GatewaySite, frame, handshaken, path, status, until

pytestmark = pytest.mark.system
CONFIG = (
    HEAD
    + """
name = "web"
max_connections = 24
max_connections_per_client = 16
max_frames_per_second = 200
handshake_seconds = 2
ping_seconds = 1
"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    site = GatewaySite(tmp_path_factory.mktemp("gateway"), CONFIG)
    yield site
    site.close()


@pytest.fixture(autouse=True)
def _all_leave(site: GatewaySite) -> Iterator[None]:
    """Each test leaves nothing open behind: its own question is the one that is there."""
    yield
    until(lambda: b"\nspeed_gateway_connections 1\n" in site.get("/metrics")[1])
    assert b"\nspeed_gateway_clients 1\n" in site.get("/metrics")[1]


def answer(client: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    data = b""
    try:
        while got := client.recv(65536):
            data += got
    except ConnectionResetError:
        pass
    return data


def is_served(site: GatewaySite) -> bool:
    try:
        return site.get("/health")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("said", [b"", b"GET /health HTTP/1.1\r\nHost: localh", b"\x16\x03\x01"])
def test_a_handshake_that_is_not_completed_ends(site: GatewaySite, said: bytes) -> None:
    with closing(site.raw()) as client:
        client.sendall(said)
        assert answer(client) == b""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"GET /" + b"a" * 9000, b"414"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET /ws/v2/producer/persistent/public/default/inbox?" + b"a&" * 10_000, b"414"),
        (b"a" * 100_000, b"414"),
        (b"POST /health HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"400"),
        (b"\r\n", b"400"),
    ],
)
def test_what_is_no_request_or_too_long_is_told_so(site: GatewaySite, said: bytes, expected: bytes) -> None:
    with closing(site.raw()) as client:
        client.sendall(said)
        assert answer(client).startswith(b"HTTP/1.1 " + expected)


def test_too_many_headers_are_refused(site: GatewaySite) -> None:
    with closing(site.raw()) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 1000)
        answer(client)


def test_more_connections_than_one_client_may_have_are_refused_until_it_closes_some(site: GatewaySite) -> None:
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(site.client("/ws/pingpong"))
        assert status(lambda: site.client("/ws/pingpong"))[0] == 429
        with closing(socket.create_connection(("127.0.0.1", site.port), 60, ("127.0.0.2", 0))) as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer(other).startswith(b"HTTP/1.1 200")
    until(lambda: is_served(site))


def test_a_flood_of_connections_is_refused_beyond_the_bound_and_passes(site: GatewaySite) -> None:
    with ExitStack() as stack:
        for number in range(300):
            source = (f"127.0.0.{2 + number % 8}", 0)
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", site.port), 60, source)))
        late = stack.enter_context(closing(site.raw()))
        late.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer(late)[:12] in (b"", b"HTTP/1.1 503", b"HTTP/1.1 200")
    until(lambda: is_served(site))
    assert site.metric("connections_refused") > 0


def test_who_sends_more_frames_than_it_may_is_slowed_down_and_loses_none(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        began = site.node.topic(topic).publish("first")
        assert began == 0
        for number in range(500):
            producer.tell(payload="", context=str(number))
        replies = [producer.heard()["context"] for _ in range(500)]
    assert replies == [str(number) for number in range(500)]


def test_empty_frames_are_messages_too(site: GatewaySite) -> None:
    with site.producer(site.topic()) as producer:
        for _ in range(400):
            producer.socket.send("")
        assert {producer.heard()["result"] for _ in range(400)} == {"send-error:3"}


@pytest.mark.parametrize("opcode", [Opcode.CONT, Opcode.PING, Opcode.PONG])
def test_a_flood_of_frames_that_carry_no_message_is_cut(site: GatewaySite, opcode: Opcode) -> None:
    cut = site.metric("connections_cut")
    with closing(handshaken(site.port, path("producer", site.topic()))) as client:
        try:
            client.sendall(frame(Opcode.TEXT, fin=False) + frame(opcode, fin=opcode is not Opcode.CONT) * 5000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer(client)
    until(lambda: site.metric("connections_cut") == cut + 1)


def test_who_pings_and_never_reads_is_cut_before_answers_pile_up(site: GatewaySite) -> None:
    topic = site.topic()
    cut = site.metric("connections_cut") + site.metric("connections_deaf")
    for _ in range(40):
        site.node.topic(topic).publish(bytes(200_000))
    with closing(handshaken(site.port, path("reader", topic, "?messageId=earliest"))) as client:
        try:
            while True:
                client.sendall(frame(Opcode.PING, b"x" * 125))
        except (BrokenPipeError, ConnectionResetError):
            pass
    until(lambda: site.metric("connections_cut") + site.metric("connections_deaf") == cut + 1)


def test_answers_to_pings_that_nobody_reads_are_few(site: GatewaySite) -> None:
    topic = site.topic()
    for _ in range(40):
        site.node.topic(topic).publish(bytes(200_000))
    delivered, cut = site.metric("messages_delivered"), site.metric("connections_cut")
    with closing(handshaken(site.port, path("reader", topic, "?messageId=earliest"))) as client:
        until(lambda: site.metric("messages_delivered") > delivered)
        client.sendall(frame(Opcode.PING) * 150)
        until(lambda: site.metric("connections_cut") == cut + 1)


def test_a_deaf_consumer_loses_its_messages_to_others(site: GatewaySite) -> None:
    topic = site.topic()
    deaf = site.metric("connections_deaf")
    shared = "/s?subscriptionType=Shared"
    site.consumer(topic, subscriptionType="Shared").close()
    for number in range(20):
        site.node.topic(topic).publish(bytes([number]) * 200_000)
    with closing(handshaken(site.port, path("consumer", topic, shared))):
        until(lambda: site.metric("connections_deaf") > deaf)
        with site.consumer(topic, subscriptionType="Shared") as other:
            assert sorted(one[0] for one in other.payloads(20)) == list(range(20))


def test_a_connection_whose_other_side_is_not_there_any_more_ends(site: GatewaySite) -> None:
    topic = site.topic()
    deaf = site.metric("connections_deaf")
    with closing(handshaken(site.port, path("consumer", topic, "/s"))):
        until(lambda: site.metric("connections_deaf") == deaf + 1)
    until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["consumers"] == [])


def test_a_client_that_is_gone_without_a_word_is_noticed(site: GatewaySite) -> None:
    topic = site.topic()
    client = handshaken(site.port, path("consumer", topic, "/s"))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["consumers"] == [])


def test_who_answers_pings_stays(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        assert consumer.is_silent(3)
        site.node.topic(topic).publish("x")
        assert consumer.payloads(1) == [b"x"]


def test_a_producer_that_does_not_read_its_replies_is_not_read_on(site: GatewaySite) -> None:
    topic = site.topic()
    deaf = site.metric("connections_deaf")
    one = frame(Opcode.TEXT, json.dumps({"payload": "", "context": "c" * 50_000}).encode())
    with closing(handshaken(site.port, path("producer", topic))) as client:
        try:
            for _ in range(400):
                client.sendall(one)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        until(lambda: site.metric("connections_deaf") > deaf)
    assert site.node.topic(topic).describe()["end"] < 400


def test_a_connection_that_ends_within_its_handshake_leaves_no_consumer(site: GatewaySite) -> None:
    topic = site.topic()
    request = f"GET {path('consumer', topic, '/s')} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n"
    for _ in range(20):
        with closing(site.raw()) as client:
            client.sendall(request.encode())
    with closing(site.raw()) as client:
        client.sendall(request.encode())
        assert answer(client).startswith(b"HTTP/1.1 4")
    until(lambda: all(not one["consumers"] for one in site.node.topic(topic).describe()["subscriptions"]))


def test_who_publishes_and_leaves_at_once_is_heard(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        for _ in range(50):
            producer.tell(payload="")
    until(lambda: site.node.topic(topic).describe()["end"] == 50)


def test_pings_are_answered_everywhere(site: GatewaySite) -> None:
    with site.client("/ws/pingpong") as client:
        assert client.socket.ping().wait(60)
        client.tell(anything=1)
        assert client.socket.ping().wait(60)


def test_the_end_of_speedd_closes_all_connections_also_deaf_ones(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = GatewaySite(tmp_path_factory.mktemp("gateway"))
    with closing(site.topics), closing(site.node):
        topic = site.topic()
        with (
            closing(handshaken(site.port, path("reader", topic, "?messageId=earliest"))),
            site.consumer(topic) as consumer,
        ):
            for _ in range(40):
                site.node.topic(topic).publish(bytes(200_000))
            site.process.terminate()
            assert consumer.code() == 1001
            assert site.process.wait(60) == 0


def test_bridges_are_told_to_prometheus(tmp_path: Path) -> None:
    """One whose server is away waits, and what lies in its topics is its lag."""
    bridge = '[[topic]]\nname = "orders"\n[[bridge]]\nname = "out"\nsource = "topics"\ntarget = "redis://127.0.0.1:1"\n'
    site = GatewaySite(tmp_path, NAMED + bridge + 'topics = "orders"\nstart = "earliest"\n')
    try:
        site.node.topic("orders").publish_batch([1, 2, 3])
        until(lambda: b'\nspeed_bridge_carrying{bridge="out"} 0\n' in site.get("/metrics")[1])
        told = site.get("/metrics")[1].decode().splitlines()
        assert {'speed_bridge_lag{bridge="out"} 3', 'speed_bridge_carried_total{bridge="out"} 0'} <= set(told)
    finally:
        site.close()
