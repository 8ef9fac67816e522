"""Addresses of backends, and what their clients are given of certificates.

Neither text nor errors of an address ever have its credentials.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from speed.errors import ConfigurationError

# Addresses of backends: ``kafka://host:9092``, ``nats://``, ``redis://``, ``postgres://``, ``s3://bucket``,
# ``sqs://queue``.

MIN_LEASE_SECONDS, MAX_LEASE_SECONDS = 1.0, 3600.0
MAX_PASSWORD_BYTES = 65_536
_KNOWN = "kafka://, nats://, redis://, postgres://, s3:// or sqs://"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a backend is, and how it is used there.

    Attributes:
        backend: ``kafka``, ``nats``, ``redis``, ``postgres``, ``s3`` or ``sqs``.
        hosts: names and ports; of S3 and SQS none.
        place: a database, its number, a bucket or a queue; empty for the usual one.
        user: who asks; empty for nobody.
        tls: whether the connection is encrypted and the server's certificate checked.
        options: what else the address says, checked and with defaults.
    """

    backend: str
    hosts: tuple[tuple[str, int], ...]
    place: str
    tls: bool
    options: Mapping[str, Any]
    user: str = field(default="", repr=False)
    given: str = field(default="", repr=False)
    """The password in the address."""

    def password(self) -> str:
        """That of the address, or of ``password_file``, which is read again each time. ConfigurationError."""
        path = self.options["password_file"]
        if not path:
            return self.given
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(MAX_PASSWORD_BYTES).strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise ConfigurationError(f"password_file {path!r} cannot be read: {why}") from None

    def __str__(self) -> str:
        where = self.place if self.backend in _OF_AWS else ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{self.backend}://{where}"


def _text(text: str) -> str:
    return text


def _endpoint(text: str) -> str:
    try:
        found = urlsplit(text)
        is_one = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:
        is_one = False
    if text and not is_one:
        raise ValueError("use https://host or https://host:port")
    return text


def _region(text: str) -> str:
    if not text.isascii() or not text.replace("-", "").isalnum() or len(text) > 63:
        raise ValueError("use a region such as eu-west-1")
    return text


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("use true or false")
    return text == "true"


def _lease(text: str) -> float:
    seconds = float(text)
    if not MIN_LEASE_SECONDS <= seconds <= MAX_LEASE_SECONDS:
        raise ValueError(f"use {MIN_LEASE_SECONDS:g} to {MAX_LEASE_SECONDS:g}")
    return seconds


def _identifier(text: str) -> str:
    if not text.isascii() or not text.isidentifier() or text != text.lower() or len(text) > 48:
        raise ValueError("use at most 48 small letters, digits and underscores")
    return text


def _one_of(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"use {' or '.join(known)}")
        return text

    return read


def _seconds(text: str) -> float:
    seconds = _lease(text)
    if seconds != int(seconds):
        raise ValueError("use whole seconds")
    return seconds


class _Option(NamedTuple):
    read: Callable[[str], Any]
    default: Any


class _BackendKind(NamedTuple):
    """What an address of one backend may say."""

    port: int
    options: Mapping[str, _Option]


_ALL = {"tls": _Option(_flag, False), "trusted": _Option(_text, ""), "password_file": _Option(_text, "")}
_LEASE = {"lease_seconds": _Option(_lease, 30.0)}
_AWS = {"endpoint": _Option(_endpoint, ""), "region": _Option(_region, "us-east-1")}
_OF_AWS = ("s3", "sqs")
_KINDS = {
    "kafka": _BackendKind(9092, {**_ALL, **_LEASE, "transactional_id": _Option(_text, "")}),
    "nats": _BackendKind(4222, {**_ALL, **_LEASE}),
    "redis": _BackendKind(6379, {**_ALL, **_LEASE, "form": _Option(_one_of("streams", "pubsub"), "streams")}),
    "postgres": _BackendKind(
        5432,
        {
            **_ALL,
            "table": _Option(_identifier, "prism_events"),
            "form": _Option(_one_of("messages", "rows"), "messages"),
        },
    ),
    "s3": _BackendKind(443, {**_ALL, **_AWS, "manifests": _Option(_flag, False)}),
    "sqs": _BackendKind(443, {**_ALL, **_AWS, "lease_seconds": _Option(_seconds, 30.0), "bucket": _Option(_text, "")}),
}
_SCHEMES = {**{name: name for name in _KINDS}, "rediss": "redis", "postgresql": "postgres"}


