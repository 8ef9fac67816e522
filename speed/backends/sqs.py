"""Amazon SQS: a message is the text of an entry, its headers are attributes; long ones lie in S3 (B-1, B-2).

One queue holds all topics and has one group, whose name and beginning are tags of the queue.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any

from speed.backends import aws
from speed.backends.address import Address
from speed.backends.backend import (
    EVERY,
    BackendAwayError,
    BackendRefusedError,
    Delivered,
    Namespaces,
    Outgoing,
    TakesAll,
    group_name,
    header_text,
    text_of_header,
    too_large,
)
from speed.core.log import logger
from speed.message.view import MessageView
from speed.wire.names import matches

log = logger("speed.bridges")

MAX_ENTRY_BYTES = 256 << 10
"""Of text and attributes together, and of a request."""
MAX_ENTRIES = 10
LARGE = "large"
"""What the keys of long messages begin with in the bucket."""
_ROOM = 4096
"""Left for attributes."""
_PAUSE_SECONDS = 0.2
_JOIN_SECONDS = 2.0
_MAX_ID = 128
_GROUP_TAG, _SINCE_TAG = "speed-group", "speed-since"
_POINTER, _HOPS = "prism-s3-key", "prism-hops"


_asking = partial(aws.asking, "SQS")


class SqsBackend(TakesAll):
    """One queue, and the bucket that takes what is too long for it."""

    has_groups = True
    max_at_once = 10 * MAX_ENTRIES
    takes_ahead = True

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address, self.max_bytes = address, max_message_bytes
        self.queue, self.bucket = address.place, str(address.options["bucket"])
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        self._url = ""

    def client(self, service: str = "sqs") -> Any:
        """Thread-safe, as boto3 says."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = aws.client_of(service, self._address)
            return self._clients[service]

    def url(self) -> str:
        """Of the queue, which is never made."""
        if not self._url:
            self._url = str(self.client().get_queue_url(QueueName=self.queue)["QueueUrl"])
        return self._url

    # --- publishing ---

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are ids of SQS."""
        deadline, positions = monotonic() + timeout, []
        with _asking():
            for part in _parts([self._entry(message) for message in messages]):
                if monotonic() > deadline:
                    raise BackendAwayError("SQS did not take all messages in time: try again")
                positions += self._send(part)
        return positions

    def _send(self, entries: Sequence[dict[str, Any]]) -> list[str]:
        named = [{**entry, "Id": str(place)} for place, entry in enumerate(entries)]
        answer = self.client().send_message_batch(QueueUrl=self.url(), Entries=named)
        for failed in answer.get("Failed", ()):
            raise _of_entry(failed)
        found = {int(one["Id"]): str(one["MessageId"]) for one in answer["Successful"]}
        return [found[place] for place in range(len(entries))]

    def _entry(self, message: Outgoing) -> dict[str, Any]:
        attributes = _attributes(message)
        body = base64.b64encode(message.envelope).decode()
        if len(body) + _ROOM > MAX_ENTRY_BYTES:
            attributes[_POINTER] = body = self._put_aside(message)
        return {
            **self._ordered(message),
            "MessageBody": body,
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()
            },
        }

    def _ordered(self, message: Outgoing) -> dict[str, str]:
        """What a queue that keeps order by key asks for."""
        if not self.queue.endswith(".fifo"):
            return {}
        group = message.message_id if message.key is None else self._key_of(message)
        return {"MessageGroupId": _id(group), "MessageDeduplicationId": _id(message.message_id)}

    @staticmethod
    def _key_of(message: Outgoing) -> str:
        """Of its namespace: what another namespace has not taken yet holds nothing up."""
        return group_name(message.key or "", MessageView(message.envelope).namespace)

    def _put_aside(self, message: Outgoing) -> str:
        """A long message as an object; returns its key."""
        if not self.bucket:
            raise too_large("nothing, but name a `bucket` of S3 in the address, for long messages")
        key = f"{self._large}{sha256(message.envelope).hexdigest()}"
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=message.envelope)
        return key

    @property
    def _large(self) -> str:
        return f"{LARGE}/{self.queue}/"

    # --- consuming ---

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> SqsSubscription:
        """Join when first asked for messages."""
        return SqsSubscription(self, pattern, group, start, int(self._address.options["lease_seconds"]))

    def body(self, text: str, pointer: str) -> bytes:
        """The bytes of a message. Text that is no Base64 is handed on as it is, for who refuses it."""
        if pointer.startswith(self._large) and self.bucket:  # nobody makes us read other objects
            answer = self.client("s3").get_object(Bucket=self.bucket, Key=pointer)
            data: bytes = answer["Body"].read(self.max_bytes + 1)
            answer["Body"].close()
            return data
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            return text.encode()

    # --- the rest ---

    def ping(self, timeout: float) -> None:
        """Ask for the queue; boto3's own time-outs are longer than ``timeout`` may be."""
        with _asking():
            self.client().get_queue_url(QueueName=self.queue)

    def close(self) -> None:
        """End the connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()


def _attributes(message: Outgoing) -> dict[str, str]:
    attributes = {
        "prism-envelope-version": "1",
        "prism-message-id": header_text(message.message_id),
        "prism-topic": message.topic,
    }
    if message.trace_id is not None:
        attributes["prism-trace-id"] = message.trace_id
    if message.key:  # no attribute is empty
        attributes["prism-key"] = header_text(message.key)
    if message.hops:
        attributes[_HOPS] = message.hops
    return attributes


def _id(text: str) -> str:
    visible = header_text(text)
    return visible if 0 < len(visible) <= _MAX_ID else sha256(text.encode()).hexdigest()


def _parts(entries: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """What one request takes."""
    part: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        own = len(entry["MessageBody"]) + _ROOM
        if part and (len(part) == MAX_ENTRIES or size + own > MAX_ENTRY_BYTES):
            yield part
            part, size = [], 0
        part.append(entry)
        size += own
    if part:
        yield part


def _of_entry(failed: Mapping[str, Any]) -> Exception:
    code = str(failed.get("Code", ""))[:40]
    if failed.get("SenderFault"):
        return BackendRefusedError(f"SQS refuses a message ({code})")
    return BackendAwayError(f"SQS did not take a message ({code}): try again")


class SqsSubscription:
    """A consumer of the queue's one group. What its pattern does not cover is left to others."""

    def __init__(self, backend: SqsBackend, pattern: str, group: str, start: str, lease_seconds: int) -> None:
        self._backend, self._pattern, self._group, self._start = backend, pattern, group, start
        self._lease = lease_seconds
        self._since_ms = -1
        self._held: dict[str, None] = {}
        """Receipts of what was delivered and is not acknowledged."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._last = ""

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """At most ten at a time, as SQS gives them."""
        deadline = monotonic() + timeout
        with _asking():
            if self._since_ms < 0:
                self._join()
            while True:
                found = self._come(min(limit, MAX_ENTRIES), deadline - monotonic())
                if found or monotonic() >= deadline:
                    return found
                self._ended.wait(max(0.0, min(_PAUSE_SECONDS, deadline - monotonic())))

    def _join(self) -> None:
        """Be of the queue's one group, or make it. A new one that begins at the end passes over what is there."""
        client, url = self._backend.client(), self._backend.url()
        tags = client.list_queue_tags(QueueUrl=url).get("Tags", {})
        if tags.get(_GROUP_TAG, self._group) != self._group:
            raise BackendRefusedError(
                f"the messages of queue {self._backend.queue} are consumed by another group: use its name"
            )
        if _GROUP_TAG not in tags:
            since = 0 if self._start == "earliest" else time.time_ns() // 1_000_000
            tags = {_GROUP_TAG: self._group, _SINCE_TAG: str(since)}
            client.tag_queue(QueueUrl=url, Tags=tags)
        self._since_ms = int(tags.get(_SINCE_TAG, "0"))
        self._renewing = threading.Thread(target=self._renew, name="speed-sqs-lease", daemon=True)
        self._renewing.start()

    def _come(self, limit: int, seconds: float) -> list[Delivered]:
        answer = self._backend.client().receive_message(
            QueueUrl=self._backend.url(),
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=int(min(max(seconds, 0.0), 5.0)),
            VisibilityTimeout=self._lease,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
        )
        early, found = [], []
        for entry in answer.get("Messages", ()):
            attributes = {name: one.get("StringValue", "") for name, one in entry.get("MessageAttributes", {}).items()}
            topic = attributes.get("prism-topic", "")
            if int(entry["Attributes"]["SentTimestamp"]) < self._since_ms:
                early.append(entry["ReceiptHandle"])
            elif not topic or matches(self._pattern, topic):
                found.append(self._delivered(entry, attributes))
        self._delete(early)
        with self._lock:
            self._held.update((one.handle, None) for one in found)
        return found

    def _delivered(self, entry: Mapping[str, Any], attributes: Mapping[str, str]) -> Delivered:
        self._last = str(entry["MessageId"])
        key = attributes.get("prism-key")
        return Delivered(
            attributes.get("prism-topic", ""),
            None if key is None else text_of_header(key),
            self._backend.body(entry["Body"], attributes.get(_POINTER, "")),
            self._last,
            deliveries=int(entry["Attributes"].get("ApproximateReceiveCount", "1")),
            handle=str(entry["ReceiptHandle"]),
            hops=attributes.get(_HOPS, ""),
        )

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """They are removed from the queue."""
        receipts = [one.handle for one in delivered]
        with _asking():
            self._delete(receipts)
        with self._lock:
            for receipt in receipts:
                self._held.pop(receipt, None)

    def leave(self, delivered: Sequence[Delivered]) -> None:
        """Members of the group in other namespaces get them once their lease ends, as what no pattern covers."""
        with self._lock:
            for one in delivered:
                self._held.pop(one.handle, None)

    def _delete(self, receipts: Sequence[str]) -> None:
        client, url = self._backend.client(), self._backend.url()
        for first in range(0, len(receipts), MAX_ENTRIES):
            client.delete_message_batch(QueueUrl=url, Entries=_receipts(receipts[first : first + MAX_ENTRIES]))

    def positions(self) -> dict[str, str]:
        """The last message that came; the queue knows which of those before are acknowledged."""
        return {self._backend.queue: self._last} if self._last else {}

    # --- the lease ---

    def _renew(self) -> None:
        while not self._ended.wait(self._lease / 3):
            self._hold(self._lease)

    def _hold(self, seconds: int) -> None:
        """Keep what is held from others for so long; what the queue did not hear comes again."""
        with self._lock:
            receipts = list(self._held)
        try:
            client, url = self._backend.client(), self._backend.url()
            for first in range(0, len(receipts), MAX_ENTRIES):
                entries = _receipts(receipts[first : first + MAX_ENTRIES])
                more = [{**entry, "VisibilityTimeout": seconds} for entry in entries]
                client.change_message_visibility_batch(QueueUrl=url, Entries=more)
        except aws.FAILURES as error:
            log.debug("a lease in SQS was not renewed: %s", type(error).__name__)

    def close(self) -> None:
        """Give back what is held."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(_JOIN_SECONDS)
            self._hold(0)
        self._held.clear()


def _receipts(handles: Sequence[str]) -> list[dict[str, Any]]:
    return [{"Id": str(place), "ReceiptHandle": handle} for place, handle in enumerate(handles)]


__all__ = ["SqsBackend"]
