"""Envelopes between two hosts: sealed with the key of the pair, for two lives (H-4, H-5)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from speed.errors import WireError
from speed.runtime.context import unix_ms
from speed.wire.envelope import FLAG_REPLY, EnvelopeType, Header, make_sequence, pack_header
from speed.wire.hosts import host_id
from speed.wire.limits import AAD_BYTES, NONCE_BYTES
from speed.wire.seal import Aead, Keyring, hkdf, random_bytes

LIFE_BYTES = 16
"""A life is random: no two starts of a host have the same."""
_KEPT = 8
"""Keys for a few lives and keys of the file at a time."""


class PairSeal:
    """Seals and opens what two hosts exchange. Thread-safe."""

    def __init__(self, keyring: Keyring, own: str, other: str, now_ms: Callable[[], int] = unix_ms) -> None:
        """``now_ms``: the wall clock in Unix milliseconds, which envelopes carry for people alone."""
        self._keyring, self._now_ms = keyring, now_ms
        self.own_id, self.other_id = host_id(own), host_id(other)
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Aead] = OrderedDict()

    @property
    def key_id(self) -> str:
        """Of the key that seals now."""
        return self._keyring.key_id.hex()

    def seal_hello(self, payload: bytes, *, reply: bool, nonce: bytes | None = None) -> bytes:
        """One that begins or answers a greeting: it opens in any life. Without ``nonce`` it is random."""
        drawn, flags = nonce or random_bytes(NONCE_BYTES), FLAG_REPLY if reply else 0
        return self._seal(EnvelopeType.DISCOVERY, flags, 1, drawn, payload, b"")

    def seal(self, type_: int, counter: int, payload: bytes, own_life: bytes, other_life: bytes) -> bytes:
        """One for these lives. A counter is used once, and is the nonce."""
        return self._seal(type_, 0, counter, counter.to_bytes(NONCE_BYTES, "big"), payload, own_life + other_life)

    def _seal(self, type_: int, flags: int, counter: int, nonce: bytes, payload: bytes, lives: bytes) -> bytes:
        now = self._keyring.now
        ids = self.own_id, self.other_id
        sequence = make_sequence(1, counter)
        header = pack_header(type_, flags, sequence, self._now_ms(), len(payload), *ids, now.ids[0], nonce)
        return self._aead(now.keys[0], ids[0] + ids[1] + lives).encrypt(nonce, payload, header, header)

    def open_hello(self, header: Header, envelope: bytes) -> bytes:
        """What a greeting says. WireError."""
        return self._open(header, envelope, b"")

    def open(self, header: Header, envelope: bytes, own_life: bytes, other_life: bytes) -> bytes:
        """What was sealed for these lives. WireError UNKNOWN_KEY or BAD_TAG for anything else."""
        return self._open(header, envelope, other_life + own_life)

    def _open(self, header: Header, envelope: bytes, lives: bytes) -> bytes:
        key = self._keyring.now.find(header.key_id)
        if key is None:
            self._keyring.look()
            key = self._keyring.now.find(header.key_id)
        if key is None:
            raise WireError("UNKNOWN_KEY", "the key of the pair is another one")
        aead = self._aead(key, self.other_id + self.own_id + lives)
        try:
            return aead.decrypt(header.nonce, memoryview(envelope)[AAD_BYTES:], envelope[:AAD_BYTES])
        except ValueError:
            raise WireError("BAD_TAG", "the envelope is not authentic") from None

    def _aead(self, key: bytes, about: bytes) -> Aead:
        """The key for one direction, of two lives or of greetings."""
        name = key + about
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                found = self._kept[name] = Aead(hkdf(key, b"speed/1 hosts" + about))
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return found
