"""Who holds a name, by the clock (R-7 to R-12): the verdict of an observer, and an owner's own."""

from __future__ import annotations

from typing import Any

LEASE, BEAT = 30_000, 1_000_000
BOOT, OTHER_BOOT = "boot-1", "boot-2"


def leases() -> dict[str, Any]:
    """All cases; they are stated by hand."""
    return {
        "about": "Times are ms. `judged` (R-8 to R-10): an entry of boot `boot` with `lease` and `heartbeat` "
        "(heartbeatMonotonicMs), seen at `now` by an observer of boot `observer`. `process`: `lives`, `gone`, or "
        "`unseen` where nobody can tell. `unchanged`: for how long the observer has seen exactly this entry. "
        "`owned` (R-12): the owner renewed its lease at `renewed`; at each time of `looks` it looks whether it lost "
        "it. A look [now, lost, written] is followed by a heartbeat with that time, unless it is null. `settings` "
        "(R-7, R-21): whether a node starts with them; `late`: how late another host may see a heartbeat.",
        "judged": _judged(),
        "owned": _owned(),
        "settings": _settings(),
    }


def _judged() -> list[dict[str, Any]]:
    rows: tuple[tuple[str, str, str, str, int, int, str], ...] = (
        ("just renewed", "every entry looked at twice", BOOT, "lives", 0, 0, "live"),
        ("at the end of its lease", "off by one", BOOT, "lives", LEASE, 0, "live"),
        ("behind its lease", "off by one", BOOT, "lives", LEASE + 1, 0, "stale"),
        ("its process is gone", "a lease waited for in vain", BOOT, "gone", 0, 0, "stale"),
        ("its process cannot be seen", "taken for gone", BOOT, "unseen", 100, 0, "live"),
        ("unseen, behind its lease", "taken for live", BOOT, "unseen", LEASE + 1, 0, "stale"),
        ("a heartbeat ahead", "a clock believed", BOOT, "lives", -1, 0, "watch"),
        ("a heartbeat ahead for a lease", "off by one", BOOT, "lives", -1, LEASE, "watch"),
        ("a heartbeat ahead for longer", "a name held for ever", BOOT, "lives", -1, LEASE + 1, "stale"),
        ("a heartbeat ahead, its process gone", "a clock believed", BOOT, "gone", -1, 0, "stale"),
        ("another boot", "two clocks compared", OTHER_BOOT, "unseen", 0, 0, "watch"),
        ("another boot, an old clock", "two clocks compared", OTHER_BOOT, "unseen", 10 * LEASE, 0, "watch"),
        ("another boot for a lease", "off by one", OTHER_BOOT, "unseen", 0, LEASE, "watch"),
        ("another boot for longer", "a name held for ever", OTHER_BOOT, "unseen", 0, LEASE + 1, "stale"),
        ("an entry without a boot", "two unknown boots taken for one", "", "unseen", 0, 0, "watch"),
    )
    return [
        {
            "name": name,
            "bug": bug,
            "boot": boot,
            "observer": "" if not boot else BOOT,
            "lease": LEASE,
            "heartbeat": BEAT,
            "now": BEAT + age,
            "process": process,
            "unchanged": unchanged,
            "verdict": verdict,
        }
        for name, bug, boot, process, age, unchanged, verdict in rows
    ]


def _owned() -> list[dict[str, Any]]:
    end = BEAT + LEASE
    rows: tuple[tuple[str, str, list[list[Any]]], ...] = (
        ("renewed in time", "counted from the start", [[BEAT + 5000, False, BEAT + 5000], [end + 1, False, None]]),
        ("the last moment", "off by one", [[end, False, None], [end + 1, True, None]]),
        ("lost for good", "a lease that comes back", [[end + 1, True, None], [end, True, None]]),
        (
            "a heartbeat that was written late",
            "counted from the end of the write",
            [[end, False, BEAT + 1], [end + 1, False, None], [end + 2, True, None]],
        ),
    )
    return [{"name": name, "bug": bug, "lease": LEASE, "renewed": BEAT, "looks": looks} for name, bug, looks in rows]


def _settings() -> list[dict[str, Any]]:
    rows = (
        ("the default", "refused", LEASE, 5000, 0, True),
        ("three heartbeats", "off by one", 15_000, 5000, 0, False),
        ("a bit more", "off by one", 15_001, 5000, 0, True),
        ("no heartbeat", "a node that is always stale", LEASE, 0, 0, False),
        ("seen late", "two hosts with one name", LEASE, 5000, 15_000, False),
        ("seen less late", "off by one", LEASE, 5000, 14_999, True),
    )
    return [
        {"name": name, "bug": bug, "lease": lease, "heartbeat": beat, "late": late, "starts": starts}
        for name, bug, lease, beat, late, starts in rows
    ]
