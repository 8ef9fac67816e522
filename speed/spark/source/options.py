"""The options of the format ``speed``: which there are, what they mean, and what is wrong with those given.

All are checked while Spark analyses the query. ``key`` is the path of a key file: no key is ever an option.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from speed.errors import ConfigurationError
from speed.fs.keyfile import default_key, default_root
from speed.node.consumer import HOST
from speed.spark.nodes import NodeSettings
from speed.wire import names

PAYLOADS = ("binary", "string")
STARTING_OFFSETS = ("earliest", "latest")
ENDING_OFFSETS = ("latest",)
ON_ERROR = ("raise", "null")
DURABILITIES = ("process", "disk")
ENGINES = ("auto", "native", "python")

_WRITE = {
    "root": "communication directory; without it $SPEED_ROOT, as for speed.Node",
    "key": "path of the key file, on every executor; without it $SPEED_KEY",
    "node": "whom each row is sent to",
    "topic": "topic that each row is published on",
    "durableTopic": "durable topic that each row is published on",
    "host": "node that hosts the durable topic: speedd.topics",
    "prefix": "family of the nodes that write: etl",
    "run": "name of this run; written again under the same name, rows keep their message ids",
    "contentType": "of a payload of binary or string",
    "durability": "process or disk",
    "engine": "auto, native or python: of the nodes that write",
    "timeoutSeconds": "how long to wait for a node, for room and for the acknowledgement",
    "minSubscribers": "how many nodes must subscribe to the topic",
}
_READ = {
    "root": "communication directory; without it $SPEED_ROOT, as for speed.Node",
    "key": "path of the key file, on every executor; without it $SPEED_KEY",
    "journal": "directory of the journal",
    "calls": "true: the call log",
    "topic": "topics or patterns to read, separated by commas",
    "durableTopic": "durable topics or patterns to read, separated by commas",
    "subscription": "subscription of one durable topic that follows the query",
    "host": "node that hosts that topic: speedd.topics",
    "prefix": "family of the node that moves that subscription: etl",
    "inbox": "inbox to read",
    "source": "sender or pattern to read",
    "payload": "binary or string",
    "payloadSchema": "columns of the payload, as DDL",
    "schemaRegistry": "directory or https URL of the schemas that Avro and protobuf payloads name",
    "schemaFile": "schema that such payloads are read by: .avsc or .desc",
    "schemaMessage": "message of a .desc file that payloads are which do not say so",
    "onError": "raise or null: what a payload that does not fit becomes",
    "messagesPerPartition": "how many messages a task reads at most of one lane",
    "maxPartitions": "how many tasks read at most",
    "maxMessagesPerTrigger": "how many messages a micro-batch has at most",
    "startingOffsets": "earliest, latest or the first offset of each lane, as JSON",
    "endingOffsets": "latest or the offset behind the last of each lane, as JSON",
    "startingTimestamp": "the first time of recording: Unix ms, or ISO 8601 with its zone",
    "endingTimestamp": "the time before which all was recorded, likewise",
    "failOnDataLoss": "false: go on where the journal no longer has what comes next",
}


_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark itself reads and hands on."""
_STREAM_ONLY = ("maxMessagesPerTrigger", "subscription")
_BATCH_ONLY = ("endingOffsets", "endingTimestamp")


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go: to ``node`` as messages, to a durable topic, else to topics as events."""

    settings: NodeSettings
    node: str | None
    topic: str | None
    durable_topic: str | None
    host: str
    run: str | None
    content_type: str | None
    timeout_seconds: float
    min_subscribers: int


@dataclass(frozen=True)
class Following:
    """A subscription that is moved on as a query commits, and the node that does it."""

    settings: NodeSettings
    host: str
    topic: str
    subscription: str


@dataclass(frozen=True)
class ReadOptions:
    """What is read of a journal, and how it comes."""

    journal: str
    key: str
    calls: bool
    durable: bool
    """Whether the topics are durable ones."""
    hosted: bool
    """Whether their host is asked for them: there are no files of them here."""
    host: str
    """Of the durable topics."""
    settings: NodeSettings
    """Of the nodes that ask it."""
    following: Following | None
    topics: tuple[str, ...]
    inbox: str | None
    source: str | None
    payload: str
    payload_schema: str | None
    schema_registry: str | None
    schema_file: str | None
    schema_message: str | None
    on_error: str
    messages_per_partition: int
    max_partitions: int | None
    max_messages_per_trigger: int | None
    starting_offsets: str | Mapping[str, int]
    ending_offsets: str | Mapping[str, int]
    starting_ms: int | None
    ending_ms: int | None
    fail_on_data_loss: bool


def check_names(given: Mapping[str, str]) -> None:
    """Raises ConfigurationError for an option that exists neither for reading nor for writing."""
    _GivenOptions(given, {**_READ, **_WRITE}, "the format speed")


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ConfigurationError, which names the option and what there is."""
    options = _GivenOptions(given, _WRITE, "writing")
    node, topic, durable_topic = map(options.text, ("node", "topic", "durableTopic"))
    if node and topic:
        raise ConfigurationError(
            "node and topic are both given: rows go to one node, or to the subscribers of a topic; "
            "messages to a node take their topics from a column 'topic'"
        )
    if durable_topic and (node or topic):
        raise ConfigurationError("durableTopic is given with node or topic: rows go to one of them")
    if node:
        names.check_node_name(node)
    for one in filter(None, (topic, durable_topic)):
        names.check_topic(one)
    settings = replace(
        _settings(options),
        durability=options.choice("durability", DURABILITIES),
        engine=options.choice("engine", ENGINES),
    )
    return WriteOptions(
        settings=settings,
        node=node,
        topic=topic,
        durable_topic=durable_topic,
        host=_host(options),
        run=options.text("run"),
        content_type=options.text("contentType"),
        timeout_seconds=float(options.number("timeoutSeconds", 60)),
        min_subscribers=options.number("minSubscribers", 1, least=0),
    )


