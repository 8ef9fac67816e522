"""Durable topics: records, state files, and steps that a subscription replays (D-2, D-4, D-8 to D-13)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.conversations import conversations
from scripts.vectors.fixed import ACCEPTED, FOREIGN, OLD, RING, TIME, flipped, patched
from speed.wire.seal import Keyring
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, RecordHead, cursor_name, encode, key_hash, seal_state
from speed.wire.value import pack

LANE = bytes(range(0x60, 0x70))
Step = dict[str, Any]


def topics() -> dict[str, Any]:
    """Bytes, names and steps."""
    return {
        "about": "D-2, D-4, D-5, D-8 to D-14, D-18, D-19. `steps` are done in order; `gives` is what each returns: of "
        "`take` and `dead` pairs of offset and attempts, of others a count, or the code of a refusal. Times "
        "are milliseconds. `offer` gives offset, key hash and due time; the back-off begins with 100 ms. `begun` of "
        "`take` is how many begin at once, all without it (D-28); `begin` gives offsets. "
        "`conversations`: what a program does with a topic object of the name `orders`, the requests that "
        "each step sends to its host and how these are answered (TIMEOUT: not at all), and what the step "
        "gives or raises. `messages` and `message` are numbers of what was received, from 0; a timeout is in "
        "seconds. `topics.begin` is in no list: it may come before any message, and is answered with the lane, epoch "
        "and offsets that it names.",
        "accepted_keys": ACCEPTED,
        "lane": LANE.hex(),
        "key_hashes": [
            {"key": "", "hash": key_hash("")},
            {"key": "customer 7", "hash": key_hash("customer 7")},
            {"key": "größe", "hash": key_hash("größe")},
        ],
        "cursor_files": [{"subscription": one, "file": cursor_name(one)} for one in ("billing", "a.b-c")],
        **_records(),
        **_states(),
        "subscriptions": _subscriptions(),
        "conversations": conversations(),
    }


def _records() -> dict[str, Any]:
    def good(name: str, bug: str, head: RecordHead, about: dict[str, Any], payload: bytes) -> dict[str, Any]:
        told = head._asdict() | {"about": about, "payload": payload.hex()}
        return {"name": name, "bug": bug, **told, "hex": encode(head, about, payload).hex()}

    plain = encode(RecordHead(), {"publisher": "shop"}, pack(7))
    return {
        "records_valid": [
            good("plain", "the payload begins elsewhere", RecordHead(), {"publisher": "shop"}, pack(7)),
            good("no payload", "an empty rest refused", RecordHead(), {"publisher": "shop"}, b""),
            good(
                "all of it",
                "order of fields, or widths",
                RecordHead(0, 0, key_hash("k"), TIME, 9),
                {"publisher": "shop", "key": "k", "producer": "p", "properties": {"a": "b"}},
                pack("x"),
            ),
            good(
                "tombstone",
                "type unread",
                RecordHead(TOMBSTONE, 0, key_hash("k")),
                {"publisher": "shop", "key": "k"},
                b"",
            ),
            good(
                "dead letter",
                "attempts unread",
                RecordHead(DEAD_LETTER, 5),
                {"publisher": "shop", "origin": ["orders", 3, "billing"]},
                pack(1),
            ),
        ],
        "records_invalid": [
            {"name": "empty", "bug": "length unchecked", "hex": ""},
            {"name": "cut head", "bug": "length unchecked", "hex": plain[:31].hex()},
            {"name": "cut map", "bug": "N unchecked", "hex": plain[:40].hex()},
            {"name": "version", "bug": "version unread", "hex": patched(plain, 0, b"\2").hex()},
            {"name": "type", "bug": "unknown types taken", "hex": patched(plain, 1, b"\3").hex()},
            {"name": "not zero", "bug": "reserved bytes unread", "hex": patched(plain, 31, b"\1").hex()},
            {"name": "N beyond", "bug": "N unchecked", "hex": patched(plain, 24, b"\xff\xff\xff\xff").hex()},
        ],
    }


def _states() -> dict[str, Any]:
    value = {"parent": "orders"}
    data = seal_state(value, LANE, "settings", RING)
    old = seal_state(value, LANE, "settings", Keyring((OLD,)))

    def bad(name: str, bug: str, content: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "file": "settings", "hex": content.hex()}

    return {
        "states_valid": [
            {"name": "settings", "bug": "", "file": "settings", "hex": data.hex(), "value": value},
            {"name": "older key", "bug": "only the first key", "file": "settings", "hex": old.hex(), "value": value},
        ],
        "states_invalid": [
            bad("empty", "length unchecked", b""),
            bad("cut", "length unchecked", data[:-1]),
            bad("flipped", "the MAC unchecked", flipped(data, 18)),
            bad("version", "version unread", patched(data, 4, b"\2")),
            bad("of another lane", "the lane not bound", seal_state(value, LANE[::-1], "settings", RING)),
            bad("of another file", "the file's name not bound", seal_state(value, LANE, "producers", RING)),
            bad("foreign key", "key unchecked", seal_state(value, LANE, "settings", Keyring((FOREIGN,)))),
        ],
    }


def _offer(*rows: tuple[int, int, int]) -> list[Step]:
    return [{"do": "offer", "offset": offset, "key": key, "due": due} for offset, key, due in rows]


def _take(who: str, most: int, now: int, *gives: tuple[int, int]) -> Step:
    return {"do": "take", "consumer": who, "most": most, "now": now, "gives": [list(one) for one in gives]}


def _join(*names: str) -> list[Step]:
    return [{"do": "join", "consumer": name, "gives": None} for name in names]


def _acknowledge(gives: int | str, *offsets: int) -> Step:
    return {"do": "acknowledge", "offsets": list(offsets), "gives": gives}


def _reject(who: str, now: int, gives: int, *offsets: int) -> Step:
    return {"do": "reject", "consumer": who, "offsets": list(offsets), "now": now, "gives": gives}


def _case(name: str, bug: str, kind: str, cursor: int, steps: list[Step], most: int = 0) -> dict[str, Any]:
    """``cursor`` is where it ends."""
    return {"name": name, "bug": bug, "type": kind, "max_deliveries": most, "steps": steps, "cursor": cursor}


def _subscriptions() -> list[dict[str, Any]]:
    three = _offer((0, 0, 0), (1, 0, 0), (2, 0, 0))
    keyed = _offer((0, 7, 0), (1, 7, 0), (2, 8, 0))
    return [
        _case(
            "acknowledged out of order",
            "a hole forgotten",
            "shared",
            3,
            [
                *_join("a"),
                *three,
                _take("a", 9, 0, (0, 1), (1, 1), (2, 1)),
                _acknowledge(2, 1, 2),
                _acknowledge(0, 1),
                _acknowledge("INVALID_ARGUMENTS", 3),
                _acknowledge(1, 0),
            ],
        ),
        _case(
            "refused",
            "no back-off, or it does not double",
            "shared",
            1,
            [
                *_join("a"),
                *_offer((0, 0, 0)),
                _take("a", 9, 0, (0, 1)),
                _reject("b", 0, 0, 0),
                _reject("a", 0, 1, 0),
                _take("a", 9, 99),
                _take("a", 9, 100, (0, 2)),
                _reject("a", 100, 1, 0),
                _take("a", 9, 299),
                _take("a", 9, 300, (0, 3)),
                _acknowledge(1, 0),
            ],
        ),
        _case(
            "order is kept",
            "something behind what waits",
            "failover",
            0,
            [
                *_join("a", "b"),
                *three,
                _take("b", 9, 0),
                _take("a", 1, 0, (0, 1)),
                {"do": "leave", "consumer": "a", "now": 0, "gives": None},
                _take("b", 9, 99),
                _take("b", 9, 100, (0, 2), (1, 1), (2, 1)),
            ],
        ),
        _case(
            "a key has one consumer",
            "a key moves before it is drained",
            "key-shared",
            2,
            [
                *_join("a", "b"),
                *keyed,
                _take("a", 1, 0, (0, 1)),
                _take("b", 9, 0, (2, 1)),
                _acknowledge(1, 0),
                _take("b", 9, 0, (1, 1)),
                _acknowledge(1, 1),
            ],
        ),
        _case(
            "a last attempt is alone",
            "neighbours condemned",
            "shared",
            0,
            [
                *_join("a"),
                *three,
                _take("a", 1, 0, (0, 1)),
                _reject("a", 0, 1, 0),
                _take("a", 9, 100, (0, 2)),
                _take("a", 9, 100),
                _reject("a", 100, 1, 0),
                {"do": "dead", "gives": [[0, 2]]},
                _take("a", 9, 300, (1, 1), (2, 1)),
            ],
            most=2,
        ),
        _case(
            "due later",
            "delivered before its time",
            "shared",
            0,
            [*_join("a"), *_offer((0, 0, 500), (1, 0, 0)), _take("a", 9, 0, (1, 1)), _take("a", 9, 500, (0, 1))],
        ),
        _case(
            "a delivery counts when it has begun",
            "what nobody saw comes marked",
            "shared",
            0,
            [
                *_join("a", "b"),
                *three,
                {**_take("a", 9, 0, (0, 1), (1, 1), (2, 1)), "begun": 1},
                {"do": "begin", "consumer": "a", "offsets": [1, 7], "now": 0, "gives": [1]},
                {"do": "leave", "consumer": "a", "now": 0, "gives": None},
                _take("b", 9, 0, (2, 1)),
                _take("b", 9, 100, (0, 2), (1, 2)),
            ],
        ),
        _case("one alone", "two consumers", "exclusive", 0, [*_join("a"), {**_join("b")[0], "gives": "TAKEN"}]),
    ]
