"""Offsets of messages that lie in Pulsar: the parts of a message's id, made one number. Pure (D-21)."""

from __future__ import annotations

from typing import NamedTuple

from speed.topics.subscription import SubscriptionError

LEDGER_BITS, ENTRY_BITS, BATCH_BITS = 31, 24, 8


class Place(NamedTuple):
    """Where a message lies, in the order of its topic. ``batch`` is -1 of one that is alone in its entry."""

    ledger: int
    entry: int
    batch: int = -1

    @property
    def offset(self) -> int:
        """63 bits. Raises SubscriptionError UNSUPPORTED if a part needs more than its share."""
        ledger, entry, batch = self.ledger, max(self.entry, 0), max(self.batch, 0)
        if ledger >> LEDGER_BITS or entry >> ENTRY_BITS or batch >> BATCH_BITS:
            text = f"the message {ledger}:{entry}:{batch} of Pulsar has no offset: its numbers are too large; "
            todo = f"batches of other producers may hold {1 << BATCH_BITS} messages, and ledgers {1 << ENTRY_BITS}"
            raise SubscriptionError("UNSUPPORTED", text + todo)
        return (ledger << ENTRY_BITS | entry) << BATCH_BITS | batch

    @classmethod
    def of(cls, offset: int) -> Place:
        """The first place that an offset may mean."""
        entry = offset >> BATCH_BITS
        batch = offset & (1 << BATCH_BITS) - 1
        return cls(entry >> ENTRY_BITS, entry & (1 << ENTRY_BITS) - 1, batch or -1)

    @classmethod
    def read(cls, text: str) -> Place:
        """Of ``ledger:entry``, as Pulsar's statistics write it. ValueError for anything else."""
        ledger, entry = text.split(":")[:2]
        return cls(int(ledger), int(entry))

    @property
    def behind(self) -> Place:
        """The entry that comes next, if its ledger goes on."""
        return Place(self.ledger, self.entry + 1)
