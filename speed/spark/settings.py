"""What travels to the executors: settings alone, never a node and never a key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from speed.errors import ConfigurationError
from speed.wire import names
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.text import checked_seconds

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

    def __post_init__(self) -> None:
        """Raises ConfigurationError before a job starts; its InvalidNameError for what names no node or service."""
        for name in (self.node, self.fallback):
            if name not in (None, "*"):
                names.check_grant(name)
        names.check_service_name(self.service)
        if self.on_error not in ON_ERROR:
            raise ConfigurationError(f"on_error is {self.on_error!r}: use one of {', '.join(ON_ERROR)}")
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
