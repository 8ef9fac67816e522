"""The sender's end of a lane: whether it has room (L-6), and which of its slots are free (L-29)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import KEY, LANE_KEY, SOURCE, TARGET
from speed.wire.cursor import Cursor, Unfinished, encode_cursor
from speed.wire.envelope import make_sequence
from speed.wire.names import cursor_name, fence_name, lane_file_name

WINDOW = 10_000


def sending() -> dict[str, Any]:
    """All cases; they are stated by hand."""
    return {
        "about": "`rooms` (L-6): `files` lie in the lane analytics -> billing: of the lane files and the fence the "
        "size, of cursors the bytes. A sender that has written nothing yet, with a window of `window` bytes, asks for "
        "`size` more; `room` is the answer. `free` (L-29): each of `slots` is [number, generation, file, offset of the "
        "envelope that named it last, its sequence]; with this `cursor`, those of `free` may be used again. A sender "
        "goes by the place or by the sequence: both lead to the same.",
        "source": SOURCE,
        "target": TARGET,
        "key": KEY.hex(),
        "rooms": _rooms(),
        "free": _free(),
    }


LAST = make_sequence(1, 90)


def _cursor(
    file: int, offset: int, receiver: int = 1, generation: int = 1, listed: tuple[int, ...] = (), last: int = LAST
) -> bytes:
    """A position behind the sequence ``last``; ``listed`` are offsets of unfinished envelopes in the first file."""
    unfinished = tuple(
        Unfinished(make_sequence(generation, number), 1, generation, at) for number, at in enumerate(listed, 1)
    )
    return encode_cursor(Cursor(receiver, generation, file, offset, last, unfinished), LANE_KEY)


def _room(name: str, bug: str, size: int, room: bool, lane: dict[int | tuple[int, int], int], **cursors: bytes) -> Any:
    """``lane``: sizes by the number of a file of generation 1, or by generation and number; c1=…: cursors."""
    sizes = {lane_file_name(*(one if isinstance(one, tuple) else (1, one))): bytes_ for one, bytes_ in lane.items()}
    written = {cursor_name(int(one[1:])): data.hex() for one, data in cursors.items()}
    return {
        "name": name,
        "bug": bug,
        "files": {**sizes, **written},
        "window": WINDOW,
        "size": size,
        "room": room,
    }


def _rooms() -> list[dict[str, Any]]:
    damaged = bytearray(_cursor(1, 9000, receiver=2))
    damaged[70] ^= 1
    fenced = _room("a fence", "it counts as bytes", WINDOW, True, {})
    fenced["files"][fence_name(2)] = 48
    return [
        _room("an empty lane", "nothing fits", WINDOW, True, {}),
        _room("more than the window, an empty lane", "what is large never goes", WINDOW + 1, True, {}),
        _room("up to the window", "off by one", 1000, True, {1: 9000}),
        _room("beyond it", "off by one", 1001, False, {1: 9000}),
        _room("behind the position", "what is committed counts", 10_000, True, {1: 9000}, c1=_cursor(1, 9000)),
        _room("partly behind", "whole files only", 4000, True, {1: 9000}, c1=_cursor(1, 3000)),
        _room("partly behind, too much", "whole files only", 4001, False, {1: 9000}, c1=_cursor(1, 3000)),
        _room(
            "files before the position",
            "they count until they are unlinked",
            9000,
            True,
            {1: 9000, 2: 2000},
            c1=_cursor(2, 1000),
        ),
        _room(
            "files behind the position", "only the first counts", 1000, False, {1: 5000, 2: 5000}, c1=_cursor(1, 500)
        ),
        _room("listed and behind", "the list counts", 10_000, True, {1: 9000}, c1=_cursor(1, 9000, listed=(0, 200))),
        _room("of an earlier life", "leftovers do not count", 2001, False, {(1, 1): 8000, (2, 1): 0}),
        _room(
            "of an earlier life, passed",
            "leftovers count for ever",
            9000,
            True,
            {(1, 1): 8000, (2, 1): 1000},
            c1=_cursor(1, 0, generation=2),
        ),
        _room(
            "two cursors",
            "the older one is read",
            1000,
            True,
            {1: 10_000},
            c1=_cursor(1, 100),
            c2=_cursor(1, 9000, receiver=2),
        ),
        _room(
            "the newer one is damaged",
            "a cursor believed without its MAC",
            1000,
            False,
            {1: 10_000},
            c1=_cursor(1, 100),
            c2=bytes(damaged),
        ),
        _room("more than the window, something left", "the exception of an empty lane", WINDOW, False, {1: 1}),
        fenced,
    ]


def _free() -> list[dict[str, Any]]:
    def one(name: str, bug: str, slots: list[tuple[int, ...]], cursor: bytes, free: list[int]) -> dict[str, Any]:
        """Of a slot: its number, then of its envelope generation, file, offset and the counter of its sequence."""
        listed = [[*slot[:4], f"{make_sequence(slot[1], slot[4]):016x}"] for slot in slots]
        return {"name": name, "bug": bug, "slots": listed, "cursor": cursor.hex(), "free": free}

    two = [(1, 1, 1, 0, 1), (2, 1, 1, 152, 2)]
    first, second, third = (make_sequence(1, number) for number in (1, 2, 3))
    return [
        one("before the position", "never free", two, _cursor(1, 304, last=second), [1, 2]),
        one("at the position", "off by one", two, _cursor(1, 152, last=first), [1]),
        one("listed", "a payload in hand is written over", two, _cursor(1, 304, listed=(0,), last=second), [2]),
        one(
            "in a later file",
            "offsets compared without the file",
            [(1, 1, 1, 152, 2), (2, 1, 2, 0, 3)],
            _cursor(2, 0, last=second),
            [1],
        ),
        one(
            "of a later life",
            "files, or counters, compared without the generation",
            [(1, 1, 9, 0, 3), (2, 2, 1, 0, 1)],
            _cursor(1, 0, generation=2, last=third),
            [1],
        ),
        one("nothing is committed", "free because nothing is listed", [(1, 1, 1, 0, 1)], _cursor(0, 0, last=0), []),
    ]
