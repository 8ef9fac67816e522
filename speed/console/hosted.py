"""What speedd hosts, for the console's page: durable topics and the journal; and what the page may do."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from speed.console.views import ConsoleSources, NotFoundError
from speed.errors import InvalidArgumentsError, JournalError, SpeedError, WireError
from speed.fs.dead_letters import DeadLetters
from speed.fs.keyfile import load_key_file
from speed.journal import Journal
from speed.journal.files import read_call
from speed.message.errors import MessageError
from speed.node.consumer import read_message
from speed.observe import Finding
from speed.topics.backend import cure_of_unread, unread_text
from speed.wire.names import check_node_name, check_service_name, matches

if TYPE_CHECKING:
    from speed.journal import LaneInfo, Record
    from speed.message.view import MessageView
    from speed.topics.backend import HostedTopic

MAX_TOPICS: Final = 500
PEEKED: Final = 20
MAX_FOUND: Final = 200
MAX_SEARCHED: Final = 200_000
SEARCH_SECONDS: Final = 8.0
"""A search ends then, with what it has found."""
MAX_CALL_SECONDS: Final = 25.0
_COUNTED = ("backlog", "in_flight", "waiting", "delayed", "dead")
Arguments = Mapping[str, Any]


class HostedViews:
    """Topics and journal. Payloads are shown of topics that speedd's node may consume, nothing else. Thread-safe."""

    def __init__(self, around: ConsoleSources) -> None:
        self._around, self._hosting = around, around.hosting

    # --- topics ---

    def topics(self) -> dict[str, Any]:
        """All topics with their subscriptions, and those that cannot be used."""
        if self._hosting is None:
            return {"hosted": False, "topics": [], "broken": {}}
        store = self._hosting.topics
        with store.lock:
            found = [self._row(topic) for _, topic in zip(range(MAX_TOPICS), store.every(), strict=False)]
            broken = dict(store.broken)
        return {"hosted": True, "topics": sorted(found, key=lambda row: row["topic"]), "broken": broken}

    def _row(self, topic: HostedTopic) -> dict[str, Any]:
        row = topic.described()
        rights = {right: self._may(right, topic.name, row["parent"]) for right in ("consume", "manage")}
        return {**row, "producers": len(row["producers"]), **rights}

    def _may(self, right: str, topic: str, parent: str) -> bool:
        assert self._hosting is not None
        access, name = self._hosting.host.access, self._around.node.name
        return access.allows(name, right, topic) or bool(parent and access.allows(name, right, parent))

    def messages(self, topic: str, start: int | str) -> dict[str, Any]:
        """Some messages from an offset on, or the newest ones. Raises NotFoundError, SubscriptionError."""
        if self._hosting is None:
            raise NotFoundError("speedd hosts no topics")
        host, name = self._hosting.host, self._around.node.name
        if start == "newest":
            end = host.ask(name, "describe", topic=topic)["end"]
            start = max(0, end - PEEKED)
        answer = host.ask(name, "read", topic=topic, start=start, most=PEEKED)
        shown = [_message(topic, answer["lane"], row) for row in answer["messages"]]
        return {"topic": topic, "next": answer["next"], "messages": shown}

    def findings(self) -> list[Finding]:
        """Topics that cannot be used, and subscriptions that nobody reads."""
        found = self.topics()
        broken = [
            Finding(f"topic {name}", "broken", f"cannot be used: {why}", "see `speed root doctor`")
            for name, why in found["broken"].items()
        ]
        return [*broken, *(one for row in found["topics"] for one in _unread(row))]

    # --- the journal ---

    def journal(self, wanted: JournalSearch) -> dict[str, Any]:
        """The newest records that match, newest first; ``whole`` says whether all were looked at."""
        if self._around.journal is None:
            return {"kept": False, "records": [], "whole": True, "lanes": []}
        journal = Journal(self._around.journal, self._around.key)
        lanes, damaged = journal.survey()
        ends, found, is_whole = time.monotonic() + SEARCH_SECONDS, deque[dict[str, Any]](maxlen=MAX_FOUND), True
        for number, (info, record) in enumerate(_records(journal, lanes, wanted)):
            if number >= MAX_SEARCHED or time.monotonic() > ends:
                is_whole = False
                break
            row = _record_row(info, record)
            if wanted.has(row):
                found.append(row)
        newest = sorted(found, key=lambda row: (-row["at"], -row["offset"]))
        known = [{"kind": one.kind, "subject": one.subject, "source": one.source} for one in lanes[:MAX_FOUND]]
        why = [str(error) for error in damaged.values()]
        return {"kept": True, "records": newest, "whole": is_whole, "lanes": known, "damaged": why}


def _unread(row: Mapping[str, Any]) -> Iterator[Finding]:
    for one in row["subscriptions"]:
        if one["backlog"] and not one["consumers"]:
            found, todo = unread_text(one["backlog"]), cure_of_unread(row["topic"], one["subscription"])
            yield Finding(f"subscription {row['topic']} {one['subscription']}", "warning", found, todo)


