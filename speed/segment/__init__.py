"""Payloads in segments, with parity: what an application alone can use as well (``registry_spec/segments.md``).

Pure: bytes and times come in, bytes and verdicts go out. ``Splitter`` needs nothing but a segment size; ``Assembler``
puts together what it made.
"""

from __future__ import annotations

from speed.segment.assembler import Assembler, Outcome
from speed.segment.form import Segment, read_segment, write_segment
from speed.segment.keccak import keccak256
from speed.segment.reassembly import Limits
from speed.segment.splitter import Splitter

__all__ = ["Assembler", "Limits", "Outcome", "Segment", "Splitter", "keccak256", "read_segment", "write_segment"]
