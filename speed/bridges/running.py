"""The bridges of a running speedd: their ends are opened, and they are looked after (B-11)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from speed import Node
from speed.backends import open_backend
from speed.backends.address import parse_address
from speed.bridges import EVENTS, ROOT, SERVICE, TOPICS, BridgeSettings, Filter, Route
from speed.bridges.bridge import CARRYING, COUNTERS, Bridge, BridgeSource, Sink
from speed.bridges.ends import BackendSink, BackendSource, EventSink, EventSource, Positions
from speed.bridges.topic_ends import DeadLetterTopic, TopicSink, TopicSource
from speed.core.log import logger
from speed.errors import StorageError
from speed.journal import Journal
from speed.topics.backend import TopicStore
from speed.topics.host import Host
from speed.wire.names import bridges_node

NextOf = Callable[[str, str], int]
NAMESPACE = "default"

log = logger("speed.bridges")


class HostedTopics(Protocol):
    """The durable topics of the root, as speedd hosts them."""

    name: str
    """Of the node that hosts them."""

    @property
    def host(self) -> Host: ...
    @property
    def topics(self) -> TopicStore: ...


class Events(NamedTuple):
    """The journal of the root."""

    directory: str
    is_durable: bool
    """Whether what is written into it survives a power cut."""


class Bridging:
    """Everything that ``[[bridge]]`` asks for."""

    def __init__(
        self,
        node: Node,
        key: str,
        make_node: Callable[[str], Node],
        hosting: HostedTopics | None,
        events: Events | None,
    ) -> None:
        """Carries nothing before ``change`` says what. ``make_node`` makes the one that publishes events."""
        self._daemon, self._key, self._make_node = node, key, make_node
        self._hosting, self._events = hosting, events
        self._is_listed = False
        self._node: Node | None = None
        self._bridges: list[tuple[BridgeSettings, Bridge]] = []
        self._dead_letters: frozenset[str] = frozenset()

    def can_change(self, wanted: Sequence[BridgeSettings]) -> bool:
        """Whether the topics and the journal that they need are there."""
        needs_topics = any(TOPICS in (one.source, one.target) or one.dead_letter for one in wanted)
        needs_journal = any(one.source == EVENTS for one in wanted)
        return (self._hosting is not None or not needs_topics) and (self._events is not None or not needs_journal)

    def change(self, wanted: Sequence[BridgeSettings]) -> dict[str, list[str]]:
        """Carry what is ``wanted``, and no more. Bridges whose settings stay go on; backends may be away.

        Returns the names of those that were begun, replaced and ended. Raises ConfigurationError, StorageError, and
        what ``Node`` does; then all is as before.
        """
        self._list()
        stays = {one.name: bridge for one, bridge in self._bridges if one in wanted}
        opened = self._all_opened([one for one in wanted if one.name not in stays])
        before = {one.name: bridge for one, bridge in self._bridges}
        gone = {name: bridge for name, bridge in before.items() if name not in stays}
        every = {**stays, **opened}
        self._dead_letters = frozenset(one.dead_letter for one in wanted if one.dead_letter)
        self._bridges = [(one, every[one.name]) for one in wanted]
        close_all(gone.values())  # before their heirs take over their positions
        self._close_unused_node()
        for bridge in opened.values():
            bridge.start()
        return {
            "begun": sorted(opened.keys() - gone.keys()),
            "replaced": sorted(opened.keys() & gone.keys()),
            "ended": sorted(gone.keys() - opened.keys()),
        }

    def _list(self) -> None:
        """Who has no bridges has no service that lists them."""
        if not self._is_listed:
            self._daemon.register(SERVICE, self.rows)
            self._is_listed = True

    def _all_opened(self, wanted: Sequence[BridgeSettings]) -> dict[str, Bridge]:
        """All or none; none has asked its backend for anything yet."""
        opened: dict[str, Bridge] = {}
        try:
            for one in wanted:
                opened[one.name] = self._opened(one)
        except BaseException:
            close_all(opened.values())
            self._close_unused_node()
            raise
        return opened

    def _close_unused_node(self) -> None:
        if self._node is not None and not any(one.target == EVENTS for one, _ in self._bridges):
            self._close_node()
            self._node = None

    def _close_node(self) -> None:
        if self._node is not None and not self._node.closed:
            self._node.close()

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
        return DeadLetterTopic(hosting.topics, settings.dead_letter, settings.name, hosting.name).bury

    # --- ends ---

    def _leaving(self, settings: BridgeSettings, route: Route) -> tuple[BridgeSource, Sink]:
        """From the root to a backend."""
        address = parse_address(settings.target)
        sink = BackendSink(open_backend(address, settings.max_message_bytes), address, settings.name)
        make = self._topic_source if settings.source == TOPICS else self._event_source
        return make(settings, route, sink.next_of), sink

    def _topic_source(self, settings: BridgeSettings, route: Route, next_of: NextOf) -> BridgeSource:
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
            is_left_out=lambda topic: topic in self._dead_letters,
        )

    def _event_source(self, settings: BridgeSettings, route: Route, next_of: NextOf) -> BridgeSource:
        assert self._events is not None
        directory, is_durable = self._events
        try:
            positions = Positions(directory, self._key, settings.name, durable=is_durable)
        except OSError as error:
            raise StorageError(f"the journal cannot be opened for bridge {settings.name!r}: {error.strerror}") from None
        return EventSource(
            Journal(directory, self._key),
            positions,
            route,
            root=self._daemon.root,
            own=self.node_name,
            start=settings.start,
            next_of=next_of,
        )

    def _coming(self, settings: BridgeSettings, route: Route) -> tuple[BridgeSource, Sink]:
        """From a backend to the root."""
        address = parse_address(settings.source)
        backend = open_backend(address, settings.max_message_bytes)
        group = settings.group or settings.name
        source = BackendSource(backend, address, route, group, settings.start, settings.max_message_bytes)
        if settings.target == EVENTS:
            self._node = self._node or self._make_node(self.node_name)
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

    def troubles(self) -> list[tuple[str, str]]:
        """Bridges that do not carry, and what failed there last."""
        return [(settings.name, bridge.trouble) for settings, bridge in self._bridges if bridge.trouble]

    def without_topic(self) -> list[tuple[str, str]]:
        """Bridges out of one durable topic that is not there, and its name: they wait until somebody makes it."""
        if self._hosting is None:
            return []
        named = [
            (one.name, one.topics) for one, _ in self._bridges if one.source == TOPICS and not one.topics.endswith("*")
        ]
        with self._hosting.topics.lock:
            return [(name, topic) for name, topic in named if self._hosting.topics.known(topic) is None]

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
        return bridges_node(self._daemon.name)

    def close(self) -> None:
        """Carry no more."""
        close_all([bridge for _, bridge in self._bridges])
        self._close_node()


def close_all(bridges: Collection[Bridge]) -> None:
    """All at once: each waits for what it has under way, and for its server. One that fails holds up no other."""
    if not bridges:
        return
    with ThreadPoolExecutor(len(bridges), "speed-bridges-end") as ending:
        ends = {bridge.name: ending.submit(bridge.close) for bridge in bridges}
    for name, end in ends.items():
        if (error := end.exception()) is not None:
            log.warning("bridge %s met an unexpected %s when it ended", name, type(error).__name__)


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