def _settings(options: _GivenOptions) -> NodeSettings:
    prefix = options.text("prefix") or "etl"
    names.check_node_name(prefix)
    root = options.text("root") or default_root()
    return NodeSettings(root=root, key=options.text("key"), prefix=prefix, application="")


def _host(options: _GivenOptions) -> str:
    return names.check_node_name(options.text("host") or HOST)


def read_options(given: Mapping[str, str], *, streaming: bool | None = True) -> ReadOptions:
    """``streaming``: whether a stream reads; None while Spark has not said.

    Raises ConfigurationError, which names the option and what there is.
    """
    options = _GivenOptions(given, _READ, "reading")
    of_others = () if streaming is None else _BATCH_ONLY if streaming else _STREAM_ONLY
    unfit = [name for name in of_others if options.text(name)]
    if unfit:
        here, there = ("a stream", "read") if streaming else ("a batch", "readStream")
        raise ConfigurationError(f"{unfit[0]} is given for {here}: it is for {there}")
    root, durable_topics = options.text("root") or default_root(), options.texts("durableTopic")
    made = ReadOptions(
        journal=options.text("journal") or (names.topics_dir(root) if durable_topics else names.journal_dir(root)),
        key=options.text("key") or default_key(root),
        calls=options.flag("calls", False),
        durable=bool(durable_topics),
        hosted=bool(durable_topics) and not options.text("journal") and not os.path.isdir(names.topics_dir(root)),
        host=_host(options),
        settings=_settings(options),
        following=_following(options, durable_topics),
        topics=durable_topics or options.texts("topic"),
        inbox=options.text("inbox"),
        source=options.text("source"),
        payload=options.choice("payload", PAYLOADS),
        payload_schema=options.text("payloadSchema"),
        schema_registry=options.text("schemaRegistry"),
        schema_file=options.text("schemaFile"),
        schema_message=options.text("schemaMessage"),
        on_error=options.choice("onError", ON_ERROR),
        messages_per_partition=options.number("messagesPerPartition", 100_000),
        max_partitions=options.number("maxPartitions", 0) or None,
        max_messages_per_trigger=options.number("maxMessagesPerTrigger", 0) or None,
        starting_offsets=options.offsets("startingOffsets", STARTING_OFFSETS if streaming else STARTING_OFFSETS[:1]),
        ending_offsets=options.offsets("endingOffsets", ENDING_OFFSETS),
        starting_ms=options.time_ms("startingTimestamp"),
        ending_ms=options.time_ms("endingTimestamp"),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
    )
    _check_reading(made, options)
    return made


