"""A real Pulsar, and its Java client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

import speed.pulsar
from speed.pulsar import Pulsar
from tests.pulsar.standalone import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("pulsar"))
    yield one
    one.stop()


@pytest.fixture
def pulsar(server: Server) -> Iterator[Pulsar]:
    with speed.pulsar.connect(server.addresses["websocket"]) as one:
        yield one


@pytest.fixture
def topic() -> str:
    return f"public/default/{uuid.uuid4().hex}"


@pytest.fixture
def joined(pulsar: Pulsar, topic: str) -> Callable[..., speed.pulsar.Consumer]:
    """A consumer whose subscription is there."""

    def make(**options: object) -> speed.pulsar.Consumer:
        consumer = pulsar.consumer(topic, "billing", **options)  # type: ignore[arg-type]
        consumer.receive(0.1)
        return consumer

    return make
