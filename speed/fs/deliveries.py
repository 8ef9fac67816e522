"""How often messages that came again were begun, beside their lane's cursor (L-25)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from speed.errors import WireError
from speed.fs.open import Owners, UntrustedFileError, read_small, replace_file, unlink_quietly
from speed.wire.cursor import MAX_DELIVERIES_BYTES, decode_deliveries, encode_deliveries
from speed.wire.limits import MAX_DELIVERIES_LISTED
from speed.wire.names import deliveries_name


class Deliveries:
    """Counts of the messages of one lane that are not finished. Not thread-safe: the lane's lock guards it.

    ``directory()`` is the descriptor of the lane. ``found`` are the generations that left a file, the newest first.
    ``count(what)`` hears of damaged ones.
    """

    def __init__(
        self,
        directory: Callable[[], int],
        generation: int,
        keys: Sequence[bytes],
        owners: Owners,
        found: Sequence[int],
        count: Callable[[str], None],
    ) -> None:
        self._dir, self._generation, self._keys, self._owners = directory, generation, keys, owners
        self._count = count
        self._older = [one for one in found if one < generation]
        self._is_there = generation in found
        self._counts = self._newest([one for one in found if one <= generation])

    def _newest(self, generations: Sequence[int]) -> dict[int, int]:
        for generation in generations:
            try:
                data = read_small(deliveries_name(generation), self._dir(), self._owners, MAX_DELIVERIES_BYTES + 1)
                return decode_deliveries(data, self._keys)
            except (WireError, UntrustedFileError):
                self._count("deliveries_damaged")
            except FileNotFoundError:
                continue
        return {}

    def begin(self, sequence: int) -> int:
        """Count another start of a redelivered message; returns how often it was begun. OSError."""
        count = self._counts.get(sequence, 1) + 1
        if sequence in self._counts or len(self._counts) < MAX_DELIVERIES_LISTED:
            self._counts[sequence] = count
        self._write()
        return count

    def finished(self, sequence: int) -> None:
        """Stop counting a message that is finished. OSError."""
        if self._counts.pop(sequence, None) is not None:
            self._write()

    def rewrite(self) -> None:
        """Write the counts again under the present first key. OSError."""
        if self._counts:
            self._write()

    def _write(self) -> None:
        name = deliveries_name(self._generation)
        if self._counts:
            os.close(replace_file(name, encode_deliveries(self._counts, self._keys[0]), self._dir()))
            self._is_there = True
        elif self._is_there:
            self._is_there = not unlink_quietly(name, self._dir())
        while self._older:
            unlink_quietly(deliveries_name(self._older.pop()), self._dir())
