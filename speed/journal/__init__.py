"""A journal: events and messages that speedd records, sealed on disk, to be read later from any offset.

``Journal`` reads; it needs no node and starts no thread. ``JournalWriter`` and ``Recorder`` are speedd's.
"""

from __future__ import annotations

from speed.journal.reader import Journal, LaneInfo
from speed.journal.record import Block, Call, Record

__all__ = ["Block", "Call", "Journal", "LaneInfo", "Record"]
