"""Locks between processes: the kernel holds them, so each goes with its process, however that ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from speed.fs.open import PRIVATE_FILE, SHARED_FILE, is_groups

if TYPE_CHECKING:
    from filelock import BaseFileLock


def try_lock(path: str, seconds: float = 0.0) -> BaseFileLock | None:
    """The lock of the file ``path``, held until ``release()``; None while another has it for ``seconds``.

    Raises OSError. The file stays, and means nothing by itself. A child of this process does not hold the lock: what
    it inherits at a fork is closed there.
    """
    from filelock import FileLock, Timeout  # takes 30 ms; few processes lock anything

    mode = SHARED_FILE if is_groups(os.path.dirname(path) or ".") else PRIVATE_FILE  # OSError if it is not there
    lock = FileLock(path, mode=mode, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        return None
    return lock
