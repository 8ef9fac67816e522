"""Messages of durable topics as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from speed.errors import WireError
from speed.spark.source.columns import RecordBatches, Records
from speed.spark.source.heads import Head
from speed.spark.source.scan import Payloads
from speed.spark.source.schema import TOPIC_COLUMNS
from speed.wire.content import BYTES_TYPE, MSGPACK_TYPE, TEXT_TYPE
from speed.wire.message import DEFAULT_PRIORITY
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, Kept, decode
from speed.wire.value import unpack

_KINDS = {MESSAGE: "message", TOMBSTONE: "tombstone", DEAD_LETTER: "dead letter"}
_TYPES = (MSGPACK_TYPE, TEXT_TYPE, BYTES_TYPE)
_TEXTS = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])
_BYTES = frozenset([0xC4, 0xC5, 0xC6])
"""First bytes of texts and bytes in msgpack."""

_COLUMNS: dict[str, Callable[[Kept], Any]] = {
    "kind": lambda kept: _KINDS[kept.head.type],
    "key": lambda kept: kept.about.get("key"),
    "publisher": lambda kept: kept.about.get("publisher"),
    "producer": lambda kept: kept.about.get("producer"),
    "sequence": lambda kept: kept.head.sequence or None,
    "properties": lambda kept: list(kept.about.get("properties", {}).items()),
    "attempts": lambda kept: kept.head.attempts,
}


class TopicBatches(RecordBatches):
    """Of the messages of one durable topic."""

    columns = TOPIC_COLUMNS

    def _read(self, records: Records) -> tuple[dict[str, pa.Array], Payloads]:
        messages = self._messages(records)
        values = [_plain(kept.payload) for kept in messages]
        kinds: Any = np.fromiter((number for number, _ in values), np.int32, len(values))
        data = pa.array([data for _, data in values], pa.binary())
        payloads = self._with_schemas(messages, Payloads(_HEADS, kinds, data, np.arange(len(values))))
        return {name: self._column(name, records, messages, kinds) for name in self._metadata}, payloads

    def _with_schemas(self, messages: Sequence[Kept], payloads: Payloads) -> Payloads:
        """Bytes as what their messages' properties say that they are, or else what the schema file is of."""
        kinds_of: dict[Head, int] = {head: number for number, head in enumerate(payloads.heads)}
        kinds = payloads.kinds.copy()
        for row in np.flatnonzero(kinds == _TYPES.index(BYTES_TYPE)).tolist():
            head = _head_of_bytes(messages[row].about.get("properties", {}), self._schemas.content_type)
            kinds[row] = kinds_of.setdefault(head, len(kinds_of))
        return payloads._replace(heads=list(kinds_of), kinds=kinds)

    def _messages(self, records: Records) -> list[Kept]:
        ends = np.cumsum(records.sizes).tolist()
        messages = []
        for row, (start, end) in enumerate(pairwise([0, *ends])):
            try:
                messages.append(decode(records.messages[start:end]))
            except WireError as error:
                raise WireError(error.reason, f"{self._place(records, row)}: {error}") from None
        return messages

    def _column(self, name: str, records: Records, messages: Sequence[Kept], kinds: Any) -> pa.Array:
        found = self._of_place(name, records)
        if found is not None and name not in _COLUMNS:
            return found
        kind = self._schema.field(name).type
        if name == "topic":
            return pa.repeat(pa.scalar(self._lane.subject, kind), len(messages))
        if name == "due_at":
            due: Any = np.array([kept.head.due_ms for kept in messages], np.int64)
            return pa.array(due, mask=due == 0).cast(pa.timestamp("ms", kind.tz)).cast(kind)
        if name == "content_type":
            return pa.array(_TYPES, kind).take(pa.array(kinds))
        return pa.array([_COLUMNS[name](kept) for kept in messages], kind)


def _plain(payload: bytes) -> tuple[int, bytes | None]:
    """Which type a payload has, and its bytes: texts and bytes as they are, all else packed; None of a tombstone.

    One that cannot be read is told where it does not fit a column.
    """
    if not payload:
        return 0, None
    try:
        if payload[0] in _TEXTS:
            return 1, unpack(payload).encode()
        if payload[0] in _BYTES:
            return 2, unpack(payload)
    except WireError:
        pass
    return 0, payload


def _head_of_bytes(properties: Mapping[str, str], content_type: str) -> Head:
    said = properties.get("content_type", "") or content_type or BYTES_TYPE
    name, version, hash_ = (properties.get(f"schema_{part}", "") for part in ("name", "version", "hash"))
    return _head(said)._replace(schema_name=name, schema_version=version, schema_hash=hash_)


def _head(content_type: str) -> Head:
    return Head("", content_type, "none", 0, DEFAULT_PRIORITY, None, None, None, None, (), False, "")


_HEADS = tuple(map(_head, _TYPES))
