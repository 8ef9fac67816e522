"""Executors on other hosts: whether they share the driver's root, and what their workers check and say there."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import Any

from speed.errors import ConfigurationError, SpeedError, UnknownNodeError
from speed.fs.entry_file import read_entry_file
from speed.fs.keyfile import default_key, load_key_file
from speed.spark.executor import executor_id
from speed.spark.settings import CallSettings, NodeSettings
from speed.spark.targets import LiveNodes, check_service
from speed.wire import names
from speed.wire.entry import key_ids_in

AUTO, SHARED, OWN = "auto", "shared", "own"
_ROWS = 64
"""Of the job that looks: Spark spreads them over as many tasks as it has cores."""
_checked: set[CallSettings] = set()
"""What this worker found to be there."""


def known_from(executors: str, master: str | None) -> bool | None:
    """Whether executors have roots of their own; None where only they can tell. ``master`` is None for Spark Connect.

    Raises ConfigurationError for a word that is none of the three.
    """
    if executors not in (AUTO, SHARED, OWN):
        raise ConfigurationError(f"executors is {executors!r}: use {AUTO}, {SHARED} or {OWN}")
    if executors == AUTO and not (master or "").startswith("local"):
        return None
    return executors == OWN


def share_root(spark: Any, root: str, driver: str) -> bool:
    """Whether all executors that a small job reaches find the entry of the node ``driver`` in ``root``.

    No key is needed for that. The tasks carry nothing of this package, since a worker may lack it.
    """
    from pyspark.sql.functions import udf

    entry = names.entry_path(root, driver)

    def sees_driver(_: int) -> bool:
        import os

        return os.path.exists(entry)

    ask = udf(sees_driver, "boolean", useArrow=False).asNondeterministic()
    return all(row[0] for row in spark.range(_ROWS).select(ask("id")).collect())


def check_here(live: LiveNodes, settings: NodeSettings, call: CallSettings) -> None:
    """In a worker, once for each use: the service is on this host.

    Raises as ``check_service``; where the node is there under another key, UnknownNodeError says so at once.
    """
    if call in _checked:
        return
    differs = _of_another_key(live.node.root, settings.key, call.node)
    try:
        check_service(live, replace(call, wait_seconds=0) if differs else call)
    except UnknownNodeError as error:
        raise UnknownNodeError(f"{error}{differs}") from None
    _checked.add(call)


def here(error: SpeedError) -> SpeedError:
    """``error`` itself, with executor and host in its message."""
    error.args = (f"executor {executor_id()} on {socket.gethostname()}: {error}",)
    return error


def _of_another_key(root: str, key: str | None, node: str) -> str:
    """What differs, if ``node`` is there for those who have another key; ids alone, which tell nothing of a key."""
    try:
        theirs = key_ids_in(read_entry_file(names.entry_path(root, node)))
        ours = load_key_file(key or default_key(root)).key_ids
    except (OSError, SpeedError):
        return ""
    if not theirs or set(theirs) & set(ours):
        return ""
    told = ", ".join(one.hex() for one in theirs), ", ".join(one.hex() for one in ours)
    return f"; the key differs: {node} on this host has {told[0]}, this worker has {told[1]}"


os.register_at_fork(after_in_child=_checked.clear)
