"""The durable topics of a running speedd: their files, and the node that hosts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from speed import Node
from speed.daemon.config import Config, TopicSettings, TopicsSettings
from speed.daemon.grants import change_grants
from speed.journal.reseal import Resealed
from speed.topics.backend import Backend
from speed.topics.catalogue import Catalogue
from speed.topics.grants import Access, Grants, everybody
from speed.topics.host import WORKERS, Host
from speed.topics.topic import Keeping
from speed.wire.names import topics_dir, topics_node

_KEEPING = ("max_bytes", "max_age_seconds", "keep", "backlog", "tombstone_seconds")


class Hosting:
    """Everything that ``[topics]`` and ``[[topic]]`` ask for."""

    def __init__(self, config: Config, settings: TopicsSettings, node: Node, key: str) -> None:
        """Takes the topics and begins to answer.

        Raises JournalTakenError, DurabilityError, RootError, ConfigurationError.
        """
        self.name = topics_node(node.name)
        general, narrowed = _grants(settings, config.each_topic)
        self._topics = _cluster(settings) if settings.backend else _files(config, settings, node.root, key, self.name)
        self._node: Node | None = None
        try:
            self._topics.begin([topic.name for topic in config.each_topic])
            self._node = Node(
                self.name,
                root=node.root,
                key=key,
                lease_seconds=config.node.lease_seconds,
                heartbeat_seconds=config.node.heartbeat_seconds,
                workers=WORKERS,
                starting=True,
            )
            self._host = Host(self._node, self._topics, Access(general, narrowed))
            self._allowed = everybody((general, *narrowed.values()))
            self._node.allow(*self._allowed)
            self._node.ready()
        except BaseException:
            self._end()
            raise

    @property
    def broken(self) -> dict[str, str]:
        """Topics that cannot be used, and why."""
        return self._topics.broken

    @property
    def place(self) -> str:
        """Where the topics lie."""
        return self._topics.place

    @property
    def topics(self) -> Backend:
        """Where the topics lie, for bridges: hold its ``lock``."""
        return self._topics

    @property
    def host(self) -> Host:
        """What answers for the topics."""
        return self._host

    @property
    def is_lost(self) -> bool:
        """Whether another process has the host's name, or its lease ran out."""
        return self._node is None or self._node.closed

    def retain(self) -> str:
        """Remove what need not be kept. Returns what is wrong, empty if nothing is."""
        return self._topics.retain()

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key what others sealed; topics are served meanwhile."""
        return self._topics.reseal()

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
        self._topics.close()


def _files(config: Config, settings: TopicsSettings, root: str, key: str, source: str) -> Backend:
    """Topics in the root, or where the settings say."""
    keeping = Keeping(**{name: getattr(settings, name) for name in _KEEPING})
    return Catalogue(
        str(settings.directory or topics_dir(root)),
        key,
        source,
        durability=settings.durability,
        keeping=keeping,
        kept={one.name: _kept(keeping, one) for one in config.each_topic},
    )


def _cluster(settings: TopicsSettings) -> Backend:
    """Topics in Pulsar; its client is loaded only for them."""
    from speed.topics.cluster.broker import Cluster
    from speed.topics.cluster.catalogue import ClusterTopics

    assert settings.backend is not None
    assert settings.admin is not None
    token, trusted = (str(path) if path else None for path in (settings.token, settings.trusted))
    return ClusterTopics(Cluster(settings.backend, settings.admin, settings.namespace, token, trusted))


def _grants(settings: TopicsSettings, each: tuple[TopicSettings, ...]) -> tuple[Grants, dict[str, Grants]]:
    """Those for all topics, and those for single ones."""
    narrowed = {one.name: Grants(one.publish, one.consume, one.manage) for one in each}
    return Grants(settings.publish, settings.consume, settings.manage), narrowed


def _kept(general: Keeping, topic: TopicSettings) -> Keeping:
    own = {name: getattr(topic, name) for name in _KEEPING}
    return replace(general, **{name: value for name, value in own.items() if value is not None})
