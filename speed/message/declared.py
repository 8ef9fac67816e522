"""Encryption of messages as configuration declares it: checked when a program starts, not at its first message.

No key is in it: keys are named by reference, and come from a provider.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import quote, urlencode

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.message.algorithms import (
    ASYMMETRIC,
    HYBRID,
    POST_QUANTUM,
    SYMMETRIC,
    Algorithm,
    algorithm_of,
    check_fips_mode,
)
from speed.message.keystore import KeyStore
from speed.message.providers import provider_of
from speed.message.security import MessageSecurity

TYPES: Final = {
    "symmetric": SYMMETRIC,
    "asymmetric": ASYMMETRIC,
    "post-quantum": POST_QUANTUM,
    "hybrid": HYBRID,
}
ROTATION_PERIOD: Final = "90d"
OVERLAP_PERIOD: Final = "7d"
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PERIOD = re.compile(r"([1-9]\d{0,6})([smhd])").fullmatch
_FILE = "file://"


@dataclass(frozen=True)
class RotationSettings:
    """``key_rotation``: when speedd adds the next key to a file of keys."""

    enabled: bool = False
    """Whether it does."""
    rotation_period: str = ROTATION_PERIOD
    """How old the newest key may become: a number with ``s``, ``m``, ``h`` or ``d``."""
    overlap_period: str = OVERLAP_PERIOD
    """How long older keys are still read."""

    @property
    def period_ms(self) -> int:
        return period_ms(self.rotation_period)

    @property
    def overlap_ms(self) -> int:
        return period_ms(self.overlap_period)


@dataclass(frozen=True)
class EncryptionSettings:
    """``[encryption]``: how nodes encrypt their messages; what they read may be encrypted to their keys."""

    enabled: bool = True
    """Whether messages are encrypted that say nothing about it themselves."""
    type: str | None = None
    """``symmetric``, ``asymmetric``, ``post-quantum`` or ``hybrid``: must be that of the algorithm."""
    algorithm: str = "x-wing"
    """The algorithm that the keys must be of; `speed message keys algorithms` lists them."""
    key_ref: str | None = None
    """Where the node's own keys are, by which it reads: a URI such as ``vault://secret/orders`` or ``file:///…``."""
    public_key_ref: str | None = None
    """Where the public keys of its readers are, by which it writes; without it, those of ``key_ref``."""
    kubernetes_secret: Mapping[str, str] | None = None
    """Instead of ``key_ref``: ``name``, ``namespace`` and ``key_field`` of a secret of Kubernetes."""
    vault: Mapping[str, str] | None = None
    """Instead of ``key_ref``: ``secret_path``, and ``address``, ``namespace``, ``auth_method``, ``role``."""
    aws_kms: Mapping[str, str] | None = None
    """Instead of ``key_ref``: ``key_id`` and ``file`` of wrapped keys, and ``region``."""
    fips_mode: str = "off"
    """``off``, ``rfc`` or ``strict``: which algorithms are refused."""
    key_rotation: RotationSettings = RotationSettings()
    """``enabled``, ``rotation_period`` (90d) and ``overlap_period`` (7d) of keys in a file."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError, WeakAlgorithmError and UnknownAlgorithmError for what cannot be."""
        check_fips_mode(self.fips_mode)
        row = algorithm_of(self.algorithm, self.fips_mode)
        if row.is_signature:
            raise ConfigurationError(f"algorithm {row.name} signs, and does not encrypt: use x-wing or aes-256-gcm")
        self._check_type(row)
        given = [self.key_ref, self.kubernetes_secret, self.vault, self.aws_kms]
        if sum(one is not None for one in given) != 1:
            raise ConfigurationError("give one of key_ref, kubernetes_secret, vault and aws_kms: where keys are")
        if row.is_symmetric and self.public_key_ref is not None:
            raise ConfigurationError(f"public_key_ref is for key pairs, and {row.name} has a shared key: leave it out")
        self._check_rotation()

    def _check_type(self, row: Algorithm) -> None:
        if self.type is None:
            return
        if self.type not in TYPES:
            raise ConfigurationError(f"type is {self.type!r}; use one of {', '.join(TYPES)}")
        if TYPES[self.type] != row.type:
            right = next(name for name, number in TYPES.items() if number == row.type)
            raise ConfigurationError(f"type is {self.type!r}, and {row.name} is {right}: correct one of them")

    def _check_rotation(self) -> None:
        if self.key_rotation.enabled and not self.uri.startswith(_FILE):
            raise ConfigurationError("key_rotation is for keys in a file: have their provider rotate them")

    @property
    def uri(self) -> str:
        """Where the node's own keys are. ConfigurationError for a provider's table that lacks something."""
        if self.kubernetes_secret is not None:
            return _kubernetes(self.kubernetes_secret)
        if self.vault is not None:
            return _vault(self.vault)
        if self.aws_kms is not None:
            return _aws_kms(self.aws_kms)
        assert self.key_ref is not None
        return self.key_ref

    @property
    def row(self) -> Algorithm:
        """The algorithm, by its own name."""
        return algorithm_of(self.algorithm)

    def as_table(self) -> dict[str, Any]:
        """As ``declared`` reads it; what is at its default is left out."""
        table = {one.name: getattr(self, one.name) for one in fields(self)}
        table["key_rotation"] = {one.name: getattr(self.key_rotation, one.name) for one in fields(self.key_rotation)}
        return {name: value for name, value in table.items() if value is not None}


