"""For all tests: nothing is judged by how long it takes on a busy machine, and Spark starts as rarely as can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import spark_classes
from tests.thorough import examples

settings.register_profile("untimed", deadline=None, max_examples=examples(100))
settings.load_profile("untimed")
spark_classes.use(os.environ)


def same_process(file: str) -> str | None:
    """Tests of files with the same answer run in one process, one after the other; None: wherever there is room.

    A session of Spark takes seconds to start, and a process has one: tests on a local session share it.
    """
    name = Path(file).stem
    if name in ("test_readme", "test_spark_connect"):
        return "Spark started by others"
    if Path(file).parts[-3:-1] == ("tests", "pulsar"):
        return "one Pulsar"
    if not name.startswith("test_spark"):
        return None
    return "Spark on a cluster" if "cluster" in name else "Spark on this machine"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How pytest-xdist hands out the tests, unless another way was asked for. Its groups fail with pytest 9.2."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return same_process(nodeid.split("::", maxsplit=1)[0]) or nodeid

    return BySession(config, log)
