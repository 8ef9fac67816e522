"""Tokens where messages enter: verified, turned into an identity, and cut out of the bytes (M-27). JWT, by PyJWT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from speed.errors import ConfigurationError, WireError
from speed.message.errors import MessageError, TokenError
from speed.trust.audit import AuditLog, tell_refused
from speed.trust.schemas import SchemaRegistry
from speed.wire import lazily
from speed.wire.message import MessageView
from speed.wire.message.splice import has_token, signed_parts, with_security, without_token
from speed.wire.seconds import checked_seconds

MAX_TOKEN_BYTES = 16384
_FAR = 1 << 53
_ALGORITHMS = frozenset({"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"})


class Identity(NamedTuple):
    """Who a token speaks for."""

    publisher_id: str
    publisher_team: str


class TokenKey(NamedTuple):
    """A key of an issuer; the algorithm is the key's, whatever a token says of itself."""

    algorithm: str
    key: Any
    """PEM text or a public key of ``cryptography``; bytes for HS algorithms."""


class TokenVerifier:
    """Verifies JSON Web Tokens where messages enter, and puts an identity in their place.

    Args:
        keys: the key of each ``kid`` that tokens name.
        audience, issuer: what tokens must say.
        publisher_claim, team_claim: the claims that name the publisher and its team.
        leeway_seconds: difference of clocks that is forgiven.
        audit: is told what ``admit`` refuses.
        schemas: by which ``admit`` marks messages with personal data, whatever their publishers say.

    Raises ConfigurationError for algorithms that cannot be.
    """

    def __init__(
        self,
        keys: Mapping[str, TokenKey],
        *,
        audience: str,
        issuer: str,
        publisher_claim: str = "sub",
        team_claim: str = "team",
        leeway_seconds: float = 30.0,
        audit: AuditLog | None = None,
        schemas: SchemaRegistry | None = None,
    ) -> None:
        try:
            import jwt
        except ImportError:
            raise ConfigurationError("tokens need PyJWT: install speed-ipc[tokens]") from None
        wrong = {key.algorithm for key in keys.values()} - _ALGORITHMS
        if wrong:
            raise ConfigurationError(
                f"a token key has algorithm {min(wrong)!r}; use one of {', '.join(sorted(_ALGORITHMS))}"
            )
        self._jwt = jwt
        self._keys = dict(keys)
        self._audience, self._issuer = audience, issuer
        self._leeway = checked_seconds("leeway_seconds", leeway_seconds)
        self._claims = (publisher_claim, team_claim)
        self._audit, self._schemas = audit, schemas

    def verify(self, token: str) -> Identity:
        """The identity; TokenError for a token that is malformed, forged, expired or for others."""
        return self.verify_until(token)[0]

    def verify_until(self, token: str) -> tuple[Identity, float]:
        """As ``verify``, and when the token says that it expires (Unix seconds)."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenError(f"auth_token: is longer than {MAX_TOKEN_BYTES} bytes")
        try:
            kid = self._jwt.get_unverified_header(token).get("kid")
            known = self._keys.get(kid) if isinstance(kid, str) else None
            if known is None:
                raise TokenError("auth_token: names no key that is trusted here")
            required: Sequence[str] = ("exp", "aud", "iss", self._claims[0])
            claims = self._jwt.decode(
                token,
                known.key,
                algorithms=[known.algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": list(required), "enforce_minimum_key_length": True},
            )
        except (self._jwt.InvalidTokenError, self._jwt.InvalidKeyError, ValueError, TypeError) as error:
            raise TokenError(f"auth_token: is refused ({type(error).__name__})") from None
        publisher, team = (claims.get(name, "") for name in self._claims)
        if not isinstance(publisher, str) or not publisher or not isinstance(team, str):
            raise TokenError("auth_token: names no publisher")
        return Identity(publisher, team), float(min(int(claims["exp"]), _FAR))

    def admit(self, data: bytes) -> bytes:
        """A message as it may go on: its token verified and gone, its publisher the token's.

        A signed message keeps its bytes, and must name that publisher already. Raises TokenError, SchemaError,
        WireError, StorageError (audit).
        """
        try:
            return self._admitted(data)
        except (MessageError, WireError) as error:
            tell_refused(self._audit, "admit", data, error)
            raise

    def _admitted(self, data: bytes) -> bytes:
        view = MessageView(data).validate()
        identity = self.verify(view.auth_token)
        stripped = without_token(data)
        if signed_parts(data).signatures:
            if view.publisher_id != identity.publisher_id:
                raise TokenError("publisher_id: is signed, and is not the token's")
            return stripped
        context = lazily.load("speed.wire.message.message_pb2").SecurityContext(publisher_id=identity.publisher_id)
        context.publisher_team = identity.publisher_team
        schema = None if self._schemas is None else self._schemas.check(view)
        if schema is not None and schema.contains_pii:
            context.contains_pii = True
        return with_security(stripped, context.SerializeToString())

    def __repr__(self) -> str:
        return f"<TokenVerifier of {self._issuer} for {self._audience}>"


def check_no_token(data: bytes) -> bytes:
    """``data`` if no token is in it; TokenError otherwise: tokens never reach a lane (M-14, M-27). WireError for what
    cannot be read, and may hide one."""
    if has_token(data):
        raise TokenError("auth_token: is in a message that is to be sent: have the gateway admit it first")
    return data
