"""Atheris over the Python decoders: inputs that reach new branches are kept in the corpus that all languages share.

``scripts/fuzz python``; the options are libFuzzer's. Garbage gives one named error and nothing else, within a second of
processor time, and nothing asks for twice the largest payload at once.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["speed.wire", "speed.core", "speed.message"]):
    from speed.core.lane import ByteWindow, LaneDecoder
    from speed.wire.seal import LinkOpener
    from tests.interop import bounds, corpus
    from tests.interop.decoding import RING, SOURCE, TARGET
    from tests.interop.findings import verdicts

_LIMITED_EVERY = 1000
_runs = 0


def read_one(data: bytes) -> None:
    """One input; an exception is a finding."""
    global _runs
    if _runs % _LIMITED_EVERY == 0:
        bounds.limit_memory()
    _runs += 1
    if not data:
        return
    kind, content = corpus.parsed(data)
    if kind == "lane":
        _scan(content)
    kind, wire = corpus.on_the_wire(kind, content)
    verdict = bounds.bounded_verdict(kind, wire)
    assert verdict in verdicts(kind), f"{kind}: {verdict}"


def _scan(data: bytes) -> None:
    """L-16: every byte is settled exactly once, in order, and never more of them than there are."""
    scanned = LaneDecoder(SOURCE, TARGET, 1 << 26, LinkOpener(RING, SOURCE, TARGET).open).scan(
        ByteWindow(data, 0, 7, final=True, suspicious=True)
    )
    settled = 0
    for item in scanned.items:
        assert item.start == settled < item.end
        settled = item.end
    assert settled == scanned.consumed <= len(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_one)
    atheris.Fuzz()
