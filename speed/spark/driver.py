"""A node for a Spark driver: named after the application, closed with the session.

    from speed.spark import driver_node
    node = driver_node(spark)            # etl.local-1700000000000
    node.call("billing", "calculateTax", {"amount": 1000})
    spark.stop()                         # closes the node first

The key is a file that the node opens itself: neither it nor its path is put into Spark's configuration, so it
shows in no log, event file or web page. Nothing here imports ``pyspark``; the session is an argument.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import threading
from typing import TYPE_CHECKING, Any

import speed
from speed.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["driver_node", "node_name"]

PREFIX = "etl"
MAX_NAME_BYTES = 128


def node_name(application_id: str, prefix: str = PREFIX) -> str:
    """The node name of an application: the prefix and its id, with what no node name may hold made ``-``.

    Raises ConfigurationError when nothing of the id is left.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", application_id)
    plain = re.sub(r"\.{2,}", ".", plain)[: MAX_NAME_BYTES - len(prefix) - 1].strip(".")
    if not plain:
        raise ConfigurationError(f"the application id {application_id!r} gives no node name; pass name=…")
    return f"{prefix}.{plain}"


def driver_node(
    spark: SparkSession,
    *,
    name: str | None = None,
    root: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    **node_options: Any,
) -> speed.Node:
    """Start the node of this driver; it closes before the session stops, and at exit at the latest.

    ``name`` defaults to :func:`node_name` of the application id, ``root`` and ``key`` to what ``speed.Node``
    takes; ``node_options`` go to ``speed.Node`` (``workers=2``, ``lease_seconds=60``). Several calls give
    several nodes, which need different names. Raises ConfigurationError for a session without a local
    context (Spark Connect), and whatever ``speed.Node`` raises.
    """
    context = _context(spark)
    node_options.setdefault("ephemeral", name is None)  # the id of an application does not come back
    node = speed.Node(name or node_name(str(context.applicationId)), root=root, key=key, **node_options)
    _close_with(context, node)
    return node


def _context(spark: SparkSession) -> Any:
    """The session's context, or a plain reason why there is none."""
    try:
        return spark.sparkContext
    except Exception as error:  # pyspark's own types are not importable without pyspark
        raise ConfigurationError(
            "this session has no local Spark context (Spark Connect?): its application runs elsewhere. "
            "Use speed.Node(…) with a name of your choice instead"
        ) from error


def _close_with(context: Any, node: speed.Node) -> None:
    """Close the node before the context stops, or at exit, whichever comes first, and once.

    ``SparkSession.stop`` and ``with SparkSession…`` both end in ``SparkContext.stop``; a JVM listener would
    need a callback server, that is an open port. At exit, this runs before pyspark ends its JVM (last
    registered, first run).
    """
    close = _once(node.close)
    stop = context.stop

    @functools.wraps(stop)
    def close_and_stop() -> None:
        try:
            close()
        finally:
            # Spark stops also when the node could not leave tidily.
            context.stop = stop
            stop()

    context.stop = close_and_stop
    atexit.register(close)


def _once(close: Any) -> Any:
    """``close`` made idempotent, thread-safe, and inert in a forked child, which owns no node."""
    lock = threading.Lock()
    owner = os.getpid()
    pending = [close]

    def close_once() -> None:
        if os.getpid() != owner:
            return
        with lock:
            action = pending.pop() if pending else None
        atexit.unregister(close_once)
        if action is not None:
            action()

    return close_once
