"""Which envelopes a process that died may have handled already, as far as its successor can tell (L-15)."""

from __future__ import annotations

from speed.core.progress import Position, Token
from speed.wire.envelope import FLAG_SEGMENT, EnvelopeType, Header

_IN_ORDER = frozenset((EnvelopeType.MESSAGE, EnvelopeType.EVENT))


class Repeats:
    """Judges the envelopes of one lane, each once, in order. ``until`` is where the lane ended at the start."""

    __slots__ = ("_all", "_seen", "_until")

    def __init__(self, until: Position, *, all_types: bool) -> None:
        self._until = until
        self._all = all_types
        self._seen: set[int] = set()

    def are_over(self, token: Token) -> bool:
        """Whether this envelope and all after it were written since the process died."""
        return (token.generation, token.file, token.start) >= self._until

    def may_include(self, header: Header) -> bool:
        """Whether the dead process, which handled messages and events one at a time, may have handled the next.

        So only the first of each of these types can be repeated, unless ``all_types`` says that more was lost. A
        payload in segments may have let messages behind it pass while it was put together: segments do not count.
        """
        if self._all or header.type not in _IN_ORDER or header.flags & FLAG_SEGMENT:
            return True
        first = header.type not in self._seen
        self._seen.add(header.type)
        return first
