"""Who may take a name (R-4, R-5): files of claims, and states of a name with the verdict of who wants to start."""

from __future__ import annotations

import json
from typing import Any

from scripts.vectors.fixed import ACCEPTED, FOREIGN, KEY, RING
from speed.wire.cursor import Cursor, encode_cursor
from speed.wire.entry import entry_mac
from speed.wire.names import node_id
from speed.wire.seal import Keyring

MAKER: dict[str, Any] = {
    "pid": 4242,
    "pid_start": 123456,
    "pid_namespace": "pid:[4026531836]",
    "host": "büro-1",
    "boot_id": "0f0e0d0c-0b0a-4908-8706-050403020100",
    "lease": 30000,
    "made_monotonic_ms": 987654,
    "above": 0,
}
LEASE = 30_000
SHORT = 150
"""A lease that a test waits for."""
NAME = "billing"
"""Whose name all states are about."""
OWN, THERE = "billing/inbox/analytics", "analytics/inbox/billing"


def claim_file(key: bytes = RING.registry_key, **changes: Any) -> bytes:
    """The two lines of a claim; a field that is changed to None is left out."""
    fields = {name: value for name, value in {**MAKER, **changes}.items() if value is not None}
    return signed(json.dumps(fields).encode(), key)


def signed(line: bytes, key: bytes = RING.registry_key) -> bytes:
    return line + b"\n" + entry_mac(key, line) + b"\n"


def claims() -> dict[str, Any]:
    """All cases."""
    return {
        "about": "R-4: `files` are claims read with `accepted_keys`; `claim` is what they say, null where they do not "
        "tell their maker; null in it is what is not told. R-5: in `states` a name has `claims` and perhaps an "
        "`entry`. A `maker` is `here` (a process of this boot that lives), `gone` (of this boot, ended), `unseen` (of "
        "this boot, in another pid namespace) or `elsewhere` (of another boot); null: the file is empty. Ages are ms "
        "before now, of a claim's making and an entry's heartbeat; below zero they lie ahead. All are made with the "
        "root's key unless `key` is `foreign`. `verdict`: `free` (the `generation` that is won, and its `above`), "
        "`held` at once and whoever waits, or `wait`: nobody can tell at once, and who waits has it after `wait_ms` "
        "where that is given. `lane`: the inbox of `analytics` holds a lane of the name, with a file "
        "`cursor.000001` of these bytes unless it is null. `left`: empty files of the root that are there besides.",
        "key": KEY.hex(),
        "accepted_keys": ACCEPTED,
        "files": files(),
        "states": [*unclaimed(), *of_entries(), *of_claims(), *of_sweepers(), *what_was_forgotten()],
    }


def files() -> list[dict[str, Any]]:
    told = {**MAKER, "ephemeral": False, "sweeps": False}

    def good(name: str, bug: str, data: bytes, **changes: Any) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex(), "claim": {**told, **changes}}

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex(), "claim": None}

    foreign = Keyring((FOREIGN,)).registry_key
    every: dict[str, Any] = {"above": 7, "ephemeral": True, "sweeps": True}
    return [
        good("claim", "basic form", claim_file()),
        good("every field", "field names", claim_file(**every), **every),
        good("unknown field", "new fields refused", claim_file(colour="red")),
        good(
            "no time",
            "a claim without a time expires at once",
            claim_file(made_monotonic_ms=None),
            made_monotonic_ms=None,
        ),
        good("no above", "absent read as 0", claim_file(above=None), above=None),
        good("another key", "what only the key may say", claim_file(foreign, **every), above=None, sweeps=True),
        good("1 is not true", "types converted", claim_file(ephemeral=1, sweeps="yes")),
        bad("empty", "nothing invented", b""),
        bad("half", "a claim that is being written", claim_file()[:40]),
        bad("array", "any JSON taken for an object", signed(b"[]")),
        bad("no lease", "a default invented", claim_file(lease=None)),
        bad("pid as text", "types converted", claim_file(pid="4242")),
        bad("boolean as pid", "true is 1", claim_file(pid=True)),
        bad("whole fraction", "30000.0 taken for an integer", claim_file(lease=30000.0)),
        bad("host as number", "types converted", claim_file(host=7)),
        bad("time as text", "types converted", claim_file(made_monotonic_ms="987654")),
        bad("above as text", "types converted", claim_file(above="7")),
    ]


