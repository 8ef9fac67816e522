"""Keys that the gateway holds, to encrypt and decrypt for clients that leave it to the gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlparse

from speed.errors import SpeedError
from speed.gateway import encryption
from speed.gateway.encryption import ByGateway, Context, Sealing
from speed.gateway.limits import DATA_KEY_MESSAGES, DATA_KEY_SECONDS
from speed.gateway.pem import PemKey, read_pem
from speed.message.errors import EncryptionError, KeyRefusedError, KeyUnavailableError, NoRecipientKeyError
from speed.message.keys import MessageKey
from speed.pulsar.crypto import DataKey, Decryptor, load_private, load_public
from speed.trust.keystore import KeyStore
from speed.trust.providers import FileProvider, KeyProvider, path_of, provider_of

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

    async def opened(self, topic: str, at_ms: int, context: Context, payload: bytes) -> bytes:
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

    def open(self, topic: str, at_ms: int, context: Context, payload: bytes) -> bytes:
        for decryptor in self._usable(topic, at_ms):
            try:
                return encryption.opened(context, payload, decryptor)
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