def _message(topic: str, lane: str, row: Any) -> dict[str, Any]:
    offset, recorded_ms = row[0], row[2]
    try:
        one = read_message(topic, lane, row)
        about = {"key": one.key, "publisher": one.publisher, "properties": dict(one.properties)}
        return {"offset": offset, "at": recorded_ms / 1000, **about, "payload": one.payload}
    except (SpeedError, ValueError) as error:
        return {"offset": offset, "at": recorded_ms / 1000, "damaged": str(error)}


@dataclass(frozen=True)
class JournalSearch:
    """Which records are wanted: patterns as of grants, a text that they contain in any case, and how old they are."""

    subject: str = "*"
    source: str = "*"
    text: str = ""
    since_seconds: float = 3600.0

    def covers(self, lane: LaneInfo) -> bool:
        return matches(self.subject or "*", lane.subject) and matches(self.source or "*", lane.source)

    def has(self, row: Mapping[str, Any]) -> bool:
        return not self.text or self.text.casefold() in json.dumps(row, default=str, ensure_ascii=False).casefold()


def _records(journal: Journal, lanes: list[LaneInfo], wanted: JournalSearch) -> Iterator[tuple[LaneInfo, Record]]:
    """Damage, or retention, in one lane ends that one."""
    since_ms = int((time.time() - wanted.since_seconds) * 1000)
    for info in filter(wanted.covers, lanes):
        try:
            start, end = journal.offset_at(info.id, max(0, since_ms)), journal.end(info.id, skip_damaged=True)
            for record in journal.read(info.id, start, end, skip_damaged=True):
                if record.recorded_at_ms >= since_ms:
                    yield info, record
        except JournalError:
            continue


def _record_row(info: LaneInfo, record: Record) -> dict[str, Any]:
    where = {"subject": info.subject, "kind": info.kind, "source": record.source, "offset": record.offset}
    row = {"at": record.recorded_at_ms / 1000, **where}
    try:
        if info.kind == "calls":
            return {**row, "value": read_call(record, info.subject)._asdict()}
        return {**row, "value": _payload(record.view)}
    except WireError as error:
        return {**row, "value": f"<cannot be read: {error.code}>"}


def _payload(view: MessageView) -> Any:
    """The value of a message, if it travelled open and holds nothing personal."""
    size = len(view.payload_bytes)
    if view.is_encrypted:
        return f"<{size} bytes, encrypted>"
    if view.security.contains_pii:
        return f"<{size} bytes, personal>"
    if view.payload_encoding != "none" or view.content_encoding != "none":
        return f"<{size} bytes, compressed>"
    try:
        return view.payload
    except (MessageError, WireError) as error:
        return f"<{size} bytes of {view.content_type}: {error.code}>"


# What a page may do, where [console] says so. Each raises InvalidArgumentsError for a body that is none of its own.


class ConsoleActions:
    """Thread-safe."""

    def __init__(self, around: ConsoleSources) -> None:
        self._around = around

    def all(self) -> dict[str, Callable[[Arguments], Any]]:
        """Each by its name in an address."""
        return {"call": self.call, "seek": self.seek, "redrive": self.redrive, "retry": self.retry}

    def call(self, body: Arguments) -> dict[str, Any]:
        """Call a service as speedd's own node."""
        node, service = check_node_name(_text(body, "node")), check_service_name(_text(body, "service"))
        arguments = body.get("arguments")
        if not isinstance(arguments, dict):
            raise InvalidArgumentsError("arguments are an object")
        began = time.monotonic()
        result = self._around.node.call(node, service, arguments, timeout=MAX_CALL_SECONDS)
        return {"result": result, "seconds": time.monotonic() - began}

    def seek(self, body: Arguments) -> Any:
        """Have a subscription begin anew at a place; speedd's node needs the right to manage the topic."""
        to = body.get("to")
        if not (to in ("earliest", "latest") or type(to) is int):
            raise InvalidArgumentsError("to is earliest, latest, or an offset")
        return self._host_says("seek", topic=_text(body, "topic"), subscription=_text(body, "subscription"), to=to)

    def redrive(self, body: Arguments) -> Any:
        """Publish dead letters anew where they came from; speedd's node needs the right to manage both topics."""
        return self._host_says("redrive", topic=_text(body, "topic"))

    def _host_says(self, service: str, **arguments: Any) -> Any:
        """What the host of the topics answers to speedd's node."""
        if self._around.hosting is None:
            raise NotFoundError("speedd hosts no topics")
        return self._around.hosting.host.ask(self._around.node.name, service, **arguments)

    def retry(self, body: Arguments) -> dict[str, Any]:
        """Have a node handle one dead letter once more."""
        node, number = check_node_name(_text(body, "node")), body.get("number")
        if type(number) is not int or number < 1:
            raise InvalidArgumentsError("number is that of a dead letter")
        letters = DeadLetters(self._around.node.root, node, load_key_file(self._around.key))
        if not letters.move(number, "letter", "retry"):
            raise NotFoundError(f"{node} has no dead letter {number} that waits for somebody")
        return {"node": node, "number": number}


def _text(body: Arguments, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise InvalidArgumentsError(f"{name} is a text")
    return value
