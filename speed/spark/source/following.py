"""A subscription that stands where a query does, so that others see how far it is, and retention waits for it.

The query's checkpoint rules: the subscription gives a new query its first offset, and is moved by each commit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from speed.core.log import logger
from speed.errors import SpeedError
from speed.spark.executor import application_id, worker_node
from speed.spark.source.options import Following
from speed.topic_host import Start, asked

if TYPE_CHECKING:
    from speed.topic import Topic

log = logger("speed.spark")

TIMEOUT_SECONDS = 30.0


class Subscription:
    """For the driver of a query. One thread uses it."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def cursor(self, start: Start) -> int:
        """The offset that comes next; a subscription that is not there is made at ``start``.

        Raises what ``Topic.consumer`` raises; TAKEN if it has a consumer.
        """
        topic, consumer = self._topic(), f"spark-{uuid4().hex[:12]}"
        named = {"topic": topic.name, "subscription": self._following.subscription, "consumer": consumer}
        joining = {**named, "type": "exclusive", "start": start}
        answer = asked(topic.node, topic.host, "subscribe", joining, TIMEOUT_SECONDS)
        with suppress(SpeedError):  # its node leaves in the end
            asked(topic.node, topic.host, "leave", {**named, "unseen": []}, TIMEOUT_SECONDS)
        return int(answer["cursor"])

    def move(self, offset: int) -> None:
        """Acknowledge what is before ``offset``. A host that is away is named in the log: the next commit moves on."""
        try:
            self._topic().seek(self._following.subscription, offset, timeout=TIMEOUT_SECONDS)
        except SpeedError as error:
            log.warning("subscription %s stays behind its query: %s", self._following.subscription, error)

    def _topic(self) -> Topic:
        following = self._following
        node = worker_node(replace(following.settings, application=f"{application_id()}-read"))
        node.wait_for(following.host, timeout=TIMEOUT_SECONDS)
        return node.topic(following.topic, host=following.host)
