"""Messages in S3 beyond what all backends do: where a group stands (B-8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from speed.bridges import open_backend
from speed.bridges.backend import Backend, Outgoing
from speed.wire.message import encode_message, new_message_id
from tests.bridges.conftest import Bench

pytestmark = [pytest.mark.system, pytest.mark.slow]
HOUR_MS = 3_600_000


def old(bench: Bench, number: int, age_ms: int = HOUR_MS) -> Outgoing:
    """A message that was made so long ago; later numbers later."""
    unix_ms = int(time.time() * 1000) - age_ms + number
    message_id = new_message_id(unix_ms, bytes(16))
    return Outgoing.of(
        encode_message(number, topic=bench.topic, namespace="n", message_id=message_id, published_at_ms=unix_ms)
    )


@pytest.fixture
def bench(bench_of: Callable[[str], Bench]) -> Bench:
    return bench_of("s3")


@pytest.fixture
def backend(bench: Bench) -> Iterator[Backend]:
    one = open_backend(bench.address)
    yield one
    one.close()


def test_what_a_killed_consumer_held_comes_to_its_heir(bench: Bench, backend: Backend) -> None:
    """Also what is older than a minute, behind which the position stays."""
    backend.publish([old(bench, number) for number in range(4)], 30)
    killed = backend.subscribe(bench.topic, bench.group, "earliest")
    first, *held = killed.receive(10, 30)
    killed.acknowledge([first])
    heir = backend.subscribe(bench.topic, bench.group, "earliest")
    assert [one.position for one in heir.receive(10, 30)] == [one.position for one in held]
