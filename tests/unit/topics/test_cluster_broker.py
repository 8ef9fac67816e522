"""What a cluster answers, as the host says it, and how often one that is silent is asked (D-23, D-24)."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import pulsar
import pytest

from speed.errors import ConfigurationError, StorageError
from speed.topics.cluster import broker as broker_module
from speed.topics.cluster.broker import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, Broker, Cluster, received
from speed.topics.subscription import SubscriptionError
from speed.wire.topic import decode
from speed.wire.value import pack


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Of a cluster that is not there."""
    monkeypatch.setattr(broker_module, "OPERATION_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    broker = Broker(Cluster(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{port}", token_file="/nowhere/token"))
    yield broker
    broker.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (pulsar.exceptions.ConsumerBusy, "TAKEN"),
        (pulsar.exceptions.AuthorizationError, "DENIED"),
        (pulsar.exceptions.ProducerBusy, "NOT_WRITTEN"),
        (pulsar.exceptions.ProducerBlockedQuotaExceededException, "FULL"),
        (pulsar.exceptions.TopicNotFound, "UNKNOWN_TOPIC"),
    ],
)
def test_a_refusal_of_a_cluster_that_is_there_has_a_code_and_is_no_silence(
    broker: Broker, error: type[Exception], code: str
) -> None:
    """D-24."""
    with pytest.raises(SubscriptionError) as refused, broker.guarded():
        raise error("as Pulsar's client does")
    assert refused.value.code == code
    assert broker.trouble == ""


def test_a_silent_cluster_is_not_asked_again_at_once_and_then_ever_later(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-24."""
    now = time.monotonic()
    pauses, pause = [], FIRST_PAUSE_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: now)
    while len(pauses) < 8:
        with pytest.raises(StorageError, match="does not answer"), broker.guarded():
            raise pulsar.exceptions.ConnectError("away")
        now += pause - 0.01
        with pytest.raises(StorageError), broker.guarded():
            raise AssertionError("nobody is asked")
        now += 0.02
        pauses.append(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
    with broker.guarded():
        assert broker.trouble
    assert broker.trouble == ""


def test_a_token_that_cannot_be_read_stops_no_thread_of_pulsars_client(broker: Broker) -> None:
    """D-24."""
    with pytest.raises(StorageError), broker.guarded():
        broker.client.create_producer(broker.topic("orders"))


def test_without_pulsars_client_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(ConfigurationError, match=r"install speed-ipc\[pulsar-backend\]"):
        Broker(Cluster("pulsar://a", "http://a"))


class Foreign:
    """A message whose key is no text, as Pulsar's client gives it."""

    def message_id(self) -> pulsar.MessageId:
        return pulsar.MessageId(-1, 1, 2, -1)

    def has_null_value(self) -> bool:
        return False

    def data(self) -> bytes:
        return b"x"

    def partition_key(self) -> str:
        return b"\xff".decode()

    def publish_timestamp(self) -> int:
        return 7


def test_what_is_no_text_is_left_out() -> None:
    """D-22."""
    stored = received(Foreign()).stored  # type: ignore[arg-type]
    assert (stored.recorded_ms, decode(stored.data).payload) == (7, pack(b"x"))
    assert decode(stored.data).about == {"publisher": ""}
