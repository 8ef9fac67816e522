"""Which of the lanes that a node finds at its start are opened (L-21)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import SOURCE
from speed.wire.limits import UNGRANTED_LANE_GRACE_SECONDS


def first_scan() -> dict[str, Any]:
    """All cases; they are stated by hand."""
    grace = UNGRANTED_LANE_GRACE_SECONDS
    rows: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
        ("granted", "a restarted node reads nothing", {"allow": [SOURCE]}, True),
        ("granted by a family", "exact names only", {"source": "etl.1", "allow": ["etl.*"]}, True),
        ("granted and denied", "what a denial excepts waits for ever", {"allow": [SOURCE], "deny": [SOURCE]}, False),
        (
            "excepted from a family",
            "a denial taken for no grant: what its sender wrote by right is not discarded",
            {"source": "etl.1", "allow": ["etl.*"], "deny": ["etl.1"]},
            True,
        ),
        ("an observer", "who looks waits for a grant", {"observers": [SOURCE]}, True),
        ("not granted", "discarded before the program could grant", {}, False),
        ("another is granted", "one grant for all", {"allow": ["web"]}, False),
        ("this node wrote to it", "an answer waits for a grant", {"wrote": True}, True),
        ("just before the grace is over", "off by one", {"seconds": grace - 0.001}, False),
        ("once the grace is over", "it waits for ever", {"seconds": grace}, True),
        ("it came after the first scan", "everyone waits for a grant", {"there": False}, True),
    )
    return {
        "about": "L-21. A lane of `source` is `there` when a node makes its first scan, or comes after it. So many "
        "`seconds` after that scan the node has granted `allow`, then denied `deny`, and its root has these "
        "`observers`; perhaps it `wrote` to that sender since it started. `opened`: whether it opens the lane then.",
        "cases": [
            {
                "name": name,
                "bug": bug,
                "source": SOURCE,
                "there": True,
                "allow": [],
                "deny": [],
                "observers": [],
                "wrote": False,
                "seconds": 1.0,
                **changed,
                "opened": opened,
            }
            for name, bug, changed, opened in rows
        ],
    }
