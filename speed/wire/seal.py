"""Keys, derived keys, sealing and opening (rules W-14 to W-18).

``Keyring`` holds the accepted keys; ``LinkSealer`` and ``LinkOpener`` are the two ends of one link. None of
them locks: the link's owner does. Two AEAD backends give the same bytes (shared vectors prove it).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from speed.errors import ConfigurationError, PayloadTooLargeError, WireError
from speed.wire.envelope import (
    ENVELOPE_OVERHEAD,
    HEADER,
    Bytes,
    Header,
    generation_of,
    pack_header,
)
from speed.wire.limits import (
    COUNTER_BITS,
    GENERATION_BITS,
    KEY_BYTES,
    KEY_ID_BYTES,
    MAX_KEYS,
    MAX_PAYLOAD_BYTES,
    NODE_ID_BYTES,
    NONCE_BYTES,
)

Backend = Literal["openssl", "sodium"]

_KEY_ID_LABEL = b"speed/1 key id"
_LINK_LABEL = b"speed/1 link"
_LANE_LABEL = b"speed/1 lane"
_REGISTRY_LABEL = b"speed/1 registry"
_EMPTY_SALT = bytes(32)
_MAX_CACHED_GENERATIONS = 4
_DRAWN_BYTES = 4096
_MAX_COUNTER = (1 << COUNTER_BITS) - 1


class Aead(Protocol):
    """ChaCha20-Poly1305 (IETF) under one key."""

    def encrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes: ...

    def decrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes: ...


class _Sodium:
    """libsodium through PyNaCl, which takes real bytes only."""

    def __init__(self, key: bytes) -> None:
        from nacl import bindings

        self._key = key
        self._seal = bindings.crypto_aead_chacha20poly1305_ietf_encrypt
        self._open = bindings.crypto_aead_chacha20poly1305_ietf_decrypt

    def encrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes:
        return bytes(self._seal(bytes(data), bytes(associated_data or b""), nonce, self._key))

    def decrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes:
        return bytes(self._open(bytes(data), bytes(associated_data or b""), nonce, self._key))


def _make_aead(key: bytes, backend: Backend) -> Aead:
    if backend == "sodium":
        return _Sodium(key)
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)


def hkdf(key: bytes, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-SHA256 (RFC 5869, empty salt): one expansion block (rule W-15)."""
    extracted = hmac.digest(_EMPTY_SALT, key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def key_id(key: bytes) -> bytes:
    """Return the 8-byte public id of a key (rule W-14)."""
    return hashlib.sha256(_KEY_ID_LABEL + key).digest()[:KEY_ID_BYTES]


def _checked_ids(source: bytes, target: bytes) -> bytes:
    if len(source) != NODE_ID_BYTES or len(target) != NODE_ID_BYTES:
        raise ValueError(f"node ids have {NODE_ID_BYTES} bytes, got {len(source)} and {len(target)}")
    return source + target


class Keyring:
    """The accepted pre-shared keys; the first one seals, all open (rule W-14).

    Args:
        keys: one to MAX_KEYS keys of 32 bytes.
        backend: which library does the AEAD work, "openssl" (fast) or "sodium" (reference).
    """

    def __init__(self, keys: Sequence[bytes], backend: Backend = "openssl") -> None:
        if not 1 <= len(keys) <= MAX_KEYS or any(len(key) != KEY_BYTES for key in keys):
            raise ConfigurationError(f"a keyring holds 1 to {MAX_KEYS} keys of {KEY_BYTES} bytes")
        if backend not in ("openssl", "sodium"):
            raise ConfigurationError(f"backend {backend!r} is neither 'openssl' nor 'sodium'")
        self.backend: Backend = backend
        self._keys = {key_id(key): bytes(key) for key in keys}
        self.key_id: bytes = key_id(keys[0])
        self.key_ids: tuple[bytes, ...] = tuple(self._keys)
        self.registry_keys = tuple(hkdf(key, _REGISTRY_LABEL) for key in self._keys.values())
        self.registry_key: bytes = self.registry_keys[0]

    def __repr__(self) -> str:
        return f"Keyring({self.key_id.hex()}, accepts {len(self._keys)})"

    def link_key(self, source: bytes, target: bytes, generation: int, key_id: bytes | None = None) -> bytes:
        """Return the AEAD key of a link and a sender's generation (rule W-16).

        Raises:
            WireError: UNKNOWN_KEY when no accepted key has this id.
        """
        key = self._keys.get(self.key_id if key_id is None else key_id)
        if key is None:
            raise WireError("UNKNOWN_KEY", f"no accepted key has id {(key_id or b'').hex()}")
        return hkdf(key, _LINK_LABEL + _checked_ids(source, target) + generation.to_bytes(8, "big"))

    def lane_key(self, source: bytes, target: bytes) -> bytes:
        """Return the key that authenticates this lane's cursor and fence files (rule W-17)."""
        return hkdf(self._keys[self.key_id], _LANE_LABEL + _checked_ids(source, target))

    def lane_keys(self, source: bytes, target: bytes) -> tuple[bytes, ...]:
        """Return the lane key under each accepted key, the sealing one first."""
        info = _LANE_LABEL + _checked_ids(source, target)
        return tuple(hkdf(key, info) for key in self._keys.values())

    def entry_mac(self, line: bytes) -> bytes:
        """Return the Base64 check line of a registry entry's first line (rule W-30)."""
        return b64encode(hmac.digest(self.registry_key, line, "sha256"))

    def aead(self, key: bytes) -> Aead:
        """Return the AEAD of this keyring's backend under ``key``."""
        return _make_aead(key, self.backend)


class LinkSealer:
    """Seals the envelopes of one link and one generation of its sender (rule W-16)."""

    def __init__(self, keyring: Keyring, source: bytes, target: bytes, generation: int) -> None:
        if not 1 <= generation < 1 << GENERATION_BITS:
            raise ValueError(f"generation {generation} is outside 1..{(1 << GENERATION_BITS) - 1}")
        self.source, self.target, self.generation = source, target, generation
        self._key_id = keyring.key_id
        self._encrypt = keyring.aead(keyring.link_key(source, target, generation)).encrypt
        self._base = generation << COUNTER_BITS

    def seal(
        self, type: int, flags: int, counter: int, timestamp_ms: int, payload: Bytes, nonce: bytes
    ) -> bytes:
        """Return one whole envelope; ``counter`` is from 1, ``nonce`` never used before under this link.

        Raises:
            PayloadTooLargeError: the payload exceeds MAX_PAYLOAD_BYTES.
        """
        size = len(payload)
        if size > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError(f"payload of {size} bytes exceeds {MAX_PAYLOAD_BYTES}")
        if not 0 < counter <= _MAX_COUNTER:
            raise ValueError(
                f"counter {counter} is outside 1..{_MAX_COUNTER}: the node needs a new generation"
            )
        header = pack_header(
            type, flags, self._base | counter, timestamp_ms, size,
            self.source, self.target, self._key_id, nonce,
        )  # fmt: skip
        return header + self._encrypt(nonce, payload, header)


class LinkOpener:
    """Opens the envelopes of one link, of any generation of its sender and under any accepted key."""

    def __init__(self, keyring: Keyring, source: bytes, target: bytes) -> None:
        _checked_ids(source, target)
        self.source, self.target = source, target
        self._keyring = keyring
        self._opened: dict[tuple[bytes, int], Callable[[bytes, Bytes, Bytes | None], bytes]] = {}

    def open(self, header: Header, envelope: Bytes) -> bytes:
        """Return the plaintext of a whole envelope whose header was parsed from the same bytes (rule W-18).

        Raises:
            WireError: WRONG_SOURCE, WRONG_TARGET, TRUNCATED, UNKNOWN_KEY or BAD_TAG, checked in this order.
        """
        if header.source != self.source:
            raise WireError("WRONG_SOURCE", "the source id is not that of this lane's sender")
        if header.target != self.target:
            raise WireError("WRONG_TARGET", "the target id is not that of this inbox")
        view = memoryview(envelope)
        if len(view) != header.payload_bytes + ENVELOPE_OVERHEAD:
            raise WireError("TRUNCATED", f"{len(view)} bytes for a payload of {header.payload_bytes}")
        decrypt = self._opened.get((header.key_id, header.sequence >> 40)) or self._decrypter(header)
        try:
            return decrypt(header.nonce, view[HEADER:], view[:HEADER])
        except Exception as error:
            raise WireError("BAD_TAG", f"sequence {header.sequence:#x} does not authenticate") from error

    def _decrypter(self, header: Header) -> Callable[[bytes, Bytes, Bytes | None], bytes]:
        generation = generation_of(header.sequence)
        key = self._keyring.link_key(self.source, self.target, generation, header.key_id)
        if len(self._opened) >= _MAX_CACHED_GENERATIONS:
            self._opened.clear()  # forged generations must not grow memory
        decrypt = self._keyring.aead(key).decrypt
        self._opened[(header.key_id, generation)] = decrypt
        return decrypt


class NonceSource:
    """Slices 12-byte nonces from bulk draws of a secure generator (rule W-16).

    Not locked and not fork-safe: the caller locks, and makes a new one in a child process.
    """

    def __init__(self, draw: Callable[[int], bytes]) -> None:
        self._draw = draw
        self._drawn = b""
        self._used = 0

    def next(self) -> bytes:
        """Return a nonce that was never returned before."""
        end = self._used + NONCE_BYTES
        if end > len(self._drawn):
            self._drawn, end = self._draw(_DRAWN_BYTES), NONCE_BYTES
        nonce = self._drawn[end - NONCE_BYTES : end]
        if len(nonce) != NONCE_BYTES:
            raise ConfigurationError("the random source returned too few bytes")
        self._used = end
        return nonce
