"""What a caller reads of a server that is gone, or was replaced (S-21, steps 2 and 3): whether its call had begun."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import ACCEPTED, LANE_KEY, RING, SOURCE, TARGET, flipped
from scripts.vectors.lanes import Files, hexed
from speed.wire.cursor import Cursor, Unfinished, encode_cursor
from speed.wire.envelope import make_sequence
from speed.wire.names import cursor_name, node_id, start_name

WRITTEN = 4
"""The generation of the server that each call was written to."""
SIZE = 200
NOT_BEGUN, MAY_HAVE_RUN, REPEATABLE = "not begun", "may have run", "repeatable"


def cursor(
    receiver: int,
    last: int,
    *,
    listed: tuple[int, ...] = (),
    begun: tuple[int, ...] = (),
    sealed: bool = False,
    clean: bool = False,
    key: bytes = LANE_KEY,
) -> bytes:
    """A cursor behind the request that is named; 0 for one that stands before all."""
    entries = tuple(Unfinished(make_sequence(2, n), 1, 2, SIZE * (n - 1), n in begun) for n in listed)
    position = (2, 1, SIZE * last, make_sequence(2, last)) if last else (0, 0, 0, 0)
    return encode_cursor(Cursor(receiver, *position, entries, clean, sealed), key)


def committed(receiver: int, last: int, **about: Any) -> Files:
    """A file ``cursor.<receiver>``."""
    return {cursor_name(receiver): cursor(receiver, last, **about)}


def started(receiver: int, last: int, **about: Any) -> Files:
    """A file ``start.<receiver>``."""
    return {start_name(receiver): cursor(receiver, last, **about)}


def case(name: str, bug: str, files: Files, process: str, request: tuple[int, ...], verdict: str) -> dict[str, Any]:
    """``request``: the counters of its envelopes."""
    return {
        "name": name,
        "bug": bug,
        "generation": WRITTEN,
        "files": hexed(files),
        "process": process,
        "request": [f"{make_sequence(2, counter):016x}" for counter in request],
        "verdict": verdict,
    }


def settled() -> dict[str, Any]:
    """All cases."""
    return {
        "about": "S-21, steps 2 and 3. `files` lie in the lane analytics -> billing. A call was written to billing's "
        "`generation`, in envelopes of the sequences `request`. `process` is what is known of that generation: `gone`, "
        "`left` (its claim is read-only) or `unknown`. `verdict`: `not begun`, `repeatable` or `may have run`.",
        "source": SOURCE,
        "target": TARGET,
        "accepted_keys": ACCEPTED,
        "cases": [*without_successor(), *with_successor(), *of_positions(), *of_files()],
    }


def without_successor() -> list[dict[str, Any]]:
    behind = committed(4, 2)
    return [
        case("its process is gone", "told as perhaps run", behind, "gone", (3,), NOT_BEGUN),
        case("it left in order", "told as perhaps run", committed(4, 2, clean=True), "left", (3,), NOT_BEGUN),
        case("it may be paused", "it goes on after the verdict", behind, "unknown", (3,), MAY_HAVE_RUN),
        case("it had begun", "what began is called not begun", behind, "gone", (2,), MAY_HAVE_RUN),
        case("the lane was never opened", "no cursor taken for the worst", {}, "gone", (1,), NOT_BEGUN),
        case("no cursor, and it may be paused", "no cursor taken for proof", {}, "unknown", (1,), MAY_HAVE_RUN),
        case(
            "only the cursor of an earlier life",
            "a cursor of another life decides",
            committed(3, 9),
            "gone",
            (1,),
            NOT_BEGUN,
        ),
        case(
            "sealed, and it may be paused",
            "the own mark taken for that of a successor",
            committed(4, 2, sealed=True),
            "unknown",
            (3,),
            MAY_HAVE_RUN,
        ),
    ]


def with_successor() -> list[dict[str, Any]]:
    sealed = committed(5, 2, sealed=True)
    return [
        case("a sealed successor", "the process is asked all the same", sealed, "unknown", (3,), NOT_BEGUN),
        case("a sealed successor, and it had begun", "every call is sent again", sealed, "unknown", (2,), MAY_HAVE_RUN),
        case(
            "not sealed, and it may be paused",
            "a successor that sealed nothing is believed",
            committed(5, 2),
            "unknown",
            (3,),
            MAY_HAVE_RUN,
        ),
        case("not sealed, and it is gone", "the mark asked for in vain", committed(5, 2), "gone", (3,), NOT_BEGUN),
        case("not sealed, and it left", "the mark asked for in vain", committed(5, 2), "left", (3,), NOT_BEGUN),
        case(
            "the successor finished it",
            "the cursor read although a start was kept: what was refused seems to have run",
            {**started(5, 2, sealed=True), **committed(5, 3, sealed=True)},
            "unknown",
            (3,),
            NOT_BEGUN,
        ),
        case(
            "two successors",
            "the newest decides, where the first one finished it",
            {**started(5, 2, sealed=True), **committed(6, 3, sealed=True)},
            "unknown",
            (3,),
            NOT_BEGUN,
        ),
        case(
            "two starts",
            "the newest decides, where the first one finished it",
            {**started(5, 2, sealed=True), **started(6, 3, sealed=True), **committed(6, 3, sealed=True)},
            "unknown",
            (3,),
            NOT_BEGUN,
        ),
        case(
            "a successor that opened no lane",
            "only the next generation is looked for",
            committed(7, 2, sealed=True),
            "unknown",
            (3,),
            NOT_BEGUN,
        ),
        case(
            "the start of its own life",
            "its own start taken for that of a successor",
            {**started(4, 1, sealed=True), **committed(4, 3, sealed=True)},
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "its own cursor beside that of a successor",
            "the older cursor decides, and goes on",
            {**committed(4, 2), **committed(5, 3, sealed=True)},
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "the first successor is not sealed, the second one is",
            "any sealed one decides",
            {**started(5, 2), **committed(6, 2, sealed=True)},
            "unknown",
            (3,),
            MAY_HAVE_RUN,
        ),
    ]


def of_positions() -> list[dict[str, Any]]:
    everyone = tuple(range(1, 65))
    full = committed(4, 64, listed=everyone, begun=(1, 64))
    almost = committed(4, 64, listed=everyone[1:])

    def one(name: str, bug: str, files: Files, request: tuple[int, ...], verdict: str) -> dict[str, Any]:
        return case(name, bug, files, "gone", request, verdict)

    listed = committed(4, 5, listed=(2, 4), begun=(4,))
    return [
        one("listed", "what waited behind one that ran is called begun", listed, (2,), NOT_BEGUN),
        one("listed as begun", "an idempotent service fails its callers", listed, (4,), REPEATABLE),
        one("between two that are listed", "the range of the list taken for the list", listed, (3,), MAY_HAVE_RUN),
        one("the last before the position", "off by one", listed, (5,), MAY_HAVE_RUN),
        one("the first behind the position", "off by one", listed, (6,), NOT_BEGUN),
        one("behind a full list", "a full list read as a whole one", full, (65,), MAY_HAVE_RUN),
        one("listed in a full list", "a full list tells nothing", full, (2,), NOT_BEGUN),
        one("listed as begun in a full list", "a full list tells nothing", full, (64,), REPEATABLE),
        one("behind 63", "the bound off by one", almost, (65,), NOT_BEGUN),
        one("a cursor that stands before all", "sequence 0 taken for one", committed(4, 0), (1,), NOT_BEGUN),
        one(
            "in segments, and the last one is missing",
            "the first segment speaks for all: what could not begin may have run",
            committed(4, 7, listed=(6,)),
            (6, 7, 8),
            NOT_BEGUN,
        ),
        one("in segments, and begun", "any segment decides", committed(4, 8), (6, 7, 8), MAY_HAVE_RUN),
        one(
            "in segments, and listed as begun",
            "the segments that are finished speak against it",
            committed(4, 8, listed=(7,), begun=(7,)),
            (6, 7, 8),
            REPEATABLE,
        ),
        one(
            "in segments, some of them behind a full list",
            "a segment that was finished speaks for the others",
            full,
            (1, 65),
            MAY_HAVE_RUN,
        ),
    ]


def of_files() -> list[dict[str, Any]]:
    damaged = {name: flipped(content, 31) for name, content in committed(4, 2).items()}
    sealed = cursor(5, 2, sealed=True)
    reverse = RING.lane_key(node_id(TARGET), node_id(SOURCE))
    return [
        case("a damaged cursor", "no cursor and one that cannot be read confused", damaged, "gone", (3,), MAY_HAVE_RUN),
        case(
            "a damaged cursor of a successor",
            "the next file decides instead",
            {cursor_name(5): flipped(sealed, 31), **committed(6, 2, sealed=True)},
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "a start without content",
            "a successor that found a damaged cursor knows what had begun",
            {start_name(5): b"", **committed(5, 2, sealed=True)},
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "a cursor of the other lane",
            "one key for both directions",
            committed(4, 2, key=reverse),
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "a cursor under another name",
            "the name of the file believed",
            {cursor_name(5): cursor(6, 2, sealed=True)},
            "unknown",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "another spelling of a successor",
            "names read as numbers",
            {"cursor.5": sealed, **committed(4, 3)},
            "gone",
            (3,),
            MAY_HAVE_RUN,
        ),
        case(
            "a successor that is not in place",
            "a file that is being written decides",
            {".tmp-1": sealed},
            "unknown",
            (3,),
            MAY_HAVE_RUN,
        ),
    ]
