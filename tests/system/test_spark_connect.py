"""Services on columns through Spark Connect: what its Python API allows, and what it says where it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.spark_sessions import ADDRESS, SOURCES

pytestmark = [pytest.mark.system, pytest.mark.spark]

PATIENCE = 200.0


@pytest.fixture(scope="module")
def results(module_root: str) -> dict[str, Any]:
    """What a session of Spark Connect on two cores of this machine came to."""
    script = str(Path(__file__).with_name("spark_connect_job.py"))
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": SOURCES, "SPARK_LOCAL_IP": ADDRESS}
    own["SPARK_TESTING"] = "1"  # the server takes a free port
    done = subprocess.run(
        [sys.executable, script, module_root],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["kind"] == "pyspark.sql.connect.session"
    return found


def test_enrich_map_and_udf_work(results: dict[str, Any]) -> None:
    total = sum(range(1000))
    assert [results[name] for name in ("enrich", "map", "udf", "sql")] == [2 * total, 10, 2 * total, 42]


def test_workers_have_nodes_of_the_application(results: dict[str, Any]) -> None:
    assert results["callers"]
    assert all(name.startswith(f"etl.{results['application']}.") for name in results["callers"])


def test_an_error_of_a_row_reaches_the_client(results: dict[str, Any]) -> None:
    assert "math.number, batch 0 (rows" in results["error"]
    assert "ValueError" in results["error"]


def test_metrics_come_as_messages_of_the_workers(results: dict[str, Any]) -> None:
    """There are no accumulators: those of all tasks do."""
    assert results["metrics"]["rows"] >= 3 * 1000
    assert results["metrics"]["p50_seconds"] > 0


def test_what_can_be_known_is_said_before_a_job_starts(results: dict[str, Any]) -> None:
    assert results["before"].startswith("ServiceNotFoundError: math has no service 'none'")


def test_driver_node_says_that_there_is_no_driver_here(results: dict[str, Any]) -> None:
    assert results["driver_node"].startswith("ConfigurationError: this session has no local Spark context")


def test_rows_are_written_and_a_journal_is_read(results: dict[str, Any]) -> None:
    assert results["written"] == list(range(10))
    assert results["read"] == sum(range(100))
    assert "ConfigurationError: there is no option 'rot'" in results["unknown"]
