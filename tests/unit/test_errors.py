"""Every error of the package goes to another process, and comes back, as what it is."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.daemon.config import ConfigFileError, Mistake
from speed.errors import ApplicationError, Execution, SpeedError, WireError
from speed.spark.source.scan import BatchRowError
from speed.topics.storage import DamagedMessagesError
from speed.wire.cells import RowMisfit

PARTS_THAT_RUN = ("__main__", "bench_server")
EXAMPLES: dict[type[SpeedError], Callable[[], SpeedError]] = {
    ApplicationError: lambda: ApplicationError("OUT_OF_STOCK", "none left"),
    RowMisfit: lambda: RowMisfit(7, "does not fit"),
    DamagedMessagesError: lambda: DamagedMessagesError("orders", 3, 5),
    WireError: lambda: WireError("BAD_PAYLOAD", "no value"),
    BatchRowError: lambda: BatchRowError(WireError("BAD_MESSAGE", "no message"), 7),
    ConfigFileError: lambda: ConfigFileError(Path("speedd.toml"), [Mistake(3, "no name", "give one")]),
}
"""What is not made of one text."""


def kinds(base: type[SpeedError]) -> Iterator[type[SpeedError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def all_kinds() -> list[type[SpeedError]]:
    """Of every module of the package, so that none is forgotten that is added later."""
    for module in pkgutil.walk_packages(speed.__path__, "speed."):
        if not module.name.endswith(PARTS_THAT_RUN):
            import_module(module.name)
    found = {kind for kind in kinds(SpeedError) if kind.__module__.split(".")[0] == "speed"}
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def example(kind: type[SpeedError]) -> SpeedError:
    error = EXAMPLES.get(kind, lambda: kind("what happened; what to do"))()
    error.execution = Execution.MAY_HAVE_RUN
    error.details = {"phase": "running"}  # type: ignore[attr-defined]
    return error


def facts(error: SpeedError) -> tuple[Any, ...]:
    return type(error), error.code, str(error), repr(error), error.args, vars(error)


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_an_error_is_the_same_after_a_journey(kind: type[SpeedError], way: Callable[[SpeedError], SpeedError]) -> None:
    error = example(kind)
    again = way(error)
    assert again is not error
    assert facts(again) == facts(error)


def _raise_one() -> None:
    raise WireError("BAD_PAYLOAD", "no value")


def test_an_error_of_a_worker_process_reaches_its_parent() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(WireError, match="no value") as caught:
        pool.apply(_raise_one)
    assert caught.value.reason == "BAD_PAYLOAD"
