"""Keys: the text of a key file (W-14; RFC 3.3), what is derived from them, and sealing (W-9 to W-13; RFC 3).

ChaCha20-Poly1305 (IETF), with the 88 header bytes as associated data.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from typing import Any, Protocol, overload

from speed.errors import ConfigurationError, KeyFileError, WireError
from speed.wire import lazily
from speed.wire.envelope import Header, make_sequence, pack_header
from speed.wire.limits import AAD_BYTES, COUNTER_BITS, KEY_BYTES, KEY_ID_BYTES, MAX_KEYS, NONCE_BYTES, TAG_BYTES

# The text of a key file (W-14; RFC 3.3): ``SPEED-KEY-V1``, a blank line, Base64 keys, newest first.

FIRST_LINE = "SPEED-KEY-V1"
_FIX = "make one with `speed key new`"


def parse_key_file(text: bytes) -> tuple[bytes, ...]:
    """The keys of a key file, the sealing one first; KeyFileError names the line, never its content."""
    try:
        lines = [line.rstrip(" \t\r") for line in text.decode("ascii").split("\n")]
    except UnicodeDecodeError:
        raise KeyFileError(f"the key file is no text; {_FIX}") from None
    if lines[0] != FIRST_LINE:
        raise KeyFileError(f"line 1 of the key file is not {FIRST_LINE}; {_FIX}")
    if len(lines) < 2 or lines[1]:
        raise KeyFileError(f"line 2 of the key file is not blank; {_FIX}")
    keys = tuple(_parse_key(line, number) for number, line in enumerate(lines[2:], start=3) if line)
    if not keys:
        raise KeyFileError(f"the key file has no key after line 2; {_FIX}")
    if len(keys) > MAX_KEYS or len(set(keys)) != len(keys):
        raise KeyFileError(f"the key file has more than {MAX_KEYS} keys or one twice; {_FIX}")
    return keys


def _parse_key(line: str, number: int) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        raise KeyFileError(f"line {number} of the key file is not Base64; {_FIX}") from None
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"line {number} of the key file has {len(key)} bytes, not {KEY_BYTES}; {_FIX}")
    if base64.b64encode(key).decode() != line:
        raise KeyFileError(f"line {number} of the key file is not the canonical Base64 of its key; {_FIX}")
    return key


def format_key_file(keys: tuple[bytes, ...]) -> bytes:
    """The text that ``parse_key_file`` reads back."""
    lines = [FIRST_LINE, "", *(base64.b64encode(key).decode() for key in keys)]
    return ("\n".join(lines) + "\n").encode()


def rotate(keys: tuple[bytes, ...], new: bytes, keep: int = 1) -> tuple[bytes, ...]:
    """Put ``new`` first and keep ``keep`` older keys, accepted while the rotation lasts."""
    return (new, *keys[:keep])


_NONCE_BATCH = 256
_DERIVED = 1024
"""Derived keys that are remembered."""
_MAX_COUNTER = (1 << COUNTER_BITS) - 1


def hkdf(key: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) with an empty salt and 32 bytes of output."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def key_id_of(key: bytes) -> bytes:
    """The public name of a key (W-9)."""
    return sha256(b"speed/1 key id" + key).digest()[:KEY_ID_BYTES]


def link_key(key: bytes, source: bytes, target: bytes, generation: int, target_life: int = 0) -> bytes:
    """The key of one link in one generation of its sender (W-10).

    ``target_life`` is the generation of a receiver that is ephemeral: it keeps no record of what it handled, so what
    was sealed for one life of its name must not open in the next. 0 for a receiver that is not.
    """
    life = target_life.to_bytes(8, "big") if target_life else b""
    return hkdf(key, b"speed/1 link" + source + target + generation.to_bytes(8, "big") + life)


class Aead:
    """ChaCha20-Poly1305 under one key; ``decrypt`` raises ValueError for what is not authentic. Thread-safe.

    That of OpenSSL, by ``cryptography``: it writes into memory that is given, and is twice as quick as libsodium.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = _cipher(key)

    def encrypt(self, nonce: bytes, data: bytes | memoryview, aad: bytes | memoryview, front: bytes = b"") -> bytes:
        """Ciphertext and tag behind ``front``."""
        before = len(front)
        room = BytesIO(bytes(before + len(data) + TAG_BYTES))
        with room.getbuffer() as into:
            into[:before] = front
            self._cipher.encrypt_into(nonce, data, aad, into[before:])
        return room.getvalue()  # the memory that was written into: nothing is copied

    def decrypt(self, nonce: bytes, data: bytes | memoryview, aad: bytes | memoryview) -> bytes:
        """What was sealed; ``data`` stays as it is."""
        try:
            opened: bytes = self._cipher.decrypt(nonce, data, aad)
        except Exception as error:
            raise _not_opened(error) from None
        return opened

    def decrypt_into(self, nonce: bytes, data: bytes | memoryview, aad: bytes | memoryview, into: memoryview) -> None:
        """The same into memory of that size."""
        try:
            self._cipher.decrypt_into(nonce, data, aad, into)
        except Exception as error:
            raise _not_opened(error) from None


