"""Write registry_spec/vectors: ``.venv/bin/python -m scripts.vectors``; ``--check`` writes nothing, and compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.vectors.backend_names import backend_names
from scripts.vectors.batches import batches
from scripts.vectors.claims import claims
from scripts.vectors.columns import columns
from scripts.vectors.dead_letters import dead_letters
from scripts.vectors.declared import declared
from scripts.vectors.encryption import encryption
from scripts.vectors.envelopes import envelopes
from scripts.vectors.files import cursors, entries
from scripts.vectors.first_scan import first_scan
from scripts.vectors.floors import floors
from scripts.vectors.groups import groups
from scripts.vectors.harmless import harmless
from scripts.vectors.hosts import hosts
from scripts.vectors.identity import identity
from scripts.vectors.journal import journal
from scripts.vectors.lanes import lanes
from scripts.vectors.leases import leases
from scripts.vectors.messages import messages
from scripts.vectors.naming import keys, names
from scripts.vectors.observers import observers
from scripts.vectors.old_forms import old_forms
from scripts.vectors.payloads import payloads, values
from scripts.vectors.rows import rows
from scripts.vectors.scheduling import scheduling
from scripts.vectors.segments import segments
from scripts.vectors.sending import sending
from scripts.vectors.settled import settled
from scripts.vectors.signatures import signatures
from scripts.vectors.slots import slots
from scripts.vectors.streams import streams
from scripts.vectors.topics import topics
from scripts.vectors.transcript import page, transcript
from scripts.vectors.trust import trust

OUTPUT = Path(__file__).resolve().parents[2] / "registry_spec" / "vectors"
FILES: dict[str, Callable[[], dict[str, Any]]] = {
    one.__name__: one
    for one in (
        names,
        keys,
        envelopes,
        entries,
        claims,
        leases,
        cursors,
        lanes,
        settled,
        slots,
        streams,
        sending,
        first_scan,
        floors,
        values,
        columns,
        rows,
        declared,
        payloads,
        messages,
        batches,
        signatures,
        encryption,
        old_forms,
        journal,
        segments,
        scheduling,
        groups,
        dead_letters,
        harmless,
        trust,
        topics,
        transcript,
        backend_names,
        hosts,
        identity,
        observers,
    )
}


def text_of(stem: str) -> str:
    """The exact text of one vector file."""
    return json.dumps(FILES[stem](), indent=1, ensure_ascii=True) + "\n"


PAGE = OUTPUT.parent / "transcript.md"
"""The transcript for people."""


def _written() -> dict[Path, str]:
    """All files that this command makes."""
    return {**{OUTPUT / f"{stem}.json": text_of(stem) for stem in FILES}, PAGE: page()}


def _check() -> None:
    """Ends with status 1, and names the files, if some are not what would be written."""
    other = [path.name for path, text in _written().items() if not path.exists() or path.read_text("utf-8") != text]
    if other:
        raise SystemExit(f"not what the code writes: {', '.join(other)}; run python -m scripts.vectors")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        _check()
    else:
        for path, text in _written().items():
            path.write_text(text, encoding="utf-8")
            print(path.name)
