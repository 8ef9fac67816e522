"""What can be known of FIPS 140-3 from inside a program (M-24): two things that are not one."""

from __future__ import annotations

from typing import NamedTuple

from speed.errors import ConfigurationError
from speed.message.algorithms import ALGORITHMS, FIPS_MODES


class FipsReport(NamedTuple):
    """``provider_enabled`` is what OpenSSL says; ``module_validated`` is never known from here."""

    mode: str
    provider_enabled: bool | None
    module_validated: str
    openssl: str
    allowed: tuple[str, ...]


def check_fips_mode(mode: str) -> str:
    """``mode`` if it exists; ConfigurationError otherwise."""
    if mode not in FIPS_MODES:
        raise ConfigurationError(f"fips_mode is {mode!r}; use one of {', '.join(FIPS_MODES)}")
    return mode


def fips_report(mode: str) -> FipsReport:
    """What ``mode`` allows here, and what the library says of itself."""
    from cryptography.hazmat.backends.openssl.backend import backend

    allowed = tuple(name for name, row in ALGORITHMS.items() if row.strict or mode != "strict")
    return FipsReport(
        check_fips_mode(mode),
        getattr(backend, "_fips_enabled", None),
        "not known from here: compare the module's build with its certificate of the CMVP",
        backend.openssl_version_text(),
        allowed,
    )