def _not_opened(error: Exception) -> ValueError:
    """A wrong nonce, a wrong size, or a wrong tag."""
    return error if isinstance(error, ValueError) else ValueError("not authentic")


def _cipher(key: bytes) -> Any:
    aead = lazily.load("cryptography.hazmat.primitives.ciphers.aead")
    try:
        return aead.ChaCha20Poly1305(key)
    except lazily.load("cryptography.exceptions").UnsupportedAlgorithm:  # an OpenSSL that has ciphers of FIPS alone
        return _Sodium(key)


class _Sodium:
    """The same by libsodium, which copies what it is given."""

    def __init__(self, key: bytes) -> None:
        self._bindings, self._key = lazily.load("nacl.bindings"), key

    def encrypt_into(self, nonce: bytes, data: Any, aad: Any, into: memoryview) -> None:
        seal = self._bindings.crypto_aead_chacha20poly1305_ietf_encrypt
        into[:] = seal(bytes(data), bytes(aad), nonce, self._key)

    def decrypt(self, nonce: bytes, data: Any, aad: Any) -> bytes:
        open_ = self._bindings.crypto_aead_chacha20poly1305_ietf_decrypt
        opened: bytes = open_(bytes(data), bytes(aad), nonce, self._key)
        return opened

    def decrypt_into(self, nonce: bytes, data: Any, aad: Any, into: memoryview) -> None:
        into[:] = self.decrypt(nonce, data, aad)


def random_bytes(size: int) -> bytes:
    """Of the generator of libsodium, which asks that of the system."""
    drawn: bytes = lazily.load("nacl.bindings").randombytes(size)
    return drawn


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Keys:
    """The accepted keys at one moment, the sealing one first, and what is made of them alone."""

    keys: tuple[bytes, ...]
    ids: tuple[bytes, ...]
    registry_keys: tuple[bytes, ...]
    _derived: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: tuple[bytes, ...]) -> Keys:
        if not keys or any(len(key) != 32 for key in keys):
            raise ConfigurationError("a keyring needs at least one key of 32 bytes")
        return cls(keys, tuple(map(key_id_of, keys)), tuple(hkdf(key, b"speed/1 registry") for key in keys))

    def find(self, key_id: bytes) -> bytes | None:
        return next((key for known, key in zip(self.ids, self.keys, strict=True) if known == key_id), None)

    def derived(self, key: bytes, info: bytes) -> bytes:
        """What ``hkdf`` gives, remembered: a file is proven again with each block that is written."""
        found = self._derived.get((key, info))
        if found is None:
            if len(self._derived) >= _DERIVED:
                self._derived.clear()
            found = self._derived[key, info] = hkdf(key, info)
        return found


