"""A journal: events and messages that speedd records, sealed on disk, to be read later from any offset.

``Journal`` reads; it needs no node and starts no thread. ``JournalWriter`` and ``Recorder`` are speedd's.
"""

from __future__ import annotations

from speed.journal.files import Block, Call, Record
from speed.journal.reader import Journal, LaneInfo

__all__ = ["Block", "Call", "Journal", "LaneInfo", "Record"]
