"""S3: a message is an object, whose key says its day, topic and id; a group has its place there (B-1, B-8, B-21)."""

from __future__ import annotations

import io
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any, TypeVar

from boto3.s3.transfer import TransferConfig
from botocore import exceptions

from speed.backends import aws
from speed.backends.address import Address
from speed.backends.aws import MAX_MANIFEST_BYTES, Named, before, item_of, manifest_of, manifest_of_item, objects_of
from speed.backends.backend import (
    EVENTS,
    EVERY,
    MANIFESTS,
    BackendAwayError,
    BackendError,
    BackendRefusedError,
    Delivered,
    Namespaces,
    Outgoing,
    header_text,
    s3_day,
    s3_key,
    s3_manifest,
    s3_parts,
    text_of_header,
)
from speed.message.writing import new_message_id
from speed.wire.names import matches

UPLOADS = 8
"""Objects that are written or read at the same time."""
PART_BYTES = 8 << 20
"""Longer objects are written in parts of this size."""
SETTLE_SECONDS = 60.0
"""Objects of the last seconds are not settled yet: some appear late."""
LOOK_SECONDS = 1.0
MAX_STATE_BYTES = 16 << 20
_DAY_MS = 86_400_000
_NEAR_DAYS = 3
"""Days back that are looked into without asking which there are."""
asking = partial(aws.asking, "S3")
Answer = TypeVar("Answer")


