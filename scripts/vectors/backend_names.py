"""Names as backends have them (B-2)."""

from __future__ import annotations

from typing import Any

from speed.backends import backend
from speed.wire.names import matches

ID = "0190163d-8694-739b-aea5-966c26f8ad90"


def backend_names() -> dict[str, Any]:
    """Topics, groups and message ids, and what stands for them."""
    return {
        "about": "B-2. `topic` null: the name is no topic's, or too long to tell; the message does.",
        "kafka": [_kafka(*row) for row in _KAFKA],
        "kafka_foreign": [
            {"name": name, "topic": backend.topic_of_kafka(name), "bug": bug} for name, bug in _KAFKA_FOREIGN
        ],
        "nats_streams": [
            {"topic": topic, "stream": backend.nats_stream(topic), "subjects": backend.nats_subjects(topic), "bug": bug}
            for topic, bug in _STREAMS
        ],
        "groups": [
            {"group": group, "namespace": namespace, "name": backend.group_name(group, namespace), "bug": bug}
            for group, namespace, bug in _GROUPS
        ],
        "nats_durables": [
            {"group": group, "pattern": pattern, "durable": backend.nats_durable(group, pattern), "bug": bug}
            for group, pattern, bug in _DURABLES
        ],
        "nats_filters": [
            {
                "pattern": pattern,
                "filter": backend.nats_filter(pattern),
                "topic": topic,
                "covers": matches(pattern, topic),
                "bug": bug,
            }
            for pattern, topic, bug in _FILTERS
        ],
        "headers": [{"text": text, "header": backend.header_text(text), "bug": bug} for text, bug in _HEADERS],
        "s3": [_s3(*row) for row in _S3],
        "s3_foreign": [{"key": key, "bug": bug} for key, bug in _S3_FOREIGN],
    }


def _kafka(topic: str, bug: str) -> dict[str, Any]:
    name = backend.kafka_topic(topic)
    return {"topic": topic, "name": name, "read": backend.topic_of_kafka(name), "bug": bug}


def _s3(topic: str, message_id: str, unix_ms: int, bug: str) -> dict[str, Any]:
    key = backend.s3_key(topic, message_id, unix_ms)
    return {"topic": topic, "message_id": message_id, "published_at_ms": unix_ms, "key": key, "bug": bug}


_GROUPS = (
    ("billing", "default", "the positions of groups that were there before get lost"),
    ("billing", "a", "two namespaces share a group, and take each other's messages"),
    ("billing", "a.b", "a dot is in no name of a consumer of NATS"),
    ("billing", "a+b", "what ends the namespace stands in it"),
    ("billing", "caf\u00e9/~", "a slash makes another object of S3"),
    ("billing.eu", "default", "a group with a dot is taken for one of another namespace"),
)
_KAFKA = (
    ("orders.created", "a name that needs nothing is changed"),
    ("orders_created", "the underscore is escaped, and tools look for another topic"),
    ("_schemas", "one underscore taken for two"),
    ("__consumer_offsets", "messages written into a topic that Kafka keeps for itself"),
    ("__a", "only the topics that Kafka has now are escaped"),
    ("a" * 249, "the longest name is shortened"),
    ("a" * 250, "Kafka takes 249 characters"),
    ("a" * 250 + "b", "two long names with the same beginning meet"),
    ("__" + "a" * 246, "the escape makes a name too long"),
    ("a" * 183 + "." + "b" * 70, "the cut falls on a dot"),
)
_KAFKA_FOREIGN = (
    ("..orders", "an escape where none is needed is a second name of a topic"),
    ("...__a", "a third dot taken for the escape"),
    ("__consumer_offsets", "a topic of Kafka's own read as one of ours"),
    ("a..b", "two dots read as one"),
    (".hidden", "no topic begins with a dot"),
    ("orders.", "no topic ends with a dot"),
    ("a" * 183 + ".." + "0" * 64, "a hash is taken for a name"),
)
_STREAMS = (
    ("orders", "one part is a subject by itself"),
    ("orders.created.eu", "a stream for each topic, of which a server has thousands"),
    ("Orders", "case folded"),
    ("a" * 128, "the longest part is shortened"),
    ("a" * 129, "a name of a stream has 255 characters at most"),
    ("a" * 128 + "b.c", "two long parts with the same beginning meet"),
)
_DURABLES = (
    ("billing", "orders", "the pattern is left out, and two subscriptions share a position"),
    ("billing", "orders.created", "a dot is in no name of a consumer"),
    ("billing", "orders.*", "a star is in no name of a consumer"),
    ("billing", "*", "a pattern of one star"),
    ("bill.ing", "a", "the dot of a group"),
    ("bill", "ing.a", "group and pattern run together"),
    ("g" * 128, "t" * 255, "too long for a name of a consumer"),
)
_FILTERS = (
    ("orders.*", "orders.eu.created", "a star of NATS covers one part, ours all that follow"),
    ("orders.*", "orders", "a pattern covers its own stem"),
    ("*", "orders.eu", "a star covers one part only"),
    ("orders", "orders", "a topic is a pattern too"),
)
_HEADERS = (
    (ID, "an id of SPEED is changed"),
    ("a b", "a blank ends a value"),
    ("a\r\nNats-Rollup: all", "a line break begins another header"),
    ("100%", "the sign of the escape is not escaped itself"),
    ("caf\u00e9", "a header has ASCII only"),
)
_S3 = (
    ("orders.created", ID, 1_718_000_000_000, "the day is that of the reader's time zone"),
    ("orders", "a/b", 1_718_000_000_000, "a slash in a message id makes another place"),
    ("orders", "..", 1_718_000_000_000, "dots are no way up"),
    ("orders", "a\nb%", 1_718_064_000_000, "a control character in a key"),
    ("orders", "1", 1, "the first day"),
    ("orders", "1", (1 << 63) - 1, "a day that no calendar has"),
)
_S3_FOREIGN = (
    ("events/2024/06/10/orders/", "a folder that a console made"),
    ("events/2024/06/10/orders/1.json", "an object of another program"),
    ("events/2024/06/10/or ders/1.bin", "no topic"),
    ("logs/2024/06/10/orders/1.bin", "another place"),
)
