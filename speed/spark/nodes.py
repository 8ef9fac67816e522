"""The nodes of a job, and their settings: the driver's, those of workers on any host, which of a family is asked next.

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
import logging
import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import speed
from speed.core.calls import Member, candidates, choose, member_of, members
from speed.core.hints import checked_seconds
from speed.core.log import logger
from speed.errors import (
    AccessDeniedError,
    ConfigurationError,
    NodeLeftError,
    RegistrationError,
    ServiceNotFoundError,
    SpeedError,
    UnknownNodeError,
)
from speed.fs.claim import read_entry_file
from speed.fs.keyfile import default_key, load_key_file
from speed.node.group import LiveNodes
from speed.wire import names
from speed.wire.entry import Entry, key_ids_in
from speed.wire.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What travels to the executors: settings alone, never a node and never a key.

ON_ERROR = ("raise", "null")
MAX_BATCH_BYTES = MAX_PAYLOAD_BYTES // 4
"""A batch of more goes in halves: its answer must fit into an envelope too."""


@dataclass(frozen=True)
class NodeSettings:
    """How a Python worker makes its node.

    ``root`` and ``key``, the path of the key file, are those of the executor's machine; None means what ``speed.Node``
    takes there (``$SPEED_ROOT``; ``$SPEED_KEY``, else ``<root>/speed.key``).
    """

    root: str | None
    key: str | None
    prefix: str
    application: str
    lease_seconds: float = 30.0
    durability: str = "process"
    engine: str = "auto"


@dataclass(frozen=True)
class CallSettings:
    """How batches are sent to a service.

    Args:
        node: name of a node, or a family such as ``geo.*``, whose nodes share the load.
        service: name of the service.
        timeout_seconds: deadline of each call.
        wait_seconds: how long a worker waits for a node that is not there, at first and when it left.
        in_flight: calls that a worker has under way at once.
        batch_bytes: most bytes that one call carries, by the size of its columns in Arrow; a batch of Spark above it is
            sent in parts. Rows are counted by ``spark.sql.execution.arrow.maxRecordsPerBatch``.
        idempotent: the service may run twice for one batch; only then ``retries`` count.
        retries: further attempts after a node left or did not answer; what no node accepted is not counted.
        on_error: ``raise`` fails the job, ``null`` gives nulls for what the service refused, failed at or did not
            answer in time: for the rows that it names if it is ``idempotent``, since the others are asked for
            again, else for the whole batch. Other errors (no node, access denied) fail the job in any case.
        error_column: the name of a column that tells, beside such nulls, the error's code and text.
        fallback: another node or family, asked while none of ``node`` is there, without a wait. One that refuses, or
            that lacks the service, is there.
    """

    node: str
    service: str
    timeout_seconds: float = 30.0
    wait_seconds: float = 30.0
    in_flight: int = 4
    batch_bytes: int = MAX_BATCH_BYTES
    idempotent: bool = False
    retries: int = 0
    on_error: str = "raise"
    fallback: str | None = None
    error_column: str | None = None

    def __post_init__(self) -> None:
        """Raises ConfigurationError before a job starts; its InvalidNameError for what names no node or service."""
        for name in (self.node, self.fallback):
            if name not in (None, "*"):
                names.check_grant(name)
        names.check_service_name(self.service)
        if self.on_error not in ON_ERROR:
            raise ConfigurationError(f"on_error is {self.on_error!r}: use one of {', '.join(ON_ERROR)}")
        if self.error_column is not None and (not self.error_column or self.on_error != "null"):
            raise ConfigurationError("error_column is a name, and needs on_error='null'")
        if self.in_flight < 1:
            raise ConfigurationError(f"in_flight is {self.in_flight}: use at least 1")
        if not 1 <= self.batch_bytes <= MAX_BATCH_BYTES:
            raise ConfigurationError(f"batch_bytes is {self.batch_bytes}: use 1 to {MAX_BATCH_BYTES}")
        if self.retries and not self.idempotent:
            raise ConfigurationError("retries need idempotent=True: the service may run twice for one batch")
        checked_seconds("timeout_seconds", self.timeout_seconds)
        checked_seconds("wait_seconds", self.wait_seconds)
        if min(self.timeout_seconds, self.wait_seconds, self.retries) < 0:
            raise ConfigurationError("timeout_seconds, wait_seconds and retries cannot be negative")

    def __str__(self) -> str:
        return f"{self.node}.{self.service}"


def call_settings(node: str, service: str, options: Mapping[str, Any]) -> CallSettings:
    """The settings with these options. Raises ConfigurationError for one that does not exist."""
    known = [one.name for one in fields(CallSettings)][2:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigurationError(f"there is no option {unknown[0]!r}; there are {', '.join(known)}")
    if options.get("error_column") is not None:
        options = {"on_error": "null", **options}
    return CallSettings(node, service, **options)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple. Raises ConfigurationError for none, one twice, or one that no service could name."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise ConfigurationError("columns must name at least one column, as a list such as ['miles', 'delay']")
    for name in columns:
        if not isinstance(name, str) or not _PLAIN.fullmatch(name):
            raise ConfigurationError(f"column {name!r} cannot be an argument: use letters, digits and _, or an alias")
    if len(set(columns)) < len(columns):
        raise ConfigurationError("columns names one column twice")
    return tuple(columns)


_log = logger(__name__)

# Which node of a family is asked next: the one with the fewest calls of this partition under way (S-40).

_SILENT_SECONDS = 2.0
"""How long a node is waited for before a line says so."""
JobNodes = LiveNodes[speed.Node]


def check_service(live: JobNodes, call: CallSettings) -> None:
    """The node is there, allows this one, and has the service.

    Waits for the node. Raises UnknownNodeError, AccessDeniedError and ServiceNotFoundError.
    """
    targets = Targets(live, call)
    while True:
        target = targets.take({})
        try:
            known = live.node.services(target.name)
            break
        except (NodeLeftError, UnknownNodeError):
            targets.left(target)  # it died a moment ago: another one, or the same started anew
    if call.service not in known:
        there = ", ".join(known) or "none"
        raise ServiceNotFoundError(f"{target.name} has no service {call.service!r}; it has {there}")


class Targets:
    """The nodes that a name or family stands for, or its fall-back while none of them is there. One thread uses it."""

    def __init__(self, live: JobNodes, settings: CallSettings, say: Callable[[str], None] | None = None) -> None:
        """``say`` is told that a node is waited for; without it, the log is."""
        self._live = live
        self._say = say
        self._patterns = [settings.node, *([settings.fallback] if settings.fallback else [])]
        self._wait_seconds = settings.wait_seconds
        self._left: set[Member] = set()
        self._last: str | None = None
        self._seen: list[Entry] | None = None
        self._fitting: list[list[Entry]] = []

    def take(self, in_flight: Mapping[str, int]) -> Entry:
        """The node to ask now: one with the fewest calls ``in_flight``. Waits for one to join, and soon says so.

        Raises AccessDeniedError when those that are there do not allow this node, UnknownNodeError when there is none.
        """
        began = time.monotonic()
        deadline = began + self._wait_seconds
        is_reported = False
        while True:
            allowing = {one.name: one for one in candidates(self._there(), self._live.node.name)}
            if allowing:
                last = self._last or random.choice(list(allowing))  # so that partitions do not all begin with one
                self._last = choose(list(allowing), in_flight, last)
                return allowing[self._last]
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self._nobody(self._wait_seconds)
            waited = time.monotonic() - began
            if waited >= _SILENT_SECONDS and not is_reported:
                is_reported = True
                self._report(f"{self._nobody(waited)}; waiting for up to {self._wait_seconds:g} s")
            self._live.wait(remaining)

    def _report(self, text: str) -> None:
        _log.log(logging.WARNING if self._say is None else logging.INFO, "%s", text)
        if self._say is not None:
            self._say(text)

    def left(self, target: Entry) -> None:
        """``target`` was found gone: it is not asked again, whatever its entry says, until it started anew."""
        self._left.add(member_of(target))
        self._live.read()

    def denies(self, target: Entry) -> bool:
        """Whether the registry says now that ``target`` does not allow this node."""
        self._live.read()
        there = candidates(self._live.entries(), self._live.node.name)
        return all(entry.name != target.name for entry in there)

    def _there(self) -> list[Entry]:
        entries = self._live.entries()
        if entries is not self._seen:
            self._seen = entries
            self._fitting = [members(entries, pattern) for pattern in self._patterns]
        there = ([one for one in fitting if member_of(one) not in self._left] for fitting in self._fitting)
        return next(filter(None, there), [])

    def _nobody(self, waited_seconds: float) -> AccessDeniedError | UnknownNodeError:
        waited = f"after {round(waited_seconds, 2):g} s"
        name = self._live.node.name
        there = self._there()
        if there:
            family = name.split(".", 1)[0] + ".*"
            return AccessDeniedError(f"{there[0].name} does not allow {name} ({waited}): node.allow('{family}') there")
        patterns = " or ".join(map(repr, self._patterns))
        return UnknownNodeError(f"no node {patterns} is there ({waited}): start it, or see `speed nodes`")


# A node for a Spark driver: named after the application, closed with the session.

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


# The node of a Python worker: made when first needed, after the fork, and kept for the worker's life.

_DRIVER = "driver"
_EXECUTOR_OPTION = "--executor-id"
_APPLICATION_OPTION = "--app-id"
_EXECUTOR_CHARACTERS = 20
_END_BYTES = 40
"""Room in a node's name for an executor's id and a pid."""
_HEARTBEAT_SECONDS = 1.0
"""How soon a worker notices that the node that owes it an answer died."""

_lock = threading.Lock()
_nodes: dict[tuple[int, str | None, str], JobNodes] = {}
"""By process, since a Python worker is a fork of its daemon, root and name."""


def worker_node(settings: NodeSettings) -> speed.Node:
    """This process's node. Raises what ``speed.Node`` raises, saying which executor it was."""
    return live_nodes(settings).node


