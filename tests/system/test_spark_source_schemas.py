"""Avro and protobuf payloads with the format ``speed``: the columns that JSON and msgpack have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.message.compression import compress
from speed.message.schemas.registry import SchemaRegistry
from speed.wire.value import BATCH_TYPE
from tests.system.journals_for_spark import Recorded
from tests.system.payload_schemas import AVRO_1, AVRO_2, avro_bytes, descriptor_set, message_class, registry_in
from tests.system.topics import TopicSite, started, until

pytestmark = [pytest.mark.system, pytest.mark.spark]

PATIENCE_SECONDS = 200.0
AVRO = "application/avro"


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    return registry_in(tmp_path / "schemas")


@pytest.fixture
def read(session: Any, recorded: Recorded) -> Callable[..., Any]:
    """A DataFrame of the journal."""

    def frame(schema: str, **options: object) -> Any:
        given = {name: str(value) for name, value in options.items()}
        return session.read.format("speed").options(root=recorded.root, **given).schema(schema).load()

    return frame


def fields(registry: Path, name: str, version: str) -> dict[str, Any]:
    return SchemaRegistry(registry).get(name, version).fields


def record_all(recorded: Recorded, registry: Path) -> None:
    """The same order in every form; offsets 0 to 4."""
    record = {"content_type": AVRO}
    recorded.topic("t", "p", 1, payload={"id": 1, "city": "Oslo"})
    recorded.topic("t", "p", 1, payload='{"id": 2, "city": "Oslo"}', content_type="application/json")
    one = avro_bytes(AVRO_1, {"id": 3, "city": "Oslo"})
    recorded.topic("t", "p", 1, payload=one, schema=fields(registry, "Order", "1"), **record)
    order = message_class()(id=4, city="Oslo")
    recorded.topic("t", "p", 1, payload=order, schema=fields(registry, "shop.Order", "1"))


def test_every_form_of_payload_has_the_same_columns(
    recorded: Recorded, read: Callable[..., Any], registry: Path
) -> None:
    record_all(recorded, registry)
    rows = read("offset long, id long, city string", schemaRegistry=registry).orderBy("offset").collect()
    assert [(row.offset, row.id, row.city) for row in rows] == [(n, n + 1, "Oslo") for n in range(4)]
    found = read("payload struct<id: long, city: string>", schemaRegistry=registry).where("payload.id = 4").first()
    assert found.payload.city == "Oslo"


def test_versions_of_a_schema_are_read_as_the_schema_file_says(
    recorded: Recorded, read: Callable[..., Any], registry: Path
) -> None:
    for payload, version in (
        (avro_bytes(AVRO_1, {"id": 1}), "1"),
        (avro_bytes(AVRO_2, {"number": 2, "currency": "NOK"}), "2"),
    ):
        recorded.topic("t", "p", 1, payload=payload, content_type=AVRO, schema=fields(registry, "Order", version))
    file = registry / "Order" / "2.avsc"
    rows = read("number long, currency string", schemaRegistry=registry, schemaFile=file).orderBy("number").collect()
    assert [tuple(row) for row in rows] == [(1, "EUR"), (2, "NOK")]


@pytest.mark.parametrize(
    ("payload", "said", "says"),
    [
        (b"\xff\xff", {"content_type": AVRO}, "the payload is not Avro of its schema"),
        (
            avro_bytes(AVRO_1, {"id": 5}),
            {"content_type": AVRO, "schema": {"schema_name": "Other"}},
            "there is no schema",
        ),
        (message_class("shop.Other")(id="x"), {}, "its schema, which it does not name, is not known"),
        (message_class()(id=5), {"schema": {"schema_name": "Order", "schema_version": "1"}}, "of something else"),
    ],
)
def test_a_payload_that_cannot_be_decoded_is_named_or_null_and_ends_nothing_else(
    recorded: Recorded, read: Callable[..., Any], registry: Path, payload: Any, said: dict[str, Any], says: str
) -> None:
    record_all(recorded, registry)
    said = {**said, **({} if "schema" not in said else {"schema": {"schema_version": "1", **said["schema"]}})}
    recorded.topic("t", "p", 1, payload=payload, **said)
    record_all(recorded, registry)
    given = {"schemaRegistry": registry, "schemaFile": registry / "Order" / "1.avsc"}
    with pytest.raises(Exception, match=f"PayloadError: topic t from p, lane [0-9a-f]*, offset 4: .*{says}"):
        read("offset long, id long", **given).collect()
    rows = read("offset long, id long", onError="null", **given).orderBy("offset").collect()
    assert [row.id for row in rows] == [1, 2, 3, 4, None, 1, 2, 3, 4]


def test_without_a_schema_such_payloads_are_null_or_bytes_as_they_are(
    recorded: Recorded, read: Callable[..., Any], registry: Path
) -> None:
    record_all(recorded, registry)
    rows = read("offset long, id long", onError="null").orderBy("offset").collect()
    assert [row.id for row in rows] == [1, 2, None, None]
    found = read("offset long, payload binary").where("offset = 2").first()
    assert bytes(found.payload) == avro_bytes(AVRO_1, {"id": 3, "city": "Oslo"})


def avro_batch(*ids: int) -> bytes:
    """M-30."""
    parts = [part for one in ids for part in (AVRO.encode(), avro_bytes(AVRO_1, {"id": one}))]
    return len(ids).to_bytes(4, "big") + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def test_a_compressed_payload_and_each_one_of_a_batch_has_columns(
    session: Any, recorded: Recorded, read: Callable[..., Any], registry: Path
) -> None:
    payload = avro_bytes(AVRO_1, {"id": 1, "city": "Oslo" * 50})
    packed = bytes(compress("gzip", payload))
    recorded.topic(
        "t", "p", 1, payload=packed, content_type=AVRO, content_encoding="gzip", uncompressed_bytes=len(payload)
    )
    rows = read("id long", schemaFile=registry / "Order" / "1.avsc").collect()
    assert [row.id for row in rows] == [1]
    recorded.topic("t", "q", 1, payload=avro_batch(2, 3), content_type=BATCH_TYPE)
    rows = read("id long, batch_index int", schemaFile=registry / "Order" / "1.avsc").orderBy("id").collect()
    assert [(row.id, row.batch_index) for row in rows] == [(1, None), (2, 0), (3, 1)]


def test_a_schema_file_that_is_missing_is_told_before_the_query_runs(read: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match=r"schemaFile is '/none\.avsc': .*there is no such file"):
        read("id long", schemaFile="/none.avsc").collect()


def test_a_stream_has_them_too(session: Any, recorded: Recorded, registry: Path, tmp_path: Path) -> None:
    record_all(recorded, registry)
    frame = (
        session.readStream.format("speed")
        .options(root=recorded.root, schemaRegistry=str(registry))
        .schema("id long")
        .load()
    )
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    query = writer.option("checkpointLocation", str(tmp_path / "point")).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_SECONDS)
    assert sorted(row.id for row in session.read.parquet(str(tmp_path / "rows")).collect()) == [1, 2, 3, 4]


# --- durable topics ---

CONFIG = """
[node]
root = "root"
key = "speed.key"
[topics]
publish = ["test"]
consume = ["test"]
manage = ["test"]
[[topic]]
name = "orders"
[[topic]]
name = "parcels"
[[topic]]
name = "prices"
keep = "latest"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    yield from started(tmp_path_factory.mktemp("topics"), CONFIG)