def claim(generation: int, maker: str | None, **other: Any) -> dict[str, Any]:
    """Options: ``lease_ms``, ``age_ms``, ``above``, ``ephemeral``, ``sweeps``, ``read_only``."""
    told = {"lease_ms": LEASE, "age_ms": 0, "above": 0, "ephemeral": False, "sweeps": False, "read_only": False}
    return {"generation": generation, "maker": maker, **({} if maker is None else told), **other}


def entry(generation: int, maker: str, **other: Any) -> dict[str, Any]:
    """Options: ``lease_ms``, ``age_ms``, ``status``, ``key``."""
    told = {"lease_ms": LEASE, "age_ms": 0, "status": "online", "key": "ours"}
    return {"generation": generation, "maker": maker, **told, **other}


def state(
    name: str, bug: str, claimed: list[dict[str, Any]], found: dict[str, Any] | None, **verdict: Any
) -> dict[str, Any]:
    return {"name": name, "bug": bug, "claims": claimed, "entry": found, **verdict}


def free(generation: int, above: int = 0) -> dict[str, Any]:
    return {"verdict": "free", "generation": generation, "above": above}


def wait(generation: int, wait_ms: int | None = None) -> dict[str, Any]:
    return {"verdict": "wait", "generation": generation, "wait_ms": wait_ms}


HELD = {"verdict": "held"}


def unclaimed() -> list[dict[str, Any]]:
    return [
        state("nothing", "generations begin at 0", [], None, **free(1)),
        state("below a floor", "a forgotten generation is used again", [], None, floor=9, **free(10, 9)),
        state("claims that were removed", "the entry is not asked", [], entry(5, "gone"), **free(6)),
        state("and it held cursors", "generations begin anew", [], None, left=[f"{OWN}/cursor.000004"], **free(5)),
        state(
            "and its lanes elsewhere",
            "only the own inbox is looked at",
            [],
            None,
            left=[f"{OWN}/cursor.000004", f"{THERE}/000007-00000001.lane", f"{THERE}/000006.fence"],
            **free(8),
        ),
        state(
            "an entry above the claims", "a generation is used again", [claim(2, "gone")], entry(6, "gone"), **free(7)
        ),
    ]


def of_entries() -> list[dict[str, Any]]:
    one = [claim(1, "here")]
    unseen = [claim(1, "unseen")]
    return [
        state("a live node", "two nodes of one name", one, entry(1, "here"), **HELD),
        state(
            "a node that leaves",
            "its successor begins before it ended",
            one,
            entry(1, "here", status="leaving"),
            **HELD,
        ),
        state("a node that died", "its name waits for the lease", one, entry(1, "gone"), **free(2)),
        state(
            "a lease that ran out", "a paused node keeps its name", one, entry(1, "here", age_ms=LEASE + 1), **free(2)
        ),
        state("a node nobody can see", "unseen taken for gone", unseen, entry(1, "unseen"), **HELD),
        state(
            "its lease ran out",
            "unseen taken for live",
            unseen,
            entry(1, "unseen", age_ms=LEASE + 1),
            **free(2),
        ),
        state(
            "a heartbeat that lies ahead",
            "it is live for ever, or not at all",
            one,
            entry(1, "here", age_ms=-LEASE, lease_ms=SHORT),
            **wait(2, SHORT),
        ),
        state(
            "on another boot",
            "clocks of two boots compared",
            [claim(1, "elsewhere")],
            entry(1, "elsewhere", age_ms=10 * LEASE, lease_ms=SHORT),
            **wait(2, SHORT),
        ),
        state(
            "an entry of a lower generation",
            "an old entry taken for that of the newest claim",
            [claim(1, "gone"), claim(2, "here")],
            entry(1, "gone"),
            **HELD,
        ),
    ]


