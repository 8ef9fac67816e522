"""How a message is encrypted, by its client (PIP-290) or by the gateway, and the keys that the gateway holds."""

from __future__ import annotations

import asyncio
import binascii
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import urlparse

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from speed.errors import SpeedError
from speed.gateway.settings import DATA_KEY_MESSAGES, DATA_KEY_SECONDS, MAX_OPENED_BYTES, MAX_RECIPIENTS, HandshakeError
from speed.message.algorithms import AES, ASYMMETRIC, Algorithm
from speed.message.errors import EncryptionError, KeyRefusedError, KeyUnavailableError, NoRecipientKeyError
from speed.message.keys import MessageKey
from speed.message.keystore import KeyStore
from speed.message.providers import FileProvider, KeyProvider, path_of, provider_of
from speed.pulsar.payloads import DataKey, Decryptor, load_private, load_public, uncompress

PROPERTY = "pulsar.encryption"
"""The property in which a message keeps its context."""
COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
BOTH_OR_NEITHER = "the params compressionType and uncompressedMessageSize should both empty or both non-empty"
MAX_SIZE = (1 << 31) - 1


class EncryptedKey(msgspec.Struct, rename="camel"):
    """The data key, encrypted for one recipient."""

    key_value: str = ""
    metadata: dict[str, str] | None = None


Keys = dict[str, EncryptedKey]


class EncryptionContext(msgspec.Struct, rename="camel"):
    """What a reader needs to decrypt a message; ``batch_size`` is None for one that is no batch."""

    keys: Keys
    param: str
    compression_type: str = "NONE"
    uncompressed_message_size: int = 0
    batch_size: int | None = None


_keys = msgspec.json.Decoder(Keys)
_context = msgspec.json.Decoder(EncryptionContext)


def read_keys(text: str) -> Keys | tuple[str, ...] | None:
    """What ``encryptionKeys`` says; None without it. Raises HandshakeError 400.

    Data keys are of a client that encrypts by itself. Names, with commas between them, ask the gateway to encrypt.
    """
    if not text:
        return None
    data = _json(text.replace(" ", "+"))  # a plus that was not encoded
    keys = tuple(dict.fromkeys(text.split(","))) if data is None else _data_keys(data)
    if len(keys) > MAX_RECIPIENTS:
        raise HandshakeError(400, f"encryptionKeys are for {len(keys)} recipients: at most {MAX_RECIPIENTS}")
    return keys


def _json(text: str) -> bytes | None:
    """The JSON that is in Base64 here; None for text that is something else."""
    try:
        data = decoded(text)
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return data


def _data_keys(data: bytes) -> Keys:
    try:
        keys = _keys.decode(data)
    except ValueError:
        keys = {}
    if not keys or not next(iter(keys.values())).key_value:
        raise HandshakeError(400, "encryptionKeys are no keys: give names, or Base64 of a JSON object of data keys")
    for name, key in keys.items():
        _check_key(name, key)
    return keys


def _check_key(name: str, key: EncryptedKey) -> None:
    try:
        is_sound = bool(name and decoded(key.key_value))
    except ValueError:
        is_sound = False
    if not is_sound:
        raise HandshakeError(400, "encryptionKeys: each key needs a name, and a keyValue in Base64")
    key.metadata = key.metadata or {}


class ByClient:
    """Payloads of a client that encrypts by itself; ``keys`` are its data key, encrypted for each recipient."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(
        self, payload: bytes, param: str | None, kind: str | None, size: int | None
    ) -> tuple[bytes, EncryptionContext]:
        """The payload as it is, and its context. Raises ValueError with what is wrong."""
        return payload, new_context(self._keys, param, kind, size)


class ByGateway:
    """Payloads that the gateway encrypts with a data key."""

    def __init__(self, data_key: DataKey) -> None:
        self._data_key = data_key
        self._keys = {name: EncryptedKey(_text(value), {}) for name, value in data_key.wrapped.items()}

    def seal(self, payload: bytes, *_: object) -> tuple[bytes, EncryptionContext]:
        """The encrypted payload, and its context; what a client says of its own encryption is passed over."""
        sealed, iv = self._data_key.encrypt(payload)
        return sealed, EncryptionContext(self._keys, _text(iv))


Sealing = ByClient | ByGateway


def opened(context: EncryptionContext, payload: bytes, decryptor: Decryptor) -> bytes:
    """The payload as it was before its client or the gateway encrypted it. Raises MessageError."""
    try:
        wrapped = {name: decoded(key.key_value) for name, key in context.keys.items()}
        iv = decoded(context.param)
    except ValueError:
        raise EncryptionError("the encryption context is not Base64") from None
    if context.batch_size is not None:
        raise EncryptionError("an encrypted batch is split by its readers only")
    packed = decryptor.decrypt(payload, wrapped, iv)
    return uncompress(context.compression_type, packed, context.uncompressed_message_size, MAX_OPENED_BYTES)


def new_context(keys: Keys, param: str | None, compression: str | None, size: int | None) -> EncryptionContext:
    """The context of one message. Raises ValueError with what is wrong."""
    if not param:
        raise ValueError("encryptionParam is missing: without it nobody can decrypt the message")
    decoded(param)
    if (compression is None) != (size is None) or (compression is not None and compression not in COMPRESSIONS):
        raise ValueError(BOTH_OR_NEITHER)
    if size is not None and not 0 <= size <= MAX_SIZE:
        raise ValueError(f"uncompressedMessageSize must be from 0 to {MAX_SIZE}")
    return EncryptionContext(keys, param, compression or "NONE", size or 0)


def written(context: EncryptionContext) -> str:
    """As a message keeps it."""
    return msgspec.json.encode(context).decode()


def kept(text: Any) -> EncryptionContext | None:
    """What ``written`` wrote; None for what others put there."""
    try:
        return _context.decode(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def decoded(text: str) -> bytes:
    """Base64, with or without its padding; ValueError for anything else."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not Base64") from None