def topic_rows(session: Any, site: TopicSite, topic: str, schema: str, **options: object) -> list[Any]:
    given = {name: str(value) for name, value in options.items()}
    reader = session.read.format("speed").options(root=str(site.root), key=str(site.key), durableTopic=topic, **given)
    return list(reader.schema(schema).load().orderBy("offset").collect())


def test_bytes_in_a_durable_topic_are_what_the_schema_file_is_of(session: Any, site: TopicSite, registry: Path) -> None:
    with site.node() as node:
        orders = node.topic("orders")
        orders.publish(avro_bytes(AVRO_1, {"id": 1, "city": "Oslo"}), key="a")
        orders.publish({"id": 2, "city": "Bergen"})
        orders.delete_key("a")
        orders.publish(b"\xff\xff")
        file = registry / "Order" / "1.avsc"
        schema = "offset long, content_type string, id long, city string"
        rows = topic_rows(session, site, "orders", schema, schemaFile=file, onError="null")
    assert [(row.id, row.city) for row in rows] == [(1, "Oslo"), (2, "Bergen"), (None, None), (None, None)]
    assert rows[0].content_type == "application/octet-stream", "as it was published"
    with pytest.raises(Exception, match=r"offset 3: .*not Avro of its schema"):
        topic_rows(session, site, "orders", schema, schemaFile=file)