def live_nodes(settings: NodeSettings) -> JobNodes:
    """This process's node with what it sees of others; made when it is first asked for. Raises as ``worker_node``."""
    place = (os.getpid(), settings.root, worker_name(settings))
    with _lock:
        live = _nodes.get(place)
        if live is None or live.node.closed:
            live = _nodes[place] = LiveNodes(_start(settings))
        return live


def family(settings: NodeSettings) -> str:
    """``<prefix>.<application>``: a long application id loses its beginning, which says least."""
    room = MAX_NAME_BYTES - len(settings.prefix) - 1 - _END_BYTES
    application = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9_.-]", "-", settings.application))[-room:].strip(".-")
    if not application:
        raise ConfigurationError(f"the application id {settings.application!r} gives no node name")
    return f"{settings.prefix}.{application}"


def worker_name(settings: NodeSettings) -> str:
    """``<prefix>.<application>.<executor>.<pid>``."""
    return f"{family(settings)}.{executor_id()}.{os.getpid()}"


@functools.cache
def executor_id() -> str:
    """The id of the executor that this worker belongs to; ``driver`` in local mode. Spark does not tell its workers."""
    return (_given_to_executor(_EXECUTOR_OPTION) or _DRIVER)[:_EXECUTOR_CHARACTERS]