class Keyring:
    """The accepted pre-shared keys; the first one seals. Never shows a key. Thread-safe.

    ``now`` is replaced as a whole when the keys change: who keeps what was derived from it compares the object.
    """

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self.now = Keys.of(keys)
        self.look: Callable[[], None] = lambda: None
        """Looks for new keys; asked when one is missing."""
        self.changed: Callable[[], None] = lambda: None
        """Told when there are other keys."""

    def take(self, keys: tuple[bytes, ...]) -> None:
        """Accept these keys, and no others any more."""
        if keys != self.now.keys:
            self.now = Keys.of(keys)
            self.changed()

    def derived(self, derive: Callable[[bytes], bytes]) -> Keyring:
        """What ``derive`` makes of each key; it follows when these change. There is one of each ring."""
        ring = Keyring(tuple(map(derive, self.now.keys)))
        ring.look = self._look_now
        self.changed = lambda: ring.take(tuple(map(derive, self.now.keys)))
        return ring

    def _look_now(self) -> None:
        self.look()

    def frozen(self) -> Keyring:
        """The keys of this moment, which stay."""
        return Keyring(self.now.keys)

    def find(self, key_id: bytes) -> bytes | None:
        """The accepted key of an id; None if there is none, also after a look."""
        key = self.now.find(key_id)
        if key is None:
            self.look()
            key = self.now.find(key_id)
        return key

    @property
    def key_id(self) -> bytes:
        return self.now.ids[0]

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        return self.now.ids

    @property
    def registry_key(self) -> bytes:
        return self.now.registry_keys[0]

    @property
    def registry_keys(self) -> tuple[bytes, ...]:
        return self.now.registry_keys

    def lane_key(self, source: bytes, target: bytes) -> bytes:
        """MAC key of the cursor and fence files of one link (W-11)."""
        return self.lane_keys(source, target)[0]

    def lane_keys(self, source: bytes, target: bytes) -> LaneKeys:
        return LaneKeys(self, source + target)

    def journal_aead(self, key_id: bytes, info: bytes) -> Aead:
        """For one file of a journal (J-4). WireError UNKNOWN_KEY for a key that is not in the ring."""
        return Aead(hkdf(self._key(key_id), b"speed/1 journal" + info))

    def journal_mac(self, key_id: bytes, info: bytes, data: bytes) -> bytes:
        """16 bytes that prove ``data`` of a journal (J-12, J-14). WireError UNKNOWN_KEY as above."""
        return hmac.digest(self.now.derived(self._key(key_id), b"speed/1 journal " + info), data, "sha256")[:16]

    def segments_id(self, key_id: bytes, name: bytes) -> bytes:
        """16 bytes that tell nothing about ``name`` without the key (G-14). WireError UNKNOWN_KEY as below."""
        return hmac.digest(hkdf(self._key(key_id), b"speed/1 segments name"), name, "sha256")[:16]

    def segments_aead(self, key_id: bytes, info: bytes) -> Aead:
        """For what a node keeps of one payload in segments (G-14). WireError UNKNOWN_KEY as above."""
        return Aead(hkdf(self._key(key_id), b"speed/1 segments" + info))

    def dead_letters_aead(self, key_id: bytes, node_id: bytes) -> Any:
        """For the dead letters of one node (S-18). WireError UNKNOWN_KEY as above."""
        return Aead(hkdf(self._key(key_id), b"speed/1 dead letters" + node_id))

    def sealing_aead(self, source: bytes, target: bytes, generation: int, target_life: int = 0) -> Aead:
        return Aead(link_key(self.now.keys[0], source, target, generation, target_life))

    def opening_aead(self, key_id: bytes, source: bytes, target: bytes, generation: int, target_life: int = 0) -> Aead:
        return Aead(link_key(self._key(key_id), source, target, generation, target_life))

    def _key(self, key_id: bytes) -> bytes:
        key = self.find(key_id)
        if key is None:
            raise WireError("UNKNOWN_KEY", f"key id {key_id.hex()} is not in the key file")
        return key

    def __repr__(self) -> str:
        return f"<Keyring {' '.join(key_id.hex() for key_id in self.key_ids)}>"

    def __reduce__(self) -> Any:
        raise TypeError("a Keyring is never pickled: load the key file where it is needed")


class LaneKeys(Sequence[bytes]):
    """MAC keys of the files of one link as they are now (W-11), the one to write with first."""

    __slots__ = ("_derived", "_ids", "_ring")

    def __init__(self, ring: Keyring, ids: bytes) -> None:
        self._ring, self._ids = ring, ids
        self._derived = self._derive(ring.now)

    def _derive(self, now: Keys) -> tuple[Keys, tuple[bytes, ...]]:
        return now, tuple(hkdf(key, b"speed/1 lane" + self._ids) for key in now.keys)

    def _current(self) -> tuple[bytes, ...]:
        now = self._ring.now
        derived = self._derived
        if derived[0] is not now:
            derived = self._derived = self._derive(now)
        return derived[1]

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return self._current()[index]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())


class NonceSource:
    """Random 96-bit nonces, drawn in batches; the caller's lock guards it, and a fork must drop it."""

    def __init__(self, draw: Callable[[int], bytes] = random_bytes) -> None:
        self._draw = draw
        self._batch = b""
        self._offset = 0

    def draw(self) -> bytes:
        """A fresh nonce of 12 bytes."""
        offset = self._offset
        if offset == len(self._batch):
            self._batch = self._draw(NONCE_BYTES * _NONCE_BATCH)
            offset = 0
        self._offset = offset + NONCE_BYTES
        return self._batch[offset : offset + NONCE_BYTES]


