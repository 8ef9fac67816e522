"""What begins in a Spark job carries one trace, from every task to every service, whichever way services are called."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.column_services import by_row
from speed.errors import ConfigurationError
from speed.spark import Speed

pytestmark = [pytest.mark.system, pytest.mark.spark]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def seen(module_root: str) -> Iterator[list[str | None]]:
    """The traces of the calls of ``twice``."""
    traces: list[str | None] = []
    with speed.Node("geo", root=module_root, allow=["etl.*"]) as node:

        @node.intercept_services
        def note(request: speed.Request) -> Generator[Any, Any, None]:
            traces.append(request.traceparent)
            yield request

        node.register("twice", by_row(lambda a: a * 2))
        yield traces


def enriched(sp: Speed, spark: Any) -> Any:
    rows = spark.range(100).selectExpr("CAST(id AS double) AS a").repartition(4)
    return sp.enrich(rows, node="geo", service="twice", columns=["a"], returns="b double")


def test_all_calls_of_a_job_belong_to_the_trace_of_the_driver(sp: Speed, spark: Any, seen: list[str | None]) -> None:
    with speed.trace(TRACE):
        df = enriched(sp, spark)
    assert df.where("b = 2 * a").count() == 100
    assert set(seen) == {TRACE}


def test_a_job_without_a_trace_has_one_of_its_own(sp: Speed, spark: Any, seen: list[str | None]) -> None:
    assert enriched(sp, spark).where("b = 2 * a").count() == 100
    assert len(set(seen)) == 1
    assert seen[0] is not None
    assert seen[0].endswith("-01")


def exporting_to(file: Path) -> Callable[[], Any]:
    """What makes a provider that writes its spans to a file, in a worker."""
    path = str(file)

    def make() -> Any:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        provider = TracerProvider()
        out = open(path, "a")  # noqa: SIM115 - it ends with the worker
        told = ConsoleSpanExporter(out=out, formatter=lambda span: f"{span.name} {span.context.trace_id:032x}\n")
        provider.add_span_processor(BatchSpanProcessor(told))
        return provider

    return make


def test_each_task_has_a_span_where_the_program_makes_what_records_it(
    spark: Any, module_root: str, seen: list[str | None], tmp_path: Path
) -> None:
    sp = Speed(spark, root=module_root, tracer_provider=exporting_to(tmp_path / "spans"))
    with speed.trace(TRACE):
        df = enriched(sp, spark)
    assert df.where("b = 2 * a").count() == 100
    lines = (tmp_path / "spans").read_text().splitlines()
    assert lines == [f"task geo/twice {TRACE.split('-')[1]}"] * 4
    assert {(one or "").split("-")[1] for one in seen} == {TRACE.split("-")[1]}
    assert TRACE not in seen  # but a span of a task
    with pytest.raises(ConfigurationError, match="spans of tasks are recorded by Python workers"):
        sp.udf("geo", "twice", "double", columns=["a"], path="jvm")
