"""For all tests: nothing is judged by how long it takes on a busy machine, and Spark starts as rarely as can be."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import representative, spark_classes
from tests.thorough import examples

settings.register_profile("untimed", deadline=None, max_examples=examples(100))
settings.load_profile("untimed")
spark_classes.use(os.environ)


SHARED_AGENTS = frozenset(
    f"test_{one}"
    for one in (
        "calls",
        "fuzz",
        "messages",
        "protected",
        "refusals",
        "slots",
        "stubs",
        "topics",
        "values",
        "vectors",
        "whose_fault",
    )
)


def same_process(file: str) -> str | None:
    """Tests of files with the same answer run in one process, one after the other; None: wherever there is room.

    A session of Spark takes seconds to start, and a process has one: tests on a local session share it. So do those
    that speak to shared agents of all languages. Those of ``tests/unit`` are so short that to hand them out one by one
    costs more than they do. The servers of ``tests/bridges`` are shared by all processes, but those that a test kills.
    """
    name = Path(file).stem
    if Path(file).parts[:2] == ("tests", "bridges") and name.endswith("guide"):
        return "pages whose programs name topics of their own in the servers that all share"
    if Path(file).parts[:2] in (("tests", "unit"), ("tests", "bridges"), ("tests", "fs"), ("tests", "segment")):
        return file
    if Path(file).parts[:2] == ("tests", "console"):
        return "one browser"
    if name in ("test_readme", "test_spark_connect"):
        return "Spark started by others"
    if Path(file).parts[-3:-1] == ("tests", "pulsar"):
        return "one Pulsar"
    if Path(file).parts[:2] == ("tests", "interop") and name in SHARED_AGENTS:
        return "agents of all languages"
    if not name.startswith("test_spark"):
        return None
    return "Spark on a cluster" if "cluster" in name else "Spark on this machine"


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays until the end: the garbage collector need not look at it, now or later."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest first, so that at the end no worker is alone with one of them."""
    if representative.is_asked():
        items[:], others = representative.chosen(items)
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: not _is_long(item))


def _is_long(item: pytest.Item) -> bool:
    if "torture" in item.path.parts:
        return True
    file = item.nodeid.split("::", maxsplit=1)[0]
    return item.get_closest_marker("slow") is not None and same_process(file) is None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How pytest-xdist hands out the tests, unless another way was asked for. Its groups fail with pytest 9.2."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return same_process(nodeid.split("::", maxsplit=1)[0]) or nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            unit = self._split_scope(self.registered_collections[node][item_index])
            super().mark_test_complete(node, item_index, duration)
            work = self.assigned_work[node]
            if all(work[unit].values()):
                del work[unit]  # else all that was done is counted again after each test

    return BySession(config, log)
