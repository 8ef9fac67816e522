"""Record what a real Pulsar answers: ``python -m tests.pulsar.record`` writes ``conversations.json`` anew.

Each conversation is a list of steps on named connections, each beginning with ``open``. In what was received, ids and
times are replaced by names, as ``<id 1>`` for the first id of the conversation; in what is sent, such a name stands for
the id. ``{topic}`` is a topic of the conversation's own.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.pulsar.standalone import Server

FILE = Path(__file__).with_name("conversations.json")
QUIET_SECONDS = 1.5
ANSWER_SECONDS = 8.0
P, C = "producer/persistent/public/default/{topic}", "consumer/persistent/public/default/{topic}/billing"
R = "reader/persistent/public/default/{topic}"
KEYS = quote(b64encode(json.dumps({"app": {"keyValue": "AAAA", "metadata": {}}}).encode()).decode(), safe="")
TWO = json.dumps({"a": {"keyValue": "AAAA", "metadata": {}}, "b": {"keyValue": "BBBB", "metadata": {}}}).encode()
TWO_KEYS = quote(b64encode(TWO).decode(), safe="")
HELLO = '{"payload": "aGVsbG8=", "context": "1"}'
IV = "AAAAAAAAAAAAAAAA"
BY_SERVER = P + "?encryptionKeys=held"
HELD = frozenset({"held", "held2"})
FLEETING = C + "?subscriptionMode=NonDurable&subscriptionType=Shared"

Step = tuple[Any, ...]
"""``("open", NAME, PATH)``, ``("send", NAME, FRAME)``, ``("receive", NAME, COUNT)`` or ``("close", NAME)``. After the
frames that are expected, ``receive`` waits whether more comes or the connection ends."""


def published(frame: str, path: str = P, count: int = 1) -> list[Step]:
    return [("open", "p", path), ("send", "p", frame), ("receive", "p", count)]


def asked(frame: str, count: int, path: str = C) -> list[Step]:
    return [("open", "c", path), ("send", "c", frame), ("receive", "c", count)]


def delivered(*more: Step, path: str = C, keys: str = "", frame: str = HELLO) -> list[Step]:
    """One message published and delivered."""
    return [("open", "c", path), *published(frame, P + keys), ("receive", "c", 1), *more]


CONVERSATIONS: dict[str, list[Step]] = {
    "a message is published": published(HELLO),
    "a number as context comes back as text": published('{"payload": "aGVsbG8=", "context": 5}'),
    "without context none comes back": published('{"payload": "aGVsbG8="}'),
    "an object as context is refused": published('{"payload": "aGVsbG8=", "context": {}}'),
    "what is not JSON is refused": published("hello"),
    "an array is refused": published("[]"),
    "an empty frame is refused": published(""),
    "a payload that is not base64 is refused": published('{"payload": "?", "context": "1"}'),
    "a message without payload is refused": published('{"context": "1"}'),
    "an empty payload is published": published('{"payload": "", "context": "1"}'),
    "unknown fields are ignored": published('{"payload": "aGVsbG8=", "context": "1", "colour": "red"}'),
    "an event time that is none is refused": published('{"payload": "aGVsbG8=", "eventTime": "yesterday"}'),
    "a property that is a number is published": published('{"payload": "aGVsbG8=", "properties": {"a": 1}}'),
    "a property that is null ends the connection": published(
        '{"payload": "aGVsbG8=", "properties": {"a": null}}', P, 0
    ),
    "a frame above 1 MiB ends the connection": published('{"payload": "<1 MiB of A>"}', P, 0),
    "unknown parameters are ignored": published(HELLO, P + "?colour=red"),
    "a time-out that is no number is refused": [("open", "p", P + "?sendTimeoutMillis=soon")],
    "an unknown compression is refused": [("open", "p", P + "?compressionType=RAR")],
    "a topic without name is refused": [("open", "p", "producer/persistent/public/default")],
    "a namespace that does not exist is refused": [("open", "p", "producer/persistent/public/nowhere/{topic}")],
    "an unknown domain is refused": [("open", "p", "producer/eternal/public/default/{topic}")],
    "a subscription is needed": [("open", "c", "consumer/persistent/public/default/{topic}")],
    "an unknown type of subscription is refused": [("open", "c", C + "?subscriptionType=Joint")],
    "an exclusive subscription has one consumer": [("open", "c", C), ("open", "d", C)],
    "a producer's name is its own": [("open", "p", P + "?producerName=x"), ("open", "q", P + "?producerName=x")],
    "a message is delivered": delivered(
        frame='{"payload": "aGVsbG8=", "key": "k", "properties": {"a": "b"}, "eventTime": "2020-01-02T03:04:05.006Z"}'
    ),
    "an acknowledged message does not come again": delivered(
        ("send", "c", '{"messageId": "<id 1>"}'),
        ("receive", "c", 0),
        ("close", "c"),
        ("open", "d", C),
        ("receive", "d", 0),
    ),
    "an unacknowledged message comes again": delivered(("close", "c"), ("open", "d", C), ("receive", "d", 1)),
    "a refused message comes again": delivered(
        ("send", "c", '{"type": "negativeAcknowledge", "messageId": "<id 1>"}'),
        ("receive", "c", 1),
        path=C + "?subscriptionType=Shared&negativeAckRedeliveryDelay=1000",
    ),
    "a command of another type acknowledges": delivered(
        ("send", "c", '{"type": "sing", "messageId": "<id 1>"}'),
        ("receive", "c", 0),
        ("close", "c"),
        ("open", "d", C),
        ("receive", "d", 0),
    ),
    "an acknowledgement of no id ends the connection": asked('{"messageId": "?"}', 0),
    "a command that is not JSON": asked("hello", 0),
    "a command without id": asked("{}", 0),
    "an id of another topic": asked('{"messageId": "CP///38QABgA"}', 0),
    "whether the topic has ended": asked('{"type": "isEndOfTopic"}', 1),
    "a reader asks whether the topic has ended": asked('{"type": "isEndOfTopic"}', 1, R),
    "with permits one message comes for each": [
        ("open", "c", C + "?pullMode=true"),
        *published(HELLO),
        ("send", "p", HELLO),
        ("receive", "p", 1),
        ("receive", "c", 0),
        ("send", "c", '{"type": "permit", "permitMessages": 1}'),
        ("receive", "c", 1),
    ],
    "permits without number": [
        ("open", "c", C + "?pullMode=true"),
        ("send", "c", '{"type": "permit"}'),
        ("receive", "c", 0),
    ],
    "a subscription is taken back": delivered(
        ("send", "c", '{"type": "unsubscribe"}'),
        ("receive", "c", 0),
        ("open", "d", C),
        ("receive", "d", 0),
    ),
    "a subscription that is not durable goes with its last consumer": delivered(
        ("close", "c"), ("open", "d", FLEETING), ("receive", "d", 0), path=FLEETING
    ),
    "a subscription that is not durable is kept for its other consumers": [
        ("open", "c", FLEETING + "&receiverQueueSize=1"),
        *published(HELLO),
        ("receive", "c", 1),
        ("open", "d", FLEETING),
        ("close", "c"),
        ("receive", "d", 1),
    ],
    "an acknowledged message of a subscription that is not durable": delivered(
        ("send", "c", '{"messageId": "<id 1>"}'), ("receive", "c", 0), path=FLEETING
    ),
    "a durable consumer of a subscription that is not": [
        ("open", "c", FLEETING),
        ("open", "d", C + "?subscriptionType=Shared"),
    ],
    "a consumer that is not durable of a subscription that is": [
        ("open", "c", C + "?subscriptionType=Shared"),
        ("open", "d", FLEETING),
    ],
    "a subscription that is not durable is taken back": delivered(
        ("send", "c", '{"type": "unsubscribe"}'), ("receive", "c", 0), path=FLEETING
    ),
    "an unknown mode of a subscription is refused": [("open", "c", C + "?subscriptionMode=Sometimes")],
    "a reader begins with the earliest": [
        *published(HELLO),
        ("open", "r", R + "?messageId=earliest"),
        ("receive", "r", 1),
    ],
    "a reader begins with what comes": [*published(HELLO), ("open", "r", R), ("receive", "r", 0)],
    "a reader from an id that is none": [("open", "r", R + "?messageId=?")],
    "a queue of one delivers the next after an acknowledgement": delivered(
        ("send", "p", HELLO),
        ("receive", "p", 1),
        ("receive", "c", 0),
        ("send", "c", '{"messageId": "<id 1>"}'),
        ("receive", "c", 1),
        path=C + "?receiverQueueSize=1",
    ),
    "an encrypted message is delivered as it is": delivered(
        path=C + "?cryptoFailureAction=CONSUME",
        keys="?encryptionKeys=" + KEYS,
        frame=f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}", "compressionType": "LZ4", '
        '"uncompressedMessageSize": 5}',
    ),
    "an encrypted message without compression": delivered(
        path=C + "?cryptoFailureAction=CONSUME",
        keys="?encryptionKeys=" + KEYS,
        frame=f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}',
    ),
    "an encrypted message is not delivered by default": delivered(
        keys="?encryptionKeys=" + KEYS,
        frame=f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}',
    ),
    "an encrypted message is discarded if that is asked": delivered(
        path=C + "?cryptoFailureAction=DISCARD",
        keys="?encryptionKeys=" + KEYS,
        frame=f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}',
    ),
    "a reader is not told of encryption": [
        *published(f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}', P + "?encryptionKeys=" + KEYS),
        ("open", "r", R + "?messageId=earliest&cryptoFailureAction=CONSUME"),
        ("receive", "r", 1),
    ],
    "a compression without size is refused": published(
        f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}", "compressionType": "LZ4"}}',
        P + "?encryptionKeys=" + KEYS,
    ),
    "a size without compression is refused": published(
        f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}", "uncompressedMessageSize": 5}}',
        P + "?encryptionKeys=" + KEYS,
    ),
    "an IV that is not base64 is refused": published(
        '{"payload": "aGVsbG8=", "encryptionParam": "?"}', P + "?encryptionKeys=" + KEYS
    ),
    "encryption without IV is accepted": published(HELLO, P + "?encryptionKeys=" + KEYS),
    "two recipients": published(
        f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}', P + "?encryptionKeys=" + TWO_KEYS
    ),
    "an IV without keys is ignored": published(f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}'),
}
"""With a server that has no keys."""
WITH_KEYS: dict[str, list[Step]] = {
    "the server encrypts and decrypts with a key that is named": [
        ("open", "c", C),
        *published(HELLO, BY_SERVER),
        ("receive", "c", 1),
    ],
    "what the server encrypted with two keys": [
        ("open", "c", C),
        *published(HELLO, BY_SERVER + ",held2"),
        ("receive", "c", 1),
    ],
    "what the server compresses and encrypts": [
        ("open", "c", C + "?cryptoFailureAction=CONSUME"),
        *published(HELLO, BY_SERVER + "&compressionType=LZ4"),
        ("receive", "c", 1),
    ],
    "what the server encrypted comes to a reader": [
        *published(HELLO, BY_SERVER),
        ("open", "r", R + "?messageId=earliest"),
        ("receive", "r", 1),
    ],
    "an IV is ignored when the server encrypts": published(
        f'{{"payload": "aGVsbG8=", "encryptionParam": "{IV}"}}', BY_SERVER
    ),
    "a key that the server does not have": [("open", "p", P + "?encryptionKeys=nobody")],
    "a key that the server does not have beside one that it has": [("open", "p", BY_SERVER + ",nobody")],
}
"""With a server that has the keys ``HELD``."""


class Talk:
    """One conversation with the server at ``address``."""

    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._sockets: dict[str, Any] = {}
        self._ids: list[str] = []

    def step(self, step: Step) -> list[dict[str, Any]]:
        """What happened, as it is written down."""
        did: list[dict[str, Any]] = getattr(self, step[0])(*step[1:])
        return did

    def open(self, name: str, path: str) -> list[dict[str, Any]]:
        url = f"{self._address}/ws/v2/{path.replace('{topic}', self._topic)}"
        try:
            self._sockets[name] = connect(url, proxy=None, open_timeout=ANSWER_SECONDS, close_timeout=2).__enter__()
            status = 101
        except InvalidStatus as error:
            status = error.response.status_code
        return [{"open": name, "path": f"/ws/v2/{path}", "status": status}]

    def send(self, name: str, frame: str) -> list[dict[str, Any]]:
        told = re.sub(r"<id (\d+)>", lambda found: self._ids[int(found[1]) - 1], frame)
        self._sockets[name].send(told.replace("<1 MiB of A>", "A" * (1 << 20)))
        return [{"send": name, "frame": frame}]

    def receive(self, name: str, count: int) -> list[dict[str, Any]]:
        got: list[dict[str, Any]] = []
        try:
            while True:
                frame = self._sockets[name].recv(ANSWER_SECONDS if len(got) < count else QUIET_SECONDS)
                got.append({"receive": name, "frame": self._normal(json.loads(frame))})
        except TimeoutError:
            return got or [{"receive": name, "nothing": True}]
        except ConnectionClosed as error:
            return [*got, {"receive": name, "closed": error.rcvd.code if error.rcvd else None}]

    def close(self, name: str) -> list[dict[str, Any]]:
        self._sockets.pop(name).close()
        return [{"close": name}]

    def end(self) -> None:
        for socket in self._sockets.values():
            socket.close()

    def _normal(self, frame: Any) -> Any:
        if "messageId" in frame:
            if frame["messageId"] not in self._ids:
                self._ids.append(frame["messageId"])
            frame["messageId"] = f"<id {self._ids.index(frame['messageId']) + 1}>"
        if "publishTime" in frame:
            frame["publishTime"] = "<time>"
        context = frame.get("encryptionContext", {})
        for name in HELD & context.get("keys", {}).keys():  # what the server made up
            context["keys"][name]["keyValue"], context["param"] = "<key>", "<IV>"
        return frame


def recorded(address: str, conversations: Mapping[str, Sequence[Step]]) -> list[dict[str, Any]]:
    found = []
    for number, (title, steps) in enumerate(conversations.items()):
        talk = Talk(address, f"talk-{int(time.time())}-{number}")
        try:
            found.append({"title": title, "steps": [done for step in steps for done in talk.step(step)]})
        except (OSError, ConnectionClosed, KeyError, IndexError) as error:
            print(f"{title}: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            talk.end()
        print(title, file=sys.stderr)
    return found


def of_server(conversations: Mapping[str, Sequence[Step]], held: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What a Pulsar answers that has the keys ``held``."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory), held)
        try:
            return recorded(server.addresses["websocket"], conversations)
        finally:
            server.stop()


def main() -> int:
    found = {"conversations": of_server(CONVERSATIONS), "with_keys": of_server(WITH_KEYS, sorted(HELD))}
    FILE.write_text(json.dumps({"server": "Apache Pulsar 4.0.1", **found}, indent=1) + "\n")
    return 0 if [len(one) for one in found.values()] == [len(CONVERSATIONS), len(WITH_KEYS)] else 1


if __name__ == "__main__":
    sys.exit(main())
