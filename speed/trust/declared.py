"""What declared encryption needs of the world: the file that declares it, providers, and a node's settings."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.message.declared import EncryptionSettings, declared
from speed.trust.keystore import KeyStore
from speed.trust.providers import provider_of
from speed.trust.security import MessageSecurity

log = logger("speed.trust")

OWN, READERS = "own", "readers"
"""Names of the two sets of keys."""
MAX_FILE_BYTES: Final = 1 << 18


def check_sources(settings: EncryptionSettings) -> None:
    """Refuse references that lead to no provider (ConfigurationError); nothing is fetched."""
    for uri in filter(None, (settings.uri, settings.public_key_ref)):
        provider_of(uri)


def check_keys(settings: EncryptionSettings) -> None:
    """Ask the providers for the keys now, and hold them to the algorithm. MessageKeyError, ConfigurationError."""
    for uri in filter(None, (settings.uri, settings.public_key_ref)):
        for key in provider_of(uri).fetch():
            if key.algorithm is not settings.row:
                raise ConfigurationError(
                    f"key {key.id!r} is of {key.algorithm.name}, and {settings.row.name} is declared"
                )


def security_of(settings: EncryptionSettings, **more: Any) -> MessageSecurity:
    """The settings of a node; ``more`` as of MessageSecurity. An algorithm that NIST does not approve is warned of."""
    if not settings.row.strict:
        log.warning("%s is not approved by NIST: fips_mode strict would refuse it", settings.row.name)
    sets = {OWN: settings.uri} | ({READERS: settings.public_key_ref} if settings.public_key_ref else {})
    readers = READERS if settings.public_key_ref else OWN
    written = (readers,) if settings.enabled else ()
    return MessageSecurity(keys=KeyStore(sets), encrypt_to=written, fips_mode=settings.fips_mode, **more)


def read_declared(path: str | os.PathLike[str]) -> EncryptionSettings:
    """The settings in the table ``[encryption]`` of a TOML file. Raises ConfigurationError, and as ``declared``."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{os.fspath(path)} has more than {MAX_FILE_BYTES} bytes: name a configuration")
        document = tomllib.loads(text.decode())
    except OSError as error:
        raise ConfigurationError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{os.fspath(path)} is not TOML: {error}") from None
    table = document.get("encryption")
    if not isinstance(table, dict):
        raise ConfigurationError(f"{os.fspath(path)} has no table [encryption]")
    return declared(table)
