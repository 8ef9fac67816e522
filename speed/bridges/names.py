"""How names of SPEED are written where a backend does not take them, and read again (B-2). Pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from hashlib import sha256
from urllib.parse import quote, unquote

from speed.errors import InvalidNameError
from speed.wire.message import DEFAULT_NAMESPACE
from speed.wire.names import check_topic

MAX_KAFKA_TOPIC = 249
MAX_NATS_TOKEN = 128
MAX_NATS_DURABLE = 200
_ESCAPE = ".."
"""Two dots are in no topic of SPEED, and a topic of Kafka may have them."""
_HEX = 64
KEPT_OF_KAFKA = MAX_KAFKA_TOPIC - len(_ESCAPE) - _HEX
"""How much of a topic stands in a name that is shortened."""
_NATS = str.maketrans({".": "=", "*": "+"})
"""A server of NATS formats names of consumers, so they have no ``%``."""
_VISIBLE = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_LAST_DAY_MS = 253_402_300_799_000
EVENTS, MANIFESTS = "events/", "manifests/"
"""Where messages and manifests lie in S3."""


def kafka_topic(topic: str) -> str:
    """The topic of Kafka that holds a topic: itself, unless Kafka keeps such names for itself or they are too long."""
    escaped = _ESCAPE + topic if topic.startswith("__") else topic
    if len(escaped) <= MAX_KAFKA_TOPIC:
        return escaped
    return f"{topic[:KEPT_OF_KAFKA]}{_ESCAPE}{_hash(topic)}"


def topic_of_kafka(name: str) -> str | None:
    """The topic that ``kafka_topic`` wrote so; None for others' names, and for what it shortened: its messages tell."""
    topic = name[len(_ESCAPE) :] if name.startswith(f"{_ESCAPE}__") else name
    try:
        check_topic(topic)
    except InvalidNameError:
        return None
    return topic if kafka_topic(topic) == name else None


def kafka_filter(pattern: str) -> str:
    """The topic of Kafka, or an expression for its topics, which librdkafka knows by its first character."""
    if pattern == "*":
        return r"^(\.\.__|_?[A-Za-z0-9-]|_$|_\.).*"
    if not pattern.endswith(".*"):
        return kafka_topic(pattern)
    first = pattern[:-1][:KEPT_OF_KAFKA]
    escaped = (f"..{first}" if first.startswith("__") else first).replace(".", r"\.")
    return f"^{escaped}[A-Za-z0-9_-].*"


def is_asked_of_kafka(pattern: str, name: str) -> bool:
    """Whether a topic of Kafka may hold topics of a pattern: of a name that was shortened, its messages tell."""
    asked = kafka_filter(pattern)
    return bool(re.match(asked, name)) if asked.startswith("^") else name == asked


def nats_stream(topic: str) -> str:
    """The stream that is made for a topic, if no stream takes it: one for all topics with the same first part."""
    first = topic.split(".", 1)[0]
    return f"speed-{first}" if len(first) <= MAX_NATS_TOKEN else f"speed-{first[:MAX_NATS_TOKEN]}={_hash(first)}"


def nats_subjects(topic: str) -> list[str]:
    """What the stream of ``nats_stream`` takes."""
    first = topic.split(".", 1)[0]
    return [first, f"{first}.>"]


def nats_filter(pattern: str) -> str:
    """The subjects that a pattern covers."""
    return ">" if pattern == "*" else f"{pattern[:-1]}>" if pattern.endswith(".*") else pattern


def nats_durable(group: str, pattern: str) -> str:
    """The consumer of JetStream that keeps the position of a group in a pattern."""
    name = f"{group}+{pattern}".translate(_NATS)
    return name if len(name) <= MAX_NATS_DURABLE else f"{name[: MAX_NATS_DURABLE - _HEX - 1]}+{_hash(name)}"


def group_name(group: str, namespace: str) -> str:
    """What a group of a namespace is called: the groups of two namespaces do not share their messages."""
    return group if namespace == DEFAULT_NAMESPACE else f"{_plain(namespace)}+{group}"


def _plain(text: str) -> str:
    """Letters, digits, ``_`` and ``-`` as they are, and ``=`` with two digits for every other byte."""
    return quote(text, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "=")


def header_text(text: str) -> str:
    """``text`` in visible ASCII: where a header takes no more, and a line break would begin another one."""
    return quote(text, safe=_VISIBLE)


def text_of_header(text: str) -> str:
    """What ``header_text`` was given."""
    return unquote(text)


def s3_key(topic: str, message_id: str, published_at_ms: int) -> str:
    """The object that holds a message."""
    return f"{s3_day(published_at_ms)}{topic}/{quote(message_id, safe='')}.bin"


def s3_manifest(topic: str, manifest_id: str, unix_ms: int) -> str:
    """The object that names the objects of a batch, written at that time."""
    return f"{s3_day(unix_ms, MANIFESTS)}{topic}/{manifest_id}.json"


def s3_day(unix_ms: int, root: str = EVENTS) -> str:
    """Where the objects of a day (UTC) begin."""
    day = datetime.fromtimestamp(min(unix_ms, _LAST_DAY_MS) / 1000, timezone.utc)
    return f"{root}{day.year:04d}/{day.month:02d}/{day.day:02d}/"


def s3_parts(key: str, root: str = EVENTS) -> tuple[str, str] | None:
    """Topic and id of a message, or of a manifest; None for others' objects."""
    parts, end = key.split("/"), ".json" if root == MANIFESTS else ".bin"
    if len(parts) != 6 or f"{parts[0]}/" != root or not parts[5].endswith(end):
        return None
    try:
        return check_topic(parts[4]), unquote(parts[5][: -len(end)])
    except InvalidNameError:
        return None


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
