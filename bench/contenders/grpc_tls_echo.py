"""grpcio unary calls over a Unix socket with TLS: the server proves who it is, the client does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from contenders import grpc_echo

NAME = "bench"
LIFE = timedelta(days=1)


def certificate() -> tuple[bytes, bytes]:
    """A key and a certificate that it signed itself, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(timezone.utc)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return pem, signed.public_bytes(serialization.Encoding.PEM)


def serve(work: Path, ready: Callable[[], None], stop: Event) -> None:
    key, signed = certificate()
    (work / "certificate.pem").write_bytes(signed)
    grpc_echo.serve(work, ready, stop, grpc.ssl_server_credentials([(key, signed)]))


class Client(grpc_echo.Client):
    def __init__(self, work: Path) -> None:
        credentials = grpc.ssl_channel_credentials((work / "certificate.pem").read_bytes())
        options = [*grpc_echo.OPTIONS, ("grpc.ssl_target_name_override", NAME)]
        super().__init__(work, grpc.secure_channel(f"unix:{work}/grpc", credentials, options=options))
