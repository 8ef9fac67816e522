"""Who a client is: the name that is configured, or the subject of its token."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speed.errors import ConfigurationError
from speed.gateway.refusal import RefusedError
from speed.gateway.settings import GatewaySettings, TokenKeySettings
from speed.message.errors import TokenError
from speed.wire import names

LEEWAY_SECONDS = 5.0
"""By which an issuer's clock may be ahead; no token is good for longer than it says."""
_BEARER = "Bearer "


@dataclass(frozen=True)
class Guest:
    """A client: whose grants it has, and until when (Unix seconds)."""

    name: str
    expires: float = float("inf")
    has_token: bool = False


class Guests:
    """Knows clients by their tokens, or all by one name.

    Raises ConfigurationError for keys that cannot be.
    """

    def __init__(self, settings: GatewaySettings, keys: Sequence[TokenKeySettings]) -> None:
        self._name = settings.name or ""
        self._verifier = _verifier(settings, keys) if settings.issuer else None

    def know(self, authorization: Sequence[str], parameters: Mapping[str, str]) -> Guest:
        """Raises RefusedError 401."""
        if self._verifier is None:
            return Guest(self._name)
        token = bearer(authorization, parameters)
        if not token:
            raise RefusedError(401, "a token is needed: as Authorization: Bearer, or as the parameter token")
        try:
            identity, expires = self._verifier.verify_until(token)
        except TokenError as error:
            raise RefusedError(401, str(error)) from None
        if expires <= time.time():
            raise RefusedError(401, "the token has expired")
        if not names.is_node_name(identity.publisher_id):
            raise RefusedError(401, "the token's subject is no name that grants can have")
        return Guest(identity.publisher_id, expires, has_token=True)


def bearer(authorization: Sequence[str], parameters: Mapping[str, str]) -> str:
    """The token of a request: of its header, and only where there is none of the parameter; empty without one."""
    if authorization:
        header = authorization[0]
        return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER.lower() else ""
    return parameters.get("token", "").removeprefix(_BEARER).strip()


def _verifier(settings: GatewaySettings, keys: Sequence[TokenKeySettings]) -> Any:
    from speed.trust.tokens import TokenKey, TokenVerifier

    return TokenVerifier(
        {one.id: TokenKey(one.algorithm, _key(one)) for one in keys},
        leeway_seconds=LEEWAY_SECONDS,
        audience=settings.audience or "",
        issuer=settings.issuer or "",
    )


def _key(settings: TokenKeySettings) -> Any:
    """The key in its file; an algorithm that signs has a public one. Raises ConfigurationError."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        data = settings.file.read_bytes().strip()
        return data if settings.algorithm.startswith("HS") else load_pem_public_key(data)
    except OSError as error:
        raise ConfigurationError(f"the token key {settings.file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"the token key {settings.file} is no public key in PEM") from None
