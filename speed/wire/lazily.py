"""Modules that are imported at first use, by whichever thread comes first."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

guard: AbstractContextManager[object] = nullcontext()
"""Held while one is imported. The runtime puts a lock here, which a fork takes: the lock of a module that another
thread was importing would stay locked in the child for ever. An ``import`` in a function is below ``with lazily.guard``
where the threads of a node run."""


@cache
def load(name: str) -> Any:
    """The module of that name."""
    with guard:
        return importlib.import_module(name)