class S3Backend:
    """One bucket."""

    has_groups = True
    max_at_once = 32 * UPLOADS
    takes_ahead = True

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address, self._max_bytes = address, max_message_bytes
        self.bucket = address.place
        self._lock = threading.Lock()
        self._client: Any = None
        self._uploads: ThreadPoolExecutor | None = None

    def client(self) -> Any:
        """Thread-safe, as boto3 says."""
        with self._lock:
            if self._client is None:
                self._client = aws.client_of("s3", self._address, 2 * UPLOADS)
            return self._client

    def unfit(self, message: Outgoing) -> str:
        """Objects are read in the order of ids, which are to grow with time."""
        return "" if _UUID7.fullmatch(message.message_id) else "BAD_ID"

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are keys. Several objects are written at once; a manifest of each topic behind them."""
        if any(map(self.unfit, messages)):
            raise BackendRefusedError("S3 takes messages whose ids grow with time, which UUIDs of version 7 do")
        deadline = monotonic() + timeout
        keys = self._all_done([partial(self._put, self.client(), message) for message in messages], deadline)
        if self._address.options["manifests"]:
            self._all_done(self._manifests(messages, keys), deadline)
        return keys

    def _all_done(self, puts: Iterable[Callable[[], str]], deadline: float) -> list[str]:
        """The keys of what was written."""
        try:
            return self.at_once(puts, deadline)
        except FutureTimeout:
            raise BackendAwayError("S3 did not store all messages in time: try again") from None

    def at_once(self, requests: Iterable[Callable[[], Answer]], deadline: float | None = None) -> list[Answer]:
        """The answers of all requests, in their order. Several run at the same time. TimeoutError."""
        workers = self._workers()
        futures = [workers.submit(one) for one in requests]
        try:
            return [one.result(None if deadline is None else max(0.0, deadline - monotonic())) for one in futures]
        finally:
            for one in futures:
                one.cancel()

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._uploads is None:
                self._uploads = ThreadPoolExecutor(UPLOADS, "speed-s3")
            return self._uploads

    def _put(self, client: Any, message: Outgoing) -> str:
        key = s3_key(message.topic, message.message_id, message.published_at_ms)
        extra = {"Metadata": _metadata(message), "ContentType": "application/octet-stream"}
        with asking():
            if len(message.envelope) > PART_BYTES:
                file = io.BytesIO(message.envelope)
                client.upload_fileobj(file, self.bucket, key, ExtraArgs=extra, Config=_TRANSFER)
            else:
                client.put_object(Bucket=self.bucket, Key=key, Body=message.envelope, **extra)
        return key

    def _manifests(self, messages: Sequence[Outgoing], keys: Sequence[str]) -> Iterator[Callable[[], str]]:
        """Puts of a manifest for each topic; they are of now, however old the messages are."""
        topics: dict[str, list[int]] = {}
        for number, message in enumerate(messages):
            topics.setdefault(message.topic, []).append(number)
        for topic, numbers in topics.items():
            data = manifest_of([messages[number] for number in numbers], [keys[number] for number in numbers])
            yield partial(self._put_manifest, self.client(), topic, data)

    def _put_manifest(self, client: Any, topic: str, data: bytes) -> str:
        unix_ms = int(time.time() * 1000)
        key = s3_manifest(topic, new_message_id(unix_ms, os.urandom(16)), unix_ms)
        with asking():
            client.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType="application/json")
        return key

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> S3Subscription:
        """Join when first asked for messages."""
        kind = ManifestSubscription if self._address.options["manifests"] else S3Subscription
        return kind(self, pattern, namespaces.group(group), start, self._max_bytes)

    def ping(self, timeout: float) -> None:
        """Ask whether the bucket is there."""
        future = self._workers().submit(self.client().head_bucket, Bucket=self.bucket)
        try:
            with asking():
                future.result(timeout)
        except FutureTimeout:
            raise BackendAwayError("S3 did not answer in time: try again") from None

    def close(self) -> None:
        """End the threads that write and read."""
        with self._lock:
            uploads, self._uploads = self._uploads, None
            client, self._client = self._client, None
        if uploads is not None:
            uploads.shutdown(wait=False, cancel_futures=True)
        if client is not None:
            client.close()


_TRANSFER = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False)


def _metadata(message: Outgoing) -> dict[str, str]:
    metadata = {
        "prism-envelope-version": "1",
        "prism-message-id": header_text(message.message_id),
        "prism-topic": message.topic,
    }
    if message.key is not None:
        metadata["prism-key"] = header_text(message.key)
    if message.hops:
        metadata["prism-hops"] = message.hops
    return metadata


class _GroupPosition:
    """Where a group stands in one topic (B-8): all before ``after`` is settled, and of what follows ``done``."""

    def __init__(self, after: str, done: Iterable[str] = ()) -> None:
        self.after = after
        self.done = set(done)
        self.held: set[str] = set()

    def is_new(self, key: str) -> bool:
        """Whether to deliver it."""
        return key > self.after and key not in self.done and key not in self.held

    def move(self, until: str) -> None:
        """Keep no more than is needed: nothing before ``until`` appears any more. What is held stays behind it."""
        low = min([until, *(key[:-1] for key in self.held)])
        if low > self.after:
            self.after = low
            self.done = {key for key in self.done if key > low}

    def text(self) -> bytes:
        """As it is stored."""
        return json.dumps({"after": self.after, "done": sorted(self.done)}).encode()


class S3Subscription:
    """The one consumer of a group: it lists what lies behind the group's places."""

    _root = EVENTS
    """Where what is listed lies."""

    def __init__(self, backend: S3Backend, pattern: str, group: str, start: str, max_message_bytes: int) -> None:
        self._backend, self._pattern, self._group, self._start = backend, pattern, group, start
        self._limit = max_message_bytes
        self._places: dict[str, _GroupPosition] = {}
        self._found: deque[tuple[str, str, Named]] = deque()
        self._pausing = threading.Event()

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """Lists when nothing that was listed is left."""
        deadline = monotonic() + timeout
        with asking():
            while True:
                if not self._found:
                    self._list()
                if self._found:
                    return self._fetched([self._found.popleft() for _ in range(min(limit, len(self._found)))])
                left = deadline - monotonic()
                if left <= 0:
                    return []
                self._pausing.wait(min(left, LOOK_SECONDS))

    def _fetched(self, items: Sequence[tuple[str, str, Named]]) -> list[Delivered]:
        """Several at once, in their order. If one cannot be fetched, all are tried again."""
        try:
            return self._backend.at_once([partial(self._delivered, *item) for item in items])
        except BaseException:
            self._found.extendleft(reversed(items))
            raise

    def _list(self) -> None:
        """Objects that are new, in the order of their keys, of all topics."""
        now_ms = int(time.time() * 1000)
        for topic in self._topics(now_ms):
            place = self._place(topic, now_ms)
            for item, named in self._items(topic, place, now_ms):
                if place.is_new(item):
                    place.held.add(item)
                    self._found.append((topic, item, named))
        self._start = "earliest"  # topics that come later are read from their beginning

    def _items(self, topic: str, place: _GroupPosition, now_ms: int) -> Iterator[tuple[str, Named]]:
        """What there is behind a place: as the place says it, and the object."""
        for key in self._keys(topic, place.after, now_ms):
            yield key, Named(key, "")

    def _topics(self, now_ms: int) -> list[str]:
        """Those of the pattern that are there."""
        if self._pattern != "*" and not self._pattern.endswith(".*"):
            return [self._pattern]
        first = "" if self._pattern == "*" else self._pattern[:-1]
        found = set(self._places)
        for day in self._days(self._root, now_ms):
            found |= {name for name in self._folders(day + first, day) if matches(self._pattern, name)}
        return sorted(found)

    def _folders(self, prefix: str, above: str) -> Iterator[str]:
        pages = self._backend.client().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._backend.bucket, Prefix=prefix, Delimiter="/"):
            for one in page.get("CommonPrefixes", ()):
                yield one["Prefix"][len(above) :].rstrip("/")

    def _days(self, after: str, now_ms: int) -> Iterator[str]:
        """Days that have objects, from that of ``after`` to tomorrow: a publisher's clock may be ahead."""
        root, last = self._root, s3_day(now_ms + _DAY_MS, self._root)
        first = after[: len(last)]
        near = [s3_day(now_ms + number * _DAY_MS, root) for number in range(-_NEAR_DAYS, 2)]
        if first >= near[0]:
            yield from (day for day in near if day >= first)
            return
        for year in self._folders(root, root):
            for month in self._folders(f"{root}{year}/", f"{root}{year}/"):
                for day in self._folders(f"{root}{year}/{month}/", f"{root}{year}/{month}/"):
                    found = f"{root}{year}/{month}/{day}/"
                    if first[: len(found)] <= found <= last:
                        yield found

    def _keys(self, topic: str, after: str, now_ms: int) -> Iterator[str]:
        pages = self._backend.client().get_paginator("list_objects_v2")
        for day in self._days(after, now_ms):
            for page in pages.paginate(Bucket=self._backend.bucket, Prefix=f"{day}{topic}/", StartAfter=after):
                for one in page.get("Contents", ()):
                    if s3_parts(one["Key"], self._root) is not None:
                        yield one["Key"]

    def _place(self, topic: str, now_ms: int) -> _GroupPosition:
        """That which the group left, or a new one."""
        if topic not in self._places:
            self._places[topic] = self._read(topic) or self._begun(topic, now_ms)
        return self._places[topic]

    def _begun(self, topic: str, now_ms: int) -> _GroupPosition:
        if self._start == "earliest":
            place = _GroupPosition(self._root)
        else:
            place = _GroupPosition(self._settled_key(topic, now_ms))
            place.done = set(self._keys(topic, place.after, now_ms))
        self._write(topic, place)
        return place

    def _read(self, topic: str) -> _GroupPosition | None:
        try:
            answer = self._backend.client().get_object(Bucket=self._backend.bucket, Key=self._state(topic))
            state = json.loads(answer["Body"].read(MAX_STATE_BYTES))
            return _GroupPosition(state["after"], state["done"])
        except exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                return None
            raise
        except (ValueError, KeyError, TypeError):
            raise BackendError(f"S3: {self._state(topic)} is no position of a group: remove it to begin anew") from None

    def _write(self, topic: str, place: _GroupPosition) -> None:
        self._backend.client().put_object(Bucket=self._backend.bucket, Key=self._state(topic), Body=place.text())

    def _state(self, topic: str) -> str:
        return f"groups/{self._group}/{topic}.json"

    def _settled_key(self, topic: str, now_ms: int) -> str:
        """The key of a minute ago. Nothing before it changes any more."""
        unix_ms = now_ms - int(SETTLE_SECONDS * 1000)
        return self._key(topic, new_message_id(unix_ms, bytes(16)), unix_ms)

    def _key(self, topic: str, unique: str, unix_ms: int) -> str:
        return s3_key(topic, unique, unix_ms)

    def _delivered(self, topic: str, item: str, named: Named) -> Delivered:
        """An object that is too long is not fetched whole."""
        answer = self._backend.client().get_object(Bucket=self._backend.bucket, Key=named.key)
        metadata = answer.get("Metadata", {})
        encoded = metadata.get("prism-key")
        data = answer["Body"].read(self._limit + 1)
        answer["Body"].close()
        own = None if encoded is None else text_of_header(encoded)
        return Delivered(topic, own, data, named.key, handle=(topic, item), hops=metadata.get("prism-hops", ""))

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """Writes the group's places."""
        now_ms = int(time.time() * 1000)
        topics = set()
        for one in delivered:
            topic, item = one.handle
            self._finish(self._places[topic], item)
            topics.add(topic)
        with asking():
            for topic in sorted(topics):
                self._places[topic].move(self._settled_key(topic, now_ms))
                self._write(topic, self._places[topic])

    def _finish(self, place: _GroupPosition, item: str) -> None:
        place.held.discard(item)
        place.done.add(item)

    def positions(self) -> dict[str, str]:
        """Up to where all is acknowledged, by topic."""
        return {topic: place.after for topic, place in self._places.items()}

    def close(self) -> None:
        """There is nothing to give back."""
        self._pausing.set()
        self._found.clear()