def parse_address(text: str) -> Address:
    """The parts of an address; ConfigurationError, without a word of its credentials, for what is none."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except (ValueError, AttributeError):
        raise ConfigurationError(f"the address of the backend cannot be read: begin it with {_KNOWN}") from None
    backend = _SCHEMES.get(parts.scheme, "")
    if not backend:
        raise ConfigurationError(f"the address of the backend begins with none of {_KNOWN}")
    if parts.fragment:
        raise ConfigurationError("the address of the backend has a '#': write it as %23")
    options = _options(backend, query)
    credentials, _, where = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    place = unquote(parts.path.strip("/"))
    hosts: tuple[tuple[str, int], ...] = ()
    if backend in _OF_AWS:
        place = _named(backend, where, place)
    else:
        hosts = tuple(_host(one, _KINDS[backend].port) for one in where.split(","))
        _check_place(backend, place)
    if password and options["password_file"]:
        raise ConfigurationError("the address has a password and names a password_file: use one of them")
    tls = options["tls"] or parts.scheme == "rediss"
    return Address(backend, hosts, place, tls, options, unquote(user), unquote(password))


def _options(backend: str, query: list[tuple[str, str]]) -> dict[str, Any]:
    known = _KINDS[backend].options
    options = {name: option.default for name, option in known.items()}
    for name, text in query:
        if name not in known:
            raise ConfigurationError(f"an address of {backend} has one of the options {', '.join(sorted(known))}")
        try:
            options[name] = known[name].read(text)
        except ValueError as error:
            raise ConfigurationError(f"{name} in the address of {backend} is no such value: {error}") from None
    return options


def _host(text: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, explicit_port = parts.hostname, parts.port
    except ValueError:
        host, explicit_port = None, None
    if not host:
        raise ConfigurationError("the address of the backend has no host, or its port is no number: use host:port")
    return host, explicit_port or port


def _named(backend: str, where: str, rest: str) -> str:
    if not where or rest:
        what = "bucket" if backend == "s3" else "queue"
        raise ConfigurationError(
            f"an address of {backend} is {backend}://{what}?endpoint=https://host, with nothing behind the {what}"
        )
    return where


def _check_place(backend: str, place: str) -> None:
    if place and backend in ("kafka", "nats"):
        raise ConfigurationError(f"an address of {backend} has nothing behind its host: topics are named later")
    if place and backend == "redis" and not (place.isascii() and place.isdigit()):
        raise ConfigurationError("an address of redis has the number of a database behind its host, or nothing")


def tls_context(address: Address) -> ssl.SSLContext | None:
    """Checks the server's certificate and name; None without TLS. ConfigurationError."""
    if not address.tls:
        return None
    trusted = address.options["trusted"]
    try:
        return ssl.create_default_context(cafile=trusted or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"trusted {trusted!r} is no file of certificates: {error.strerror}") from None


def is_untrusted(error: BaseException | None) -> bool:
    """Whether an error comes from a certificate that is not trusted, or is another server's."""
    for _ in range(_MAX_CAUSES):
        if error is None or isinstance(error, ssl.SSLCertVerificationError):
            return error is not None
        error = error.__cause__ or error.__context__
    return False


UNTRUSTED = "the server's certificate is not trusted: name it by `trusted` in the address, or correct the host"
_MAX_CAUSES = 8
