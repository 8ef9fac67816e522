"""Certificates of servers, as an address says."""

from __future__ import annotations

import ssl

from speed.bridges.address import Address
from speed.errors import ConfigurationError


def tls_context(address: Address) -> ssl.SSLContext | None:
    """Checks the server's certificate and name; None without TLS. ConfigurationError."""
    if not address.tls:
        return None
    trusted = address.options["trusted"]
    try:
        return ssl.create_default_context(cafile=trusted or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"trusted {trusted!r} is no file of certificates: {error.strerror}") from None


__all__ = ["tls_context"]
