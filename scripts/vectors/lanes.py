"""The receiver's end of a lane (L-12 to L-18): what lies there when a process begins, and what it makes of it."""

from __future__ import annotations

from typing import Any

from scripts.vectors.claims import claim_file
from scripts.vectors.files import named
from scripts.vectors.fixed import KEY, LANE_KEY, OTHER, RING, SOURCE, TARGET, TIME, flipped
from scripts.vectors.slots import head, pattern, slot
from speed.wire.cursor import Cursor, Fence, Unfinished, encode_cursor, encode_fence
from speed.wire.envelope import FLAG_SEGMENT, FLAG_SLOTTED, EnvelopeType, make_sequence
from speed.wire.names import cursor_name, fence_name, lane_file_name, node_id, slot_name, start_name
from speed.wire.seal import LinkSealer

SIZE = 105
"""Bytes of each envelope here: its payload is one byte."""
MESSAGE, EVENT, REQUEST = EnvelopeType.MESSAGE, EnvelopeType.EVENT, EnvelopeType.SPC_REQUEST
Files = dict[str, bytes]


def envelope(counter: int, generation: int = 1, type_: int = MESSAGE, flags: int = 0, source: str = SOURCE) -> bytes:
    """One envelope into billing's inbox; counter, generation and type choose its nonce."""
    sealer = LinkSealer(RING, node_id(source), node_id(TARGET), generation)
    nonce = bytes([generation, type_, flags, 0]) + counter.to_bytes(8, "big")
    return sealer.seal(type_, flags, counter, TIME, bytes([counter & 0xFF]), nonce)


def several(counters: range, generation: int = 1, type_: int = MESSAGE, flags: int = 0) -> bytes:
    return b"".join(envelope(counter, generation, type_, flags) for counter in counters)


def segment(content: bytes, number: int = 1, generation: int = 1) -> Files:
    return {lane_file_name(generation, number): content}


def cursor(
    *finished: int,
    unfinished: tuple[int, ...] = (),
    receiver: int = 1,
    clean: bool = False,
    sealed: bool = False,
) -> Files:
    """The cursor behind the envelope that is named first, in the first segment of generation 1."""
    (last,) = finished
    return {
        cursor_name(receiver): encode_cursor(
            at(last, receiver=receiver, listed=unfinished, clean=clean, sealed=sealed), LANE_KEY
        )
    }


def starts(*receivers: int) -> Files:
    """First cursors that were kept for callers."""
    return {start_name(one): encode_cursor(at(1, receiver=one), LANE_KEY) for one in receivers}


def at(
    last: int,
    *,
    receiver: int,
    generation: int = 1,
    number: int = 1,
    offset: int | None = None,
    listed: tuple[int, ...] = (),
    clean: bool = False,
    sealed: bool = True,
) -> Cursor:
    """A position behind envelope ``last`` of a generation, 0 for none; ``listed`` counters are unfinished."""
    entries = tuple(Unfinished(make_sequence(1, one), 1, 1, SIZE * (one - 1)) for one in listed)
    sequence = make_sequence(generation, last) if last else 0
    return Cursor(
        receiver, generation, number, SIZE * last if offset is None else offset, sequence, entries, clean, sealed
    )


