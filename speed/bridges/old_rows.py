"""PostgreSQL's table of messages in the old form: columns ``topic``, ``payload`` and ``metadata`` (M-36, M-40).

The table is used as it is. What a group has taken is written into a table beside it, row by row: ids appear in another
order than they are given.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, Protocol

from speed.bridges.backend import Delivered, Outgoing
from speed.bridges.errors import BackendError, BackendRefusedError
from speed.bridges.loop import Loop

SWEEP_SECONDS = 5.0
"""How soon a row is seen that appeared behind others of higher ids."""
_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.5

_TAKEN = """
CREATE TABLE IF NOT EXISTS speed_taken (
  table_name TEXT, consumer_group TEXT, id BIGINT, PRIMARY KEY (table_name, consumer_group, id))
"""
_LOCK = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
_ROWS = """
SELECT id, topic, payload::text AS payload, metadata::text AS metadata,
  (EXTRACT(EPOCH FROM COALESCE(to_jsonb(one)->>'published_at', to_jsonb(one)->>'created_at')::timestamptz)
   * 1000)::bigint AS stored_at_ms
FROM {table} AS one
WHERE id > $1 AND ($2 = '*' OR topic = $2 OR starts_with(topic, $3))
"""
_TAKE = (
    _ROWS
    + """
AND id <> ALL($4::bigint[]) AND NOT EXISTS (
  SELECT FROM speed_taken AS taken
  WHERE taken.table_name = $5 AND taken.consumer_group = $6 AND taken.id = one.id)
ORDER BY id LIMIT $7
"""
)
PAGE = _ROWS + "ORDER BY id LIMIT $4"
_DONE = "INSERT INTO speed_taken SELECT $1, $2, unnest($3::bigint[]) ON CONFLICT DO NOTHING"
_INSERT = """
INSERT INTO {table} (topic, payload, metadata)
SELECT * FROM unnest($1::text[], $2::jsonb[], $3::jsonb[]) RETURNING id
"""


def prefix_of(pattern: str) -> str:
    """What topics of a pattern begin with; what no topic begins with if it is none."""
    return pattern[:-1] if pattern.endswith(".*") else "\x01"


def delivered_row(row: Mapping[str, Any]) -> Delivered:
    """A row as it is handed on."""
    return Delivered(
        row["topic"],
        None,
        (row["payload"] or "null").encode(),
        str(row["id"]),
        row["id"],
        handle=row["id"],
        headers={"metadata": (row["metadata"] or "null").encode()},
        stored_at_ms=max(0, row["stored_at_ms"] or 0),
    )


async def insert_rows(connection: Any, table: str, messages: Sequence[Outgoing]) -> list[str]:
    """Their ids; all of them or none."""
    olds = [message.old for message in messages if message.old is not None]
    if len(olds) < len(messages):
        raise BackendRefusedError(f"table {table} holds rows in the old form: use an address without form=rows")
    topics = [message.topic for message in messages]
    payloads, metadata = [one.data.decode() for one in olds], [json.dumps(dict(one.headers)) for one in olds]
    rows = await connection.fetch(_INSERT.format(table=table), topics, payloads, metadata)
    return [str(row["id"]) for row in rows]


class RowsBackend(Protocol):
    """What a subscription needs of the backend that has the table."""

    table: str

    async def connect(self) -> Any: ...
    def asking(self, forget: Callable[[], None]) -> AbstractAsyncContextManager[None]: ...


class OldRowsSubscription:
    """The one member of a group."""

    def __init__(self, backend: RowsBackend, loop: Loop, pattern: str, group: str) -> None:
        self._backend, self._loop, self._pattern, self._group = backend, loop, pattern, group
        self._connection: Any = None
        self._held: set[int] = set()
        self._last = 0
        self._sweep_again = 0.0

    def receive(self, most: int, timeout: float) -> list[Delivered]:
        """In the order of ids; those that appeared late come with a sweep."""
        return self._loop.run(self._receive(most, timeout), timeout + _ANSWER_SECONDS)

    async def _receive(self, most: int, timeout: float) -> list[Delivered]:
        deadline = monotonic() + timeout
        async with self._backend.asking(self._forget):
            connection = await self._opened()
            while True:
                found = await self._taken(connection, most)
                left = deadline - monotonic()
                if found or left <= 0:
                    return found
                await asyncio.sleep(min(left, _LOOK_SECONDS))

    async def _opened(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._forget()
            connection = await self._backend.connect()
            try:
                await connection.execute(_TAKEN)
                if not await connection.fetchval(_LOCK, f"{self._backend.table} {self._group}"):
                    raise BackendRefusedError(f"another consumer of group {self._group} takes rows: it has only one")
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection
        return self._connection

    async def _taken(self, connection: Any, most: int) -> list[Delivered]:
        rows = await self._rows(connection, self._last, most)
        if not rows and monotonic() >= self._sweep_again:
            self._sweep_again = monotonic() + SWEEP_SECONDS
            rows = await self._rows(connection, 0, most)
        self._held.update(row["id"] for row in rows)
        self._last = max([self._last, *(row["id"] for row in rows)])
        return [delivered_row(row) for row in rows]

    async def _rows(self, connection: Any, after: int, most: int) -> list[Any]:
        table = self._backend.table
        taken = _TAKE.format(table=table)
        named = self._pattern, prefix_of(self._pattern), sorted(self._held), table, self._group
        return list(await connection.fetch(taken, after, *named, most))

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """They are written down as taken."""
        self._loop.run(self._acknowledge([one.handle for one in delivered]), _ANSWER_SECONDS)

    async def _acknowledge(self, ids: Sequence[int]) -> None:
        held = [one for one in ids if one in self._held]
        if self._connection is None or not held:
            return  # the connection was lost: they come again
        async with self._backend.asking(self._forget):
            await self._connection.execute(_DONE, self._backend.table, self._group, held)
            self._held.difference_update(held)

    def _forget(self) -> None:
        connection, self._connection, self._last = self._connection, None, 0
        self._held.clear()
        if connection is not None:
            connection.terminate()

    def positions(self) -> dict[str, str]:
        """The last row that was taken."""
        return {self._backend.table: str(self._last)} if self._last else {}

    def close(self) -> None:
        """What is held comes again."""
        try:
            self._loop.run(self._close(), _ANSWER_SECONDS)
        except BackendError:
            pass  # the server is away, and ends the connection by itself

    async def _close(self) -> None:
        self._forget()


__all__ = ["OldRowsSubscription", "delivered_row", "insert_rows", "prefix_of"]
