"""Payloads in segments, with parity: what an application alone can use as well (``registry_spec/segments.md``).

Pure: bytes and times come in, bytes and verdicts go out. ``Splitter`` needs nothing but a segment size; ``Assembler``
puts together what it made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed.wire import lazily

if TYPE_CHECKING:
    from speed.segment.form import Segment, keccak256, read_segment, write_segment
    from speed.segment.parity import Splitter
    from speed.segment.reassembly import Assembler, Limits, Outcome

_LATER = {
    "Assembler": "reassembly",
    "Outcome": "reassembly",
    "Segment": "form",
    "read_segment": "form",
    "write_segment": "form",
    "keccak256": "form",
    "Limits": "reassembly",
    "Splitter": "parity",
}
"""Imported at first use: most nodes never see a segment."""

__all__ = ["Assembler", "Limits", "Outcome", "Segment", "Splitter", "keccak256", "read_segment", "write_segment"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(lazily.load(f"{__name__}.{_LATER[name]}"), name)
