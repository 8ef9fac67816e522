"""Real failures to order: this process may open no more files, or write no further into any."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Whatever is opened meanwhile fails with EMFILE. Nothing must be imported for the first time."""
    with _limited(resource.RLIMIT_NOFILE, 3):
        yield


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Whatever is written behind ``size`` bytes of a file fails with EFBIG, as on a full disk."""
    with _limited(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def _limited(what: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
