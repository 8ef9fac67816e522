"""What a gateway is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

TOKEN_ALGORITHMS = ("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")

MAX_HELD_KEYS = 64
"""Names of keys that the gateway encrypts and decrypts with."""


@dataclass(frozen=True)
class GatewaySettings:
    """``[gateway]``: the topics of speedd for WebSocket clients, by the WebSocket API of Pulsar."""

    name: str | None = None
    """Who connects acts with the grants of this name. Not with tokens: their subject is the name."""
    address: str = "127.0.0.1"
    """The address that is listened on."""
    port: int = 8080
    """The port that is listened on; 0 is any that is free."""
    namespace: str = "public/default"
    """Tenant and namespace that are left out: there, a topic has the name that SPEED knows."""
    certificate: Path | None = None
    """File of the certificate chain (PEM). With it, only TLS is spoken."""
    private_key: Path | None = None
    """File of the certificate's key (PEM)."""
    hosts: tuple[str, ...] = ()
    """Names under which clients may reach the gateway, besides ``localhost`` and addresses."""
    origins: tuple[str, ...] = ()
    """Pages of other origins that may connect, as ``https://shop.example``."""
    issuer: str | None = None
    """Who issues tokens. With it, each client needs one."""
    audience: str | None = None
    """For whom tokens must be."""
    keys: dict[str, str] = field(default_factory=dict)
    """Keys to encrypt and decrypt with for clients: for each name the URI of its key provider, or ``pem:///PATH``."""
    max_connections: int = 512
    """Connections at once."""
    max_connections_per_client: int = 128
    """Connections at once from one address, and of one token's subject."""
    max_frames_per_second: int = 10_000
    """Frames a second that one client may send; it is slowed down beyond that, and cut when it is ten seconds ahead."""
    handshake_seconds: float = 30.0
    """A connection whose handshake takes longer is ended."""
    ping_seconds: float = 30.0
    """How often each client is asked whether it is there, and how long it has to answer."""


@dataclass(frozen=True)
class TokenKeySettings:
    """``[[token_key]]``: a key that tokens for the gateway are verified with."""

    id: str
    """The ``kid`` that tokens name."""
    algorithm: str
    """The algorithm of its tokens."""
    file: Path
    """The public key (PEM); the secret itself where the algorithm begins with ``HS``."""
