"""The topics of one namespace of Pulsar: looked up, made, removed, and looked after (D-20)."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import sha256

from speed.core.log import logger
from speed.errors import InvalidNameError
from speed.journal.reseal import Resealed
from speed.topics.cluster.broker import Broker, Cluster, ConflictError, NotThereError
from speed.topics.cluster.topic import ClusterTopic, TopicProperties
from speed.topics.subscription import SubscriptionError, wrong
from speed.wire import names

log = logger("speed.topics")

LOOK_SECONDS = 5.0
"""How often the cluster is looked at."""
SETTLED_SECONDS = 10.0
"""How long a topic that is made may take to follow its policies."""
POLICIES = {
    "deduplicationEnabled": True,
    "retention": {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": False,
    },
}
"""Of a topic that a host makes: repetitions are recognised, and nothing goes by itself."""
_PARTITION = re.compile(r".*-partition-\d+", re.ASCII)


class ClusterTopics:
    """All topics of one host, in a cluster. Thread-safe.

    Raises ConfigurationError if Pulsar's client is missing; a cluster that is away is waited for by who asks.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._broker = Broker(cluster)
        self.place = f"{cluster.url}/{cluster.namespace}"
        self.lock: AbstractContextManager[object] = nullcontext()
        """Nothing: who waits for the cluster holds up nobody else."""
        self.notify: Callable[[str], None] = lambda _: None
        self.broken: dict[str, str] = {}
        self._topics: dict[str, ClusterTopic] = {}
        self._looking = threading.Lock()
        self._wanted: list[str] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="topics-cluster", daemon=True)

    # --- topics ---

    def known(self, name: str) -> ClusterTopic | None:
        """The topic of a name; None if it is not there, or unfit. Raises StorageError if the cluster does not say."""
        try:
            return self._found(name)
        except SubscriptionError as error:
            if error.code != "UNSUPPORTED":
                raise
            return None

    def _found(self, name: str) -> ClusterTopic | None:
        found = self._topics.get(name)
        if found is None and _is_ours(name):
            with self._looking:
                found = self._topics.get(name) or self._looked_up(name)
        return found

    def _looked_up(self, name: str) -> ClusterTopic | None:
        admin = self._broker.admin
        try:
            with self._broker.guarded():
                properties = admin.get(name, "properties") or {}
                if admin.get(name, "partitions")["partitions"]:
                    raise SubscriptionError("UNSUPPORTED", f"topic {name!r} has partitions, which have no common order")
                if "speed.lane" in properties and "speed.made" not in properties:
                    self._make_fit(name)
                deduplicates = admin.get(name, "stats").get("deduplicationStatus") == "Enabled"
        except NotThereError:
            return None
        if not deduplicates:
            log.warning("topic %s does not recognise repetitions: publishing with a sequence is refused", name)
        lane = properties.get("speed.lane") or sha256(f"{admin.namespace}/{name}".encode()).hexdigest()[:32]
        settings = TopicProperties(lane, properties.get("speed.parent", ""), deduplicates)
        topic = ClusterTopic(name, self._broker, settings, self._bury, self._tell)
        self._topics[name] = topic
        return topic

    def find(self, name: str) -> ClusterTopic:
        """Raises SubscriptionError UNKNOWN_TOPIC, UNSUPPORTED, StorageError."""
        found = self._found(name)
        if found is None:
            raise SubscriptionError("UNKNOWN_TOPIC", f"there is no topic {name!r}: `speed topic create` makes one")
        return found

    def used(self) -> Iterable[ClusterTopic]:
        """Those that somebody asked for."""
        return list(self._topics.values())

    def every(self) -> Iterable[ClusterTopic]:
        """All in the namespace that are no partitions."""
        with self._broker.guarded():
            listed = self._broker.admin.topics()
        return [found for name in sorted(listed) if (found := self.known(name)) is not None]

    def make(self, name: str, parent: str = "") -> ClusterTopic:
        """The topic of a name, made if it is not there. Raises SubscriptionError, StorageError."""
        if not _is_ours(name):
            raise SubscriptionError("INVALID_ARGUMENTS", f"{name!r} is a name of Pulsar's own: use another one")
        properties = {"speed.lane": secrets.token_hex(16), "speed.parent": parent}
        with self._broker.guarded(), suppress(ConflictError):
            self._broker.admin.put(name, "", properties)
        return self.find(name)

    def _make_fit(self, name: str) -> None:
        """Give a topic its policies, one after the other: two at once, and the cluster may forget the first."""
        admin = self._broker.admin
        ends = time.monotonic() + SETTLED_SECONDS
        for policy, value in POLICIES.items():
            admin.post(name, policy, value)
            self._wait(name, lambda: admin.get(name, policy), value, ends)  # noqa: B023 - asked at once
        self._wait(name, lambda: admin.get(name, "stats").get("deduplicationStatus"), "Enabled", ends)
        admin.put(name, "properties", {"speed.made": "true"})

    def _wait(self, name: str, found: Callable[[], object], wanted: object, ends: float) -> None:
        """The cluster takes a moment. Raises SubscriptionError NOT_WRITTEN if it takes too long."""
        while found() != wanted:
            if time.monotonic() > ends or self._closing.wait(0.02):
                raise SubscriptionError("NOT_WRITTEN", f"topic {name!r} does not follow its policies yet; try again")

    def begin(self, wanted: Sequence[str]) -> None:
        """Make these topics, now or when the cluster is there; look after all from now on."""
        self._wanted = list(wanted)
        self._look_now()
        if self._thread.ident is None:
            self._thread.start()

    def remove(self, name: str) -> None:
        """Remove a topic with everything in it. Raises SubscriptionError UNKNOWN_TOPIC, StorageError."""
        self.find(name).close()
        self._topics.pop(name, None)
        with self._broker.guarded(), suppress(NotThereError):
            self._broker.admin.delete(name, force="true")

    def _bury(self, name: str, letter: bytes) -> None:
        self.find(name).publish(None, [(0, letter)])

    def _tell(self, name: str) -> None:
        self.notify(name)

    # --- looking after ---

    def _look_after(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self._look_now()

    def _look_now(self) -> None:
        try:
            self._look()
        except Exception as error:  # a cluster that is away, or answers strangely, is looked at again
            log.debug("the cluster is looked at again: %s", error)

    def _look(self) -> None:
        """Make what is wanted, forget what is gone, close what rests."""
        with self._broker.guarded():
            listed = set(self._broker.admin.topics())
        while self._wanted:
            self.make(self._wanted[0])
            del self._wanted[0]
        for name, topic in list(self._topics.items()):
            if name not in listed and self._is_gone(name):
                self._topics.pop(name, None)
                topic.close()
            topic.rest()

    def _is_gone(self, name: str) -> bool:
        """Whether a topic was removed by somebody else; one may have been made since they were listed."""
        try:
            with self._broker.guarded():
                self._broker.admin.get(name, "properties")
        except NotThereError:
            return True
        return False

    def ask_to_compact(self, name: str) -> int:
        """Raises SubscriptionError INVALID_ARGUMENTS."""
        raise wrong(f"topic {name!r} lies in a cluster, which compacts by its own policies")

    def reseal(self) -> Iterator[Resealed]:
        """Nothing: what lies in a cluster is not sealed."""
        return iter(())

    def retain(self) -> str:
        """Says what is wrong; empty if the cluster answers. What goes when is for Pulsar to decide."""
        return self._broker.trouble

    def close(self) -> None:
        """Give back what is not acknowledged, and end the connection."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        for topic in self.used():
            topic.close()
        self._broker.close()


def _is_ours(name: str) -> bool:
    """Whether a node may use a topic of this name: no partition, and none of Pulsar's own."""
    try:
        names.check_topic(name)
    except InvalidNameError:
        return False
    return not _PARTITION.fullmatch(name) and not name.startswith("__")