def declared(table: Mapping[str, Any]) -> EncryptionSettings:
    """The settings that a table of a configuration describes. Raises what EncryptionSettings does."""
    _check_names(table, EncryptionSettings, "[encryption]")
    for name, value in table.items():
        _check_kind(name, value)
    return EncryptionSettings(**{**table, "key_rotation": rotation_of(table.get("key_rotation", {}))})


def rotation_of(table: Any) -> RotationSettings:
    """The settings in ``key_rotation``; ConfigurationError for what is no such table."""
    if not isinstance(table, Mapping):
        raise ConfigurationError("key_rotation must be a table")
    _check_names(table, RotationSettings, "key_rotation")
    for name, value in table.items():
        _check_kind(name, value)
    found = RotationSettings(**table)
    if found.overlap_ms >= found.period_ms:
        raise ConfigurationError("overlap_period must be shorter than rotation_period")
    return found


def period_ms(text: str) -> int:
    """Milliseconds of a period such as ``90d``; ConfigurationError."""
    found = _PERIOD(text)
    if found is None:
        raise ConfigurationError(f"{text!r} is no period: write a number with s, m, h or d, such as 90d")
    return int(found[1]) * _UNITS_MS[found[2]]


def _check_names(table: Mapping[str, Any], kind: type[Any], where: str) -> None:
    known = [one.name for one in fields(kind)]
    unknown = table.keys() - set(known)
    if unknown:
        raise ConfigurationError(f"{where} does not know {min(map(str, unknown))!r}; it knows {', '.join(known)}")


def _check_kind(name: str, value: Any) -> None:
    if name == "enabled":
        is_right, wanted = isinstance(value, bool), "true or false"
    elif name in ("kubernetes_secret", "vault", "aws_kms", "key_rotation"):
        texts = isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())
        is_right, wanted = texts or name == "key_rotation", "a table of texts"
    else:
        is_right, wanted = isinstance(value, str) and bool(value), "text"
    if not is_right:
        raise ConfigurationError(f"{name} must be {wanted}")


def _kubernetes(table: Mapping[str, str]) -> str:
    name, namespace, field_ = _required("kubernetes_secret", table, ("name", "namespace", "key_field"))
    return f"k8s://{quote(namespace, safe='')}/{quote(name, safe='')}?{urlencode({'key_field': field_})}"


def _vault(table: Mapping[str, str]) -> str:
    (path,) = _required("vault", table, ("secret_path",), ("address", "namespace", "auth_method", "role"))
    renamed = {"auth_method": "auth"}
    options = {renamed.get(name, name): value for name, value in table.items() if name != "secret_path"}
    return f"vault://{path}" + (f"?{urlencode(options)}" if options else "")


def _aws_kms(table: Mapping[str, str]) -> str:
    key, file = _required("aws_kms", table, ("key_id", "file"), ("region",))
    options = {"key": key, **({"region": table["region"]} if "region" in table else {})}
    return f"awskms://{quote(file)}?{urlencode(options)}"


def _required(what: str, table: Mapping[str, str], names: tuple[str, ...], more: tuple[str, ...] = ()) -> list[str]:
    wrong = (set(names) - table.keys()) | (table.keys() - {*names, *more})
    if wrong:
        raise ConfigurationError(f"{what} has {', '.join(names)}; correct {min(wrong)!r}")
    return [table[name] for name in names]


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