class Binds(Protocol):
    """Two identities that bind a link."""

    def bind(
        self, shared: bytes, source: bytes, target: bytes, generation: int, target_life: int
    ) -> tuple[bytes, tuple[str, bytes]]:
        """The key in the place of the link key, and the file that opens it for the receiver (I-4)."""


class LinkSealer:
    """Seals envelopes of one link in one generation. Not thread-safe: the link's lock guards it.

    ``opening``: name and bytes of the file that the receiver needs before the next envelope; None for no bound link.
    """

    def __init__(self, keyring: Keyring, source: bytes, target: bytes, generation: int, target_life: int = 0) -> None:
        self._keyring = keyring
        self._source = source
        self._target = target
        self._generation = generation
        self._target_life = target_life
        self._base = make_sequence(generation, 0)
        self._bond: Binds | None = None
        self.opening: tuple[str, bytes] | None = None
        self._take(keyring.now)

    def _take(self, now: Keys) -> None:
        """Seal with the first of these keys: another key than before, or a random nonce more under it (W-13)."""
        self._keys, self._key_id = now, now.ids[0]
        about = now.keys[0], self._source, self._target, self._generation, self._target_life
        if self._bond is None:
            key, self.opening = link_key(*about), None
        else:
            key, self.opening = self._bond.bind(*about)
            self._key_id = key_id_of(key)
        self._aead = Aead(key)

    def seal_for(self, target_life: int, bond: Binds | None = None) -> None:
        """Seal for this life of an ephemeral receiver from now on (W-10), 0 for one that is not, and by this bond."""
        if (target_life, bond) != (self._target_life, self._bond):
            self._target_life, self._bond = target_life, bond
            self._take(self._keyring.now)

    def seal(self, type_: int, flags: int, counter: int, timestamp_ms: int, payload: bytes, nonce: bytes) -> bytes:
        """One whole envelope: header, security header, ciphertext, tag; ``counter`` is from 1."""
        if not 0 < counter <= _MAX_COUNTER:
            raise ValueError(f"counter {counter} does not fit: the node needs a new generation")
        if self._keys is not self._keyring.now:
            self._take(self._keyring.now)
        header = pack_header(
            type_,
            flags,
            self._base | counter,
            timestamp_ms,
            len(payload),
            self._source,
            self._target,
            self._key_id,
            nonce,
        )
        return self._aead.encrypt(nonce, payload, header, header)


class BoundKeys(Protocol):
    """Keys of bound links, whose ids no key of the ring has (I-5)."""

    @property
    def own(self) -> object:
        """Another object once the own secrets are others: then what was opened before is opened again."""

    def key(self, key_id: bytes, generation: int) -> bytes:
        """WireError: UNKNOWN_KEY where nothing opens it."""


class LinkOpener:
    """Opens envelopes of one link, of any generation and any key of the ring; ``target_life`` as for ``link_key``."""

    def __init__(
        self,
        keyring: Keyring,
        source: bytes,
        target: bytes,
        target_life: int = 0,
        bound: BoundKeys | None = None,
    ) -> None:
        self._keyring, self._keys = keyring, keyring.now
        self._bound, self._own = bound, None if bound is None else bound.own

        def opening_aead(key_id: bytes, generation: int) -> Aead:
            if bound is not None and keyring.now.find(key_id) is None:
                try:
                    return Aead(bound.key(key_id, generation))
                except WireError as error:
                    if error.reason != "UNKNOWN_KEY":
                        raise
            return keyring.opening_aead(key_id, source, target, generation, target_life)

        # A handful of generations and keys are in use at a time; forged ones must not fill memory.
        self._aead = lru_cache(maxsize=8)(opening_aead)

    def open(self, header: Header, envelope: bytes | memoryview) -> bytes:
        """The payload of a whole envelope; WireError BAD_TAG if one bit differs from what was sealed."""
        if self._keys is not self._keyring.now:
            self._keys = self._keyring.now
            self._aead.cache_clear()  # a key that was retired is not accepted any more
        if self._bound is not None and self._own is not self._bound.own:
            self._own = self._bound.own
            self._aead.cache_clear()
        aead = self._aead(header.key_id, header.sequence >> COUNTER_BITS)
        try:
            return aead.decrypt(header.nonce, envelope[AAD_BYTES:], envelope[:AAD_BYTES])
        except Exception:
            raise WireError("BAD_TAG", "the envelope is not authentic") from None
