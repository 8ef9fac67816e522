"""Streams (S-27 to S-34): envelopes, requests, and what credit, windows and the rate of progress give step by step."""

from __future__ import annotations

from typing import Any

import msgpack

from scripts.vectors.fixed import SOURCE, TIME
from speed.wire import spc
from speed.wire.spc import StreamOffer
from speed.wire.value import pack

Step = dict[str, Any]
ID = "7.1"
_MOST = 1 << 53


def grant(items: int, size: int) -> Step:
    return {"do": "grant", "items": items, "bytes": size}


def send(size: int, gives: bool) -> Step:
    return {"do": "send", "bytes": size, "gives": gives}


def arrive(number: int, items: int, size: int, gives: str = "next") -> Step:
    return {"do": "arrive", "number": number, "items": items, "bytes": size, "gives": gives}


def process(items: int, size: int, gives: list[int] | None) -> Step:
    return {"do": "process", "items": items, "bytes": size, "gives": gives}


def credit() -> list[dict[str, Any]]:
    def case(name: str, bug: str, begins: list[int], *steps: Step) -> dict[str, Any]:
        return {"name": name, "bug": bug, "begins": begins, "steps": list(steps)}

    return [
        case("items run out", "one more sent", [2, 100], send(1, True), send(1, True), send(1, False)),
        case("bytes run out", "only items are counted", [9, 10], send(6, True), send(6, True), send(1, False)),
        case("one item above the window", "a large item never goes", [1, 10], send(1000, True), send(1, False)),
        case("none yet", "sends before the first credit", [0, 0], send(1, False), grant(1, 1), send(1, True)),
        case(
            "a total",
            "credit added up",
            [1, 10],
            send(1, True),
            grant(2, 20),
            grant(2, 20),
            send(1, True),
            send(1, False),
        ),
        case("an old total", "credit taken back", [5, 50], grant(1, 1), send(1, True), send(1, True)),
        case("each by itself", "items and bytes move together", [1, 1], grant(9, 1), send(1, True), send(1, False)),
        case("an item of no bytes", "free items", [1, 1], send(0, True), send(0, False)),
    ]


def windows() -> list[dict[str, Any]]:
    def case(name: str, bug: str, *steps: Step, items: int = 4, size: int = 100, opened: bool = True) -> dict[str, Any]:
        return {"name": name, "bug": bug, "items": items, "bytes": size, "open": opened, "steps": list(steps)}

    again, order, beyond = "again", "out of order", "beyond credit"
    opens = {"do": "open", "gives": [4, 100]}
    return [
        case("in order", "numbers off by one", arrive(0, 2, 9), arrive(2, 1, 9), arrive(3, 1, 9)),
        case("twice", "items handed out twice", arrive(0, 2, 9), arrive(0, 2, 9, again), arrive(2, 1, 9)),
        case("a part again", "half of an envelope dropped", arrive(0, 2, 9), arrive(1, 2, 9, order)),
        case("a gap", "what is lost goes unnoticed", arrive(1, 1, 9, order)),
        case("too many items", "no bound on items", arrive(0, 4, 9), arrive(4, 1, 1, beyond)),
        case("too many at once", "the first envelope unchecked", arrive(0, 5, 9, beyond)),
        case("too many bytes", "no bound on bytes", arrive(0, 1, 100), arrive(1, 1, 1, beyond)),
        case("the last one may be large", "a large item refused", arrive(0, 1, 99), arrive(1, 1, 5000)),
        case("no items", "an end without items refused", arrive(0, 0, 0), arrive(0, 0, 0), arrive(1, 0, 0, order)),
        case(
            "half of the items", "credit for each item", arrive(0, 2, 2), process(1, 1, None), process(1, 1, [6, 102])
        ),
        case("half of the bytes", "items alone give credit", arrive(0, 1, 60), process(1, 60, [5, 160])),
        case("credit after processing", "credit on arrival", arrive(0, 4, 4), arrive(4, 1, 1, beyond)),
        case(
            "goes on",
            "a window that shrinks",
            arrive(0, 4, 40),
            process(4, 40, [8, 140]),
            arrive(4, 4, 40),
            process(4, 40, [12, 180]),
        ),
        case("a large item counts", "granted less than before", arrive(0, 1, 500), process(1, 500, [5, 600])),
        case("not begun", "items before the first credit", arrive(0, 1, 1, beyond), opens, opened=False),
        case("begun", "the first credit forgotten", opens, arrive(0, 4, 9), process(2, 5, [6, 105]), opened=False),
        case("one by one", "a window of one never opens", arrive(0, 1, 1), process(1, 1, [2, 101]), items=1),
    ]


