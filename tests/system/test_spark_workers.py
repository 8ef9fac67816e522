"""What the Python of Spark's workers must have, and what it need not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
SOURCES = Path(__file__).resolve().parents[2]
JOB_SECONDS = 300


def said_by_job(root: str, where: Path, **environment: str) -> str:
    """What the job prints under this environment, started in this directory: one that has no ``speed`` in it."""
    asked = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    job = [sys.executable, "-m", "tests.system.spark_workers_job", root]
    return subprocess.run(
        job, check=False, env=asked, cwd=where, capture_output=True, text=True, timeout=JOB_SECONDS
    ).stdout


def test_enrich_needs_no_pandas(root: str, tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas')\n")
    path = os.pathsep.join([str(tmp_path), str(SOURCES)])
    assert "[0, 2, 4] False" in said_by_job(root, tmp_path, PYTHONPATH=path)


def test_a_worker_without_speed_tells_which_python_it_is_and_what_to_set(root: str, tmp_path: Path) -> None:
    for package in ("pyspark", "py4j", "pyarrow", "numpy"):
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        (tmp_path / package).symlink_to(Path(found.origin).parent)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    said = said_by_job(root, tmp_path, PYTHONPATH=str(SOURCES), PYSPARK_PYTHON=str(bare))
    assert "cannot import speed (No module named 'speed'): install speed-ipc" in said
    assert "set PYSPARK_PYTHON to a Python that has it" in said


def test_a_python_of_workers_without_pyarrow_is_named_before_the_job(root: str, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    said = said_by_job(root, tmp_path, PYTHONPATH=str(SOURCES), PYSPARK_PYTHON=str(bare))
    assert f"the Python of Spark's workers, {bare}, cannot import pyarrow: set PYSPARK_PYTHON" in said
