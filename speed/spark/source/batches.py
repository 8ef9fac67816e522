"""Batches of payloads (M-24) as rows: one message, and a row for each of its payloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from speed.message.batch import split_batch
from speed.message.compression import decompress, is_read
from speed.message.errors import BatchError, CompressionError
from speed.spark.source.heads import Head
from speed.spark.source.scan import Array, Payloads
from speed.wire.content import BATCH_TYPE


class UnfitBatchError(ValueError):
    """The batch of message ``row`` is none."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


def has_batches(payloads: Payloads) -> bool:
    """Whether one of them is a batch that is read here."""
    return any(map(_is_batch, payloads.heads))


def unbatched(payloads: Payloads, *, skip_unfit: bool) -> tuple[Payloads, list[int | None]]:
    """A payload for each one of the batches, in their place, and the number of each in its batch.

    Raises UnfitBatchError; with ``skip_unfit`` such a batch stays as it is.
    """
    kinds_of: dict[Head, int] = {head: number for number, head in enumerate(payloads.heads)}
    kinds, values, places, numbers = list[int](), list[bytes](), list[int](), list[int | None]()
    for row, (kind, payload) in enumerate(zip(payloads.kinds.tolist(), payloads.values.to_pylist(), strict=True)):
        for number, head, value in _parts(payloads.heads[kind], payload, row, skip_unfit):
            kinds.append(kinds_of.setdefault(head, len(kinds_of)))
            values.append(value)
            places.append(row)
            numbers.append(number)
    array: Array = np.array(kinds, np.int32)
    where: Array = np.array(places, np.int64)
    return Payloads(list(kinds_of), array, pa.array(values, pa.binary()), where), numbers


def _parts(head: Head, payload: bytes, row: int, skip_unfit: bool) -> Iterator[tuple[int | None, Head, bytes]]:
    if not _is_batch(head):
        yield None, head, payload
        return
    try:
        parts = list(split_batch(memoryview(_plain(head, payload))))
    except (BatchError, CompressionError) as error:
        if not skip_unfit:
            raise UnfitBatchError(row, str(error)) from None
        yield None, head, payload
        return
    for number, (kind, type_url, part) in enumerate(parts):
        said: dict[str, Any] = {
            "content_type": kind,
            "type_url": type_url,
            "content_encoding": "none",
            "uncompressed_bytes": 0,
        }
        yield number, head._replace(**said), bytes(part)


def _plain(head: Head, payload: bytes) -> bytes | bytearray:
    if head.content_encoding == "none":
        return payload
    return decompress(head.content_encoding, payload, head.uncompressed_bytes)


def _is_batch(head: Head) -> bool:
    is_plain = head.content_encoding == "none" or is_read(head.content_encoding)
    return head.content_type == BATCH_TYPE and is_plain and not head.is_encrypted