# Keys as Pulsar's clients have them: a file with one RSA or EC key in PEM.

ALGORITHM = Algorithm("pem", ASYMMETRIC, AES, 0, None, None, strict=False)
"""In no table: messages of SPEED are not encrypted with such a key."""


class PemKey(MessageKey):
    """``secret`` and ``public`` are PEM; a key that is public alone has no ``secret``."""

    def check_loads(self) -> None:
        """It was looked at when it was read."""


def read_pem(text: bytes, path: str) -> tuple[PemKey]:
    """The one key in it. Raises KeyRefusedError."""
    is_private = b"PRIVATE KEY-----" in text
    public = load_private(path, text).public_key() if is_private else load_public(path, text)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return (PemKey(sha256(pem).hexdigest()[:32], ALGORITHM, text if is_private else None, pem),)


NAMESPACE = "default"
"""That of nodes which give none: the ``namespaces`` of a key are asked for it."""
T = TypeVar("T")


class HeldKeys:
    """Keys by the names that clients know them by.

    Args:
        sources: maps each name to where its keys come from: a URI of a key provider, or ``pem:///PATH``.

    Raises ConfigurationError for a source that cannot be, KeyRefusedError for a name.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        store = KeyStore({name: _provider(uri) for name, uri in sources.items()})
        self._keys = {name: _HeldKey(name, store) for name in sources}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    async def data_key(self, names: Sequence[str], topic: str) -> DataKey:
        """A new data key for those who have the keys of all ``names``. Raises what their providers raise."""
        held = [self._keys[name] for name in names]
        return DataKey({one.name: await one.run(one.public, topic) for one in held})

    async def opened(self, topic: str, at_ms: int, context: EncryptionContext, payload: bytes) -> bytes:
        """A payload that was published to ``topic`` at that time (Unix ms), as it was before it was encrypted.

        Raises KeyUnavailableError while a key cannot be asked for, another SpeedError if no key here opens it.
        """
        problem: SpeedError = NoRecipientKeyError("the gateway has no key of these names")
        for one in [self._keys[name] for name in context.keys if name in self._keys]:
            try:
                return await one.run(one.open, topic, at_ms, context, payload)
            except SpeedError as error:
                problem = problem if isinstance(problem, KeyUnavailableError) else error
        raise problem

    def close(self) -> None:
        """Ask for no more."""
        for one in self._keys.values():
            one.close()


class _HeldKey:
    """The keys of one name, old ones too, on a thread of their own: a provider that hangs holds up no other name."""

    def __init__(self, name: str, store: KeyStore) -> None:
        self.name, self._store = name, store
        self._thread = ThreadPoolExecutor(1, f"speedd-key-{name}")
        self._decryptors: dict[MessageKey, Decryptor] = {}

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def public(self, topic: str) -> Any:
        """The newest key that may be used for ``topic``."""
        key = self._store.current(self.name, NAMESPACE, topic, time.time_ns() // 1_000_000)
        return load_public(self.name, key.public or b"" if isinstance(key, PemKey) else key)

    def open(self, topic: str, at_ms: int, context: EncryptionContext, payload: bytes) -> bytes:
        for decryptor in self._usable(topic, at_ms):
            try:
                return opened(context, payload, decryptor)
            except EncryptionError:
                continue
        raise EncryptionError(f"the payload does not open with the keys {self.name!r}")

    def _usable(self, topic: str, at_ms: int) -> Iterator[Decryptor]:
        """Those that may open what was published to ``topic`` then."""
        keys = [key for key in self._store.all(self.name) if key.secret is not None]
        self._decryptors = {key: self._decryptors.get(key) or self._decryptor(key) for key in keys}
        for key, decryptor in self._decryptors.items():
            try:
                key.check_use(NAMESPACE, topic, at_ms)
            except KeyRefusedError:
                continue
            yield decryptor

    def _decryptor(self, key: MessageKey) -> Decryptor:
        return Decryptor({self.name: load_private(self.name, key.secret or b"" if isinstance(key, PemKey) else key)})

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Sealer:
    """What a producer's messages are encrypted with, as its client said: nothing here, or by itself."""

    def __init__(self, sealing: Sealing | None) -> None:
        self._sealing = sealing

    async def current(self) -> Sealing | None:
        """What the next message is encrypted with."""
        return self._sealing


class HeldSealer(Sealer):
    """A data key of the gateway's own, which is renewed as those of Pulsar's clients are."""

    def __init__(self, held: HeldKeys, names: Sequence[str], topic: str) -> None:
        super().__init__(None)
        self._held, self._names, self._topic = held, names, topic
        self._ends, self._left = 0.0, 0

    async def current(self) -> Sealing | None:
        """Raises SpeedError when no new data key can be had."""
        now = asyncio.get_running_loop().time()
        if now >= self._ends or not self._left:
            self._sealing = ByGateway(await self._held.data_key(self._names, self._topic))
            self._ends, self._left = now + DATA_KEY_SECONDS, DATA_KEY_MESSAGES
        self._left -= 1
        return self._sealing


def _provider(uri: str) -> KeyProvider:
    parsed = urlparse(uri)
    return FileProvider(path_of(parsed), read_pem) if parsed.scheme == "pem" else provider_of(uri)
