"""The format ``speed`` where executors are processes of their own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.spark import register
from tests.system.journals_for_spark import Recorded
from tests.system.spark_sessions import Sessions

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module")
def session(spark_sessions: Sessions) -> Iterator[Any]:
    import pyspark

    spark = spark_sessions.get("local-cluster[2,1,512]", {"spark.executor.memory": "512m"})
    register(spark)
    work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    yield spark
    spark_sessions.stop()
    shutil.rmtree(work, ignore_errors=True)


def test_executors_write_under_names_that_tell_them_apart(session: Any, root: str) -> None:
    lock, sources, numbers = threading.Lock(), set[str](), list[int]()

    def take(message: speed.Message) -> None:
        with lock:
            sources.add(message.source)
            numbers.append(message.payload["id"])

    with speed.Node("billing", root=root, allow=["etl.*"]) as node:
        node.on_message(take)
        session.range(2000).repartition(2).write.format("speed").mode("append").options(
            root=root, node="billing"
        ).save()
    assert sorted(numbers) == list(range(2000))
    application = session.sparkContext.applicationId
    assert {source.rsplit(".", 2)[0] for source in sources} == {f"etl.{application}-write"}
    assert {source.rsplit(".", 2)[1] for source in sources} <= {"0", "1"}


def test_executors_read_the_parts_of_a_journal(session: Any, root: str) -> None:
    from pyspark.sql.functions import udf

    from speed.spark.nodes import executor_id

    recorded = Recorded(root)
    for source in ("p", "q"):
        recorded.topic("t", source, 1000)
    frame = session.read.format("speed").options(root=root, messagesPerPartition="250").schema("n long").load()
    assert frame.rdd.getNumPartitions() == 8
    rows = frame.select("n", udf(executor_id, "string")().alias("executor")).collect()
    assert sorted(row.n for row in rows) == sorted([*range(1000)] * 2)
    assert {row.executor for row in rows} <= {"0", "1"}
    recorded.close()


def test_an_executor_without_the_key_says_which_file_it_lacks(session: Any, root: str) -> None:
    with speed.Node("billing", root=root, allow=["etl.*"]), pytest.raises(Exception, match="there is no key file"):
        options = {"root": root, "node": "billing", "key": f"{root}/elsewhere/speed.key"}
        session.range(1).write.format("speed").mode("append").options(**options).save()
