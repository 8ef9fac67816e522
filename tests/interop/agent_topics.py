"""What a Python agent does with durable topics: it publishes, reads, and is one consumer at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import speed
from speed.wire.topic import TopicOffset


def _kept(kept: TopicOffset) -> dict[str, Any]:
    return {"offset": int(kept), "duplicate": kept.duplicate}


class Topics:
    """Its ``do_topic_<op>`` are commands of the agent."""

    _node: speed.Node

    def __init__(self) -> None:
        self._consumer: speed.Consumer | None = None
        self._received: dict[int, speed.TopicMessage] = {}

    def do_topic_publish(self, topic: str, payload: Any, after: float | None = None, **options: Any) -> dict[str, Any]:
        return _kept(self._node.topic(topic).publish(payload, deliver_after=after, **options))

    def do_topic_publish_batch(self, topic: str, payloads: list[Any], **options: Any) -> list[dict[str, Any]]:
        return [_kept(one) for one in self._node.topic(topic).publish_batch(payloads, **options)]

    def do_topic_delete_key(self, topic: str, key: str) -> dict[str, Any]:
        return _kept(self._node.topic(topic).delete_key(key))

    def do_topic_consume(
        self, topic: str, subscription: str, consumer: str = "", dead_letter: str | None = None, **terms: Any
    ) -> str:
        self.do_topic_leave()
        aside: bool | str = False if dead_letter is None else dead_letter or True
        self._consumer = self._node.topic(topic).consumer(subscription, name=consumer, dead_letter=aside, **terms)
        return self._consumer.name

    def do_topic_receive(self, timeout: float) -> dict[str, Any] | None:
        message = self._consuming().receive(timeout)
        if message is None:
            return None
        self._received[message.offset] = message
        return _shown(message)

    def do_topic_acknowledge(self, offset: int, until: bool = False) -> int:
        tell = self._consuming().acknowledge_until if until else self._consuming().acknowledge
        return tell(self._received[offset])

    def do_topic_reject(self, offset: int, delay: float | None = None) -> int:
        return self._consuming().reject(self._received[offset], delay=delay)

    def do_topic_leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self._received.clear()

    def do_topic_read(
        self, topic: str, count: int, timeout: float, start: Any = "latest", compacted: bool = False
    ) -> list[dict[str, Any]]:
        reader = self._node.topic(topic).reader("earliest" if compacted else start, compacted=compacted)
        messages: list[dict[str, Any]] = []
        while len(messages) < count and (message := reader.receive(timeout)) is not None:
            messages.append(_shown(message))
        return messages

    def _consuming(self) -> speed.Consumer:
        if self._consumer is None:
            raise LookupError("nothing is consumed")
        return self._consumer


def _shown(message: speed.TopicMessage) -> dict[str, Any]:
    of_its_own = ("topic", "lane", "epoch", "recorded_at_ms")
    shown = {name: value for name, value in asdict(message).items() if name not in of_its_own}
    return {**shown, "origin": None if message.origin is None else list(message.origin)}
