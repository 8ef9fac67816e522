"""``speed.spark.envelope`` opens messages in any column of bytes, and bad bytes are rows with a code."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from speed.errors import ConfigurationError
from speed.message.keys import generate_key
from speed.message.keystore import KeyStore, write_keys
from speed.message.protect import Protection, protect_message
from speed.message.security import MessageSecurity
from speed.message.writing import encode_message
from speed.spark import envelope
from speed.wire.value import encode_content

pytestmark = [pytest.mark.system, pytest.mark.spark]

HEAD: dict[str, Any] = {
    "topic": "orders.created",
    "namespace": "shop",
    "message_id": "0190163d-8694-739b-aea5-966c26f8ad90",
    "published_at_ms": 1_718_000_000_123,
}
TRACE = "0af7651916cd43dd8448eb211c80319c"


def opened(spark: Any, *values: bytes | None, **how: Any) -> list[Any]:
    """The rows that come of a column of these."""
    rows = spark.createDataFrame([(number, one) for number, one in enumerate(values)], "n int, value binary")
    found = rows.select("n", envelope("value", **how).alias("m")).orderBy("n").collect()
    return [row.m for row in found]


def test_a_message_becomes_a_structure_of_what_it_says(spark: Any) -> None:
    message = encode_message(
        b"hello",
        **HEAD,
        publisher_id="web",
        priority=8,
        ttl_seconds=60,
        correlation_id="cart-7",
        causality_parent="m-0",
        traceparent=f"00-{TRACE}-{'b' * 16}-01",
        labels={"region": "eu"},
        extensions={"x-note": b"\x00\xff"},
        schema={"schema_name": "order", "schema_version": "v2"},
    )
    (row,) = opened(spark, message)
    assert (row.message_id, row.topic, row.namespace) == (HEAD["message_id"], "orders.created", "shop")
    assert row.publisher == "web"
    at = datetime.datetime.fromtimestamp(1_718_000_000.123)  # noqa: DTZ006 - collect() gives local times
    assert abs(row.published_at - at) < datetime.timedelta(microseconds=10)
    assert (row.priority, row.ttl_seconds, row.content_type) == (8, 60, "application/octet-stream")
    assert (row.correlation_id, row.causality_parent, row.trace_id) == ("cart-7", "m-0", TRACE)
    assert (row.headers, {name: bytes(data) for name, data in row.extensions.items()}) == (
        {"region": "eu"},
        {"x-note": b"\x00\xff"},
    )
    assert row.schema.asDict() == {"name": "order", "version": "v2", "url": None, "hash": None}
    assert (bytes(row.payload), row.is_verified, row.code) == (b"hello", False, None)


def test_null_gives_null_and_bad_bytes_give_a_code(spark: Any) -> None:
    cut = encode_message(b"hello", **HEAD)[:-9]
    nothing, empty, garbage, short = opened(spark, None, b"", b"\xff\xfe garbage", cut)
    assert nothing is None
    assert [one.code for one in (empty, garbage, short)] == ["BAD_MESSAGE"] * 3
    assert {(one.message_id, one.payload, one.is_verified) for one in (empty, garbage, short)} == {(None, None, False)}


def test_bad_bytes_may_end_the_query_instead(spark: Any) -> None:
    with pytest.raises(Exception, match="metadata: is required"):
        opened(spark, b"", on_error="fail")


def test_a_column_without_rows_is_read(spark: Any) -> None:
    assert opened(spark) == []


def test_what_is_signed_and_encrypted_is_opened_by_who_has_keys(spark: Any, tmp_path: Path) -> None:
    signing, reading = generate_key("web-1", "ed25519", publishers=("web",)), generate_key("spark-1", "x-wing")
    protection = Protection(encrypt_to=(reading,), sign_with=signing, compression="gzip")
    sealed = protect_message(encode_content(b"hello" * 100), protection, publisher_id="web", **HEAD)
    plain = encode_message(b"plain", publisher_id="web", **HEAD)
    forged = sealed[:-1] + bytes([sealed[-1] ^ 1])

    write_keys(str(tmp_path / "web.json"), (signing.public_part(),))
    write_keys(str(tmp_path / "own.json"), (reading,))
    place = str(tmp_path)

    def security() -> MessageSecurity:
        keys = KeyStore({"web": f"file://{place}/web.json", "own": f"file://{place}/own.json"})
        return MessageSecurity(keys=keys, policy="require", trusted=("web",))

    good, unsigned, broken = opened(spark, sealed, plain, forged, security=security)
    assert (bytes(good.payload), good.is_verified, good.code) == (b"hello" * 100, True, None)
    assert (unsigned.payload, unsigned.code, unsigned.message_id) == (None, "UNSIGNED", HEAD["message_id"])
    assert (broken.payload, broken.is_verified, broken.code) == (None, False, "BAD_SIGNATURE")
    (blind,) = opened(spark, sealed)
    assert (blind.payload, blind.code) == (None, "NO_RECIPIENT_KEY")


def test_a_time_beyond_all_clocks_is_the_last_one(spark: Any) -> None:
    (row,) = opened(spark, encode_message(b"", **{**HEAD, "published_at_ms": 1 << 62}))
    assert row.published_at.year in (9999, 10000)


def test_keys_do_not_travel_to_the_workers() -> None:
    key = generate_key("spark-1", "x-wing")
    with pytest.raises(ConfigurationError, match="cannot travel"):
        envelope("value", security=lambda: MessageSecurity(keys=KeyStore({"own": key})))


def test_what_cannot_be_is_said_before_a_job_runs() -> None:
    with pytest.raises(ConfigurationError, match="function"):
        envelope("value", security=MessageSecurity())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on_error"):
        envelope("value", on_error="ignore")
