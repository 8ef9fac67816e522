"""Pairs of keys, as Pulsar's Java client and its server read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

KINDS: dict[str, Any] = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
}


def make_key(directory: Path, name: str, kind: str = "rsa") -> None:
    """``NAME.private.pem``, in the traditional form, the only one that they read, and ``NAME.public.pem``."""
    private = KINDS[kind]()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    file = directory / f"{name}.private.pem"
    file.touch(0o600)
    file.write_bytes(pem)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / f"{name}.public.pem").write_bytes(public)