def _following(options: _GivenOptions, topics: tuple[str, ...]) -> Following | None:
    subscription = options.text("subscription")
    if subscription is None:
        return None
    if len(topics) != 1:
        raise ConfigurationError("subscription is given: it is of one durable topic, give its name as durableTopic")
    return Following(_settings(options), _host(options), names.check_topic(topics[0]), subscription)


def _check_reading(made: ReadOptions, options: _GivenOptions) -> None:
    others = [name for name in ("topic", "inbox", "source", "calls") if made.durable and options.text(name)]
    if others:
        raise ConfigurationError(f"{others[0]} is given with durableTopic: that is read alone")
    if made.topics and made.inbox:
        raise ConfigurationError("topic and inbox are both given: read events of topics, or messages to an inbox")
    if made.payload_schema and options.text("payload"):
        raise ConfigurationError("payload and payloadSchema are both given: use payloadSchema for columns")
    unfit = ("topic", "inbox", "payload", "payloadSchema", "onError", "schemaRegistry", "schemaFile")
    extra = [name for name in unfit if made.calls and options.text(name)]
    if extra:
        raise ConfigurationError(f"{extra[0]} is given with calls: the call log has no messages")
    if made.schema_message and not (made.schema_file or "").endswith(".desc"):
        raise ConfigurationError("schemaMessage is given: it is of a descriptor set, name that as schemaFile")
    if made.starting_ms is not None and options.text("startingOffsets"):
        raise ConfigurationError("startingOffsets and startingTimestamp are both given: a query begins at one place")
    if made.ending_ms is not None and options.text("endingOffsets"):
        raise ConfigurationError("endingOffsets and endingTimestamp are both given: a query ends at one place")
    for pattern in (*made.topics, *([made.source] if made.source else ())):
        names.check_topic_pattern(pattern)


class _GivenOptions:
    """Options as Spark gives them: texts, names in any case."""

    def __init__(self, given: Mapping[str, str], known: Mapping[str, str], doing: str) -> None:
        by_lower = {name.lower(): name for name in known}
        given = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
        unknown = [name for name in given if name.lower() not in by_lower]
        if unknown:
            raise ConfigurationError(f"there is no option {unknown[0]!r} for {doing}; there are {', '.join(known)}")
        self._values = {by_lower[name.lower()]: text for name, text in given.items()}

    def text(self, name: str) -> str | None:
        """None where it is not given, or empty."""
        return self._values.get(name) or None

    def texts(self, name: str) -> tuple[str, ...]:
        """The parts between commas; none where it is not given."""
        value = self.text(name)
        return tuple(part.strip() for part in value.split(",")) if value else ()

    def time_ms(self, name: str) -> int | None:
        """A time as Unix milliseconds; None where it is not given."""
        value = self.text(name)
        if value is None:
            return None
        if value.isascii() and value.isdigit() and len(value) < 16:
            return int(value)
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None or moment.timestamp() < 0:
            raise ConfigurationError(f"{name} is {value!r}: use Unix milliseconds, or 2026-01-31T12:00:00+00:00")
        return int(moment.timestamp() * 1000)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of ``choices``, of which the first is the default."""
        value = self.text(name) or choices[0]
        if value not in choices:
            raise ConfigurationError(f"{name} is {value!r}: use {' or '.join(choices)}")
        return value

    def offsets(self, name: str, choices: tuple[str, ...]) -> str | dict[str, int]:
        """One of ``choices``, of which the first is the default, or an offset for each lane that is named."""
        value = self.text(name) or choices[0]
        if value in choices:
            return value
        try:
            given = json.loads(value)
        except ValueError:
            given = None
        if not isinstance(given, dict) or not all(type(one) is int and one >= 0 for one in given.values()):
            raise ConfigurationError(f'{name} is {value!r}: use {" or ".join(choices)}, or {{"<lane>": <offset>, …}}')
        return given

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise ConfigurationError(f"{name} is {value!r}: use true or false")
        return value == "true"

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """A whole number of at least ``least``, or the default."""
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 16) or int(value) < least:
            raise ConfigurationError(f"{name} is {value!r}: use a whole number of at least {least}")
        return int(value)