def test_a_message_of_a_durable_topic_says_by_properties_what_its_bytes_are(
    session: Any, site: TopicSite, registry: Path
) -> None:
    with site.node() as node:
        parcels = node.topic("parcels")
        for version, payload in (("1", {"id": 1}), ("2", {"number": 2, "currency": "NOK"})):
            about = {"content_type": AVRO, "schema_name": "Order", "schema_version": version}
            written = AVRO_1 if version == "1" else AVRO_2
            parcels.publish(avro_bytes(written, payload), properties=about)
        about = {"content_type": "application/protobuf", "schema_name": "shop.Order", "schema_version": "1"}
        parcels.publish(message_class()(id=3, city="Oslo").SerializeToString(), properties=about)
        parcels.publish(b'{"id": 4}', properties={"content_type": "application/json"})
        rows = topic_rows(session, site, "parcels", "offset long, id long, number long", schemaRegistry=registry)
    assert [(row.id, row.number) for row in rows] == [(1, None), (None, 2), (3, None), (4, None)]


def test_a_compacted_topic_is_read_and_a_stream_goes_on_in_it(session: Any, site: TopicSite, tmp_path: Path) -> None:
    """Offsets that are left out are no lost messages."""
    options = {"root": str(site.root), "key": str(site.key), "durableTopic": "prices"}

    def stream() -> list[int]:
        frame = session.readStream.format("speed").options(**options).schema("offset long, n long").load()
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        query = writer.option("checkpointLocation", str(tmp_path / "point")).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_SECONDS)
        return sorted(row.offset for row in session.read.parquet(str(tmp_path / "rows")).collect())

    with site.node() as node:
        prices = node.topic("prices")
        prices.publish_batch(({"n": n} for n in range(100)), keys=(str(n % 10) for n in range(100)))
        assert stream() == [*range(100)]
        prices.publish_batch(({"n": n} for n in range(100)), keys=(str(n % 10) for n in range(100)))
        assert prices.compact() == 200
        until(lambda: len(topic_rows(session, site, "prices", "offset long")) == 10)
        rows = topic_rows(session, site, "prices", "offset long, n long", messagesPerPartition=7)
        assert [(row.offset, row.n) for row in rows] == [(n + 100, n) for n in range(90, 100)]
        assert stream() == [*range(100), *range(190, 200)]
        prices.publish({"n": 7}, key="7")
        assert stream()[-1] == 200


def test_a_descriptor_set_reads_bytes_of_the_message_that_is_named(
    session: Any, site: TopicSite, tmp_path: Path
) -> None:
    (tmp_path / "order.desc").write_bytes(descriptor_set())
    with site.node() as node:
        topic: speed.Topic = node.topic("t.protobuf")
        topic.create()
        topic.publish(message_class()(id=3, city="Oslo").SerializeToString())
        given = {"schemaFile": tmp_path / "order.desc", "schemaMessage": "shop.Order"}
        (row,) = topic_rows(session, site, "t.protobuf", "offset long, id long, city string", **given)
    assert (row.id, row.city) == (3, "Oslo")
    assert json.dumps(row.asDict()) == '{"offset": 0, "id": 3, "city": "Oslo"}'
