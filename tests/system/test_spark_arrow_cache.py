"""Services on frames that are cached as Arrow, which is a setting of the whole application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.spark import Speed
from tests.system.spark_sessions import Sessions
from tests.system.test_spark_frames import FLAT, MORE, in_memory, numbers, same, told

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module")
def spark(spark_sessions: Sessions) -> Iterator[Any]:
    serializer = "org.apache.spark.sql.execution.columnar.ArrowCachedBatchSerializer"
    yield spark_sessions.get("local[2]", {"spark.sql.cache.serializer": serializer})
    spark_sessions.stop()


@pytest.mark.parametrize("path", ["jvm"], indirect=True)
def test_an_arrow_cache_gives_the_same_rows(spark: Any, sp: Speed, module_root: str) -> None:
    """Not by Python: Spark 4.3.0 itself fails where a function of Arrow reads from that cache."""

    def echo(a: speed.Column) -> speed.Column:
        return a

    with speed.Node("echo", root=module_root) as node:
        node.register("same", echo)
        node.allow("etl.*")
        frame = in_memory(numbers(spark, f"{FLAT}, {MORE}"), Path())
        for name in ("a", "double", "text", "many"):
            assert told(same(sp, frame, name)) == told(frame.selectExpr("*", f"{name} AS back")), name