def application_id() -> str:
    """The id of the application that this worker belongs to; in local mode one made of host and driver process."""
    return _given_to_executor(_APPLICATION_OPTION) or f"local-{_plain(socket.gethostname())}-{os.getppid()}"


def _given_to_executor(option: str) -> str | None:
    """What stands behind ``option`` in the command line of the executor, which is a parent of this process."""
    for command in _commands_of_parents():
        if option in command[:-1]:
            return _plain(command[command.index(option) + 1])
    return None


def _commands_of_parents() -> Iterator[list[str]]:
    """The command line of each parent, the nearest first; not of those that are another user's, or gone."""
    if sys.platform == "linux":  # psutil would be half of what a worker imports before its first call
        return _commands_in_proc()
    import psutil

    parents = psutil.Process().parents()
    return (parent.cmdline() for parent in parents if parent.username() == psutil.Process().username())


def _commands_in_proc() -> Iterator[list[str]]:
    pid = os.getppid()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield os.fsdecode(file.read()).rstrip("\0").split("\0")
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _start(settings: NodeSettings) -> speed.Node:
    try:
        node = speed.Node(
            worker_name(settings),
            root=settings.root,
            key=settings.key,
            lease_seconds=settings.lease_seconds,
            heartbeat_seconds=min(_HEARTBEAT_SECONDS, settings.lease_seconds / 4),
            workers=1,
            durability=settings.durability,
            engine=settings.engine,
            ephemeral=True,
        )
    except (ConfigurationError, RegistrationError) as error:
        error.args = (f"executor {executor_id()} on {socket.gethostname()}: {error}",)
        raise error from None
    atexit.register(node.close, drain_seconds=0)
    return node


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _nodes.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


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


def check_here(live: JobNodes, settings: NodeSettings, call: CallSettings) -> None:
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
    key_ids = ", ".join(one.hex() for one in theirs), ", ".join(one.hex() for one in ours)
    return f"; the key differs: {node} on this host has {key_ids[0]}, this worker has {key_ids[1]}"


os.register_at_fork(after_in_child=_checked.clear)
