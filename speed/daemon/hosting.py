"""The durable topics of a running speedd: their files, and the node that hosts them."""

from __future__ import annotations

import threading
from dataclasses import replace

from speed import Node
from speed.daemon.config import Config, TopicSettings, TopicsSettings
from speed.daemon.grants import change_grants
from speed.topics.catalogue import Catalogue
from speed.topics.grants import Access, Grants, everybody
from speed.topics.host import WORKERS, Host
from speed.topics.topic import Keeping
from speed.wire.names import topics_dir, topics_node

_KEEPING = ("max_bytes", "max_age_seconds", "keep", "backlog", "tombstone_seconds")
COMPACT_EVERY_SECONDS = 10.0
"""How often is looked whether a topic is to be compacted that nobody asked for."""
AFTER_TROUBLE_SECONDS = 300.0
"""The same where that failed: damage stays, and to find it anew costs as much as before."""


class Compacting:
    """Compacts topics in a thread of its own, beside all else, until it is closed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._ends = False
        self._trouble = self._said = ""
        self._thread = threading.Thread(target=self._run, name="speed-compacting", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends:
            self._trouble = self._catalogue.compact(lambda: self._ends)
            self._catalogue.is_asked.wait(AFTER_TROUBLE_SECONDS if self._trouble else COMPACT_EVERY_SECONDS)
            self._catalogue.is_asked.clear()

    def trouble(self) -> str:
        """Why compaction failed, once for each reason; empty if it did not."""
        is_new, self._said = self._trouble != self._said, self._trouble
        return self._said if is_new else ""

    def close(self) -> None:
        """End behind the volume that is being rewritten."""
        self._ends = True
        self._catalogue.is_asked.set()
        self._thread.join()


class Hosting:
    """Everything that ``[topics]`` and ``[[topic]]`` ask for."""

    def __init__(self, config: Config, settings: TopicsSettings, node: Node, key: str) -> None:
        """Takes the topics and begins to answer. Raises JournalTakenError, DurabilityError, RootError."""
        self.name = topics_node(node.name)
        self.directory = str(settings.directory or topics_dir(node.root))
        general, narrowed = _grants(settings, config.each_topic)
        keeping = Keeping(**{name: getattr(settings, name) for name in _KEEPING})
        self._catalogue = Catalogue(
            self.directory,
            key,
            self.name,
            durability=settings.durability,
            keeping=keeping,
            kept={one.name: _kept(keeping, one) for one in config.each_topic},
        )
        self._node: Node | None = None
        self._compacting = Compacting(self._catalogue)
        try:
            for topic in config.each_topic:
                if topic.name not in self.broken:
                    self._catalogue.make(topic.name)
            self._node = Node(
                self.name,
                root=node.root,
                key=key,
                lease_seconds=config.node.lease_seconds,
                heartbeat_seconds=config.node.heartbeat_seconds,
                workers=WORKERS,
            )
            self._host = Host(self._node, self._catalogue, Access(general, narrowed))
            self._allowed = everybody((general, *narrowed.values()))
            self._node.allow(*self._allowed)
        except BaseException:
            self._end()
            raise

    @property
    def broken(self) -> dict[str, str]:
        """Topics that cannot be used, and why."""
        return self._catalogue.broken

    @property
    def host(self) -> Host:
        """What answers for the topics."""
        return self._host

    @property
    def is_lost(self) -> bool:
        """Whether another process has the host's name, or its lease ran out."""
        return self._node is None or self._node.closed

    def retain(self) -> str:
        """Remove what need not be kept. Returns why that failed, empty if it did not."""
        return self._catalogue.retain() or self._compacting.trouble()

    def change_grants(self, settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> None:
        """Let others than before publish, consume and manage. Consumers that are there are asked at their next call."""
        general, narrowed = _grants(settings, each)
        allowed = everybody((general, *narrowed.values()))
        assert self._node is not None
        self._host.access = Access(general, narrowed)
        change_grants(self._node, self._allowed, allowed)
        self._allowed = allowed

    def close(self) -> None:
        """Let whoever waits go, and end."""
        self._host.close()
        self._end()

    def _end(self) -> None:
        if self._node is not None and not self._node.closed:
            self._node.close()
        self._compacting.close()
        self._catalogue.close()


def _grants(settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> tuple[Grants, dict[str, Grants]]:
    """Those for all topics, and those for single ones."""
    narrowed = {one.name: Grants(one.publish, one.consume, one.manage) for one in each}
    return Grants(settings.publish, settings.consume, settings.manage), narrowed


def _kept(general: Keeping, topic: TopicSettings) -> Keeping:
    own = {name: getattr(topic, name) for name in _KEEPING}
    return replace(general, **{name: value for name, value in own.items() if value is not None})