def rates() -> list[dict[str, Any]]:
    def at(now: float, gives: bool, done: float = 1, total: float | None = 9) -> Step:
        return {"now": now, "done": done, "total": total, "gives": gives}

    return [
        {"name": "seldom", "bug": "each is written", "steps": [at(10, True), at(10.01, False), at(10.06, True)]},
        {"name": "the end", "bug": "the last one is lost", "steps": [at(10, True), at(10, True, 9), at(10.01, False)]},
        {"name": "no total", "bug": "nil is an end", "steps": [at(10, True, 1, None), at(10.01, False, 2, None)]},
    ]


def _part(name: str, bug: str, payload: bytes) -> dict[str, Any]:
    part = spc.decode_stream(payload)
    case: dict[str, Any] = {"name": name, "bug": bug, "payload": payload.hex(), "requestId": part.request_id}
    if part.credit is not None:
        return {**case, "credit": list(part.credit)}
    if part.progress is not None:
        done, total, note = part.progress
        return {**case, "progress": {"done": done, "total": total, "note": note}}
    return {**case, "number": part.number, "items": part.items, "last": part.last, "itemsAt": part.items_at}


def parts() -> list[dict[str, Any]]:
    items = [pack(one) for one in (1, "two", {"three": 3})]
    return [
        _part("items", "the values decoded by who reads", spc.encode_items(ID, 0, items)),
        _part("no items", "an empty array refused", spc.encode_items(ID, 5, [])),
        _part("last items", "last not read", spc.encode_items(ID, 3, items, last=True)),
        _part("only the end", "an end without items refused", spc.encode_items(ID, 3, [], last=True)),
        _part("many items", "counts of 16 bits", spc.encode_items(ID, 70000, items * 30)),
        _part("a large item", "the front read to its end", spc.encode_items(ID, 0, [pack(b"x" * 9000)])),
        _part("credit", "the two mixed up", spc.encode_credit(ID, 4096, 1 << 20)),
        _part("most credit", "2^53 refused", spc.encode_credit(ID, _MOST, _MOST)),
        _part("progress", "a note lost", spc.encode_progress(ID, 3, 10, "reading")),
        _part("progress without a total", "nil refused", spc.encode_progress(ID, 0, None, "")),
        _part("progress in fractions", "only whole numbers", spc.encode_progress(ID, 0.5, 1.0, "")),
    ]


def _raw(*pairs: Any) -> bytes:
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(pairs) // 2)
    for one in pairs:
        packer.pack(one)
    return packer.bytes()  # type: ignore[no-any-return]


