"""A gateway whose host fails as disks do: real sockets, and a host that says what the test says."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from speed.errors import ConfigurationError
from speed.gateway import encryption
from speed.gateway.connection import TopicClient
from speed.gateway.frames import MessageId
from speed.gateway.server import Gateway
from speed.gateway.settings import GatewaySettings
from speed.message.keystore import KeyStore
from speed.topics.subscription import SubscriptionError
from speed.wire.topic import RecordHead, encode
from speed.wire.value import pack
from tests.pulsar.keys import make_key
from tests.system.gateways import handshaken

LANE = "0" * 15 + "2" + "0" * 16
SETTINGS = GatewaySettings(name="web", port=0)


class Host:
    """Answers with one message, until it is told to fail."""

    def __init__(self) -> None:
        self.failing: dict[str, SubscriptionError | Exception] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.held: dict[str, threading.Event] = {}
        self.messages = 1
        self.payload = b"x"
        self.watched = 0
        self.fails_to_watch = 0

    def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        self.asked.append((service, arguments))
        if service in self.held:
            self.held[service].wait(60)
        if service in self.failing:
            raise self.failing[service]
        if service == "publish":
            return {"lane": LANE, "offsets": list(range(len(arguments["messages"]))), "repeated": []}
        return {"lane": LANE, "cursor": 0, "next": 0, "batch": 1, "messages": self._rows(service)}

    def _rows(self, service: str) -> list[list[Any]]:
        if service not in ("receive", "read") or not self.messages:
            return []
        self.messages -= 1
        return [[0, 1, 0, encode(RecordHead(), {"publisher": "p"}, pack(self.payload))]]

    def check(self, caller: str, right: str, topic: str) -> None:
        pass

    def watch(self, told: Callable[[str], None]) -> None:
        self.told = told
        self.watched += 1
        if self.watched == self.fails_to_watch:
            raise OSError("no")

    def unwatch(self, told: Callable[[str], None]) -> None:
        assert told == self.told
        self.watch(lambda _: None)

    def until_event(self, topic: str, subscription: str) -> float:
        return 0.0

    def hold(self, service: str) -> None:
        """Answer it later."""
        self.held[service] = threading.Event()

    def was_asked(self, service: str) -> None:
        """Wait until it was."""
        while not self.count(service):
            time.sleep(0.01)

    def count(self, service: str) -> int:
        return sum(asked == service for asked, _ in self.asked)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def port(host: Host) -> Iterator[int]:
    with closing(Gateway(SETTINGS, (), host, "gateway", lambda: True)) as gateway:
        yield gateway.port


def opened(port: int, path: str) -> Any:
    return connect(f"ws://127.0.0.1:{port}/ws/v2/{path}", compression=None, max_size=None)


def end_of(client: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as error:
        while True:
            client.recv(60)
    assert error.value.rcvd is not None
    return error.value.rcvd.code


CONSUMER = "consumer/persistent/public/default/t/s"


def test_a_batch_that_is_refused_is_one_write_whatever_is_in_it(host: Host, port: int) -> None:
    host.failing["publish"] = SubscriptionError("NOT_WRITTEN", "no space")
    with opened(port, "producer/persistent/public/default/t") as client:
        host.hold("publish")
        client.send('{"payload":""}')
        host.was_asked("publish")
        for number in range(999):
            client.send(json.dumps({"payload": "?" if number == 500 else "", "context": number}))
        client.ping().wait(60)
        host.held["publish"].set()
        replies = [json.loads(client.recv(60)) for _ in range(1000)]
    assert [one["result"] for one in replies].count("send-error:4") == 999
    assert replies[501]["result"] == "send-error:7"
    assert host.count("publish") <= 3


def test_a_producer_whose_next_data_key_cannot_be_had_is_told_to_try_again(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(tmp_path, "app")
    file = tmp_path / "app.private.pem"
    monkeypatch.setattr(encryption, "DATA_KEY_MESSAGES", 2)
    monkeypatch.setattr(encryption, "KeyStore", partial(KeyStore, max_age_seconds=0))
    settings = replace(SETTINGS, keys={"app": f"pem://{file}"})
    with (
        closing(Gateway(settings, (), host, "gateway", lambda: True)) as gateway,
        opened(gateway.port, "producer/persistent/public/default/t?encryptionKeys=app") as client,
    ):
        client.send('{"payload":""}')
        assert json.loads(client.recv(60))["result"] == "ok"
        file.chmod(0o644)
        client.send('{"payload":""}')
        assert end_of(client) == 1013


def test_acknowledgements_that_cannot_be_kept_end_the_connection(host: Host, port: int) -> None:
    host.failing["acknowledge"] = SubscriptionError("NOT_WRITTEN", "no space")
    with opened(port, CONSUMER) as client:
        client.send(json.dumps({"messageId": json.loads(client.recv(60))["messageId"]}))
        assert end_of(client) == 1011
    assert host.count("acknowledge") == 1


def test_no_more_acknowledgements_wait_than_one_write_takes(host: Host, port: int) -> None:
    with opened(port, CONSUMER) as client:
        host.hold("acknowledge")
        client.send(json.dumps({"messageId": json.loads(client.recv(60))["messageId"]}))
        host.was_asked("acknowledge")

        def acknowledge() -> None:
            """More than the gateway's system hands it at once: a ping in that is answered without being read."""
            for number in range(20_000):
                client.send(json.dumps({"messageId": MessageId(1, number + 1).text()}))
            client.ping().wait(60)

        sender = threading.Thread(target=acknowledge, name="sender", daemon=True)
        sender.start()
        sender.join(1)
        assert sender.is_alive(), "it reads on"
        host.held["acknowledge"].set()
        sender.join(60)
        assert not sender.is_alive()
        client.send('{"type":"isEndOfTopic"}')
        assert json.loads(client.recv(60)) == {"endOfTopic": False}
    written = [len(said["offsets"]) for service, said in host.asked if service == "acknowledge"]
    assert max(written) <= 4096
    assert len(written) < 100  # not one by one: how many wait is a matter of time