class ManifestSubscription(S3Subscription):
    """It follows manifests: a batch is seen whole or not at all, in its order (B-21)."""

    _root = MANIFESTS

    def __init__(self, backend: S3Backend, pattern: str, group: str, start: str, max_message_bytes: int) -> None:
        super().__init__(backend, pattern, group, start, max_message_bytes)
        self._open: dict[str, tuple[set[str], set[str]]] = {}
        """Manifests that were read: all that they name, and what of it is not acknowledged."""

    def _items(self, topic: str, place: _GroupPosition, now_ms: int) -> Iterator[tuple[str, Named]]:
        for manifest in self._keys(topic, before(place.after), now_ms):
            if manifest in self._open or manifest in place.done:
                continue
            objects = self._read_manifest(topic, manifest)
            found = {item_of(manifest, number): one for number, one in enumerate(objects)}
            left = {item for item in found if place.is_new(item)}
            if left:
                self._open[manifest] = set(found), left
            yield from found.items()

    def _read_manifest(self, topic: str, manifest: str) -> list[Named]:
        """What is none is taken for a message, and found to be none."""
        answer = self._backend.client().get_object(Bucket=self._backend.bucket, Key=manifest)
        data = answer["Body"].read(MAX_MANIFEST_BYTES)
        answer["Body"].close()
        objects = objects_of(data, topic)
        return [Named(manifest, "")] if objects is None else objects

    def _finish(self, place: _GroupPosition, item: str) -> None:
        """A manifest of which all is done stands for all that it names."""
        super()._finish(place, item)
        manifest = manifest_of_item(item)
        every, left = self._open[manifest]
        left.discard(item)
        if not left:
            del self._open[manifest]
            place.done -= every
            place.done.add(manifest)

    def _delivered(self, topic: str, item: str, named: Named) -> Delivered:
        """An object that is not as its manifest says is empty, which no message is."""
        try:
            found = super()._delivered(topic, item, named)
        except exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") != "NoSuchKey":
                raise
        else:
            is_cut = len(found.envelope) > self._limit  # too large for this reader, which it says
            if not named.sha256 or is_cut or sha256(found.envelope).hexdigest() == named.sha256:
                return found
        return Delivered(topic, None, b"", named.key, handle=(topic, item))

    def _state(self, topic: str) -> str:
        return f"groups/{self._group}/{MANIFESTS}{topic}.json"

    def _key(self, topic: str, unique: str, unix_ms: int) -> str:
        return s3_manifest(topic, unique, unix_ms)


_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


__all__ = ["S3Backend"]
