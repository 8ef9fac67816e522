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


def is_untrusted(error: BaseException | None) -> bool:
    """Whether an error comes from a certificate that is not trusted, or is another server's."""
    for _ in range(_MOST_CAUSES):
        if error is None or isinstance(error, ssl.SSLCertVerificationError):
            return error is not None
        error = error.__cause__ or error.__context__
    return False


UNTRUSTED = "the server's certificate is not trusted: name it by `trusted` in the address, or correct the host"
_MOST_CAUSES = 8

__all__ = ["UNTRUSTED", "is_untrusted", "tls_context"]
