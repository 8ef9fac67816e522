"""PostgreSQL: a message is a row of a table, in the form in which people query it and in its bytes (B-1, B-6).

asyncpg runs on an event loop. A consumer holds the rows that it was given by a transaction of its own connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from speed.backends.address import UNTRUSTED, Address, is_untrusted, tls_context
from speed.backends.backend import (
    EVERY,
    MAX_AT_ONCE,
    BackendAwayError,
    BackendError,
    BackendFullError,
    BackendRefusedError,
    Checkpoint,
    Delivered,
    Loop,
    Namespaces,
    Outgoing,
)
from speed.backends.records import (
    PAGE as OLD_PAGE,
)
from speed.backends.records import (
    OldRowsSubscription,
    RowWriter,
    bytes_of,
    delivered_row,
    insert_rows,
    prefix_of,
)
from speed.errors import PayloadTooLargeError, WireError

MAX_JSON_BYTES = 255 << 20
LOOK_SECONDS = 1.0
"""How soon rows are seen whose writers notify nobody."""
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_LOCK = 0x5350_4544
"""Who makes tables at the same time."""

_TABLES = """
CREATE TABLE IF NOT EXISTS {table} (
  id BIGSERIAL PRIMARY KEY, topic TEXT NOT NULL, envelope JSONB NOT NULL,
  published_at TIMESTAMPTZ DEFAULT NOW(), consumed BOOLEAN DEFAULT FALSE);
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS key TEXT, ADD COLUMN IF NOT EXISTS bytes BYTEA,
  ADD COLUMN IF NOT EXISTS hops TEXT;
CREATE INDEX IF NOT EXISTS {index}_topic_consumed ON {table} (topic, consumed);
CREATE INDEX IF NOT EXISTS {index}_envelope ON {table} USING GIN (envelope jsonb_path_ops);
CREATE TABLE IF NOT EXISTS prism_groups (table_name TEXT PRIMARY KEY, consumer_group TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS prism_places (name TEXT PRIMARY KEY, next BIGINT NOT NULL);
"""
_THERE = """
SELECT to_regclass('prism_groups') IS NOT NULL AND to_regclass('prism_places') IS NOT NULL AND EXISTS (
  SELECT FROM information_schema.columns
  WHERE table_schema = current_schema() AND table_name = $1 AND column_name = 'hops')
"""
_INSERT = """
WITH kept AS (
  INSERT INTO {table} (topic, key, envelope, bytes, hops)
  SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::bytea[], $5::text[]) RETURNING id)
