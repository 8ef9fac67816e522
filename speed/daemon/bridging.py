"""The bridges of a running speedd: their ends are opened, and they are looked after (B-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from speed import Node
from speed.bridges import open_backend
from speed.bridges.address import parse_address
from speed.bridges.breaker import CARRYING
from speed.bridges.bridge import COUNTERS, Bridge, Sink, Source
from speed.bridges.ends import BackendSink, BackendSource
from speed.bridges.route import Filter, Route
from speed.bridges.settings import EVENTS, ROOT, SERVICE, TOPICS, BridgeSettings
from speed.daemon.config import Config
from speed.daemon.event_ends import EventSink, EventSource, Positions
from speed.daemon.hosting import Hosting
from speed.daemon.recording import Recording
from speed.daemon.topic_ends import DeadLetters, TopicSink, TopicSource
from speed.errors import StorageError
from speed.journal import Journal
from speed.wire.names import bridges_node

NextOf = Callable[[str, str], int]
NAMESPACE = "default"


class Bridging:
    """Everything that ``[[bridge]]`` asks for."""

    def __init__(
        self, config: Config, node: Node, key: str, hosting: Hosting | None, recording: Recording | None
    ) -> None:
        """Opens all and begins to carry; backends may be away.

        Raises ConfigurationError, StorageError, and what ``Node`` does.
        """
        self._config, self._key, self._root = config, key, node.root
        self._hosting, self._recording = hosting, recording
        self._daemon = node.name
        self._node: Node | None = None
        self._bridges: list[tuple[BridgeSettings, Bridge]] = []
        self._dead_letters = frozenset(one.dead_letter for one in config.bridges if one.dead_letter)
        try:
            if any(one.target == EVENTS for one in config.bridges):
                self._node = self._opened_node()
            self._bridges = [(one, self._opened(one)) for one in config.bridges]
        except BaseException:
            self.close()
            raise
        node.register(SERVICE, self.rows)
        for _, bridge in self._bridges:
            bridge.start()

    def _opened_node(self) -> Node:
        """The one that publishes events."""
        node = self._config.node
        return Node(
            bridges_node(self._daemon),
            root=self._root,
            key=self._key,
            workers=1,
            lease_seconds=node.lease_seconds,
            heartbeat_seconds=node.heartbeat_seconds,
        )

    def _opened(self, settings: BridgeSettings) -> Bridge:
        route = Route(settings.topics, settings.rename)
        source, sink = self._leaving(settings, route) if settings.source in ROOT else self._coming(settings, route)
        return Bridge(
            settings.name,
            source,
            sink,
            wanted=Filter(settings.filter),
            bury=self._buried(settings),
            give_up_seconds=settings.give_up_seconds,
            max_message_bytes=settings.max_message_bytes,
        )

    def _buried(self, settings: BridgeSettings) -> Any:
        if not settings.dead_letter:
            return None
        assert self._hosting is not None
        hosting = self._hosting
        return DeadLetters(hosting.topics, settings.dead_letter, settings.name, hosting.name).bury

    # --- ends ---

    def _leaving(self, settings: BridgeSettings, route: Route) -> tuple[Source, Sink]:
        """From the root to a backend."""
        address = parse_address(settings.target)
        sink = BackendSink(open_backend(address, settings.max_message_bytes), address, settings.name)
        make = self._topic_source if settings.source == TOPICS else self._event_source
        return make(settings, route, sink.next_of), sink

    def _topic_source(self, settings: BridgeSettings, route: Route, next_of: NextOf) -> Source:
        assert self._hosting is not None
        hosting = self._hosting
        return TopicSource(
            hosting.host,
            hosting.topics,
            route,
            settings.name,
            node=hosting.name,
            namespace=NAMESPACE,
            start=settings.start,
            next_of=next_of,
            left_out=self._dead_letters,
        )

    def _event_source(self, settings: BridgeSettings, route: Route, next_of: NextOf) -> Source:
        assert self._recording is not None
        assert self._config.journal is not None
        directory = self._recording.directory
        is_durable = self._config.journal.durability == "disk"
        try:
            positions = Positions(directory, self._key, settings.name, durable=is_durable)
        except OSError as error:
            raise StorageError(f"the journal cannot be opened for bridge {settings.name!r}: {error.strerror}") from None
        return EventSource(
            Journal(directory, self._key),
            positions,
            route,
            root=self._root,
            own=bridges_node(self._daemon),
            start=settings.start,
            next_of=next_of,
        )

    def _coming(self, settings: BridgeSettings, route: Route) -> tuple[Source, Sink]:
        """From a backend to the root."""
        address = parse_address(settings.source)
        backend = open_backend(address, settings.max_message_bytes)
        group = settings.group or settings.name
        source = BackendSource(backend, address, route, group, settings.start, settings.max_message_bytes)
        if settings.target == EVENTS:
            assert self._node is not None
            return source, EventSink(self._node)
        assert self._hosting is not None
        hosting = self._hosting
        sink = TopicSink(
            hosting.topics, settings.name, node=hosting.name, keep=settings.keep, makes=settings.make_topics
        )
        return source, sink

    # --- what people see ---

    def rows(self) -> list[dict[str, Any]]:
        """A row for each bridge; no credentials."""
        return [{**bridge.row(), **_about(settings)} for settings, bridge in self._bridges]

    def metrics(self) -> list[str]:
        """The counters of each bridge, and how it is now, as Prometheus reads them."""
        return [line for _, bridge in self._bridges for line in _metrics(bridge.row())]

    @property
    def is_lost(self) -> bool:
        """Whether another process has the name of the node that publishes events."""
        return self._node is not None and self._node.closed

    @property
    def node_name(self) -> str:
        """That of the node that publishes events."""
        return bridges_node(self._daemon)

    def close(self) -> None:
        """Carry no more."""
        for _, bridge in self._bridges:
            bridge.stop()  # all at once: each waits for what it has under way
        for _, bridge in self._bridges:
            bridge.close()
        if self._node is not None and not self._node.closed:
            self._node.close()


def _metrics(row: Mapping[str, Any]) -> Iterator[str]:
    label = f'{{bridge="{row["bridge"]}"}}'
    for name in COUNTERS:
        yield f"speed_bridge_{name}_total{label} {row[name]}"
    yield f"speed_bridge_carrying{label} {int(row['state'] == CARRYING.value)}"
    if row["lag"] is not None:
        yield f"speed_bridge_lag{label} {row['lag']}"


def _about(settings: BridgeSettings) -> dict[str, Any]:
    route = Route(settings.topics, settings.rename)
    return {
        "source": _shown(settings.source),
        "target": _shown(settings.target),
        "topics": route.pattern,
        "rename": route.rename,
    }


def _shown(end: str) -> str:
    return end if end in ROOT else str(parse_address(end))