def test_who_takes_its_subscription_back_does_not_join_again(host: Host, port: int) -> None:
    host.failing["receive"] = SubscriptionError("NOT_JOINED", "no")
    host.hold("receive")
    with opened(port, CONSUMER) as client:
        host.was_asked("receive")
        client.send('{"type":"unsubscribe"}')
        host.was_asked("unsubscribe")
        host.held["receive"].set()
        assert end_of(client) == 1000
    assert host.count("subscribe") == 1


@pytest.mark.parametrize("role", [CONSUMER, "reader/persistent/public/default/t?messageId=earliest"])
def test_what_waits_in_memory_for_one_client_is_bounded_on_all_its_connections(
    host: Host, port: int, role: str
) -> None:
    host.messages, host.payload = 1000, bytes(4 << 20)
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(closing(handshaken(port, f"/ws/v2/{role}")))
        producer = stack.enter_context(opened(port, "producer/persistent/public/default/t"))
        time.sleep(1)  # for those that should not fetch to do so
        opening = 30 if "reader" in role else 0
        assert 1000 - host.messages - opening < 25
        producer.send('{"payload":""}')
    with opened(port, CONSUMER) as client:
        assert len(client.recv(60)) > 4 << 20


def test_a_subscription_that_cannot_be_taken_back_is_told(host: Host, port: int) -> None:
    host.failing["unsubscribe"] = SubscriptionError("DENIED", "no")
    host.failing["receive"] = SubscriptionError("NOT_JOINED", "no")
    host.failing["leave"] = SubscriptionError("UNKNOWN_TOPIC", "no")
    with opened(port, CONSUMER) as client:
        client.send('{"type":"unsubscribe"}')
        assert end_of(client) == 1008


def test_what_fails_otherwise_ends_one_connection_and_is_logged(
    host: Host, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    host.failing["acknowledge"] = RuntimeError("a defect")
    with caplog.at_level(logging.ERROR, "speed.gateway"), opened(port, CONSUMER) as client:
        client.send(json.dumps({"messageId": json.loads(client.recv(60))["messageId"]}))
        with pytest.raises(ConnectionClosed):
            client.recv(60)
        while "a defect" not in caplog.text:
            time.sleep(0.01)
    with opened(port, "producer/persistent/public/default/t") as client:
        client.send('{"payload":""}')
        assert json.loads(client.recv(60))["result"] == "ok"


def test_what_is_new_when_the_gateway_has_ended_is_told_to_nobody(host: Host) -> None:
    gateway = Gateway(SETTINGS, (), host, "gateway", lambda: True)
    with opened(gateway.port, CONSUMER) as client:
        client.recv(60)
        told = host.told
        told("t")
        told("t")
        told("another")
        gateway.close()
    told("t")
    gateway.close()


def test_what_is_new_after_the_end_of_the_loop_harms_nobody(host: Host) -> None:
    async def begun() -> TopicClient:
        topics = TopicClient(host, "gateway")
        topics.listen(["t"], asyncio.Event())
        return topics

    with closing(asyncio.run(begun())):
        host.told("t")


def test_a_gateway_that_cannot_begin_says_why(host: Host) -> None:
    host.fails_to_watch = 1
    with pytest.raises(ConfigurationError, match="no"):
        Gateway(SETTINGS, (), host, "gateway", lambda: True)


def test_a_gateway_that_fails_at_its_end_is_closed_all_the_same(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.fails_to_watch = 2
    gateway = Gateway(SETTINGS, (), host, "gateway", lambda: True)
    with caplog.at_level(logging.ERROR, "speed.gateway"):
        gateway.close()
    assert "gateway" not in {one.name for one in threading.enumerate()}
    assert "the gateway ended" in caplog.text
    gateway.close()