def of_claims() -> list[dict[str, Any]]:
    stale = claim(1, "here", age_ms=LEASE + 1)
    return [
        state("a node that starts", "two nodes of one name", [claim(1, "here")], None, **HELD),
        state("one that died while it started", "its name waits for the lease", [claim(1, "gone")], None, **free(2)),
        state(
            "one that left", "the claim of who left is respected", [claim(1, "here", read_only=True)], None, **free(2)
        ),
        state("one that never published", "who stands still keeps a name for ever", [stale], None, **free(2)),
        state(
            "one that tells no time",
            "no time read as long ago",
            [claim(1, "here", age_ms=None)],
            None,
            **HELD,
        ),
        state(
            "one of another key",
            "a node of another key is pushed aside after a lease",
            [stale],
            entry(1, "here", key="foreign"),
            **HELD,
        ),
        state("one nobody can see", "unseen taken for gone", [claim(1, "unseen")], None, **HELD),
        state(
            "unseen, and its lease has passed",
            "who stands still keeps a name for ever",
            [claim(1, "unseen", age_ms=LEASE + 1)],
            None,
            **free(2),
        ),
        state(
            "one of another boot",
            "its pid looked for here",
            [claim(1, "elsewhere", lease_ms=SHORT)],
            None,
            **wait(2, SHORT),
        ),
        state(
            "another boot, and left",
            "a released claim waited for",
            [claim(1, "elsewhere", read_only=True)],
            None,
            **free(2),
        ),
        state("being written", "an empty claim taken for an abandoned one", [claim(1, None)], None, **wait(2)),
        state(
            "an empty one, made read-only", "nobody can end the wait", [claim(1, None, read_only=True)], None, **free(2)
        ),
        state(
            "gaps between claims",
            "the count of claims, not the highest",
            [claim(2, "gone"), claim(7, "gone")],
            None,
            **free(8),
        ),
    ]


def of_sweepers() -> list[dict[str, Any]]:
    return [
        state(
            "somebody sweeps",
            "a node starts while its files are removed",
            [claim(1, "here", sweeps=True)],
            None,
            **wait(2),
        ),
        state(
            "and its lease has passed",
            "a sweeper that lives is pushed aside",
            [claim(1, "here", sweeps=True, age_ms=LEASE + 1)],
            None,
            **wait(2),
        ),
        state("a sweeper that died", "nobody starts there any more", [claim(1, "gone", sweeps=True)], None, **free(2)),
    ]


def what_was_forgotten() -> list[dict[str, Any]]:
    return [
        state(
            "above goes on", "a new life forgets what was forgotten", [claim(4, "gone", above=3)], None, **free(5, 3)
        ),
        state(
            "an ephemeral life", "what it left is waited for", [claim(4, "gone", ephemeral=True)], None, **free(5, 4)
        ),
        state(
            "an ephemeral life with an unread lane",
            "what it sent is lost",
            [claim(4, "gone", ephemeral=True)],
            None,
            lane={"cursor": None},
            **free(5),
        ),
        state(
            "an ephemeral life with an empty cursor in its lane",
            "what it sent is lost when the power fails before the first cursor is on the disk",
            [claim(4, "gone", ephemeral=True)],
            None,
            lane={"cursor": ""},
            **free(5),
        ),
        state(
            "an ephemeral life with a lane that is read",
            "what it left is waited for",
            [claim(4, "gone", ephemeral=True)],
            None,
            lane={
                "cursor": encode_cursor(Cursor(1, 4, 1, 0, 0), RING.lane_key(node_id(NAME), node_id("analytics"))).hex()
            },
            **free(5, 4),
        ),
        state("not told", "absent read as 0", [claim(4, "gone", above=None)], None, floor=2, **free(5, 2)),
        state(
            "an unreadable claim above a told one",
            "what nobody tells is 0",
            [claim(3, "gone", above=2), claim(4, None, read_only=True)],
            None,
            **free(5, 2),
        ),
    ]
