"""From bytes in private memory to opened envelopes of one lane (L-10, L-11)."""

from __future__ import annotations

from typing import NamedTuple

from speed.core.lane import Damage, LaneDecoder, Opened
from speed.core.progress import Token
from speed.fs.read_buffer import CHUNK_BYTES, ReadBuffer
from speed.wire.envelope import EnvelopeType, Header
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.seal import Keyring, LinkOpener, ReusedBuffer

_DECODED_AT_ONCE = frozenset((EnvelopeType.SPC_REQUEST, EnvelopeType.SPC_RESPONSE))
"""Types whose payload is decoded, hence copied, when it is dispatched; messages are decoded when looked at."""

_SAMPLE_BYTES = 1 << 20


class Received(NamedTuple):
    """One authentic envelope; ``token`` finishes it. The payload of a call is valid until the next ``read``."""

    header: Header
    payload: bytes | memoryview
    redelivered: bool
    token: Token


class EnvelopeReader:
    """Buffer and decoder of a lane. Not thread-safe: the lane's reader guards it."""

    __slots__ = ("_lent", "_opener", "_reused", "buffer", "decoder")

    def __init__(self, source_id: bytes, target_id: bytes, keyring: Keyring, buffer: ReadBuffer) -> None:
        self.buffer = buffer
        self.decoder = LaneDecoder(source_id, target_id, MAX_PAYLOAD_BYTES, self._open)
        self._opener = LinkOpener(keyring, source_id, target_id)
        self._reused = ReusedBuffer()
        self._lent = False

    def begin(self) -> None:
        """What the last read handed out has been decoded: its memory may be used again."""
        self._lent = False

    def _open(self, header: Header, envelope: memoryview) -> bytes | memoryview:
        """Decrypt; a large payload that is decoded before the next read goes into memory used again and again."""
        if len(envelope) < ReusedBuffer.LARGE_BYTES or header.type not in _DECODED_AT_ONCE or self._lent:
            return self._opener.open(header, envelope)  # type: ignore[no-any-return]
        self._lent = True
        return self._opener.open(header, envelope, self._reused)  # type: ignore[no-any-return]

    def at(self, fd: int, generation: int, offset: int) -> Opened | None:
        """The authentic envelope that begins at a place of a segment, however large it is."""
        needed = CHUNK_BYTES
        while True:
            length = self.buffer.fill(fd, offset, needed)
            scanned = self.decoder.scan(self.buffer.data, length, offset, generation, limit=1)
            if scanned.items or scanned.needed <= needed:
                break
            needed = scanned.needed
        return next((item for item in scanned.items if isinstance(item, Opened)), None)  # at most one was asked for

    def sample(self, damage: Damage, base: int) -> bytes:
        """The damaged bytes, at most 1 MiB of them (L-20); ``base`` is the place that was read last."""
        end = min(damage.end, damage.start + _SAMPLE_BYTES)
        return bytes(self.buffer.data[damage.start - base : end - base])
