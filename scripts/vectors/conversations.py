"""What a client of durable topics asks its host, and what its program sees of the answers (D-5 to D-14, D-18, D-19)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import TIME
from scripts.vectors.payloads import tagged
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, RecordHead, encode, key_hash
from speed.wire.value import pack

LANE = bytes(range(0x60, 0x70)).hex()
EPOCH = 0x0A1B2C3D4E5F
WAITS = 60
"""So many seconds the program waits where the host is to be asked for all of `topic_wait_seconds`."""
JOINED = {"topic": "orders", "subscription": "billing", "consumer": "b-1"}
TERMS = {"type": "exclusive", "start": "latest", "max_deliveries": 0, "ack_timeout_ms": 0, "dead_letter": ""}
Step = dict[str, Any]
Row = list[Any]


def conversations() -> list[dict[str, Any]]:
    """Each is begun with a topic object of the name `orders`."""
    return [*_publishing(), *_consuming(), *_joining_again(), *_reading(), *_refusals()]


def _case(name: str, bug: str, *steps: Step) -> dict[str, Any]:
    return {"name": name, "bug": bug, "steps": list(steps)}


def _step(do: str, given: dict[str, Any], host: list[Step], gives: Any = None) -> Step:
    return {"do": do, "given": given, "host": host, "gives": gives}


def _raises(do: str, given: dict[str, Any], host: list[Step], code: str) -> Step:
    return {"do": do, "given": given, "host": host, "raises": code}


def _answered(service: str, arguments: dict[str, Any], answer: Any) -> Step:
    return {"service": f"topics.{service}", "arguments": tagged(arguments), "answer": tagged(answer)}


def _refused(service: str, arguments: dict[str, Any], code: str) -> Step:
    return {"service": f"topics.{service}", "arguments": tagged(arguments), "refusal": code}


# --- publishing ---


def _publish(
    messages: list[dict[str, Any]], *offsets: int, producer: str = "", repeated: list[int] | None = None
) -> Step:
    named = {"producer": producer} if producer else {}
    answer = {"lane": LANE, "offsets": list(offsets), "repeated": repeated or []}
    return _answered("publish", {"topic": "orders", "messages": messages, **named}, answer)


def _kept(offset: int, *, duplicate: bool = False) -> dict[str, Any]:
    """What the program is told of a message that it published."""
    return {"offset": offset, "duplicate": duplicate}


def _publishing() -> list[dict[str, Any]]:
    seven = tagged(7)
    told = {"key": "customer 7", "properties": {"source": "web"}, "due_ms": TIME, "sequence": 9}
    given = {**told, "producer": "shop"}
    whole = {"payload": pack({"id": 1, "amount": 20.5}), **told}
    two = [{"payload": pack("a"), "key": "k", "sequence": 5}, {"payload": pack(None), "sequence": 6}]
    gone = {"payload": b"", "key": "customer 7", "tombstone": True}
    return [
        _case(
            "publish",
            "a field that was not given is sent",
            _step("publish", {"payload": seven}, [_publish([{"payload": pack(7)}], 0)], _kept(0)),
        ),
        _case(
            "publish with all that can be said",
            "a field under another name",
            _step(
                "publish",
                {"payload": tagged({"id": 1, "amount": 20.5}), **given},
                [_publish([whole], 3, producer="shop")],
                _kept(3),
            ),
        ),
        _case(
            "publish again",
            "a repetition taken for another message; one whose offset the host forgot taken for none",
            *(
                _step(
                    "publish",
                    {"payload": seven, "producer": "shop", "sequence": 9},
                    [_publish([{"payload": pack(7), "sequence": 9}], offset, producer="shop", repeated=[0])],
                    _kept(offset, duplicate=True),
                )
                for offset in (3, -1)
            ),
        ),
        _case(
            "publish a batch",
            "one sequence for all, or a key that was not given",
            _step(
                "publish_batch",
                {"payloads": tagged(["a", None]), "keys": ["k", None], "producer": "shop", "sequence": 5},
                [_publish(two, 2, 8, producer="shop", repeated=[0])],
                [_kept(2, duplicate=True), _kept(8)],
            ),
            _step("publish_batch", {"payloads": []}, [], []),
        ),
        _case(
            "delete a key",
            "nil published instead of nothing",
            _step("delete_key", {"key": "customer 7"}, [_publish([gone], 4)], _kept(4)),
        ),
        _case(
            "publish while the host allows nobody",
            "a host that has just started taken for one that refuses",
            _step(
                "publish",
                {"payload": seven},
                [
                    _refused("publish", {"topic": "orders", "messages": [{"payload": pack(7)}]}, "ACCESS_DENIED"),
                    _publish([{"payload": pack(7)}], 0),
                ],
                _kept(0),
            ),
        ),
    ]


# --- consuming ---


def _row(offset: int, attempts: int, payload: Any, head: RecordHead | None = None, **about: Any) -> Row:
    head = head or RecordHead(key_hash=key_hash(about["key"]) if "key" in about else 0)
    packed = b"" if head.type == TOMBSTONE else pack(payload)
    return [offset, attempts, TIME + offset, encode(head, {"publisher": "shop.1", **about}, packed)]


def _seen(offset: int, attempts: int, payload: Any, **told: Any) -> dict[str, Any]:
    """What the program sees of such a row."""
    plain = {
        "offset": offset,
        "attempts": attempts,
        "redelivered": attempts > 1,
        "recorded_at_ms": TIME + offset,
        "payload": tagged(payload),
        "key": None,
        "properties": {},
        "publisher": "shop.1",
        "producer": "",
        "sequence": 0,
        "is_tombstone": False,
        "origin": None,
        "failed_attempts": 0,
    }
    assert told.keys() <= plain.keys()
    return {**plain, **told}


def _subscribe(**terms: Any) -> Step:
    return _answered("subscribe", {**JOINED, **TERMS, **terms}, {"lane": LANE, "epoch": EPOCH, "cursor": 0})


def _joins(**given: Any) -> Step:
    """The program makes a consumer with the usual terms."""
    return _step("consumer", {"subscription": "billing", "name": "b-1", **given}, [_subscribe()])


def _asked(got: int, wait_ms: int = 5000, most: int = 100) -> dict[str, Any]:
    return {**JOINED, "most": most, "got": got, "wait_ms": wait_ms, "begin": 1}


def _receive(got: int, batch: int, *rows: Row, wait_ms: int = 5000, most: int = 100) -> Step:
    answer = {"lane": LANE, "epoch": EPOCH, "batch": batch, "messages": list(rows)}
    return _answered("receive", _asked(got, wait_ms, most), answer)


def _receives(host: list[Step], gives: Any, timeout: int = WAITS) -> Step:
    return _step("receive", {"timeout": timeout}, host, gives)


def _acknowledges(counted: int, arguments: dict[str, Any], *messages: int) -> Step:
    """``messages``: numbers of what the program received, from 0."""
    asked = {"topic": "orders", "subscription": "billing", "lane": LANE, "epoch": EPOCH, **arguments}
    return _step(
        "acknowledge", {"messages": list(messages)}, [_answered("acknowledge", asked, _settled(counted))], counted
    )


def _settled(counted: int, stale: int = 0) -> dict[str, Any]:
    return {"acknowledged": counted, "stale": stale, "lane": LANE, "epoch": EPOCH}


def _rejects(counted: int, arguments: dict[str, Any], **given: Any) -> Step:
    return _step("reject", given, [_answered("reject", {**JOINED, **arguments}, {"rejected": counted})], counted)


def _closes(*unseen: int) -> Step:
    return _step("close", {}, [_answered("leave", {**JOINED, "unseen": list(unseen)}, {})])


def _consuming() -> list[dict[str, Any]]:
    until = {"topic": "orders", "subscription": "billing", "lane": LANE, "epoch": EPOCH, "until": 1}
    terms = {
        "type": "key-shared",
        "start": {"at_ms": TIME},
        "max_deliveries": 5,
        "ack_timeout_ms": 1500,
        "dead_letter": "orders-billing-DLQ",
    }
    dead = RecordHead(DEAD_LETTER, 5, key_hash("k"), 0, 9)
    told = {"key": "k", "properties": {"a": "b"}, "producer": "shop", "origin": ["sales", 3, "audit"]}
    return [
        _case(
            "receive, acknowledge, leave",
            "a call for each message; what was not handed out counts as delivered",
            _joins(),
            _receives([_receive(0, 1, _row(0, 1, 7), _row(1, 2, "x"), _row(2, 1, None))], _seen(0, 1, 7)),
            _receives([], _seen(1, 2, "x")),
            _acknowledges(2, {"offsets": [0, 1]}, 0, 1),
            _closes(2),
            _receives([], None),
            _step("close", {}, []),
        ),
        _case(
            "acknowledged after a seek",
            "what counts for nothing is raised",
            _joins(),
            _receives([_receive(0, 1, _row(0, 1, 7))], _seen(0, 1, 7)),
            _step(
                "acknowledge",
                {"messages": [0]},
                [
                    _answered(
                        "acknowledge",
                        {"topic": "orders", "subscription": "billing", "lane": LANE, "epoch": EPOCH, "offsets": [0]},
                        {**_settled(0, 1), "epoch": EPOCH + 1},
                    )
                ],
                0,
            ),
            _closes(),
        ),
        _case(
            "nothing to receive",
            "the number of an answer without messages forgotten",
            _joins(prefetch=10),
            _receives([_receive(0, 0, wait_ms=0, most=10)], None, 0),
            _receives([_receive(0, 0, most=10), _receive(0, 1, _row(0, 1, 7), most=10)], _seen(0, 1, 7)),
            _receives([_receive(1, 1, wait_ms=0, most=10)], None, 0),
            _closes(),
        ),
        _case(
            "terms of a subscription, and a dead letter",
            "seconds sent as milliseconds; the head of a record not read",
            _step(
                "consumer",
                {"subscription": "billing", "name": "b-1", **terms, "dead_letter": True},
                [_subscribe(**terms)],
            ),
            _receives(
                [_receive(0, 1, _row(8, 1, [1, "two"], dead, **told))],
                _seen(8, 1, [1, "two"], **told, sequence=9, failed_attempts=5),
            ),
            _closes(),
        ),
        _case(
            "acknowledge all up to a message",
            "offsets instead of their end",
            _joins(),
            _receives([_receive(0, 1, _row(0, 1, 7), _row(1, 1, 8))], _seen(0, 1, 7)),
            _receives([], _seen(1, 1, 8)),
            _step("acknowledge_until", {"message": 1}, [_answered("acknowledge", until, _settled(2))], 2),
            _closes(),
        ),
        _case(
            "reject",
            "a pause that was not named is sent",
            _joins(),
            _receives([_receive(0, 1, _row(0, 1, 7), _row(1, 1, 8))], _seen(0, 1, 7)),
            _receives([], _seen(1, 1, 8)),
            _rejects(1, {"offsets": [0]}, messages=[0]),
            _rejects(1, {"offsets": [1], "delay_ms": 2500}, messages=[1], delay_ms=2500),
            _receives([_receive(1, 2, _row(0, 2, 7))], _seen(0, 2, 7)),
            _closes(),
        ),
    ]


def _joining_again() -> list[dict[str, Any]]:
    first = _receives([_receive(0, 1, _row(0, 1, 7))], _seen(0, 1, 7))
    return [
        _case(
            "an answer is lost",
            "`got` counts what was asked, not what came",
            _joins(),
            first,
            _receives([_refused("receive", _asked(1), "TIMEOUT"), _receive(1, 3, _row(1, 1, 8))], _seen(1, 1, 8)),
            _receives([_receive(3, 3, wait_ms=0)], None, 0),
            _closes(),
        ),
        _case(
            "the host began anew",
            "`got` of another life; other terms than before",
            _joins(),
            first,
            _receives(
                [_refused("receive", _asked(1), "NOT_JOINED"), _subscribe(), _receive(0, 1, _row(0, 2, 7))],
                _seen(0, 2, 7),
            ),
            _closes(),
        ),
        _case(
            "the host is away while its consumer joins again",
            "joining is tried once",
            _joins(),
            first,
            _receives(
                [
                    _refused("receive", _asked(1), "NOT_JOINED"),
                    _refused("subscribe", {**JOINED, **TERMS}, "TIMEOUT"),
                    _refused("receive", _asked(1), "NOT_JOINED"),
                    _subscribe(),
                    _receive(0, 1, _row(1, 1, 8)),
                ],
                _seen(1, 1, 8),
            ),
            _closes(),
        ),
    ]


# --- reading ---


def _read(start: Any, after: int, *rows: Row, wait_ms: int = 0, most: int = 100) -> Step:
    asked = {"topic": "orders", "start": start, "most": most, "wait_ms": wait_ms}
    return _answered("read", asked, {"lane": LANE, "next": after, "messages": list(rows)})


def _reads(host: list[Step], gives: Any, timeout: int = WAITS) -> Step:
    return _step("read", {"timeout": timeout}, host, gives)


def _reading() -> list[dict[str, Any]]:
    gone = RecordHead(TOMBSTONE, 0, key_hash("b"))
    keyed = [
        _row(0, 0, 1, key="a"),
        _row(1, 0, 2),
        _row(2, 0, 3, key="b"),
        _row(3, 0, 4, key="a"),
        _row(4, 0, None, gone, key="b"),
    ]
    return [
        _case(
            "read",
            "`latest` is later than when it was asked for",
            _step("reader", {"start": "latest"}, [_read("latest", 5)]),
            _reads(
                [_read(5, 5, wait_ms=5000), _read(5, 7, _row(5, 0, 7), _row(6, 0, 8), wait_ms=5000)], _seen(5, 0, 7)
            ),
            _reads([], _seen(6, 0, 8)),
            _reads([_read(7, 7)], None, 0),
        ),
        _case(
            "read the last of each key",
            "a deleted key, or what has no key, or the order",
            _step(
                "reader",
                {"start": "earliest", "prefetch": 3, "compacted": True},
                [
                    _answered("describe", {"topic": "orders"}, {"topic": "orders", "end": 5}),
                    _read("earliest", 3, *keyed[:3], most=3),
                    _read(3, 5, *keyed[3:], most=3),
                ],
            ),
            _reads([], _seen(1, 0, 2)),
            _reads([], _seen(3, 0, 4, key="a")),
            _reads(
                [_read(5, 6, _row(5, 0, None, gone, key="b"), wait_ms=5000, most=3)],
                _seen(5, 0, None, key="b", is_tombstone=True),
            ),
        ),
    ]


# --- refusals ---


def _refusals() -> list[dict[str, Any]]:
    one = {"topic": "orders", "messages": [{"payload": pack(7)}]}
    joining = {"subscription": "billing", "name": "b-1"}
    acknowledged = {"topic": "orders", "subscription": "billing", "lane": LANE, "epoch": EPOCH, "offsets": [0]}
    cut = [0, 1, TIME, bytes(31)]
    return [
        _case(
            "refused publishers",
            "a code of the host's own lost",
            *(
                _raises("publish", {"payload": tagged(7)}, [_refused("publish", one, code)], code)
                for code in ("UNKNOWN_TOPIC", "DENIED", "FULL", "NOT_WRITTEN")
            ),
        ),
        _case(
            "refused consumers",
            "joining tried for ever",
            *(
                _raises("consumer", joining, [_refused("subscribe", {**JOINED, **TERMS}, code)], code)
                for code in ("UNKNOWN_TOPIC", "DENIED", "TAKEN", "FULL", "DAMAGED")
            ),
        ),
        _case(
            "what is refused to a consumer",
            "a consumer that goes on as if nothing were",
            _joins(),
            _raises("receive", {"timeout": WAITS}, [_refused("receive", _asked(0), "DENIED")], "DENIED"),
            _receives([_receive(0, 1, _row(0, 1, 7))], _seen(0, 1, 7)),
            _raises(
                "acknowledge", {"messages": [0]}, [_refused("acknowledge", acknowledged, "NOT_WRITTEN")], "NOT_WRITTEN"
            ),
            _raises(
                "acknowledge",
                {"messages": [0]},
                [_refused("acknowledge", acknowledged, "INVALID_ARGUMENTS")],
                "INVALID_ARGUMENTS",
            ),
            _closes(),
        ),
        _case(
            "a record that is none",
            "a head of any length believed",
            _joins(),
            _raises("receive", {"timeout": WAITS}, [_receive(0, 1, cut)], "INTERNAL_ERROR"),
        ),
    ]