def given(*counters: int, generation: int = 1, again: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """What is handed out, in this order; ``again`` names those that are marked as redelivered."""
    return [{"sequence": f"{make_sequence(generation, one):016x}", "redelivered": one in again} for one in counters]


def case(
    name: str,
    bug: str,
    files: Files,
    dispatched: list[dict[str, Any]],
    after: Cursor,
    left: list[str],
    *,
    finished: list[dict[str, Any]] | None = None,
    quarantine: tuple[str, ...] = (),
    claims: Files | None = None,
) -> dict[str, Any]:
    """``left``: the lane's files afterwards, beside the cursor. ``finished``: all that was handed out, if not given."""
    done = dispatched if finished is None else finished
    return {
        "name": name,
        "bug": bug,
        "generation": after.receiver_generation,
        "files": hexed(files),
        **({"claims": hexed(claims)} if claims else {}),
        "dispatched": dispatched,
        "finished": [one["sequence"] for one in done],
        "cursor": seen(after),
        "left": sorted([*left, cursor_name(after.receiver_generation)]),
        "quarantine": list(quarantine),
    }


def hexed(files: Files) -> dict[str, str]:
    return {name: content.hex() for name, content in sorted(files.items())}


def seen(cursor: Cursor) -> dict[str, Any]:
    """A cursor as vectors state it."""
    return {
        **named(cursor),
        "last_sequence": f"{cursor.last_sequence:016x}",
        "unfinished": [{**named(one), "sequence": f"{one.sequence:016x}"} for one in cursor.unfinished],
    }


def lanes() -> dict[str, Any]:
    """All cases."""
    return {
        "about": "L-12 to L-18, L-30. `files` lie in the lane analytics -> billing, and `claims` in the registry, when "
        "a receiver of `generation` begins. It reads to the end, finishes what `finished` names, and scans twice. "
        "`dispatched` is what it hands out, in order; `cursor` what its cursor file says then, `left` which files of "
        "the lane are there, `quarantine` the reasons (codes.json) of what was put aside. No cursor was sealed by "
        "others before it begins. `requests` (S-8): all that lies there are requests for this generation; each that is "
        "handed out is said to be `redelivered` or not, and whether this process `may_have_run` it.",
        "source": SOURCE,
        "target": TARGET,
        "key": KEY.hex(),
        "requests": requests(),
        "cases": [*beginnings(), *crashes(), *sequences(), *damages(), *fences(), *slotted()],
        "replaced": [
            {
                "name": "a cursor above the own generation",
                "bug": "two processes read one lane",
                "generation": 2,
                "files": hexed({**segment(envelope(1)), **cursor(0, receiver=3)}),
            }
        ],
    }


ONE = lane_file_name(1, 1)


def requests() -> list[dict[str, Any]]:
    """Calls that a receiver finds when it opens a lane, anew or again."""
    four = segment(several(range(1, 5), type_=REQUEST))
    full = segment(several(range(1, 67), type_=REQUEST))
    listed = tuple(range(1, 65))

    def one(name: str, bug: str, files: Files, handed: list[list[Any]], generation: int = 1) -> dict[str, Any]:
        """``handed``: [counter, redelivered, may have run]."""
        rows = [
            {"sequence": f"{make_sequence(1, counter):016x}", "redelivered": again, "may_have_run": may}
            for counter, again, may in handed
        ]
        return {"name": name, "bug": bug, "generation": generation, "files": hexed(files), "requests": rows}

    def all_(first: int, last: int, again: bool, may: bool) -> list[list[Any]]:
        return [[counter, again, may] for counter in range(first, last + 1)]

    damaged = {cursor_name(1): flipped(encode_cursor(at(3, receiver=1), LANE_KEY), 70)}
    broken = {**cursor(2, receiver=1), cursor_name(2): flipped(encode_cursor(at(3, receiver=2), LANE_KEY), 70)}
    return [
        one("calls that nobody opened", "marked without a reason", four, all_(1, 4, False, False)),
        one("the same process", "what it had not begun is not run", {**four, **cursor(2)}, all_(3, 4, True, False)),
        one(
            "the same process, one listed",
            "what it had not begun is not run",
            {**four, **cursor(3, unfinished=(2,))},
            [[2, True, False], [4, True, False]],
        ),
        one(
            "the same process, its list full",
            "run again",
            {**full, **cursor(64, unfinished=listed)},
            [*all_(1, 64, True, False), *all_(65, 66, True, True)],
        ),
        one("the same process, its cursor damaged", "run again", {**four, **damaged}, all_(1, 4, True, True)),
        one("another life", "its own doubt kept for its successor", {**four, **broken}, all_(3, 4, True, False), 3),
        one(
            "another life that closed cleanly",
            "marked without a reason",
            {**four, **cursor(2, clean=True)},
            all_(3, 4, False, False),
            2,
        ),
    ]


def beginnings() -> list[dict[str, Any]]:
    two = segment(several(range(1, 3)))
    forgotten = {"analytics.000003": claim_file(above=1)}
    return [
        case("no cursor", "nothing is a repeat yet", two, given(1, 2), at(2, receiver=1), [ONE]),
        case(
            "forgotten lives",
            "what a forgotten life sent is accepted",
            {**two, **segment(several(range(1, 3), 2), 1, 2)},
            given(1, 2, generation=2),
            at(2, receiver=1, generation=2),
            [lane_file_name(2, 1)],
            claims=forgotten,
        ),
        case(
            "closed cleanly",
            "marks without a crash",
            {**two, **cursor(1, clean=True)},
            given(2),
            at(2, receiver=2),
            [ONE],
        ),
        case(
            "closed cleanly with one listed",
            "the flag read as: nothing is unfinished",
            {**segment(several(range(1, 5))), **cursor(3, unfinished=(2,), clean=True)},
            given(2, 4, again=(2,)),
            at(4, receiver=2),
            [ONE],
        ),
        case(
            "one finished",
            "a position before its time",
            segment(several(range(1, 4))),
            given(1, 2, 3),
            at(1, receiver=1),
            [ONE],
            finished=given(1),
        ),
        case(
            "finished out of order",
            "one slow request holds the position, or is lost by it",
            segment(several(range(1, 5), type_=REQUEST)),
            given(1, 2, 3, 4),
            at(3, receiver=1, listed=(2,)),
            [ONE],
            finished=given(1, 3),
        ),
    ]


def crashes() -> list[dict[str, Any]]:
    mixed = [
        (MESSAGE, 0),
        (EVENT, 0),
        (MESSAGE, 0),
        (EVENT, 0),
        (REQUEST, 0),
        (REQUEST, 0),
    ]
    kinds = b"".join(envelope(2 + n, 1, type_, flags) for n, (type_, flags) in enumerate(mixed))
    parts = several(range(1, 3), flags=FLAG_SEGMENT) + several(range(3, 5))
    many = several(range(1, 68))
    listed = tuple(range(1, 65))
    damaged = {**segment(several(range(1, 4))), **cursor(1)}
    damaged[cursor_name(2)] = flipped(cursor(2, receiver=2)[cursor_name(2)], 31)
    return [
        case(
            "messages behind a crash",
            "all marked, or none",
            {**segment(several(range(1, 4))), **cursor(1)},
            given(2, 3, again=(2,)),
            at(3, receiver=2),
            [ONE],
        ),
        case(
            "each kind behind a crash",
            "one rule for all types",
            {**segment(envelope(1) + kinds), **cursor(1)},
            given(2, 3, 4, 5, 6, 7, again=(2, 3, 6, 7)),
            at(7, receiver=2),
            [ONE],
        ),
        case(
            "parts of a payload behind a crash",
            "a part taken for the message in hand",
            {**segment(parts), **cursor(0)},
            given(1, 2, 3, 4, again=(1, 2, 3)),
            at(4, receiver=2),
            [ONE],
        ),
        case(
            "unfinished and behind it",
            "what was finished comes again",
            {**segment(several(range(1, 6))), **cursor(3, unfinished=(2,))},
            given(2, 4, 5, again=(2, 4)),
            at(5, receiver=2),
            [ONE],
        ),
        case(
            "sixty-four unfinished",
            "a full list read as a whole one",
            {**segment(many), **cursor(64, unfinished=listed)},
            given(*range(1, 68), again=tuple(range(1, 68))),
            at(67, receiver=2),
            [ONE],
        ),
        case(
            "a newer cursor is damaged",
            "the older one trusted to the end",
            damaged,
            given(2, 3, again=(2, 3)),
            at(3, receiver=3),
            [ONE, start_name(3)],
        ),
        case(
            "a cursor of the own generation",
            "a lane that failed and is opened again counted as new",
            {**segment(several(range(1, 4))), **cursor(1, receiver=2)},
            given(2, 3, again=(2, 3)),
            at(3, receiver=2, sealed=False),
            [ONE],
        ),
        case(
            "a sealed cursor of the own generation",
            "a lane that is opened again forgets what its process sealed",
            {**segment(several(range(1, 4))), **cursor(1, receiver=2, sealed=True)},
            given(2, 3, again=(2, 3)),
            at(3, receiver=2),
            [ONE],
        ),
        case(
            "what an earlier life kept for callers",
            "its start put aside, or removed too early",
            {**segment(several(range(1, 3))), **cursor(2, receiver=6, clean=True), **starts(2, 3, 4, 5)},
            [],
            at(2, receiver=7),
            [ONE, *starts(2, 3, 4, 5)],
        ),
        case(
            "the segment of the position is gone",
            "a lane that stands still for ever",
            {**segment(several(range(3, 5)), 2), **cursor(2, clean=True)},
            given(3, 4),
            at(4, receiver=2, number=2, offset=2 * SIZE),
            [lane_file_name(1, 2)],
        ),
        case(
            "an unfinished one cannot be read any more",
            "waiting for what never comes",
            {**segment(envelope(3), 2), **cursor(2, unfinished=(1,), clean=True)},
            given(3),
            at(3, receiver=2, number=2, offset=SIZE),
            [lane_file_name(1, 2)],
        ),
    ]


def sequences() -> list[dict[str, Any]]:
    repeated = envelope(1) + envelope(2) + envelope(1) + envelope(2) + envelope(3)
    return [
        case(
            "written twice",
            "a replay is dispatched",
            segment(repeated),
            given(1, 2, 3),
            at(3, receiver=1, offset=5 * SIZE),
            [ONE],
        ),
        case(
            "a gap",
            "the lane stands still at a gap",
            segment(envelope(1) + envelope(5)),
            given(1, 5),
            at(5, receiver=1, offset=2 * SIZE),
            [ONE],
        ),
        case(
            "a new life of the sender",
            "counters compared without the generation",
            {**segment(several(range(1, 3))), **segment(envelope(1, 2), 1, 2)},
            [*given(1, 2), *given(1, generation=2)],
            at(1, receiver=1, generation=2),
            [lane_file_name(2, 1)],
        ),
        case(
            "segment 10 after segment 9",
            "numbers compared as text",
            {
                **segment(envelope(1), 99_999_999),
                **segment(envelope(2), 100_000_000),
            },
            given(1, 2),
            at(2, receiver=1, number=100_000_000, offset=SIZE),
            [lane_file_name(1, 100_000_000)],
        ),
    ]


def damages() -> list[dict[str, Any]]:
    torn = envelope(2)[:60]
    return [
        case(
            "a torn rest before a successor",
            "a wait for bytes that never come",
            {**segment(envelope(1) + torn), **segment(envelope(2), 2)},
            given(1, 2),
            at(2, receiver=1, number=2, offset=SIZE),
            [lane_file_name(1, 2)],
        ),
        case(
            "a torn rest in the last segment",
            "a write under way taken for damage",
            segment(envelope(1) + torn),
            given(1),
            at(1, receiver=1),
            [ONE],
        ),
        case(
            "one byte altered",
            "the rest of the lane given up",
            segment(envelope(1) + flipped(envelope(2), 100) + envelope(3)),
            given(1, 3),
            at(3, receiver=1),
            [ONE],
            quarantine=("BAD_TAG",),
        ),
        case(
            "of another sender",
            "an envelope moved between lanes",
            segment(envelope(1) + envelope(2, source=OTHER) + envelope(3)),
            given(1, 3),
            at(3, receiver=1),
            [ONE],
            quarantine=("WRONG_SOURCE",),
        ),
        case(
            "of another generation than its segment",
            "the name of the segment unchecked",
            segment(envelope(1) + envelope(2, 2) + envelope(3)),
            given(1, 3),
            at(3, receiver=1),
            [ONE],
            quarantine=("BAD_SEQUENCE",),
        ),
        case(
            "a foreign file",
            "it is read, or left for ever",
            {**segment(envelope(1)), "000001-1.lane": b"other spelling"},
            given(1),
            at(1, receiver=1),
            [ONE],
            quarantine=("NO_LANE_FILE",),
        ),
        case(
            "a file not yet in place",
            "another's work put aside",
            {**segment(envelope(1)), ".tmp-fence": b"half"},
            given(1),
            at(1, receiver=1),
            [ONE, ".tmp-fence"],
        ),
    ]


def fences() -> list[dict[str, Any]]:
    def fence(old: int, number: int, size: int) -> Files:
        return {fence_name(2): encode_fence(Fence(2, old, number, size), LANE_KEY)}

    old = segment(several(range(1, 4)))
    new = segment(envelope(1, 2), 1, 2)
    after = at(1, receiver=1, generation=2)
    left = [lane_file_name(2, 1)]
    damaged = {name: flipped(content, 31) for name, content in fence(1, 1, 2 * SIZE).items()}
    return [
        case(
            "behind a fence",
            "a paused owner goes on after it was replaced",
            {**old, **new, **fence(1, 1, 2 * SIZE)},
            [*given(1, 2), *given(1, generation=2)],
            after,
            left,
        ),
        case(
            "a fence without a segment",
            "an old life begins after the new one",
            {**old, **new, **fence(0, 0, 0)},
            given(1, generation=2),
            after,
            left,
        ),
        case(
            "a segment begun behind a fence",
            "only the named segment is fenced",
            {**old, **segment(envelope(4), 2), **new, **fence(1, 1, 3 * SIZE)},
            [*given(1, 2, 3), *given(1, generation=2)],
            after,
            left,
        ),
        case(
            "a fence before its generation is read",
            "removed while a crash may lead back to it",
            {**old, **fence(1, 1, 2 * SIZE)},
            given(1, 2),
            at(2, receiver=1),
            [ONE, fence_name(2)],
        ),
        case(
            "a damaged fence",
            "whoever writes there can cut a lane",
            {**old, **new, **damaged},
            [*given(1, 2, 3), *given(1, generation=2)],
            after,
            left,
        ),
    ]


SLOTTED_SIZE = 104 + 48
PAYLOAD = pattern(100)
FIRST, SECOND = slot_name(1, 1), slot_name(1, 2)


def in_slot(counter: int, plaintext: bytes | None = None, generation: int = 1) -> bytes:
    """An envelope whose payload, ``PAYLOAD``, lies in the first slot."""
    sealer = LinkSealer(RING, node_id(SOURCE), node_id(TARGET), generation)
    nonce = bytes([generation, MESSAGE, FLAG_SLOTTED, 1]) + counter.to_bytes(8, "big")
    return sealer.seal(MESSAGE, FLAG_SLOTTED, counter, TIME, head(1, 100) if plaintext is None else plaintext, nonce)


def slotted() -> list[dict[str, Any]]:
    """There is no entry of the sender: nobody writes any more."""
    whole = {FIRST: slot(PAYLOAD)}
    behind = at(1, receiver=1, offset=SLOTTED_SIZE)
    followed = segment(in_slot(1) + envelope(2))
    after = at(2, receiver=1, offset=SLOTTED_SIZE + SIZE)
    twice = SLOTTED_SIZE + SIZE
    return [
        case(
            "a payload in a slot",
            "the head taken for the payload",
            {**segment(in_slot(1)), **whole},
            given(1),
            behind,
            [ONE, FIRST],
        ),
        case(
            "a slot before others",
            "what follows overtakes it",
            {**followed, **whole},
            given(1, 2),
            after,
            [ONE, FIRST],
        ),
        case(
            "a slot that is longer",
            "the length of the file believed",
            {**segment(in_slot(1)), FIRST: whole[FIRST] + bytes(1000)},
            given(1),
            behind,
            [ONE, FIRST],
        ),
        case("a slot that was never written", "a wait without end", segment(in_slot(1)), [], behind, [ONE]),
        case(
            "a slot that was cut",
            "a wait for bytes that never come",
            {**followed, FIRST: whole[FIRST][:-1]},
            given(2),
            after,
            [ONE, FIRST],
        ),
        case(
            "a piece that was not written, of a sender that is gone",
            "a wait without end",
            {**segment(in_slot(1)), FIRST: bytes(116)},
            [],
            behind,
            [ONE, FIRST],
        ),
        case(
            "an altered piece",
            "tag unchecked",
            {**followed, FIRST: flipped(whole[FIRST], 7)},
            given(2),
            after,
            [ONE, FIRST],
            quarantine=("BAD_SLOT",),
        ),
        case(
            "a piece that was not written, and a new life of its sender",
            "a death taken for tampering",
            {**segment(in_slot(1)), FIRST: bytes(116), **segment(envelope(1, 2), 1, 2)},
            given(1, generation=2),
            at(1, receiver=1, generation=2),
            [lane_file_name(2, 1)],
        ),
        case(
            "a slot that does not exist",
            "files without bound",
            {**segment(in_slot(1, head(17, 100)) + envelope(2)), **whole},
            given(2),
            after,
            [ONE, FIRST],
            quarantine=("BAD_SLOT",),
        ),
        case(
            "a slotted duplicate",
            "the slot opened before the sequence is judged",
            {**segment(in_slot(1) + envelope(2) + in_slot(1)), **whole},
            given(1, 2),
            at(2, receiver=1, offset=twice + SLOTTED_SIZE),
            [ONE, FIRST],
        ),
        case(
            "an unfinished payload in a slot",
            "a slot lost by a restart",
            {
                **followed,
                **whole,
                cursor_name(1): encode_cursor(
                    Cursor(1, 1, 1, twice, make_sequence(1, 2), (Unfinished(make_sequence(1, 1), 1, 1, 0),)), LANE_KEY
                ),
            },
            given(1, again=(1,)),
            at(2, receiver=2, offset=twice),
            [ONE, FIRST],
        ),
        case(
            "a slot of an earlier life",
            "slots that stay for ever",
            {**segment(in_slot(1)), **whole, SECOND: b"", **segment(envelope(1, 2), 1, 2)},
            [*given(1), *given(1, generation=2)],
            at(1, receiver=1, generation=2),
            [lane_file_name(2, 1)],
        ),
    ]