def refused() -> list[dict[str, Any]]:
    one = _raw("requestId", ID, "number", 0, "items", [1])
    cases = {
        "nothing": b"",
        "no map": msgpack.packb([ID]),
        "requestId second": _raw("number", 0, "requestId", ID, "items", []),
        "an empty id": _raw("requestId", "", "number", 0, "items", []),
        "a long id": _raw("requestId", "x" * 65, "number", 0, "items", []),
        "only an id": _raw("requestId", ID),
        "unknown": _raw("requestId", ID, "other", 1),
        "number below 0": _raw("requestId", ID, "number", -1, "items", []),
        "number above 2^53": _raw("requestId", ID, "number", _MOST + 1, "items", []),
        "number is true": _raw("requestId", ID, "number", True, "items", []),
        "items is no array": _raw("requestId", ID, "number", 0, "items", {}),
        "items missing": _raw("requestId", ID, "number", 0),
        "something behind items": _raw("requestId", ID, "number", 0, "items", [], "last", True),
        "last is false": _raw("requestId", ID, "number", 0, "last", False, "items", []),
        "cut before items": one[:-2],
        "half a credit": _raw("requestId", ID, "creditItems", 1),
        "credit below 0": _raw("requestId", ID, "creditItems", -1, "creditBytes", 1),
        "credit above 2^53": _raw("requestId", ID, "creditItems", 1, "creditBytes", _MOST + 1),
        "credit in fractions": _raw("requestId", ID, "creditItems", 1.0, "creditBytes", 1),
        "credit and more": _raw("requestId", ID, "creditItems", 1, "creditBytes", 1) + b"\x01",
        "done below 0": _raw("requestId", ID, "done", -1, "total", None, "note", ""),
        "done is NaN": _raw("requestId", ID, "done", float("nan"), "total", None, "note", ""),
        "done is text": _raw("requestId", ID, "done", "1", "total", None, "note", ""),
        "total is infinite": _raw("requestId", ID, "done", 1, "total", float("inf"), "note", ""),
        "no note": _raw("requestId", ID, "done", 1, "total", None),
        "a long note": _raw("requestId", ID, "done", 1, "total", None, "note", "n" * 201),
    }
    return [{"name": name, "bug": "taken as it is", "payload": payload.hex()} for name, payload in cases.items()]


def _request(stream: Any) -> bytes:
    head = {"requestId": ID, "service": "rows", "caller": SOURCE, "generation": 7, "deadline": TIME}
    return _raw(*(one for pair in {**head, "stream": stream, "arguments": {}}.items() for one in pair))


def requests() -> list[dict[str, Any]]:
    def case(name: str, bug: str, payload: bytes) -> dict[str, Any]:
        offer = spc.decode_head(payload).stream
        return {
            "name": name,
            "bug": bug,
            "payload": payload.hex(),
            "stream": None if offer is None else offer._asdict(),
        }

    def written(offer: StreamOffer) -> bytes:
        return spc.encode_request(ID, "rows", {"n": 1}, SOURCE, 7, TIME, stream=offer)

    return [
        case("wants items", "the key at another place", written(StreamOffer(4096, 1 << 20))),
        case("sends items", "sends lost", written(StreamOffer(4096, 1 << 20, sends=True))),
        case("wants progress", "progress lost", written(StreamOffer(progress=True))),
        case("everything", "one key lost", written(StreamOffer(1, 1, sends=True, progress=True))),
        case("nil", "nil is no map", _request(None)),
        case("nothing wanted", "an empty map refused", _request({})),
        case("unknown keys", "unknown keys refused", _request({"items": 1, "bytes": 2, "color": "red"})),
    ]


def refused_requests() -> list[dict[str, Any]]:
    streams = {
        "no map": True,
        "a list": [],
        "items below 0": {"items": -1},
        "items above 2^53": {"items": _MOST + 1},
        "items as text": {"items": "1"},
        "items is false": {"items": False},
        "bytes in fractions": {"bytes": 1.5},
        "sends is 1": {"sends": 1},
        "progress is text": {"progress": "yes"},
    }
    return [{"name": name, "bug": "taken as it is", "payload": _request(one).hex()} for name, one in streams.items()]


def streams() -> dict[str, Any]:
    return {
        "credit": credit(),
        "windows": windows(),
        "rates": rates(),
        "parts": parts(),
        "refused": refused(),
        "requests": requests(),
        "refused_requests": refused_requests(),
    }
