"""Where keys come from, by URI: a provider fetches one set of keys, and keeps nothing.

``file:///etc/speed/orders.json``       a private file; one record or a list of them
``k8s:///var/run/secrets/orders.json``  the same as a mounted secret, with a warning
``k8s://NAMESPACE/NAME?key_field=FIELD`` a secret by its name (``speed.trust.kubernetes``), with a warning
``env://ORDERS_KEYS``                   the same text in the environment
``vault://secret/orders``               KV version 2 of Vault (``speed.trust.vault``)
``awskms:///etc/speed/orders.json``     a file whose secrets AWS KMS wrapped (``speed.trust.awskms``)
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import ParseResult, parse_qs, unquote, urlparse

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.fs.open import opened
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MAX_SET_KEYS, MessageKey, key_of_record

log = logger("speed.trust")

MAX_SET_BYTES = 1 << 20

Unwrap = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes a key record of one that a provider wrapped."""


class KeyProvider(Protocol):
    """``fetch`` returns the keys of one set; KeyUnavailableError or KeyRefusedError says what is wrong with which."""

    def fetch(self) -> tuple[MessageKey, ...]: ...


def provider_of(uri: str) -> KeyProvider:
    """The provider of a URI; ConfigurationError for a scheme or an option that does not exist."""
    parsed = urlparse(uri)
    make = _SCHEMES.get(parsed.scheme)
    if make is None:
        raise ConfigurationError(f"no key provider for {parsed.scheme!r}://; there are {', '.join(_SCHEMES)}")
    return make(parsed)


class FileProvider:
    """A file of this user or root, which nobody else may write, and with secrets in it nobody else may read.

    ``read`` makes keys of its content; it is given the path for what it says.
    """

    def __init__(self, path: str, read: Callable[[bytes, str], tuple[MessageKey, ...]] | None = None) -> None:
        self._path, self._read = path, read or parse_set

    def fetch(self) -> tuple[MessageKey, ...]:
        text, mode = read_file(self._path, os.O_NOFOLLOW)
        keys = self._read(text, self._path)
        if mode & 0o022 or (mode & 0o077 and any(key.secret is not None for key in keys)):
            raise KeyRefusedError(f"key set {self._path}: others may read or write it: chmod 600 {self._path}")
        return keys


class MountedSecretProvider:
    """A secret that Kubernetes mounts: links of root's, readable in the pod."""

    def __init__(self, path: str) -> None:
        self._path = path
        log.warning("%s: Kubernetes keeps secrets in Base64, not encrypted by itself; use vault:// or awskms://", path)

    def fetch(self) -> tuple[MessageKey, ...]:
        return parse_set(read_file(self._path, 0)[0], self._path)


class EnvironmentProvider:
    """A variable of this process; every child and every reader of /proc of this user sees it too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fetch(self) -> tuple[MessageKey, ...]:
        text = os.environ.get(self._name)
        if text is None:
            raise KeyUnavailableError(f"key set env://{self._name}: there is no such variable")
        return parse_set(text.encode(), f"env://{self._name}")


def read_file(path: str, flags: int) -> tuple[bytes, int]:
    """Content and mode of a regular file of this user or root; KeyUnavailableError, KeyRefusedError."""
    try:
        fd = opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
            raise KeyRefusedError(f"key set {path}: is no regular file of this user")
        text = os.read(fd, MAX_SET_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(fd)
    return text, status.st_mode


def _unreadable(path: str, error: OSError) -> KeyUnavailableError | KeyRefusedError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP):
        return KeyRefusedError(f"key set {path}: {error.strerror}")
    return KeyUnavailableError(f"key set {path}: {error.strerror}")


def parse_set(text: bytes, where: str, unwrap: Unwrap | None = None) -> tuple[MessageKey, ...]:
    """The keys of a JSON text; ``unwrap`` makes a record of one that a provider wrapped."""
    if len(text) > MAX_SET_BYTES:
        raise KeyRefusedError(f"key set {where}: is larger than {MAX_SET_BYTES} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise KeyRefusedError(f"key set {where}: is not JSON") from None
    return keys_of(found, where, unwrap)


def keys_of(found: Any, where: str, unwrap: Unwrap | None = None) -> tuple[MessageKey, ...]:
    """The keys of one record or a list of records."""
    records = found if isinstance(found, list) else [found]
    if not 0 < len(records) <= MAX_SET_KEYS or not all(isinstance(record, dict) for record in records):
        raise KeyRefusedError(f"key set {where}: is no record nor a list of 1 to {MAX_SET_KEYS}")
    keys = tuple(key_of_record(record if unwrap is None else unwrap(record)) for record in records)
    if len({key.id for key in keys}) != len(keys):
        raise KeyRefusedError(f"key set {where}: a key id stands there twice")
    return keys


def options_of(uri: ParseResult, known: frozenset[str]) -> dict[str, str]:
    """The query of a URI; ConfigurationError for what is unknown or stands twice."""
    found = parse_qs(uri.query, keep_blank_values=True)
    unknown = found.keys() - known
    if unknown or any(len(values) > 1 for values in found.values()):
        wrong = min(unknown) if unknown else "an option twice"
        raise ConfigurationError(f"{uri.scheme}://: does not take {wrong!r}; there are {', '.join(sorted(known))}")
    return {name: values[0] for name, values in found.items()}


def path_of(uri: ParseResult) -> str:
    """The absolute path that a URI names."""
    if uri.netloc or not uri.path.startswith("/"):
        raise ConfigurationError(f"{uri.scheme}:// needs an absolute path, such as {uri.scheme}:///etc/speed/keys.json")
    return unquote(uri.path)


def _later(module: str) -> Callable[[ParseResult], KeyProvider]:
    def make(uri: ParseResult) -> KeyProvider:
        provider: KeyProvider = import_module(module).provider_of(uri)
        return provider

    return make


_SCHEMES: dict[str, Callable[[ParseResult], KeyProvider]] = {
    "file": lambda uri: FileProvider(path_of(uri)),
    "k8s": lambda uri: _later("speed.trust.kubernetes")(uri) if uri.netloc else MountedSecretProvider(path_of(uri)),
    "env": lambda uri: EnvironmentProvider(uri.netloc),
    "vault": _later("speed.trust.vault"),
    "awskms": _later("speed.trust.awskms"),
}
