"""Envelopes in the bytes of a lane, and the next one after damage (L-11, L-16). Sans-IO."""

from __future__ import annotations

from collections.abc import Callable

from speed.errors import WireError
from speed.wire.envelope import ENVELOPE_OVERHEAD, Header, parse_header
from speed.wire.limits import AAD_BYTES

_IDS_OFFSET = 32

Authenticate = Callable[[Header, memoryview], bytes]


class LaneFormat:
    """Finds the envelopes of one link in bytes of its lane. Stateless, so any split of a lane reads equally."""

    def __init__(self, source: bytes, target: bytes) -> None:
        self._source = source
        self._target = target
        self._ids = source + target

    def header_at(self, buffer: bytes | memoryview, offset: int) -> Header | None:
        """The header at ``offset``; None if it is not complete yet; WireError if it cannot be one."""
        if len(buffer) - offset < AAD_BYTES:
            return None
        header = parse_header(buffer, offset)
        if header.source != self._source:
            raise WireError("WRONG_SOURCE", "the source id is not the lane's sender")
        if header.target != self._target:
            raise WireError("WRONG_TARGET", "the target id is another node's")
        return header

    def resume_after(self, buffer: bytes, start: int, authenticate: Authenticate) -> int | None:
        """Offset of the first authentic envelope at or after ``start``; None if there is none (yet).

        Source and target ids are the same in all envelopes of a lane: they are what to search for.
        """
        view = memoryview(buffer)
        found = buffer.find(self._ids, start + _IDS_OFFSET)
        while found >= 0:
            offset = found - _IDS_OFFSET
            if self._is_authentic(view, offset, authenticate):
                return offset
            found = buffer.find(self._ids, found + 1)
        return None

    def _is_authentic(self, view: memoryview, offset: int, authenticate: Authenticate) -> bool:
        try:
            header = self.header_at(view, offset)
            if header is None or len(view) - offset < header.payload_bytes + ENVELOPE_OVERHEAD:
                return False
            authenticate(header, view[offset : offset + header.payload_bytes + ENVELOPE_OVERHEAD])
        except WireError:
            return False
        return True
