"""Publishing many messages: batches follow each other, and the next one is made while one is written."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from speed.errors import AccessDeniedError, ConfigurationError, StorageError, UnserialisableError
from speed.node.topic import Topic, due_ms
from speed.wire.topic import BATCH_MESSAGES, outgoing

DENIED = AccessDeniedError("not yet")


class Host:
    """A node whose host of topics answers what it is told to, in the order of asking."""

    def __init__(self, *answers: Exception | None) -> None:
        self._answers = list(answers)
        self.kept: list[dict[str, Any]] = []
        self.under_way = 0

    def submit(self, _host: str, _service: str, arguments: dict[str, Any], *, timeout: float) -> Future[Any]:
        future: Future[Any] = Future()
        self.under_way += 1
        future.result = lambda _=None: self._answer(arguments)  # type: ignore[method-assign]
        return future

    def call(self, _host: str, _service: str, arguments: dict[str, Any], *, timeout: float) -> Any:
        self.under_way += 1
        return self._answer(arguments)

    def nodes(self) -> list[Any]:
        """None is known to allow others."""
        return []

    def wait_for(self, _host: str, *, timeout: float) -> None:
        """It is there."""

    def _answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.under_way -= 1
        if self._answers and (error := self._answers.pop(0)) is not None:
            raise error
        first = len(self.kept)
        self.kept += arguments["messages"]
        return {"offsets": list(range(first, len(self.kept)))}


class Refusing(Host):
    """Refuses before anything is sent, once."""

    refused = False

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        if not self.refused:
            self.refused = True
            raise DENIED
        return super().submit(*arguments, **named)


def topic(host: Host) -> Topic:
    return Topic(host, "orders")  # type: ignore[arg-type]


def test_the_next_batch_is_made_while_one_is_written_and_sent_behind_it() -> None:
    host = Host()
    under_way = []

    def payloads() -> Any:
        for number in range(2 * BATCH_MESSAGES):
            under_way.append(host.under_way)
            yield number

    assert topic(host).publish_batch(payloads()) == list(range(2 * BATCH_MESSAGES))
    assert under_way[: BATCH_MESSAGES + 1] == [0] * (BATCH_MESSAGES + 1)
    assert under_way[BATCH_MESSAGES + 1 :] == [1] * (BATCH_MESSAGES - 1)


@pytest.mark.parametrize("host", [Host(DENIED, DENIED), Refusing()], ids=["in its answer", "before it is asked"])
def test_a_host_that_allows_nobody_yet_is_asked_again(host: Host) -> None:
    assert topic(host).publish_batch("abc") == [0, 1, 2]
    assert len(host.kept) == 3


class Serving(Refusing):
    """It serves, and its entry grants what it is told to."""

    name = "shop"

    def __init__(self, *allow: str) -> None:
        super().__init__(*[DENIED] * 5)
        self.calls = 0
        self._allow = allow

    def nodes(self) -> list[Any]:
        return [SimpleNamespace(name="speedd.topics", allow=self._allow, deny=(), identities=())]

    def call(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return super().call(*arguments, **named)


@pytest.mark.parametrize(("allow", "times"), [((), 1), (("etl",), 1), (("shop",), 2)])
def test_a_host_that_serves_and_refuses_is_not_asked_again_and_again(allow: tuple[str, ...], times: int) -> None:
    """Once more where it says that it allows this node: that may have been published just now."""
    host = Serving(*allow)
    with pytest.raises(AccessDeniedError):
        topic(host).publish(1)
    assert host.calls == times


def test_a_batch_that_fails_ends_it_and_those_before_are_kept() -> None:
    host = Host(None, StorageError("no room"))
    with pytest.raises(StorageError, match="no room"):
        topic(host).publish_batch(range(3 * BATCH_MESSAGES))
    assert len(host.kept) == BATCH_MESSAGES


def test_a_payload_that_is_no_value_is_told_once_what_is_under_way_has_ended() -> None:
    host = Host()
    with pytest.raises(UnserialisableError):
        topic(host).publish_batch([*range(BATCH_MESSAGES + 1), object()])
    assert (len(host.kept), host.under_way) == (BATCH_MESSAGES, 0)


def test_nothing_is_sent_where_there_is_nothing_to_publish() -> None:
    host = Host()
    assert topic(host).publish_batch([]) == []
    assert host.kept == []


def test_a_message_says_what_it_was_given_and_nothing_else() -> None:
    assert outgoing(b"x", None, None, 0, 0) == {"payload": b"x"}
    told = {"payload": b"x", "key": "k", "properties": {"a": "b"}, "due_ms": 7, "sequence": 3}
    assert outgoing(b"x", "k", {"a": "b"}, 7, 3) == told


def test_a_message_is_due_after_some_seconds_or_at_a_time_and_not_both() -> None:
    assert due_ms(None, None, 1000) == 0
    assert due_ms(2.5, None, 1000) == 3500
    assert due_ms(-1.0, None, 1000) == 1000
    assert due_ms(None, 1234, 1000) == 1234
    with pytest.raises(ConfigurationError, match="use one of them"):
        due_ms(1.0, 1234, 1000)
