"""Messages in the words of NATS (B-1), and as rows of PostgreSQL, new and old (B-6, M-36, M-40).

The table is used as it is. What a group has taken is written into a table beside it, row by row: ids appear in another
order than they are given.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, NamedTuple, Protocol

from speed.backends.backend import (
    BackendError,
    BackendRefusedError,
    Delivered,
    Loop,
    Outgoing,
    header_text,
    text_of_header,
)
from speed.errors import WireError
from speed.message.reader import MAX_KINDS, MessageReader
from speed.message.view import MessageView, parse_records
from speed.message.writing import frame_of
from speed.wire import lazily
from speed.wire.records import LENGTH_DELIMITED, MessageEnvelope, walk

# A message as data and headers of NATS (B-1), and one of JetStream as it is handed on.


def data_and_headers(message: Outgoing) -> tuple[bytes, dict[str, str]]:
    """What is sent, and its headers."""
    if message.old is not None:
        return message.old.data, {name: header_text(text) for name, text in message.old.headers.items()}
    return message.envelope, _nats_headers(message)


def _nats_headers(message: Outgoing) -> dict[str, str]:
    message_id = header_text(message.message_id)
    headers = {"Prism-Envelope-Version": "1", "Prism-Message-ID": message_id, "Nats-Msg-Id": message_id}
    if message.trace_id is not None:
        headers["Prism-Trace-ID"] = message.trace_id
    if message.key is not None:
        headers["Prism-Key"] = header_text(message.key)
    if message.hops:
        headers["Prism-Hops"] = message.hops
    return headers


def delivered_of_nats(message: Any, lane: str = "") -> Delivered:
    """A message of JetStream as it is handed on."""
    metadata, headers = message.metadata, message.headers or {}
    key = headers.get("Prism-Key")
    return Delivered(
        message.subject,
        None if key is None else text_of_header(key),
        message.data,
        f"{metadata.stream}:{metadata.sequence.stream}",
        metadata.sequence.stream,
        metadata.num_delivered,
        message.reply,
        {name: text.encode() for name, text in headers.items()},
        int(metadata.timestamp.timestamp() * 1000),
        lane,
        headers.get("Prism-Hops", ""),
    )


# A message as protobuf JSON, for PostgreSQL's JSONB, and back (B-6).

_ZERO, _INSTEAD = "\\u0000", "\\ufffd"


class RowWriter:
    """Writes messages as JSON, those that are like others before them in one step. Thread-safe."""

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._forms: dict[MessageView, _JsonForm | None] = {}
        """By the first message that is written so."""

    def json_of(self, envelope: bytes) -> str:
        """The JSON of a message. A zero character, which JSONB has no place for, is U+FFFD. Raises WireError."""
        view, first = self._reader.compare(envelope)
        form = None if first is None else self._form(first)
        return _without_zeros(_json_of(view) if form is None else form.text(view))

    def _form(self, first: MessageView) -> _JsonForm | None:
        try:
            return self._forms[first]
        except KeyError:
            if len(self._forms) >= MAX_KINDS:
                self._forms.clear()
            self._forms[first] = form = _form_of(first)
            return form


class _JsonForm(NamedTuple):
    """The JSON of messages that differ in id, time and payload alone."""

    begin: str
    between: str
    end: str

    def text(self, view: MessageView) -> str:
        payload = b64encode(view.payload_bytes).decode()
        return f"{self.begin}{_id_of(view)}{self.between}{_time_of(view)}{self.end}{payload}{_END}"


_PAYLOAD, _END = '"payload":{"value":"', '"}}'


def _form_of(first: MessageView) -> _JsonForm | None:
    """None where something else looks like id or time."""
    text = _json_of(first)
    begin, *others = text[: text.rindex(_PAYLOAD) + len(_PAYLOAD)].split(_id_of(first))
    if len(others) != 1:
        return None
    between, *rest = others[0].split(_time_of(first))
    return _JsonForm(begin, between, rest[0]) if len(rest) == 1 else None


def _id_of(view: MessageView) -> str:
    return f'"messageId":{json.dumps(view.message_id)}'


def _time_of(view: MessageView) -> str:
    return f'"publishedAtMs":"{view.published_at_ms}"'


def _json_of(view: MessageView) -> str:
    envelope = view.to_bytes()
    fields = lazily.load("google.protobuf.json_format").MessageToDict(_head(envelope))
    payload = {"value": b64encode(view.payload_bytes).decode()}
    if view.type_url:
        payload["typeUrl"] = view.type_url
    fields["payload"] = payload
    return json.dumps(fields, separators=(",", ":"))


def _head(envelope: bytes) -> Any:
    """All but the payload, whose Any protobuf would look into."""
    records = [
        envelope[start:end]
        for field, wire_type, start, _, end in walk(envelope)
        if field != MessageEnvelope.PAYLOAD or wire_type != LENGTH_DELIMITED
    ]
    return parse_records(b"".join(records))


def _without_zeros(text: str) -> str:
    """A backslash that is escaped itself is left alone."""
    if _ZERO not in text:
        return text
    return "\\\\".join(part.replace(_ZERO, _INSTEAD) for part in text.split("\\\\"))


def bytes_of(text: str) -> bytes:
    """The message of a row that others wrote as JSON; WireError(BAD_MESSAGE) for what is none."""
    formats = lazily.load("google.protobuf.json_format")
    envelope = lazily.load("speed.message.message_pb2").MessageEnvelope
    try:
        fields = json.loads(text)
        payload = fields.pop("payload", {})
        head = formats.ParseDict(fields, envelope(), ignore_unknown_fields=True).SerializeToString()
        value = b64decode(payload.get("value", ""), validate=True)
        url = str(payload.get("typeUrl", ""))
    except (formats.ParseError, ValueError, AttributeError, TypeError, RecursionError):
        raise WireError("BAD_MESSAGE", "records: the row has no bytes, and its JSON is no MessageEnvelope") from None
    return bytes(head + frame_of(len(value), url) + value)


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

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """In the order of ids; those that appeared late come with a sweep."""
        return self._loop.run(self._receive(limit, timeout), timeout + _ANSWER_SECONDS)

    async def _receive(self, limit: int, timeout: float) -> list[Delivered]:
        deadline = monotonic() + timeout
        async with self._backend.asking(self._forget):
            connection = await self._opened()
            while True:
                found = await self._taken(connection, limit)
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

    async def _taken(self, connection: Any, limit: int) -> list[Delivered]:
        rows = await self._rows(connection, self._last, limit)
        if not rows and monotonic() >= self._sweep_again:
            self._sweep_again = monotonic() + SWEEP_SECONDS
            rows = await self._rows(connection, 0, limit)
        self._held.update(row["id"] for row in rows)
        self._last = max([self._last, *(row["id"] for row in rows)])
        return [delivered_row(row) for row in rows]

    async def _rows(self, connection: Any, after: int, limit: int) -> list[Any]:
        table = self._backend.table
        taken = _TAKE.format(table=table)
        named = self._pattern, prefix_of(self._pattern), sorted(self._held), table, self._group
        return list(await connection.fetch(taken, after, *named, limit))

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