SELECT id, pg_notify('{table}', '') FROM kept ORDER BY id
"""
_HOLD = """
INSERT INTO prism_places (name, next) SELECT name, 0 FROM unnest($1::text[]) AS name ORDER BY name
ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name RETURNING name, next
"""
"""Waits for who has one of these, such as an attempt before this one."""
_PLACE = """
UPDATE prism_places SET next = told.next FROM unnest($1::text[], $2::bigint[]) AS told (name, next)
WHERE prism_places.name = told.name
"""
_TAKE = """
SELECT id, topic, key, bytes, hops, CASE WHEN bytes IS NULL THEN envelope::text END AS envelope FROM {table}
WHERE NOT COALESCE(consumed, FALSE) AND ($1 = '*' OR topic = $1 OR starts_with(topic, $2)) AND id <> ALL($3::bigint[])
AND {of_namespaces} ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED
"""
_PAGE = """
SELECT id, topic, key, bytes, hops, CASE WHEN bytes IS NULL THEN envelope::text END AS envelope FROM {table}
WHERE id > $1 AND ($2 = '*' OR topic = $2 OR starts_with(topic, $3)) ORDER BY id LIMIT $4
"""
_NEXT = "SELECT next FROM prism_places WHERE name = $1"
_DONE = "UPDATE {table} SET consumed = TRUE WHERE id = ANY($1::bigint[])"
_GROUP = """
INSERT INTO prism_groups (table_name, consumer_group) VALUES ($1, $2)
ON CONFLICT (table_name) DO UPDATE SET table_name = EXCLUDED.table_name RETURNING consumer_group, xmax = 0
"""
_SKIP = "UPDATE {table} SET consumed = TRUE WHERE NOT COALESCE(consumed, FALSE) AND {of_namespaces}"
_OF_NAMESPACES = """
({at}::text[] IS NULL OR COALESCE(envelope->'metadata'->>'namespace', ({at}::text[])[1]) = ANY({at}::text[]))
"""
"""What names no namespace is no message: the first who comes refuses it."""


def _error(error: BaseException) -> Exception:
    """What an error of asyncpg means; its text may hold values, so only its state is told."""
    state = str(getattr(error, "sqlstate", "") or "")
    if is_untrusted(error):
        return BackendRefusedError(f"PostgreSQL: {UNTRUSTED}")
    if state[:2] == "28" or state == "42501":
        return BackendRefusedError(f"PostgreSQL refuses the credentials, or what this user may not do ({state})")
    if state in ("53100", "53200", "54000"):
        return BackendFullError(f"PostgreSQL has no room ({state})")
    if state in ("3D000", "42P01", "42601", "42703", "42P16", "42804"):
        return BackendRefusedError(f"PostgreSQL has no such database or table, or another one ({state})")
    if state[:2] in ("08", "57", "53", "40") or state == "55P03":
        return BackendAwayError(f"PostgreSQL does not answer, or not now ({state}): try again")
    if state:
        return BackendError(f"PostgreSQL: {state}")
    return BackendAwayError(f"PostgreSQL does not answer ({type(error).__name__}): try again")


_FAILURES = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(OSError, asyncio.TimeoutError, EOFError),
)


class PostgresBackend:
    """One table of one database."""

    has_groups = True
    max_at_once = MAX_AT_ONCE
    takes_ahead = False

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address = address
        self._tls = tls_context(address)
        self.table = str(address.options["table"])
        self.holds_old_rows = address.options["form"] == "rows"
        self._index = f"idx_{self.table.removeprefix('prism_')}"
        self._loop = Loop("PostgreSQL")
        self._rows = RowWriter()
        self._connection: Any = None
        self._turn: asyncio.Lock | None = None

    async def connect(self) -> Any:
        """A connection; a server that is not there yet is asked again until the caller gives up."""
        while True:
            try:
                return await asyncpg.connect(**self._settings())
            except (ConnectionRefusedError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(_PAUSE_SECONDS)
            except _FAILURES as error:
                raise _error(error) from None

    def _settings(self) -> dict[str, Any]:
        address = self._address
        return {
            "host": [host for host, _ in address.hosts],
            "port": [port for _, port in address.hosts],
            "user": address.user or None,
            "password": address.password() or None,
            "database": address.place or None,
            "ssl": self._tls or False,
            "timeout": _CONNECT_SECONDS,
            "command_timeout": _ANSWER_SECONDS,
            "server_settings": {"application_name": "speed", "tcp_keepalives_idle": "10"},
        }

    @asynccontextmanager
    async def _publishing(self) -> AsyncIterator[Any]:
        """The connection that publishes, for one at a time; it is closed after a failure."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = None
                connection = await self.connect()
                await self.prepare(connection)
                self._connection = connection
            try:
                yield self._connection
            except _FAILURES as error:
                if not isinstance(_error(error), (BackendFullError, BackendRefusedError)):
                    self._connection.terminate()
                raise _error(error) from None
            except asyncio.CancelledError:
                self._connection.terminate()
                raise

    @asynccontextmanager
    async def asking(self, forget: Callable[[], None]) -> AsyncIterator[None]:
        """Errors as what they mean, after ``forget``."""
        try:
            yield
        except _FAILURES as error:
            forget()
            raise _error(error) from None

    async def prepare(self, connection: Any) -> None:
        """Make what is missing; a table in the old form is used as it is."""
        if self.holds_old_rows:
            return
        try:
            if await connection.fetchval(_THERE, self.table):
                return
            async with connection.transaction():
                await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                await connection.execute(_TABLES.format(table=self.table, index=self._index))
        except _FAILURES as error:
            connection.terminate()
            raise _error(error) from None

    def unfit(self, message: Outgoing) -> str:
        """Text has no zero characters there."""
        return "BAD_KEY" if message.key is not None and "\0" in message.key else ""

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are ids. All of them, or none."""
        if self.holds_old_rows:
            return self._loop.run(self._publish_old(messages), timeout)
        return self._loop.run(self._publish(_columns(self._rows, messages)), timeout)

    @property
    def keeps_places(self) -> bool:
        """In a table of their own."""
        return True

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], timeout: float) -> dict[str, int]:
        """One transaction."""
        return self._loop.run(self._publish_at(_columns(self._rows, messages), places), timeout)

    def next_of(self, place: Checkpoint, timeout: float) -> int:
        """Read its row."""
        return self._loop.run(self._next_of(place), timeout)

    async def _next_of(self, place: Checkpoint) -> int:
        async with self._publishing() as connection:
            return int(await connection.fetchval(_NEXT, _place_name(place)) or 0)

    async def _publish(self, columns: tuple[list[Any], ...]) -> list[str]:
        async with self._publishing() as connection, connection.transaction():
            rows = await connection.fetch(_INSERT.format(table=self.table), *columns)
            return [str(row["id"]) for row in rows]

    async def _publish_at(self, columns: tuple[list[Any], ...], places: Sequence[Checkpoint]) -> dict[str, int]:
        named = [_place_name(place) for place in places]
        async with self._publishing() as connection, connection.transaction():
            if places:
                held = {row["name"]: int(row["next"]) for row in await connection.fetch(_HOLD, named)}
                if any(held[name] != place.before for name, place in zip(named, places, strict=True)):
                    return {place.lane: held[name] for name, place in zip(named, places, strict=True)}
                await connection.execute(_PLACE, named, [place.next for place in places])
            await connection.fetch(_INSERT.format(table=self.table), *columns)
        return {}

    async def _publish_old(self, messages: Sequence[Outgoing]) -> list[str]:
        async with self._publishing() as connection:
            return await insert_rows(connection, self.table, messages)

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> PostgresSubscription | OldRowsSubscription:
        """Join when first asked for messages. Of a table in the old form all is read that the group has not taken."""
        if self.holds_old_rows:
            return OldRowsSubscription(self, self._loop, pattern, namespaces.group(group))
        return PostgresSubscription(self, self._loop, pattern, group, start, namespaces)

    def page(self, pattern: str, after: int, limit: int) -> list[Delivered]:
        """Rows of ids above ``after``, consumed or not; nothing is locked."""
        return self._loop.run(self._page(pattern, after, limit), _ANSWER_SECONDS)

    async def _page(self, pattern: str, after: int, limit: int) -> list[Delivered]:
        query = OLD_PAGE if self.holds_old_rows else _PAGE
        async with self._publishing() as connection:
            rows = await connection.fetch(query.format(table=self.table), after, pattern, prefix_of(pattern), limit)
            return [delivered_row(row) if self.holds_old_rows else delivered_of(row) for row in rows]

    def count(self, pattern: str) -> int:
        """Rows, consumed or not."""
        return self._loop.run(self._counted(pattern), _ANSWER_SECONDS)

    async def _counted(self, pattern: str) -> int:
        query = f"SELECT count(*) FROM {self.table} WHERE $1 = '*' OR topic = $1 OR starts_with(topic, $2)"  # noqa: S608
        async with self._publishing() as connection:
            return int(await connection.fetchval(query, pattern, prefix_of(pattern)))

    def ping(self, timeout: float) -> None:
        """Ask for a sign of life."""
        self._loop.run(self._ping(), timeout)

    async def _ping(self) -> None:
        connection = await self.connect()
        try:
            await connection.fetchval("SELECT 1")
        except _FAILURES as error:
            raise _error(error) from None
        finally:
            connection.terminate()

    def close(self) -> None:
        """End the connection that publishes."""
        if self._connection is not None:
            self._connection.terminate()
        self._loop.close()


def _columns(rows: RowWriter, messages: Sequence[Outgoing]) -> tuple[list[Any], ...]:
    """Of the rows; BackendRefusedError and PayloadTooLargeError for what no row can hold."""
    columns = (
        [message.topic for message in messages],
        [message.key for message in messages],
        [rows.json_of(message.envelope) for message in messages],
        [message.envelope for message in messages],
        [message.hops or None for message in messages],
    )
    if any("\0" in (key or "") for key in columns[1]):
        raise BackendRefusedError("PostgreSQL has no place for a key with a zero character")
    if max(map(len, columns[2]), default=0) > MAX_JSON_BYTES:
        raise PayloadTooLargeError("the message is larger in JSON than PostgreSQL takes, 255 MiB: send less")
    return columns


def _place_name(place: Checkpoint) -> str:
    return f"{place.bridge}:{place.lane}"


class PostgresSubscription:
    """Rows that nobody has and nobody consumed, held by a transaction until all of them are acknowledged."""

    def __init__(
        self, backend: PostgresBackend, loop: Loop, pattern: str, group: str, start: str, namespaces: Namespaces
    ) -> None:
        self._backend, self._loop, self._namespaces = backend, loop, namespaces
        self._pattern, self._group, self._start = pattern, group, start
        self._connection: Any = None
        self._something: asyncio.Event | None = None
        self._transaction: Any = None
        self._held: set[int] = set()
        self._last = ""

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """BackendRefusedError too if another group has the table."""
        return self._loop.run(self._receive(limit, timeout), timeout + _ANSWER_SECONDS)

    async def _receive(self, limit: int, timeout: float) -> list[Delivered]:
        now = asyncio.get_running_loop().time
        deadline = now() + timeout
        try:
            connection = await asyncio.wait_for(self._opened(), max(timeout, 0.5))
            while True:
                assert self._something is not None
                self._something.clear()
                found = await self._taken(connection, limit)
                if found or now() >= deadline:
                    return found
                await self._notified(min(deadline - now(), LOOK_SECONDS))
        except _FAILURES as error:
            self._forget()
            raise _error(error) from None

    async def _opened(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._forget()
            connection = await self._backend.connect()
            try:
                await self._backend.prepare(connection)
                await self._join(connection)
                self._something = asyncio.Event()
                await connection.add_listener(self._backend.table, self._wake)
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection
        return self._connection

    def _wake(self, *_: object) -> None:
        if self._something is not None:
            self._something.set()

    async def _join(self, connection: Any) -> None:
        """Be of the table's one group, or make it. A new one that begins at the end passes over what is there."""
        table = self._backend.table
        async with connection.transaction():
            group, is_new = await connection.fetchrow(_GROUP, self._namespaces.group(table), self._group)
            if group != self._group:
                raise BackendRefusedError(
                    f"the messages of table {table} are consumed by another group: use its name, or another ?table="
                )
            if is_new and self._start == "latest":
                skip = _SKIP.format(table=table, of_namespaces=_OF_NAMESPACES.format(at="$1"))
                await connection.execute(skip, self._listed())

    def _listed(self) -> list[str] | None:
        """As JSONB has them, which knows no zero characters."""
        listed = self._namespaces.listed
        return None if listed is None else [one.replace("\0", "\ufffd") for one in listed]

    async def _taken(self, connection: Any, limit: int) -> list[Delivered]:
        """Rows, locked. The transaction is begun with the first, and ended at once if there are none."""
        if self._transaction is None:
            self._transaction = connection.transaction()
            await self._transaction.start()
        of_namespaces = _OF_NAMESPACES.format(at="$5")
        take = _TAKE.format(table=self._backend.table, of_namespaces=of_namespaces)
        named = self._pattern, prefix_of(self._pattern), sorted(self._held)
        rows = await connection.fetch(take, *named, limit, self._listed())
        if not rows and not self._held:
            await self._commit()
        self._held.update(row["id"] for row in rows)
        return [self._delivered(row) for row in rows]

    async def _notified(self, seconds: float) -> None:
        assert self._something is not None
        try:
            await asyncio.wait_for(self._something.wait(), max(0.0, seconds))
        except asyncio.TimeoutError:
            pass

    def _delivered(self, row: Any) -> Delivered:
        self._last = str(row["id"])
        return delivered_of(row)

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """Kept for good once all that is held is acknowledged: until then it is in the transaction."""
        self._loop.run(self._acknowledge([one.handle for one in delivered]), _ANSWER_SECONDS)

    async def _acknowledge(self, ids: Sequence[int]) -> None:
        held = [one for one in ids if one in self._held]
        if self._transaction is None or not held:
            return  # their connection was lost: they come again
        try:
            await self._connection.execute(_DONE.format(table=self._backend.table), held)
            self._held.difference_update(held)
            if not self._held:
                await self._commit()
        except _FAILURES as error:
            self._forget()
            raise _error(error) from None

    async def _commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        await transaction.commit()

    def _forget(self) -> None:
        connection, self._connection, self._transaction = self._connection, None, None
        self._held.clear()
        if connection is not None:
            connection.terminate()

    def positions(self) -> dict[str, str]:
        """The last row that was taken."""
        return {self._backend.table: self._last} if self._last else {}

    def close(self) -> None:
        """What is acknowledged is kept; what is held comes again at once."""
        try:
            self._loop.run(self._close(), _ANSWER_SECONDS)
        except BackendError:
            pass  # the server is away, or ended it before

    async def _close(self) -> None:
        try:
            if self._transaction is not None:
                await self._commit()
        except _FAILURES:
            pass  # it was lost, and comes again
        self._forget()


def delivered_of(row: Any) -> Delivered:
    """A row as it is handed on."""
    data = row["bytes"]
    if data is None:
        try:
            data = bytes_of(row["envelope"])
        except WireError:
            data = row["envelope"].encode()  # of another form: who reads it says so
    hops = row["hops"] or ""
    return Delivered(row["topic"], row["key"], data, str(row["id"]), row["id"], handle=row["id"], hops=hops)


__all__ = ["PostgresBackend"]
